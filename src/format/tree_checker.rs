//! Whether the inside of a tree block makes sense: a block may have a good checksum and yet hold what memory corrupted
//! before it was written (kernel: `fs/btrfs/tree-checker.c`).
//!
//! What the kernel (6.18) refuses when it reads a block is refused here, and what it takes passes: a file system that
//! mounts is sound. Asks one block at a time, never what other blocks say; checksum, address, fsid and generation of the
//! block have been verified before, its level, first key and owner against what its parent promises.
//!
//! Rules that are ours alone, and why:
//! * Key types by tree (`allowed`): nobody writes them elsewhere, so a flipped bit did. But not where the super block has
//!   a feature that is not known, which may come with key types of its own.
//! * The last pointer of a node is held to the rule of the others (0 and unaligned addresses): nothing can be read there.
//! * Device extents have the size of their struct, a RAID10 chunk an even number of stripes: they cannot be read else.
//! * Chunks of a leaf do not overlap: the kernel refuses that too, when it adds them to its map.
//! * Flags of inodes in the upper half that are not known are refused; the kernel does so on writable mounts only.
//!
//! What the kernel refuses and passes here:
//! * Marks of vendors' kernels ([`PrivateMarks`](super::PrivateMarks)): flags of roots and inodes, trees and key types.
//! * Names that do not fit their hash in a metadata dump, where `btrfs-image` may have replaced them.

mod allowed;
mod error;
mod extent;
mod inode;
mod names;
mod references;
mod root;
mod volume;

pub use error::{Problem, StructureError};

use super::items::ItemError;
use super::node::{HEADER_BYTES, Header, ITEM_BYTES, MAX_LEVEL, item, item_place, key_ptr, max_nritems};
use super::types::{key_type, key_type_name, object};
use super::{IncompatFlags, Key, PrivateMarks, SuperFlags, Superblock};
use crate::checksum::ChecksumType;
use crate::units::{Generation, ObjectId};

/// `BTRFS_HEADER_FLAG_WRITTEN`.
const HEADER_FLAG_WRITTEN: u64 = 1;
/// `BTRFS_HEADER_FLAG_RELOC`.
const HEADER_FLAG_RELOC: u64 = 1 << 1;

/// What of the super block the rules depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeRules {
    /// Bytes of a tree block.
    pub nodesize: u32,
    /// Bytes of a sector, not 0.
    pub sectorsize: u32,
    /// The checksum algorithm.
    pub csum_type: ChecksumType,
    /// Features.
    pub incompat: IncompatFlags,
    /// States; in a metadata dump names may have been replaced.
    pub flags: SuperFlags,
    /// The last transaction. Items may be one newer: log trees are.
    pub generation: Generation,
    /// Whether there are features that prevent writing alone and are not known: they may have key types of their own.
    pub has_unknown_features: bool,
}

impl TreeRules {
    /// The rules of the file system with this super block.
    pub fn of(superblock: &Superblock) -> Self {
        Self {
            nodesize: superblock.nodesize(),
            sectorsize: superblock.sectorsize(),
            csum_type: superblock.csum_type(),
            incompat: superblock.incompat(),
            flags: superblock.flags(),
            generation: superblock.generation(),
            has_unknown_features: superblock.unknown_features().next().is_some(),
        }
    }

    fn is_sector_aligned(&self, number: u64) -> bool {
        number.is_multiple_of(u64::from(self.sectorsize.max(1)))
    }

    fn is_future(&self, generation: Generation) -> bool {
        generation.raw() > self.generation.raw().saturating_add(1)
    }
}

/// One item of a leaf with all that a check may look at.
struct Slot<'a> {
    key: Key,
    data: &'a [u8],
    previous: Option<(Key, &'a [u8])>,
    owner: ObjectId,
    rules: &'a TreeRules,
}

/// Checks a whole tree block, of `rules.nodesize` bytes. The first thing wrong is returned.
pub fn check_structure(block: &[u8], rules: &TreeRules) -> Result<(), StructureError> {
    check_structure_noting(block, rules, &mut PrivateMarks::default())
}

/// The same; what a vendor's kernel has written is noted in `marks`, all of it where nothing is wrong.
pub fn check_structure_noting(block: &[u8], rules: &TreeRules, marks: &mut PrivateMarks) -> Result<(), StructureError> {
    let size = Problem::BlockSize { have_bytes: block.len(), expect_bytes: rules.nodesize };
    let header = Header::parse(block).ok_or(StructureError::block(size))?;
    if block.len() != rules.nodesize as usize {
        return Err(StructureError::block(size));
    }
    if header.level > MAX_LEVEL {
        return Err(StructureError::block(Problem::Level { have: header.level }));
    }
    let max = max_nritems(block.len(), header.level) as u32;
    let min = u32::from(header.level > 0);
    if !(min..=max).contains(&header.nritems) {
        return Err(StructureError::block(Problem::ItemCount { have: header.nritems, min, max }));
    }
    if header.flags & HEADER_FLAG_WRITTEN == 0 {
        return Err(StructureError::block(Problem::NotWritten { have: header.flags }));
    }
    if header.level > 0 { check_node(block, &header, rules) } else { check_leaf(block, &header, rules, marks) }
}

