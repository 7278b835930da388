//! The chunk map, from the chunk tree and the system chunk arrays of the super blocks.
//!
//! The chunk tree decides: its blocks verify in all that leads to them, and a super block's array only helps to find it.
//! Whatever contradicts it, or is said twice, makes the chunks that it is about doubtful: they are read and never written.
//! Kernel: `btrfs_read_sys_array` and `btrfs_read_chunk_tree` in fs/btrfs/volumes.c.

use super::Filesystem;
use super::chunk_scan::Scanned;
use super::contradiction::{Conflict, Contradiction};
use super::knowledge::Knowledge;
use crate::format::items::{ChunkItem, DevItem};
use crate::format::types::{key_type, object};
use crate::format::{Key, Superblock, SysChunk};
use crate::tree::{Cursor, TreeRoot};
use crate::units::{DeviceId, Logical};
use crate::volume::{Chunk, ChunkError, ChunkMap, ChunkProblem, DeviceSet};
use std::collections::{BTreeMap, BTreeSet};

/// What the chunk tree says.
pub(super) struct ChunkTree {
    pub(super) chunks: ChunkMap,
    pub(super) dev_items: Vec<DevItem>,
    /// All device items are there.
    pub(super) knows_devices: bool,
}

/// The chunks of a system chunk array.
pub(super) fn system_chunks(superblock: &Superblock) -> Result<ChunkMap, ChunkError> {
    let mut chunks = ChunkMap::new();
    for chunk in array(superblock) {
        chunks.insert(chunk?)?;
    }
    Ok(chunks)
}

fn array(superblock: &Superblock) -> impl Iterator<Item = Result<Chunk, ChunkError>> + '_ {
    let chunk = |logical, chunk| Chunk::new(logical, chunk, superblock.sectorsize(), superblock.incompat());
    superblock.sys_chunks().iter().map(move |system| chunk(system.logical, system.chunk.clone()))
}

/// Reads the tree under `root` and holds it against itself and the super blocks.
pub(super) fn read(fs: &Filesystem, root: TreeRoot, knowledge: &mut Knowledge) -> ChunkTree {
    let mut tree = ChunkTree { chunks: ChunkMap::new(), dev_items: Vec::new(), knows_devices: true };
    let mut cursor = Cursor::new(fs, root);
    cursor.seek(&Key::MIN);
    while let Some((key, bytes)) = cursor.item() {
        match key.item_type {
            key_type::DEV_ITEM => match DevItem::parse(bytes) {
                Ok(item) => tree.dev_items.push(item),
                Err(why) => {
                    tree.knows_devices = false;
                    tell(knowledge, Logical::new(key.offset), Conflict::DeviceItem { key, why });
                }
            },
            key_type::CHUNK_ITEM => tree.add(fs, &key, bytes, knowledge),
            _ => {}
        }
        cursor.advance();
    }
    for lost in cursor.take_lost() {
        tree.knows_devices = false;
        knowledge.note_lacking_chunks();
        knowledge.tell(Contradiction::of_lost(lost));
    }
    let has_all = tree.knows_devices && knowledge.contradictions().is_empty();
    tree.hold_against_arrays(&fs.set, has_all, knowledge);
    if tree.knows_devices {
        tree.hold_against_devices(knowledge);
    }
    tree
}

/// The same from what was found by looking for leaves, for members that each know their own device item.
pub(super) fn of_scan(fs: &Filesystem, found: &Scanned, knowledge: &mut Knowledge) -> ChunkTree {
    let mut tree = ChunkTree { chunks: ChunkMap::new(), dev_items: Vec::new(), knows_devices: false };
    for (key, bytes) in found.chunks() {
        tree.add(fs, &key, bytes, knowledge);
    }
    tree.hold_against_arrays(&fs.set, false, knowledge);
    let own = fs.set.members().map(|member| *member.superblock().dev_item());
    // A device that no chunk is on may have been removed since.
    let used: BTreeSet<DeviceId> = tree.chunks.iter().flat_map(Chunk::stripes).map(|stripe| stripe.devid).collect();
    let mut by_devid: BTreeMap<DeviceId, DevItem> = own.map(|item| (item.devid, item)).collect();
    for item in found.dev_items().filter(|item| used.contains(&item.devid)) {
        by_devid.entry(item.devid).or_insert(item);
    }
    tree.dev_items = by_devid.into_values().collect();
    tree
}

