//! Rules for the chunk tree, the device tree and block group items.

use super::extent::overlap;
use super::{Problem, Slot, require, require_equal};
use crate::format::BlockGroupFlags;
use crate::format::items::{BlockGroupItem, ChunkItem, DevExtent, DevItem};
use crate::format::types::{key_type, object};
use crate::units::Logical;

pub(super) fn check_block_group(slot: &Slot<'_>) -> Result<(), Problem> {
    let item = "block group item";
    let length = slot.key.offset;
    let group = BlockGroupItem::parse(slot.data)?;
    require(length != 0, item, "length", length, "not 0")?;
    let chunk_objectid = object::FIRST_CHUNK_TREE.raw();
    require_equal(item, "chunk_objectid", group.chunk_objectid.raw(), chunk_objectid)?;
    require(group.used <= length, item, "used", group.used, "the length in the key at most")?;
    let flags = group.flags;
    let one_profile = flags.profile().bits().count_ones() <= 1;
    require(one_profile, item, "flags", flags.bits(), "at most one profile")?;
    let kind = flags.kind();
    let mixed = BlockGroupFlags::DATA | BlockGroupFlags::METADATA;
    let known = kind.bits().is_power_of_two() || kind == mixed;
    require(known, item, "flags", flags.bits(), "data, metadata, both, or system")
}

pub(super) fn check_chunk(slot: &Slot<'_>) -> Result<(), Problem> {
    require_equal("chunk item", "objectid", slot.key.objectid.raw(), object::FIRST_CHUNK_TREE.raw())?;
    let at = Logical::new(slot.key.offset);
    let chunk = ChunkItem::parse(slot.data)?;
    chunk.check(at, slot.rules.sectorsize, slot.rules.incompat)?;
    let Some((previous, data)) = slot.previous else { return Ok(()) };
    if previous.item_type != key_type::CHUNK_ITEM {
        return Ok(());
    }
    let end = previous.offset.saturating_add(ChunkItem::parse(data)?.length);
    overlap(slot, "chunk", previous, end, slot.key.offset)
}

pub(super) fn check_device(slot: &Slot<'_>) -> Result<(), Problem> {
    let item = "device item";
    require_equal(item, "objectid", slot.key.objectid.raw(), object::DEV_ITEMS.raw())?;
    let device = DevItem::parse(slot.data)?;
    require_equal(item, "devid", device.devid.raw(), slot.key.offset)?;
    require(device.bytes_used <= device.total_bytes, item, "bytes_used", device.bytes_used, "total_bytes at most")
}

/// Also: extents of one device that follow each other in the same leaf.
pub(super) fn check_dev_extent(slot: &Slot<'_>) -> Result<(), Problem> {
    let item = "device extent";
    let extent = DevExtent::parse(slot.data)?;
    require_equal(item, "chunk_tree", extent.chunk_tree.raw(), object::CHUNK_TREE.raw())?;
    require_equal(item, "chunk_objectid", extent.chunk_objectid.raw(), object::FIRST_CHUNK_TREE.raw())?;
    let numbers = [("start", slot.key.offset), ("chunk_offset", extent.chunk_offset.raw()), ("length", extent.length)];
    for (field, number) in numbers {
        require(slot.rules.is_sector_aligned(number), item, field, number, "a multiple of the sector size")?;
    }
    let Some((previous, data)) = slot.previous else { return Ok(()) };
    if previous.item_type != key_type::DEV_EXTENT || previous.objectid != slot.key.objectid {
        return Ok(());
    }
    let end = previous.offset.saturating_add(DevExtent::parse(data)?.length);
    overlap(slot, item, previous, end, slot.key.offset)
}