fn check_node(block: &[u8], header: &Header, rules: &TreeRules) -> Result<(), StructureError> {
    let mut previous = None;
    for slot in 0..header.nritems {
        let wrong = |problem| StructureError::slot(slot, problem);
        let Some(pointer) = key_ptr(block, slot as usize) else { break };
        let child = pointer.child;
        if child.raw() == 0 || !rules.is_sector_aligned(child.raw()) {
            return Err(wrong(Problem::Pointer { have: child, sectorsize: rules.sectorsize }));
        }
        check_order(previous, pointer.key).map_err(wrong)?;
        previous = Some(pointer.key);
    }
    Ok(())
}

fn check_leaf(
    block: &[u8],
    header: &Header,
    rules: &TreeRules,
    marks: &mut PrivateMarks,
) -> Result<(), StructureError> {
    check_empty(header).map_err(StructureError::block)?;
    let mut previous = None;
    let mut data_end = block.len().saturating_sub(HEADER_BYTES) as u32;
    let table_end = header.nritems as usize * ITEM_BYTES;
    for slot in 0..header.nritems {
        let wrong = |problem| StructureError::slot(slot, problem);
        let Some(place) = item_place(block, slot as usize) else { break };
        check_order(previous.map(|(key, _)| key), place.key).map_err(wrong)?;
        let have = u64::from(place.offset) + u64::from(place.size);
        if have != u64::from(data_end) {
            return Err(wrong(Problem::ItemEnd { have, expect: data_end }));
        }
        if (place.offset as usize) < table_end {
            return Err(wrong(Problem::ItemInTable { have: place.offset, table_end: table_end as u32 }));
        }
        data_end = place.offset;
        let Some((key, data)) = item(block, slot as usize) else { break };
        check_item(&Slot { key, data, previous, owner: header.owner, rules }).map_err(wrong)?;
        marks.note(header.owner, &key, data);
        previous = Some((key, data));
    }
    Ok(())
}

/// Some trees have always something in them.
fn check_empty(header: &Header) -> Result<(), Problem> {
    let never_empty = [
        ObjectId::new(0),
        object::ROOT_TREE,
        object::EXTENT_TREE,
        object::CHUNK_TREE,
        object::DEV_TREE,
        object::FS_TREE,
        object::DATA_RELOC_TREE,
    ];
    let relocated = header.flags & HEADER_FLAG_RELOC != 0;
    if header.nritems == 0 && !relocated && never_empty.contains(&header.owner) {
        return Err(Problem::Empty { owner: header.owner });
    }
    Ok(())
}

fn check_order(previous: Option<Key>, have: Key) -> Result<(), Problem> {
    match previous {
        Some(previous) if previous >= have => Err(Problem::KeyOrder { previous, have }),
        _ => Ok(()),
    }
}

fn check_item(slot: &Slot<'_>) -> Result<(), Problem> {
    let may_be_new = slot.rules.has_unknown_features && key_type_name(slot.key.item_type).is_none();
    if !may_be_new && !allowed::is_allowed(slot.owner, &slot.key) {
        return Err(Problem::KeyType { have: slot.key, owner: slot.owner });
    }
    match slot.key.item_type {
        key_type::INODE_ITEM => inode::check_inode(slot),
        key_type::INODE_REF | key_type::INODE_EXTREF => names::check_names(slot),
        key_type::DIR_ITEM | key_type::DIR_INDEX | key_type::XATTR_ITEM => names::check_entries(slot),
        key_type::EXTENT_DATA => inode::check_file_extent(slot),
        key_type::EXTENT_CSUM => extent::check_csum(slot),
        key_type::EXTENT_ITEM | key_type::METADATA_ITEM => extent::check_extent(slot),
        key_type::TREE_BLOCK_REF
        | key_type::EXTENT_DATA_REF
        | key_type::SHARED_BLOCK_REF
        | key_type::SHARED_DATA_REF => references::check_keyed_ref(slot),
        key_type::BLOCK_GROUP_ITEM => volume::check_block_group(slot),
        key_type::CHUNK_ITEM => volume::check_chunk(slot),
        key_type::DEV_ITEM => volume::check_device(slot),
        key_type::DEV_EXTENT => volume::check_dev_extent(slot),
        key_type::ROOT_ITEM => root::check_root(slot),
        key_type::ROOT_REF | key_type::ROOT_BACKREF => root::check_root_ref(slot),
        key_type::RAID_STRIPE => extent::check_raid_stripe(slot),
        _ => Ok(()),
    }
}

/// A rule on one number of an item.
fn require(
    holds: bool,
    item: &'static str,
    field: &'static str,
    have: u64,
    expect: &'static str,
) -> Result<(), Problem> {
    if holds { Ok(()) } else { Err(Problem::Item(ItemError::Value { item, field, have, expect })) }
}

/// Two numbers that must be the same.
fn require_equal(item: &'static str, field: &'static str, have: u64, expect: u64) -> Result<(), Problem> {
    if have == expect { Ok(()) } else { Err(Problem::Item(ItemError::Mismatch { item, field, have, expect })) }
}

#[cfg(test)]
mod tests;
