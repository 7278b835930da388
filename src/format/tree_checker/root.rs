//! Rules for root items, and for the names of subvolumes.

use super::allowed::is_subvolume;
use super::{Problem, Slot, require};
use crate::format::items::{RootFlags, RootItem, RootRef};
use crate::format::node::MAX_LEVEL;
use crate::format::private::PRIVATE_ROOT_FLAGS;
use crate::format::types::{NAME_LEN, object};
use crate::units::ObjectId;

/// Sizes of root items before and since kernel 3.6.
const ROOT_ITEM_BYTES: [usize; 2] = [239, 439];

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
    let begun = root.drop_progress.objectid.raw();
    require(begun == 0 || root.drop_level > 0, item, "drop_level", 0, "1 or more where deleting has begun")?;
    let known = (RootFlags::RDONLY | RootFlags::DEAD).bits() | PRIVATE_ROOT_FLAGS;
    require(root.flags.bits() & !known == 0, item, "flags", root.flags.bits(), "known bits only")
}

pub(super) fn check_root_ref(slot: &Slot<'_>) -> Result<(), Problem> {
    let len = RootRef::parse(slot.data)?.name.len();
    require((1..=NAME_LEN).contains(&len), "root ref", "name_len", len as u64, "1 to 255")
}
