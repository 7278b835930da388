//! The label of a physical volume, its header, and the areas with the text of its volume group.

use crate::format::le::{le_u32, le_u64};
use crate::stack::crc32_from;
use crate::stack::node::Node;

const SECTOR_BYTES: u64 = 512;
/// What all of LVM's checksums begin with.
const INITIAL_CRC: u32 = 0xf597_a6cf;
/// Areas of one physical volume.
const MAX_AREAS: usize = 16;
/// The longest text that is read.
const MAX_TEXT_BYTES: u64 = 16 << 20;

/// A physical volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::stack) struct Physical {
    /// Without hyphens.
    pub(in crate::stack) id: String,
    /// Where the areas with metadata are, and how long.
    areas: Vec<(u64, u64)>,
}

/// The physical volume that a node is, if it is one: its label is in one of the first four sectors.
pub(in crate::stack) fn probe(node: &dyn Node) -> Option<Physical> {
    (0..4).find_map(|sector| label(node, sector))
}

fn label(node: &dyn Node, sector: u64) -> Option<Physical> {
    let mut bytes = [0; SECTOR_BYTES as usize];
    if (sector + 1) * SECTOR_BYTES > node.len() {
        return None;
    }
    node.read(sector * SECTOR_BYTES, &mut bytes).ok()?;
    let is_label = bytes.starts_with(b"LABELONE") && bytes.get(24..32)? == b"LVM2 001" && le_u64(&bytes, 8) == sector;
    if !is_label || crc32_from(INITIAL_CRC, bytes.get(20..)?) != le_u32(&bytes, 16) {
        return None;
    }
    let header = bytes.get(le_u32(&bytes, 20) as usize..)?;
    let id = String::from_utf8(header.get(..32)?.to_vec()).ok()?;
    // Behind the size two lists of places, each ended by zeros: those with data, those with metadata.
    let mut places = header.get(40..)?.chunks_exact(16).map(|place| (le_u64(place, 0), le_u64(place, 8)));
    places.by_ref().find(|place| *place == (0, 0))?;
    let areas = places.take_while(|place| *place != (0, 0)).take(MAX_AREAS).collect();
    Some(Physical { id, areas })
}

/// The texts in the metadata areas of a physical volume that verify.
pub(super) fn metadata(physical: &Physical, node: &dyn Node) -> Vec<Vec<u8>> {
    physical.areas.iter().filter_map(|(start, len)| text(node, *start, *len)).collect()
}

fn text(node: &dyn Node, start: u64, area_bytes: u64) -> Option<Vec<u8>> {
    if start.checked_add(area_bytes)? > node.len() || area_bytes <= SECTOR_BYTES {
        return None;
    }
    let mut header = [0; SECTOR_BYTES as usize];
    node.read(start, &mut header).ok()?;
    let is_area = header.get(4..20)? == b" LVM2 x[5A%r0N*>" && le_u32(&header, 20) == 1 && le_u64(&header, 24) == start;
    if !is_area || crc32_from(INITIAL_CRC, header.get(4..)?) != le_u32(&header, 0) {
        return None;
    }
    let (offset, len, sum) = (le_u64(&header, 40), le_u64(&header, 48), le_u32(&header, 56));
    let ring_bytes = area_bytes - SECTOR_BYTES;
    if len == 0 || len > ring_bytes.min(MAX_TEXT_BYTES) || !(SECTOR_BYTES..area_bytes).contains(&offset) {
        return None;
    }
    // A ring: what goes over its end goes on behind the header.
    let first = len.min(area_bytes - offset);
    let mut text = vec![0; len as usize];
    let (head, tail) = text.split_at_mut(first as usize);
    node.read(start + offset, head).ok()?;
    node.read(start + SECTOR_BYTES, tail).ok()?;
    (crc32_from(INITIAL_CRC, &text) == sum).then_some(text)
}
