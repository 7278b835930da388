//! The list of bad blocks of an md member: sectors that md will not read from it.

use crate::format::le::le_u64;
use crate::format::md_superblock::MdSuperblock;
use crate::stack::node::Node;
use std::ops::Range;

/// The longest list that is read: as long as md keeps.
const MAX_LIST_BYTES: usize = 64 << 10;

/// The bad ranges of a member in bytes from the start of its data, ascending. Where the list cannot be read there is
/// none: what is bad is found by reading.
pub(super) fn read(node: &dyn Node, superblock: &MdSuperblock) -> Vec<Range<u64>> {
    let Some((at, list_bytes, shift)) = superblock.bad_blocks else { return Vec::new() };
    let mut list = vec![0; list_bytes.min(MAX_LIST_BYTES)];
    if at.checked_add(list.len() as u64).is_none_or(|end| end > node.len()) || node.read(at, &mut list).is_err() {
        return Vec::new();
    }
    let entries = list.chunks_exact(8).map(|entry| le_u64(entry, 0)).take_while(|entry| *entry != u64::MAX);
    let mut ranges: Vec<Range<u64>> = entries
        .filter(|entry| *entry & 0x3ff != 0)
        .filter_map(|entry| {
            let bytes = |number: u64| number.checked_shl(shift)?.checked_mul(512);
            let start = bytes(entry >> 10)?.checked_sub(superblock.data_offset_bytes)?;
            Some(start..start.checked_add(bytes(entry & 0x3ff)?)?)
        })
        .collect();
    ranges.sort_by_key(|range| range.start);
    ranges
}
