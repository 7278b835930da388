//! Rules for inodes and file extents.

use super::allowed::is_subvolume;
use super::extent::overlap;
use super::{Problem, Slot, require, require_equal};
use crate::format::Key;
use crate::format::items::{Compression, FileExtent, FileExtentItem, InodeItem};
use crate::format::private::PRIVATE_INODE_FLAGS;
use crate::format::types::{key_type, object};

/// What an inline extent has in front of its data (`BTRFS_FILE_EXTENT_INLINE_DATA_START`).
const INLINE_HEAD_BYTES: u64 = 21;
const S_IFMT: u32 = 0o170_000;
const S_IFDIR: u32 = 0o040_000;
/// Type and permission bits of a mode.
const MODE_BITS: u32 = S_IFMT | 0o7777;
/// The seven types that files have.
const FILE_TYPES: [u32; 7] = [0o010_000, 0o020_000, S_IFDIR, 0o060_000, 0o100_000, 0o120_000, 0o140_000];
/// The flags that have a name (`BTRFS_INODE_FLAG_MASK`, and `BTRFS_INODE_RO_VERITY` in the upper half).
const INODE_FLAGS: u64 = 0xfff | 1 << 31 | 1 << 32;

pub(super) fn check_inode(slot: &Slot<'_>) -> Result<(), Problem> {
    let item = "inode item";
    check_inode_key(item, &slot.key)?;
    let inode = InodeItem::parse(slot.data)?;
    for (field, generation) in [("generation", inode.generation), ("transid", inode.transid)] {
        let past = !slot.rules.is_future(generation);
        require(past, item, field, generation.raw(), "that of the super block at most")?;
    }
    let mode = inode.mode;
    require(mode & !MODE_BITS == 0, item, "mode", mode.into(), "known bits only")?;
    require(FILE_TYPES.contains(&(mode & S_IFMT)), item, "mode", mode.into(), "a file type")?;
    let one_name = mode & S_IFMT != S_IFDIR || inode.nlink <= 1;
    require(one_name, item, "nlink", inode.nlink.into(), "1 at most for a directory")?;
    let known = inode.flags.bits() & !(INODE_FLAGS | PRIVATE_INODE_FLAGS) == 0;
    require(known, item, "flags", inode.flags.bits(), "known bits only")
}

pub(super) fn check_inode_key(item: &'static str, key: &Key) -> Result<(), Problem> {
    let object = key.objectid;
    let known = (object::FIRST_FREE..=object::LAST_FREE).contains(&object)
        || object == object::ROOT_TREE_DIR
        || object == object::FREE_INO;
    require(known, item, "objectid", object.raw(), "an inode number")?;
    require(key.offset == 0, item, "key offset", key.offset, "0")
}

/// Inodes and names come in one run per inode, the inode item first.
pub(super) fn check_run(slot: &Slot<'_>) -> Result<(), Problem> {
    match slot.previous {
        Some((previous, _)) if is_subvolume(slot.owner) && previous.objectid != slot.key.objectid => {
            Err(Problem::NoInode { previous: previous.objectid, have: slot.key.objectid })
        }
        _ => Ok(()),
    }
}

pub(super) fn check_file_extent(slot: &Slot<'_>) -> Result<(), Problem> {
    let item = "file extent";
    let (key, rules) = (&slot.key, slot.rules);
    let aligned = "a multiple of the sector size";
    require(rules.is_sector_aligned(key.offset), item, "file offset", key.offset, aligned)?;
    check_run(slot)?;
    let extent = FileExtentItem::parse(slot.data)?;
    if let Some(pointer) = extent.pointer() {
        let numbers = [
            ("ram_bytes", extent.ram_bytes),
            ("disk_bytenr", pointer.disk_bytenr.raw()),
            ("disk_num_bytes", pointer.disk_num_bytes),
            ("offset", pointer.offset),
            ("num_bytes", pointer.num_bytes),
        ];
        for (field, number) in numbers {
            require(rules.is_sector_aligned(number), item, field, number, aligned)?;
        }
        let ends = key.offset.checked_add(pointer.num_bytes).is_some();
        require(ends, item, "num_bytes", pointer.num_bytes, "an end below 2^64")?;
        return check_file_neighbour(slot);
    }
    require(key.offset == 0, item, "file offset", key.offset, "0 for an inline extent")?;
    if extent.compression == Compression::None {
        let data_bytes = (slot.data.len() as u64).saturating_sub(INLINE_HEAD_BYTES);
        require_equal(item, "ram_bytes", extent.ram_bytes, data_bytes)?;
    }
    Ok(())
}

fn check_file_neighbour(slot: &Slot<'_>) -> Result<(), Problem> {
    let Some((previous, data)) = slot.previous else { return Ok(()) };
    if previous.item_type != key_type::EXTENT_DATA || previous.objectid != slot.key.objectid {
        return Ok(());
    }
    let extent = FileExtentItem::parse(data)?;
    let end = match extent.extent {
        FileExtent::Inline(_) => extent.ram_bytes.checked_next_multiple_of(slot.rules.sectorsize.into()),
        FileExtent::Regular(pointer) | FileExtent::Prealloc(pointer) => previous.offset.checked_add(pointer.num_bytes),
    };
    overlap(slot, "file extent", previous, end.unwrap_or(u64::MAX), slot.key.offset)
}