/// The system chunk arrays of all current super block copies, each once, that of the best first.
pub(super) fn arrays(set: &DeviceSet) -> Vec<ChunkMap> {
    let mut seen: Vec<&[SysChunk]> = Vec::new();
    for superblock in std::iter::once(set.superblock()).chain(current_copies(set)) {
        if !seen.contains(&superblock.sys_chunks()) {
            seen.push(superblock.sys_chunks());
        }
    }
    let map = |array: &[SysChunk]| {
        let mut chunks = ChunkMap::new();
        for SysChunk { logical, chunk } in array {
            let best = set.superblock();
            chunks.insert(Chunk::new(*logical, chunk.clone(), best.sectorsize(), best.incompat()).ok()?).ok()?;
        }
        Some(chunks)
    };
    seen.into_iter().filter_map(map).collect()
}

fn tell(knowledge: &mut Knowledge, at: Logical, conflict: Conflict) {
    knowledge.tell(Contradiction::of_chunk(object::CHUNK_TREE, at, conflict));
}

impl ChunkTree {
    fn add(&mut self, fs: &Filesystem, key: &Key, bytes: &[u8], knowledge: &mut Knowledge) {
        let (key, at) = (*key, Logical::new(key.offset));
        let item = match ChunkItem::parse(bytes) {
            Ok(item) => item,
            Err(why) => {
                knowledge.note_lacking_chunks();
                return tell(knowledge, at, Conflict::ChunkItem { key, why });
            }
        };
        let chunk = Chunk::new(at, item, fs.geometry.sectorsize(), fs.superblock().incompat());
        if let Err(why) = chunk.and_then(|chunk| self.chunks.insert(chunk)) {
            knowledge.note_lacking_chunks();
            match why.problem {
                ChunkProblem::Overlap { other_start, .. } => knowledge.doubt(other_start),
                ChunkProblem::StripesOverlap { other, .. } => knowledge.doubt(other),
                _ => {}
            }
            tell(knowledge, at, Conflict::Chunk { key, why });
        }
    }

    /// The arrays of all current super block copies must have the system chunks of the tree, and no others. Where the tree
    /// has lost some, those of the best super block stand in, and are doubtful.
    fn hold_against_arrays(&mut self, set: &DeviceSet, has_all: bool, knowledge: &mut Knowledge) {
        let best = set.superblock();
        let system: BTreeSet<Logical> = self.chunks.iter().filter(|c| c.is_system()).map(Chunk::start).collect();
        let mut odd: BTreeSet<(Logical, bool)> = BTreeSet::new();
        let mut lacking: BTreeSet<Logical> = BTreeSet::new();
        for superblock in current_copies(set) {
            let chunks: Vec<Chunk> = array(superblock).filter_map(Result::ok).collect();
            for chunk in &chunks {
                let known = self.chunks.lookup(chunk.start()).ok();
                if known.is_none_or(|known| known != chunk) {
                    odd.insert((chunk.start(), known.is_some()));
                }
            }
            lacking.extend(system.iter().filter(|start| chunks.iter().all(|chunk| chunk.start() != **start)));
        }
        for (start, is_known) in odd {
            knowledge.doubt(start);
            if let Ok(known) = self.chunks.lookup(start) {
                knowledge.doubt(known.start());
            }
            if is_known || has_all {
                let conflict = if is_known { Conflict::SystemArray } else { Conflict::NotInChunkTree };
                tell(knowledge, start, conflict);
            }
        }
        for start in lacking {
            knowledge.doubt(start);
            tell(knowledge, start, Conflict::NotInSystemArray);
        }
        for chunk in array(best).filter_map(Result::ok) {
            // What overlaps is in doubt already.
            let _ = self.chunks.insert(chunk);
        }
    }

    /// Every stripe must be on a device that is known, under its uuid.
    fn hold_against_devices(&self, knowledge: &mut Knowledge) {
        for chunk in self.chunks.iter() {
            for stripe in chunk.stripes() {
                let devid = stripe.devid;
                let conflict = match self.dev_items.iter().find(|item| item.devid == devid) {
                    None => Conflict::NoDevice { devid },
                    Some(item) if item.uuid != stripe.dev_uuid => Conflict::DeviceUuid { devid },
                    Some(_) => continue,
                };
                knowledge.doubt(chunk.start());
                tell(knowledge, chunk.start(), conflict);
            }
        }
    }
}

/// Every intact super block copy of the newest transaction.
fn current_copies(set: &DeviceSet) -> impl Iterator<Item = &Superblock> {
    let best = set.superblock();
    let copies = set.members().filter(|member| !member.is_seed()).flat_map(|member| member.superblock_copies());
    let intact = copies.filter_map(|copy| copy.state.as_ref().ok());
    intact.filter(move |copy| copy.fsid() == best.fsid() && copy.generation() == best.generation())
}
