//! From a set of members to an opened file system.

use super::cache::BlockCache;
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
        let chunk_root = fs.first_readable(chunk_root, |b| b.chunk_root).map_err(OpenError::ChunkTree)?;
        let block = fs.read_block(chunk_root.at, &chunk_root.check()).map_err(OpenError::ChunkTree)?;
        fs.geometry.chunk_tree_uuid = Some(block.header().chunk_tree_uuid);
        let mut knowledge = std::mem::take(&mut fs.knowledge);
        let ChunkTree { chunks, dev_items, knows_devices } = chunk_tree::read(&fs, chunk_root, &mut knowledge);
        fs.knows_devices = knows_devices && !knowledge.is_older();
        fs.knowledge = knowledge;
        fs.set.reconcile(&dev_items)?;
        fs.dev_items = dev_items;
        fs.volume = fs.set.volume(chunks);
        let root = tree_root(object::ROOT_TREE, superblock.root());
        let root = fs.first_readable(root, |b| b.tree_root).map_err(OpenError::RootTree)?;
        fs.roots = Roots::find(&fs, chunk_root, root);
        fs.log = LogRoot::find(&fs);
        Ok(fs)
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
