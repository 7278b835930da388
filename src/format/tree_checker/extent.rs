//! Rules for the extent tree and the checksum tree.

use super::{Problem, Slot, references, require};
use crate::format::items::{CsumItem, ExtentFlags, ExtentItem};
use crate::format::node::MAX_LEVEL;
use crate::format::types::{key_type, object};
use crate::format::{IncompatFlags, Key};

const EXTENT: &str = "extent item";

/// The key's numbers, the flags, each inline reference, their sum, and the neighbour.
pub(super) fn check_extent(slot: &Slot<'_>) -> Result<(), Problem> {
    let (key, rules) = (&slot.key, slot.rules);
    let start = key.objectid.raw();
    require(rules.is_sector_aligned(start), EXTENT, "start", start, "a multiple of the sector size")?;
    let item = ExtentItem::parse(key, slot.data)?;
    let generation = item.generation;
    require(!rules.is_future(generation), EXTENT, "generation", generation.raw(), "that of the super block at most")?;
    let kind = item.flags & (ExtentFlags::DATA | ExtentFlags::TREE_BLOCK);
    let one_kind = kind.bits().is_power_of_two();
    require(one_kind, EXTENT, "flags", item.flags.bits(), "either data or tree block")?;
    if item.is_tree_block() {
        check_tree_block(slot, &item)?;
    } else {
        check_data(slot, &item)?;
    }
    references::check_inline_refs(slot, &item)?;
    check_neighbour(slot)
}

fn check_tree_block(slot: &Slot<'_>, item: &ExtentItem<'_>) -> Result<(), Problem> {
    let (key, rules) = (&slot.key, slot.rules);
    if key.item_type == key_type::METADATA_ITEM {
        let skinny = rules.incompat.contains(IncompatFlags::SKINNY_METADATA);
        require(skinny, EXTENT, "key type", key.item_type.into(), "168 without skinny-metadata")?;
        return require(key.offset <= MAX_LEVEL.into(), EXTENT, "level", key.offset, "7 at most");
    }
    require(key.offset == u64::from(rules.nodesize), EXTENT, "length", key.offset, "the node size")?;
    let level = item.level(key).unwrap_or(u8::MAX);
    require(level <= MAX_LEVEL, EXTENT, "level", level.into(), "7 at most")
}

fn check_data(slot: &Slot<'_>, item: &ExtentItem<'_>) -> Result<(), Problem> {
    let key = &slot.key;
    let is_plain = key.item_type == key_type::EXTENT_ITEM;
    require(is_plain, EXTENT, "key type", key.item_type.into(), "168 for data")?;
    require(slot.rules.is_sector_aligned(key.offset), EXTENT, "length", key.offset, "a multiple of the sector size")?;
    let full = item.flags.contains(ExtentFlags::FULL_BACKREF);
    require(!full, EXTENT, "flags", item.flags.bits(), "no full backref for data")
}

/// Extents that follow each other in the same leaf.
fn check_neighbour(slot: &Slot<'_>) -> Result<(), Problem> {
    let Some((previous, _)) = slot.previous else { return Ok(()) };
    if !matches!(previous.item_type, key_type::EXTENT_ITEM | key_type::METADATA_ITEM) {
        return Ok(());
    }
    let range = ExtentItem::range(&previous, slot.rules.nodesize);
    overlap(slot, "extent", previous, range.end.raw(), slot.key.objectid.raw())
}

/// The key, the size, and the neighbour.
pub(super) fn check_csum(slot: &Slot<'_>) -> Result<(), Problem> {
    let object = slot.key.objectid;
    require(object == object::EXTENT_CSUM, "checksum item", "objectid", object.raw(), "18446744073709551606")?;
    let (sectorsize, csum_bytes) = (slot.rules.sectorsize, slot.rules.csum_type.digest_len());
    CsumItem::parse(&slot.key, slot.data, sectorsize, csum_bytes)?;
    let Some((previous, data)) = slot.previous else { return Ok(()) };
    if previous.item_type != key_type::EXTENT_CSUM {
        return Ok(());
    }
    let end = CsumItem::parse(&previous, data, sectorsize, csum_bytes)?.range().end;
    overlap(slot, "checksum item", previous, end.raw(), slot.key.offset)
}

/// What the slot before covers must end where this one starts, or earlier.
pub(super) fn overlap(
    slot: &Slot<'_>,
    item: &'static str,
    previous: Key,
    previous_end: u64,
    start: u64,
) -> Result<(), Problem> {
    if previous_end <= start {
        return Ok(());
    }
    Err(Problem::Overlap { item, previous, previous_end, have: slot.key, start })
}

/// Placed by a tree of its own, which needs its feature.
pub(super) fn check_raid_stripe(slot: &Slot<'_>) -> Result<(), Problem> {
    let start = slot.key.objectid.raw();
    require(slot.rules.is_sector_aligned(start), "raid stripe", "start", start, "a multiple of the sector size")?;
    let has_tree = slot.rules.incompat.contains(IncompatFlags::RAID_STRIPE_TREE);
    require(has_tree, "raid stripe", "key type", slot.key.item_type.into(), "none without raid-stripe-tree")
}
