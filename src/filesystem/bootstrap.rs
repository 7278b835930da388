//! From a set of members to an opened file system.

use super::cache::BlockCache;
use super::{Filesystem, OpenOptions, Roots};
use crate::format::Key;
use crate::format::items::{ChunkItem, DevItem};
use crate::format::types::{key_type, object};
use crate::format::{BackupRoot, Superblock, TreeRules};
use crate::tree::{BlockSource, Cursor, LostBlock, TreeGeometry, TreeRoot};
use crate::units::{DeviceId, Logical, ObjectId};
use crate::volume::read_policy::MirrorSelector;
use crate::volume::{Chunk, ChunkError, ChunkMap, DeviceSet, SetError};
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
            notes: Vec::new(),
            lost_roots: Vec::new(),
            device_items: None,
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
        let mut notes = Vec::new();
        let (chunks, dev_items) = fs.read_chunk_tree(chunk_root, &mut notes)?;
        fs.notes.append(&mut notes);
        fs.device_items = fs.notes.is_empty().then_some(dev_items.len() as u64);
        fs.set.reconcile(&dev_items)?;
        fs.volume = fs.set.volume(chunks);
        let root = tree_root(object::ROOT_TREE, superblock.root());
        let root = fs.first_readable(root, |b| b.tree_root).map_err(OpenError::RootTree)?;
        fs.roots = Roots::find(&fs, chunk_root, root);
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
        let name = crate::format::types::tree_name(root.id);
        let generation = backup.generation.unwrap_or_default();
        self.lost_roots.push((root.at, root.check()));
        self.notes.push(format!("{name}: root unusable ({why}); using the backup root of generation {generation}"));
        Ok(backup)
    }

    /// All chunks and device items. A chunk item that cannot be right is left out and told.
    fn read_chunk_tree(&self, root: TreeRoot, notes: &mut Vec<String>) -> Result<(ChunkMap, Vec<DevItem>), OpenError> {
        let mut chunks = system_chunks(self.superblock()).map_err(OpenError::SystemChunk)?;
        let mut dev_items = Vec::new();
        let mut cursor = Cursor::new(self, root);
        cursor.seek(&Key::MIN);
        while let Some((key, bytes)) = cursor.item() {
            match key.item_type {
                key_type::DEV_ITEM => match DevItem::parse(bytes) {
                    Ok(item) => dev_items.push(item),
                    Err(why) => notes.push(format!("chunk tree: device item {key}: {why}")),
                },
                key_type::CHUNK_ITEM => {
                    if let Err(why) = self.add_chunk(&mut chunks, Logical::new(key.offset), bytes) {
                        notes.push(format!("chunk tree: chunk item {key}: {why}"));
                    }
                }
                _ => {}
            }
            cursor.advance();
        }
        let lost = cursor.take_lost();
        notes.extend(lost.iter().map(|l| format!("chunk tree: keys from {} are lost with block {}", l.first, l.at)));
        Ok((chunks, dev_items))
    }

    fn add_chunk(&self, chunks: &mut ChunkMap, at: Logical, bytes: &[u8]) -> Result<(), String> {
        let item = ChunkItem::parse(bytes).map_err(|why| why.to_string())?;
        let chunk = Chunk::new(at, item, self.geometry.sectorsize(), self.superblock().incompat())
            .map_err(|why| why.to_string())?;
        chunks.insert(chunk).map_err(|why| why.to_string())
    }
}

fn tree_root(id: ObjectId, root: crate::format::TreeRoot) -> TreeRoot {
    TreeRoot { id, at: root.bytenr, level: root.level, generation: Some(root.generation) }
}

fn system_chunks(superblock: &Superblock) -> Result<ChunkMap, ChunkError> {
    let mut chunks = ChunkMap::new();
    for system in superblock.sys_chunks() {
        chunks.insert(Chunk::new(
            system.logical,
            system.chunk.clone(),
            superblock.sectorsize(),
            superblock.incompat(),
        )?)?;
    }
    Ok(chunks)
}
