//! Rules for names: inode references, directory entries and extended attributes.

use super::allowed::is_subvolume;
use super::inode::{check_inode_key, check_run};
use super::{Problem, Slot, require, require_equal};
use crate::format::items::{DirEntries, DirEntry, InodeNames, name_hash};
use crate::format::types::{NAME_LEN, key_type};
use crate::format::{Key, SuperFlags};

/// `BTRFS_FT_XATTR`, the last of its kind.
const FILE_TYPE_XATTR: u8 = 8;

pub(super) fn check_names(slot: &Slot<'_>) -> Result<(), Problem> {
    check_run(slot)?;
    let mut names = 0u64;
    for name in InodeNames::new(&slot.key, slot.data) {
        let len = name?.name.len();
        // The kernel does not ask this of the longer form.
        let fits = slot.key.item_type == key_type::INODE_EXTREF || (1..=NAME_LEN).contains(&len);
        require(fits, "inode ref", "name_len", len as u64, "1 to 255")?;
        names += 1;
    }
    let some = slot.key.item_type == key_type::INODE_EXTREF || names > 0;
    require(some, "inode ref", "number of names", names, "at least 1")
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
    require((1..=FILE_TYPE_XATTR).contains(&entry.file_type), item, "type", file_type, "1 to 8")?;
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
