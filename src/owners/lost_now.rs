//! What the missing devices have taken with them: the extents of which no copy and no parity is left. Reads the extent
//! items of those block groups only that lost more than their profile bears.

use super::losses::is_lost_range;
use crate::filesystem::Filesystem;
use crate::format::Key;
use crate::format::items::ExtentItem;
use crate::format::types::key_type;
use crate::tree::Cursor;
use crate::units::{DeviceId, Logical, LogicalRange};
use crate::volume::Chunk;
use std::collections::BTreeSet;

/// What cannot be read with the members that are there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LostNow {
    /// Bytes of data extents.
    pub data_bytes: u64,
    /// Bytes of tree blocks.
    pub metadata_bytes: u64,
    /// Block groups that they lie in.
    pub block_groups: u64,
    /// The extent tree could not be read to its end: there may be more.
    pub is_partial: bool,
}

/// Sums what is lost with the missing devices.
pub fn lost_now(fs: &Filesystem) -> LostNow {
    let missing: BTreeSet<DeviceId> = fs.set().missing().iter().map(|item| item.devid).collect();
    let mut sum = LostNow::default();
    if missing.is_empty() {
        return sum;
    }
    for chunk in fs.chunks().iter().filter(|chunk| chunk.stripes().iter().any(|s| missing.contains(&s.devid))) {
        let before = sum.data_bytes.saturating_add(sum.metadata_bytes);
        add(fs, chunk, &missing, &mut sum);
        sum.block_groups += u64::from(sum.data_bytes.saturating_add(sum.metadata_bytes) > before);
    }
    sum
}

fn add(fs: &Filesystem, chunk: &Chunk, missing: &BTreeSet<DeviceId>, sum: &mut LostNow) {
    let Some(root) = fs.roots().extent else {
        sum.is_partial = true;
        return;
    };
    let mut cursor = Cursor::new(fs, root);
    cursor.seek(&Key::new(chunk.start().raw(), 0, 0));
    while let Some((key, bytes)) = cursor.item().filter(|(key, _)| key.objectid.raw() < chunk.end().raw()) {
        if matches!(key.item_type, key_type::EXTENT_ITEM | key_type::METADATA_ITEM) {
            let range = ExtentItem::range(&key, fs.geometry().nodesize());
            let is_tree = key.item_type == key_type::METADATA_ITEM
                || ExtentItem::parse(&key, bytes).is_ok_and(|item| item.is_tree_block());
            let lost = lost_bytes(chunk, &range, missing);
            let total = if is_tree { &mut sum.metadata_bytes } else { &mut sum.data_bytes };
            *total = total.saturating_add(lost);
        }
        cursor.advance();
    }
    sum.is_partial |= !cursor.take_lost().is_empty();
}

/// The bytes of an extent that have no source.
fn lost_bytes(chunk: &Chunk, range: &LogicalRange, missing: &BTreeSet<DeviceId>) -> u64 {
    let (mut at, end): (Logical, Logical) = (range.start.max(chunk.start()), range.end.min(chunk.end()));
    let mut lost = 0;
    while at < end {
        let bytes = chunk.contiguous_bytes(at).min(end - at);
        if bytes == 0 {
            break;
        }
        lost += if is_lost_range(chunk, at, missing) { bytes } else { 0 };
        at = at + bytes;
    }
    lost
}
