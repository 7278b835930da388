//! Rules for the references to extents: inside of extent items, in their order, and in items of their own.

use super::allowed::is_subvolume;
use super::{Problem, Slot, require};
use crate::format::items::{DATA_REF_BYTES, ExtentItem, ExtentRef};
use crate::format::types::{key_type, object};
use crate::units::ObjectId;

const EXTENT: &str = "extent item";
const REFERENCE: &str = "extent reference";

pub(super) fn check_inline_refs(slot: &Slot<'_>, item: &ExtentItem<'_>) -> Result<(), Problem> {
    let mut counted = 0u64;
    let mut previous: Option<ExtentRef> = None;
    for reference in item.inline_refs() {
        let reference = reference?;
        check_reference(slot, &reference)?;
        if let Some(previous) = &previous {
            check_order(previous, &reference)?;
        }
        counted = counted.saturating_add(reference.count());
        previous = Some(reference);
    }
    require(counted <= item.refs, EXTENT, "refs", item.refs, "as many as its inline references or more")
}

/// References come by type, ascending, and within one type by what identifies them, descending.
fn check_order(previous: &ExtentRef, next: &ExtentRef) -> Result<(), Problem> {
    let (before, after) = (previous.item_type(), next.item_type());
    require(before <= after, REFERENCE, "type", after.into(), "that of the one before it or more")?;
    let ordered = before < after || sequence(next) <= sequence(previous);
    require(ordered, REFERENCE, "order", sequence(next), "a sequence number that is not above the one before it")
}

/// What references of one type are ordered by (kernel: `hash_extent_data_ref` for those of data).
pub(super) fn sequence(reference: &ExtentRef) -> u64 {
    // A bare CRC-32C that starts at all ones and is not inverted at its end.
    let bare = |start: u32, number: u64| !crc32c::crc32c_append(!start, &number.to_le_bytes());
    match *reference {
        ExtentRef::TreeBlock { root } | ExtentRef::Owner { root } => root.raw(),
        ExtentRef::SharedBlock { parent } | ExtentRef::SharedData { parent, .. } => parent.raw(),
        ExtentRef::ExtentData { root, objectid, offset, .. } => {
            let high = bare(u32::MAX, root.raw());
            let low = bare(bare(u32::MAX, objectid.raw()), offset);
            u64::from(high) << 31 ^ u64::from(low)
        }
    }
}

fn check_reference(slot: &Slot<'_>, reference: &ExtentRef) -> Result<(), Problem> {
    let aligned = |field, number| {
        require(slot.rules.is_sector_aligned(number), REFERENCE, field, number, "a multiple of the sector size")
    };
    let counted = |count: u32| require(count > 0, REFERENCE, "count", 0, "not 0");
    match *reference {
        ExtentRef::TreeBlock { .. } | ExtentRef::Owner { .. } => Ok(()),
        ExtentRef::SharedBlock { parent } => aligned("parent", parent.raw()),
        ExtentRef::SharedData { parent, count } => {
            aligned("parent", parent.raw())?;
            counted(count)
        }
        ExtentRef::ExtentData { root, objectid, offset, count } => {
            require(may_have_data(root), REFERENCE, "root", root.raw(), "a tree that has files")?;
            let is_inode = (object::FIRST_FREE..=object::LAST_FREE).contains(&objectid);
            require(is_inode, REFERENCE, "objectid", objectid.raw(), "an inode number")?;
            aligned("offset", offset)?;
            counted(count)
        }
    }
}

/// Subvolumes, the tree in which data is moved, and the root tree, where the free space caches are.
fn may_have_data(root: ObjectId) -> bool {
    is_subvolume(root) || matches!(root, object::DATA_RELOC_TREE | object::ROOT_TREE)
}

/// References in items of their own. Those of files may be several in one item.
pub(super) fn check_keyed_ref(slot: &Slot<'_>) -> Result<(), Problem> {
    let start = slot.key.objectid.raw();
    require(slot.rules.is_sector_aligned(start), REFERENCE, "start", start, "a multiple of the sector size")?;
    if slot.key.item_type != key_type::EXTENT_DATA_REF {
        return check_reference(slot, &ExtentRef::parse_keyed(&slot.key, slot.data)?);
    }
    let size = slot.data.len();
    let whole = size.is_multiple_of(DATA_REF_BYTES);
    require(whole, REFERENCE, "size", size as u64, "a multiple of 28 bytes")?;
    for one in slot.data.chunks_exact(DATA_REF_BYTES) {
        check_reference(slot, &ExtentRef::parse_keyed(&slot.key, one)?)?;
    }
    Ok(())
}
