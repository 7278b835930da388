//! From a set of members to an opened file system.

use super::cache::BlockCache;
use super::chunk_scan;
use super::chunk_tree::{self, ChunkTree, system_chunks};
use super::contradiction::{Conflict, Contradiction};
use super::knowledge::Knowledge;
use super::{Filesystem, LogRoot, OpenOptions, Roots};
use crate::format::types::object;
use crate::format::{BackupRoot, TreeRules};
use crate::tree::{BlockSource, LostBlock, TreeGeometry, TreeRoot};
use crate::units::{DeviceId, Logical, ObjectId};
use crate::volume::read_policy::MirrorSelector;
use crate::volume::{ChunkError, DeviceSet, SetError};
use std::sync::OnceLock;
use std::time::Instant;
use thiserror::Error;

/// Why a file system cannot be opened. Damage that leaves something to look at is not among these.
#[derive(Debug, Error)]
pub enum OpenError {
    /// The members do not make a file system.
    #[error(transparent)]
    Set(#[from] SetError),
    /// The system chunks in the super block contradict each other.
    #[error("system chunks of the super block: {0}")]
    SystemChunk(#[source] ChunkError),
    /// Without the chunk tree nothing can be found.
    #[error("chunk tree: {0}")]
    ChunkTree(#[source] LostBlock),
    /// Neither the root tree nor any backup of it can be read.
    #[error("root tree: {0}")]
    RootTree(#[source] LostBlock),
}

impl Filesystem {
    /// Opens the file system that `set` holds.
    pub fn open(set: DeviceSet, options: &OpenOptions) -> Result<Self, OpenError> {
        let superblock = set.superblock().clone();
        let chunks = system_chunks(&superblock).map_err(OpenError::SystemChunk)?;
        let chunk_root = tree_root(object::CHUNK_TREE, superblock.chunk_root());
        let devids: Vec<DeviceId> = set.members().map(|member| member.devid()).collect();
        let mut fs = Self {
            volume: set.volume(chunks),
            geometry: TreeGeometry {
                rules: TreeRules::of(&superblock),
                fsids: set.metadata_uuids(),
                chunk_tree_uuid: None,
            },
            roots: Roots::unknown(chunk_root),
            log: LogRoot::None,
            knowledge: Knowledge::default(),
            lost_roots: Vec::new(),
            dev_items: Vec::new(),
            knows_devices: false,
            unlisted: OnceLock::new(),
            selector: MirrorSelector::new(options.read_policy, &devids, superblock.sectorsize()),
            cache: BlockCache::default(),
            opened: Instant::now(),
            splits: OnceLock::new(),
            options: *options,
            set,
        };
        fs.choose_array(chunk_root);
        let (chunk_root, tree) = match fs.first_readable(chunk_root, |b| b.chunk_root) {
            Ok(chunk_root) => (chunk_root, fs.read_chunk_tree(chunk_root)?),
            Err(why) => (chunk_root, fs.scan_for_chunks(chunk_root, why)?),
        };
        let ChunkTree { chunks, dev_items, knows_devices } = tree;
        fs.knows_devices = knows_devices && !fs.knowledge.is_older();
        fs.set.reconcile(&dev_items)?;
        fs.dev_items = dev_items;
        fs.volume = fs.set.volume(chunks);
        let root = tree_root(object::ROOT_TREE, superblock.root());
        let root = fs.first_readable(root, |b| b.tree_root).map_err(OpenError::RootTree)?;
        fs.roots = Roots::find(&fs, chunk_root, root);
        fs.log = LogRoot::find(&fs);
        Ok(fs)
    }

    /// Goes by another super block's system chunk array where that of the best does not lead to the chunk tree.
    fn choose_array(&mut self, chunk_root: TreeRoot) {
        for chunks in chunk_tree::arrays(&self.set) {
            if self.read_block(chunk_root.at, &chunk_root.check()).is_ok() {
                return;
            }
            self.volume = self.set.volume(chunks);
        }
    }

    fn read_chunk_tree(&mut self, root: TreeRoot) -> Result<ChunkTree, OpenError> {
        let block = self.read_block(root.at, &root.check()).map_err(OpenError::ChunkTree)?;
        self.geometry.chunk_tree_uuid = Some(block.header().chunk_tree_uuid);
        let mut knowledge = std::mem::take(&mut self.knowledge);
        let tree = chunk_tree::read(self, root, &mut knowledge);
        self.knowledge = knowledge;
        Ok(tree)
    }

    /// What stands in for a chunk tree of which no root can be used. Where members are missing, they may have it.
    fn scan_for_chunks(&mut self, root: TreeRoot, why: LostBlock) -> Result<ChunkTree, OpenError> {
        if !matches!(why, LostBlock::Bad { .. } | LostBlock::Unreadable { .. }) {
            return Err(OpenError::ChunkTree(why));
        }
        let found = chunk_scan::scan(self);
        if found.is_empty() {
            return Err(OpenError::ChunkTree(why));
        }
        self.geometry.chunk_tree_uuid = found.chunk_tree_uuid();
        self.lost_roots.push((root.at, root.check()));
        let mut knowledge = std::mem::take(&mut self.knowledge);
        let tree = chunk_tree::of_scan(self, &found, &mut knowledge);
        knowledge.note_older();
        let conflict = Conflict::Scanned { chunks: tree.chunks.len(), why };
        knowledge.tell(Contradiction { at: root.at, place: None, tree: root.id, conflict });
        self.knowledge = knowledge;
        Ok(tree)
    }

    /// The root that the super block names, or the newest backup of it that can be read.
    fn first_readable(
        &mut self,
        root: TreeRoot,
        pick: impl Fn(&BackupRoot) -> crate::format::TreeRoot,
    ) -> Result<TreeRoot, LostBlock> {
        let Err(why) = self.read_block(root.at, &root.check()) else { return Ok(root) };
        let mut backups: Vec<TreeRoot> =
            self.superblock().backup_roots().iter().map(|backup| tree_root(root.id, pick(backup))).collect();
        backups.retain(|backup| backup.at != root.at && backup.at != Logical::default());
        backups.sort_by_key(|backup| std::cmp::Reverse(backup.generation));
        let usable = backups.into_iter().find(|backup| self.read_block(backup.at, &backup.check()).is_ok());
        let backup = usable.ok_or_else(|| why.clone())?;
        let generation = backup.generation.unwrap_or_default();
        self.lost_roots.push((root.at, root.check()));
        self.knowledge.note_older();
        let conflict = Conflict::OlderRoot { tree: root.id, generation, why };
        self.knowledge.tell(Contradiction { at: root.at, place: None, tree: root.id, conflict });
        Ok(backup)
    }
}

fn tree_root(id: ObjectId, root: crate::format::TreeRoot) -> TreeRoot {
    TreeRoot { id, at: root.bytenr, level: root.level, generation: Some(root.generation) }
}
