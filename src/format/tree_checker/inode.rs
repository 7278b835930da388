//! Rules for subvolumes and the root tree: inodes, names, file extents, roots.

use super::allowed::is_subvolume;
use super::extent::overlap;
use super::{Problem, Slot, require, require_equal};
use crate::format::items::{
    Compression, DirEntries, DirEntry, FileExtent, FileExtentItem, InodeItem, InodeNames, RootFlags, RootItem, RootRef,
    name_hash,
};
use crate::format::node::MAX_LEVEL;
use crate::format::types::{NAME_LEN, key_type, object};
use crate::format::{Key, SuperFlags};
use crate::units::ObjectId;

/// What an inline extent has in front of its data (`BTRFS_FILE_EXTENT_INLINE_DATA_START`).
const INLINE_HEAD_BYTES: u64 = 21;
/// `BTRFS_FT_XATTR`, the last of its kind.
const FILE_TYPE_XATTR: u8 = 8;
const S_IFMT: u32 = 0o170_000;
const S_IFDIR: u32 = 0o040_000;
/// Type and permission bits of a mode.
const MODE_BITS: u32 = S_IFMT | 0o7777;
/// The seven types that files have.
const FILE_TYPES: [u32; 7] = [0o010_000, 0o020_000, S_IFDIR, 0o060_000, 0o100_000, 0o120_000, 0o140_000];
/// Sizes of root items before and since kernel 3.6.
const ROOT_ITEM_BYTES: [usize; 2] = [239, 439];

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
    require(one_name, item, "nlink", inode.nlink.into(), "1 at most for a directory")
}

fn check_inode_key(item: &'static str, key: &Key) -> Result<(), Problem> {
    let object = key.objectid;
    let known = (object::FIRST_FREE..=object::LAST_FREE).contains(&object)
        || object == object::ROOT_TREE_DIR
        || object == object::FREE_INO;
    require(known, item, "objectid", object.raw(), "an inode number")?;
    require(key.offset == 0, item, "key offset", key.offset, "0")
}

/// Inodes and names come in one run per inode, the inode item first.
fn check_run(slot: &Slot<'_>) -> Result<(), Problem> {
    match slot.previous {
        Some((previous, _)) if is_subvolume(slot.owner) && previous.objectid != slot.key.objectid => {
            Err(Problem::NoInode { previous: previous.objectid, have: slot.key.objectid })
        }
        _ => Ok(()),
    }
}

pub(super) fn check_names(slot: &Slot<'_>) -> Result<(), Problem> {
    if slot.key.item_type == key_type::INODE_REF {
        check_run(slot)?;
    }
    let mut names = 0u64;
    for name in InodeNames::new(&slot.key, slot.data) {
        name?;
        names += 1;
    }
    require(names > 0, "inode ref", "number of names", names, "at least 1")
}

pub(super) fn check_entries(slot: &Slot<'_>) -> Result<(), Problem> {
    check_run(slot)?;
    for entry in DirEntries::new(slot.data) {
        check_entry(slot, &entry?)?;
    }
    Ok(())
}

fn check_entry(slot: &Slot<'_>, entry: &DirEntry<'_>) -> Result<(), Problem> {
    let item = "directory entry";
    check_location(item, &slot.key, &entry.location)?;
    let file_type = u64::from(entry.file_type);
    let is_xattr = entry.file_type == FILE_TYPE_XATTR;
    require(entry.file_type <= FILE_TYPE_XATTR, item, "type", file_type, "0 to 8")?;
    let fits = is_xattr == (slot.key.item_type == key_type::XATTR_ITEM);
    require(fits, item, "type", file_type, "8 for an extended attribute, and for nothing else")?;
    require(entry.name.len() <= NAME_LEN, item, "name_len", entry.name.len() as u64, "255 at most")?;
    let data_len = entry.data.len() as u64;
    require(is_xattr || data_len == 0, item, "data_len", data_len, "0 where it is not an extended attribute")?;
    let hashed = slot.key.item_type != key_type::DIR_INDEX;
    let dump = slot.rules.flags.intersects(SuperFlags::METADUMP | SuperFlags::METADUMP_V2);
    if hashed && !dump {
        require_equal(item, "name hash", name_hash(entry.name).into(), slot.key.offset)?;
    }
    Ok(())
}

/// What a name stands for: an inode, a subvolume, or nothing for an extended attribute.
fn check_location(item: &'static str, key: &Key, location: &Key) -> Result<(), Problem> {
    let have = u64::from(location.item_type);
    match location.item_type {
        key_type::ROOT_ITEM => {
            let root = location.objectid;
            require(is_subvolume(root), item, "location objectid", root.raw(), "a subvolume")
        }
        _ if key.item_type == key_type::XATTR_ITEM => {
            require(*location == Key::MIN, item, "location type", have, "no location for an extended attribute")
        }
        key_type::INODE_ITEM | 0 => check_inode_key(item, location),
        _ => require(false, item, "location type", have, "1 or 132"),
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

pub(super) fn check_root(slot: &Slot<'_>) -> Result<(), Problem> {
    let item = "root item";
    let (key, rules) = (&slot.key, slot.rules);
    require(key.objectid.raw() != 0, item, "objectid", 0, "not 0")?;
    if key.objectid == object::TREE_RELOC {
        let of = ObjectId::new(key.offset);
        require(is_subvolume(of), item, "key offset", key.offset, "a subvolume for a relocation tree")?;
    }
    let size = slot.data.len();
    require(ROOT_ITEM_BYTES.contains(&size), item, "size", size as u64, "239 or 439 bytes")?;
    let root = RootItem::parse(slot.data)?;
    let generations =
        [("generation", root.generation), ("generation_v2", root.generation_v2), ("last_snapshot", root.last_snapshot)];
    for (field, generation) in generations {
        let past = !rules.is_future(generation);
        require(past, item, field, generation.raw(), "that of the super block at most")?;
    }
    let bytenr = root.bytenr.raw();
    require(rules.is_sector_aligned(bytenr), item, "bytenr", bytenr, "a multiple of the sector size")?;
    for (field, level) in [("level", root.level), ("drop_level", root.drop_level)] {
        require(level <= MAX_LEVEL, item, field, level.into(), "7 at most")?;
    }
    let known = (RootFlags::RDONLY | RootFlags::DEAD).contains(root.flags);
    require(known, item, "flags", root.flags.bits(), "known bits only")
}

pub(super) fn check_root_ref(slot: &Slot<'_>) -> Result<(), Problem> {
    RootRef::parse(slot.data)?;
    Ok(())
}
