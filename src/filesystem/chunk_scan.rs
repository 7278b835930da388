//! Where the chunk tree cannot be read: its leaves, looked for in the chunks that it lies in. The super block says where
//! those are, and they are small.
//!
//! What is found may be of any transaction: of each chunk the newest item counts, and what overlaps a newer one is left
//! out. So nothing is written by it, and nothing is clean. Progs: `btrfs rescue chunk-recover`, which scans all of every
//! device.

use super::Filesystem;
use crate::format::Key;
use crate::format::items::DevItem;
use crate::format::node::{self, Header};
use crate::format::types::{key_type, object};
use crate::tree::ParentCheck;
use crate::tree::block::check_block;
use crate::units::{DeviceId, DevicePhysical, Generation, Logical};
use crate::volume::Chunk;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use uuid::Uuid;

/// Bytes of one stripe that are read at a time.
const STEP_BYTES: usize = 1 << 20;
/// Bytes of one stripe that are looked through at the most: system chunks have 8 to 32 MiB.
const MAX_STRIPE_BYTES: u64 = 1 << 30;

/// Items of chunk tree leaves, each in its newest form.
#[derive(Default)]
pub(super) struct Scanned {
    chunks: BTreeMap<Logical, (Generation, Vec<u8>)>,
    dev_items: BTreeMap<DeviceId, (Generation, DevItem)>,
    uuid: Option<(Generation, Uuid)>,
}

impl Scanned {
    /// The chunk items, the newest first.
    pub(super) fn chunks(&self) -> Vec<(Key, &[u8])> {
        let mut items: Vec<_> = self.chunks.iter().collect();
        items.sort_by_key(|(_, (generation, _))| Reverse(*generation));
        let key = |at: &Logical| Key::new(object::FIRST_CHUNK_TREE.raw(), key_type::CHUNK_ITEM, at.raw());
        items.into_iter().map(|(at, (_, bytes))| (key(at), &bytes[..])).collect()
    }

    /// The device items.
    pub(super) fn dev_items(&self) -> impl Iterator<Item = DevItem> + '_ {
        self.dev_items.values().map(|(_, item)| *item)
    }

    /// The uuid that the newest leaf has for the chunk tree.
    pub(super) fn chunk_tree_uuid(&self) -> Option<Uuid> {
        self.uuid.map(|(_, uuid)| uuid)
    }

    /// True where no leaf was found.
    pub(super) fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    fn add(&mut self, block: &[u8], header: &Header) {
        let generation = header.generation;
        if self.uuid.is_none_or(|(known, _)| known < generation) {
            self.uuid = Some((generation, header.chunk_tree_uuid));
        }
        for slot in 0..header.nritems as usize {
            let Some((key, bytes)) = node::item(block, slot) else { continue };
            match key.item_type {
                key_type::CHUNK_ITEM => {
                    let at = Logical::new(key.offset);
                    if self.chunks.get(&at).is_none_or(|(known, _)| *known < generation) {
                        self.chunks.insert(at, (generation, bytes.to_vec()));
                    }
                }
                key_type::DEV_ITEM => {
                    let Ok(item) = DevItem::parse(bytes) else { continue };
                    if self.dev_items.get(&item.devid).is_none_or(|(known, _)| *known < generation) {
                        self.dev_items.insert(item.devid, (generation, item));
                    }
                }
                _ => {}
            }
        }
    }
}

/// Looks through every stripe of the system chunks that the volume of `fs` has so far.
pub(super) fn scan(fs: &Filesystem) -> Scanned {
    let mut found = Scanned::default();
    let system: Vec<Chunk> = fs.chunks().iter().filter(|chunk| chunk.is_system()).cloned().collect();
    for chunk in &system {
        for stripe in chunk.stripes() {
            let end = chunk.stripe_bytes().min(MAX_STRIPE_BYTES);
            let mut from = 0;
            while from < end {
                let len = (STEP_BYTES as u64).min(end - from);
                let place = DevicePhysical { devid: stripe.devid, physical: stripe.offset + from };
                look_through(fs, place, len as usize, &mut found);
                from += len;
            }
        }
    }
    found
}

/// Takes in the leaves that start in `len` bytes from `place`. Tree blocks lie within one step: both are aligned.
fn look_through(fs: &Filesystem, place: DevicePhysical, len: usize, found: &mut Scanned) {
    let (nodesize, sectorsize) = (fs.geometry.nodesize() as usize, fs.geometry.sectorsize() as usize);
    let mut bytes = vec![0; len];
    if fs.volume.read_place(place, &mut bytes).is_err() && !read_by_parts(fs, place, &mut bytes, sectorsize) {
        return;
    }
    for at in (0..len.saturating_sub(nodesize - 1)).step_by(sectorsize) {
        let Some(block) = bytes.get(at..at + nodesize) else { continue };
        let here = DevicePhysical { physical: place.physical + at as u64, ..place };
        let Some((logical, _)) = fs.chunks().logical_at(here) else { continue };
        let is_leaf =
            |header: &Header| header.bytenr == logical && header.owner == object::CHUNK_TREE && header.level == 0;
        let is_current = |header: &Header| header.generation <= fs.superblock().generation();
        if Header::parse(block).is_none_or(|header| !is_leaf(&header) || !is_current(&header)) {
            continue;
        }
        if let Ok(header) = check_block(block, logical, &fs.geometry, &ParentCheck::default()) {
            found.add(block, &header);
        }
    }
}

/// What can be read of a range in which something cannot; the rest is zero. False where nothing can be.
fn read_by_parts(fs: &Filesystem, place: DevicePhysical, bytes: &mut [u8], part: usize) -> bool {
    let mut any = false;
    for (number, bytes) in bytes.chunks_mut(part).enumerate() {
        let here = DevicePhysical { physical: place.physical + (number * part) as u64, ..place };
        match fs.volume.read_place(here, bytes) {
            Ok(()) => any = true,
            Err(_) => bytes.fill(0),
        }
    }
    any
}
