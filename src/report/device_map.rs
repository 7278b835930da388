//! What lies where on a device: its length in equal cells, each with what is allocated in it and the worst that was
//! found there. Decides what a cell shows; drawing it is the business of the page and of the text.

use crate::filesystem::Filesystem;
use crate::format::BlockGroupFlags;
use crate::scrub::finding::{Finding, FindingKind, RepairState};
use crate::units::DeviceId;
use crate::volume::{Chunk, Member};
use std::sync::Arc;

/// Cells of a map, from the start of the device to its end.
pub(super) const CELLS: usize = 480;

/// What a block group holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Contents {
    /// Data, or data and metadata in one.
    Data,
    /// Trees.
    Metadata,
    /// The chunk tree.
    System,
}

/// The worst that was found in a cell, from best to worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Worst {
    /// Written and read back.
    Corrected,
    /// A good source exists.
    Correctable,
    /// None does, or nothing can decide.
    Lost,
}

/// An allocated range of a device, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Area {
    /// Where it starts on the device.
    pub start: u64,
    /// How long it is.
    pub len_bytes: u64,
    /// What it holds.
    pub contents: Contents,
    /// Whether the run looked at it.
    pub is_read: bool,
}

/// The allocated ranges of one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceMap {
    /// The device.
    pub devid: DeviceId,
    /// Its length in bytes.
    pub len_bytes: u64,
    /// In the order of the device.
    pub areas: Vec<Area>,
}

/// One cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cell {
    /// What takes most of it.
    pub(super) contents: Option<Contents>,
    /// Whether all of what is allocated in it was looked at.
    pub(super) is_read: bool,
    /// The worst of what was found.
    pub(super) worst: Option<Worst>,
}

/// The maps of all devices that are there. `is_read` says of a block group whether the run looked at all of it on this
/// device.
pub fn device_maps(filesystem: &Filesystem, is_read: impl Fn(DeviceId, &Chunk) -> bool) -> Vec<DeviceMap> {
    let map = |member: &Arc<Member>| {
        let devid = member.devid();
        let mut areas: Vec<Area> = filesystem
            .chunks()
            .chunks_on(devid)
            .filter_map(|(chunk, stripe)| {
                let start = chunk.stripes().get(stripe)?.offset.raw();
                let is_read = is_read(devid, chunk);
                Some(Area { start, len_bytes: chunk.stripe_bytes(), contents: contents(chunk.flags()), is_read })
            })
            .collect();
        areas.sort_by_key(|area| area.start);
        DeviceMap { devid, len_bytes: member.superblock().dev_item().total_bytes, areas }
    };
    filesystem.members().map(map).collect()
}

fn contents(flags: BlockGroupFlags) -> Contents {
    if flags.contains(BlockGroupFlags::DATA) {
        Contents::Data
    } else if flags.contains(BlockGroupFlags::SYSTEM) {
        Contents::System
    } else {
        Contents::Metadata
    }
}

impl DeviceMap {
    /// The map in `cells` cells, with these findings of the device.
    pub(super) fn cells<'a>(&self, cells: usize, findings: impl Iterator<Item = &'a Finding>) -> Vec<Cell> {
        let mut covered = vec![[0_u64; 3]; cells];
        let mut map = vec![Cell { is_read: true, ..Cell::default() }; cells];
        for area in &self.areas {
            for index in self.cells_of(cells, area.start, area.len_bytes) {
                let (from, to) = self.bounds(cells, index);
                let end = area.start.saturating_add(area.len_bytes);
                let bytes = to.min(end).saturating_sub(from.max(area.start));
                if let Some(sum) = covered.get_mut(index).and_then(|sums| sums.get_mut(area.contents as usize)) {
                    *sum += bytes;
                }
                if let Some(cell) = map.get_mut(index) {
                    cell.is_read &= area.is_read;
                }
            }
        }
        for (cell, sums) in map.iter_mut().zip(&covered) {
            let all = [Contents::Data, Contents::Metadata, Contents::System];
            let most = all.into_iter().zip(sums).filter(|(_, bytes)| **bytes > 0).max_by_key(|(_, bytes)| **bytes);
            cell.contents = most.map(|(contents, _)| contents);
        }
        for finding in findings.filter(|finding| finding.devid == self.devid) {
            let worst = worst(finding);
            for index in self.cells_of(cells, finding.physical.raw(), u64::from(finding.length)) {
                if let Some(cell) = map.get_mut(index) {
                    cell.worst = cell.worst.max(Some(worst));
                }
            }
        }
        map
    }

    /// The numbers of the cells that a range touches.
    fn cells_of(&self, cells: usize, start: u64, len_bytes: u64) -> std::ops::RangeInclusive<usize> {
        let last = cells.saturating_sub(1);
        let at = |byte: u64| {
            let cell = u128::from(byte) * cells as u128 / u128::from(self.len_bytes.max(1));
            usize::try_from(cell).unwrap_or(last).min(last)
        };
        at(start)..=at(start.saturating_add(len_bytes.saturating_sub(1)))
    }

    /// The bytes of one cell, from and to.
    fn bounds(&self, cells: usize, index: usize) -> (u64, u64) {
        let at = |index: usize| {
            let byte = (u128::from(self.len_bytes) * index as u128).div_ceil(cells.max(1) as u128);
            u64::try_from(byte).unwrap_or(u64::MAX)
        };
        (at(index), at(index + 1))
    }
}

fn worst(finding: &Finding) -> Worst {
    match finding.repair {
        RepairState::Done => Worst::Corrected,
        // A super block copy or a parity that is wrong costs nothing yet.
        RepairState::Possible => Worst::Correctable,
        RepairState::Failed if finding.kind != FindingKind::Data => Worst::Correctable,
        RepairState::Failed | RepairState::Impossible | RepairState::Undecidable => Worst::Lost,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map() -> DeviceMap {
        let area = |start, len_bytes, contents, is_read| Area { start, len_bytes, contents, is_read };
        let areas = vec![area(10, 25, Contents::Data, true), area(40, 10, Contents::Metadata, false)];
        DeviceMap { devid: DeviceId::new(1), len_bytes: 100, areas }
    }

    #[test]
    fn a_cell_shows_what_takes_most_of_it_and_whether_all_of_it_was_read() {
        let cells = map().cells(5, std::iter::empty());
        let contents: Vec<_> = cells.iter().map(|cell| cell.contents).collect();
        assert_eq!(contents, [Some(Contents::Data), Some(Contents::Data), Some(Contents::Metadata), None, None]);
        assert_eq!(cells.iter().map(|cell| cell.is_read).collect::<Vec<_>>(), [true, true, false, true, true]);
    }

    #[test]
    fn the_cells_cover_the_device_without_a_gap() {
        for len_bytes in [480, 481, 1_000_003, u64::MAX] {
            let map = DeviceMap { len_bytes, ..map() };
            assert_eq!(map.bounds(480, 0).0, 0);
            assert_eq!(map.bounds(480, 479).1, len_bytes);
            assert_eq!(map.cells_of(480, len_bytes - 1, 4096), 479..=479, "{len_bytes}");
        }
    }
}
