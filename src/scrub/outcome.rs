//! The result of a scrub or repair as plain values; `report` renders them, `bin` maps them to an exit code.

use super::finding::Finding;
use super::selection::Selected;
use super::tally::Counters;
use crate::checksum::ChecksumType;
use crate::device::{Layer, LowerState};
use crate::owners::OwnerTable;
use crate::units::{DeviceId, Generation, Logical};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};
use thiserror::Error;
use uuid::Uuid;

/// Which file system a report is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilesystemInfo {
    /// `fsid` of the super block.
    pub fsid: Uuid,
    /// Empty where none was given.
    pub label: String,
    /// Of the super block that was used.
    pub generation: Generation,
    /// The checksum algorithm.
    pub csum_type: ChecksumType,
    /// In bytes.
    pub sectorsize: u32,
    /// In bytes.
    pub nodesize: u32,
    /// Device items in the chunk tree.
    pub num_devices: u64,
    /// Members that were not given.
    pub missing_devids: Vec<DeviceId>,
    /// All files and devices that were given, where there are layers between them and btrfs; empty where there are none.
    pub lower: Vec<LowerInfo>,
}

impl FilesystemInfo {
    /// Is a member of an array below missing, or not in sync?
    pub fn is_degraded_below(&self) -> bool {
        let is_open = |layer: &Layer| matches!(layer, Layer::Md(array, _) if array.in_sync < array.raid_disks);
        self.lower.iter().any(|file| file.state != LowerState::InSync || file.layers.iter().any(is_open))
    }
}

/// A file or block device with layers above it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LowerInfo {
    /// As given.
    pub path: PathBuf,
    /// Whether it can be relied on.
    pub state: LowerState,
    /// From the outermost to the innermost.
    pub layers: Vec<Layer>,
}

/// Did the run get to its end?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// All that was asked for was looked at.
    Finished,
    /// Ended by a signal or a limit.
    Interrupted,
}

/// The sum of a run, from best to worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// Nothing bad was found.
    Clean,
    /// All that was bad is corrected and read back.
    Corrected,
    /// Something is bad and has a good source, or a member is missing and everything on it has one.
    Correctable,
    /// Something is bad and cannot be decided or rebuilt.
    Uncorrectable,
}

/// One member's part of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceOutcome {
    /// The member.
    pub devid: DeviceId,
    /// As given by the user; empty for a missing member.
    pub path: PathBuf,
    /// Was anything of it looked at, as far as it goes?
    pub is_read: bool,
    /// Allocated bytes on this member.
    pub bytes_total: u64,
    /// Its counts.
    pub counters: Counters,
}

/// Why a member that missed transactions is not up to date when all is corrected that can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Behind {
    /// Not all of it was looked at.
    #[error("not all of the device was looked at")]
    Unseen,
    /// Trees are damaged, so it is not known what should be on it.
    #[error("parts of the trees are lost, and what should be on the device is not known")]
    LostTrees,
    /// Blocks on it have no right bytes.
    #[error("{0} of its blocks or full stripes cannot be brought up to date")]
    Blocks(u64),
    /// Blocks on it were not written.
    #[error("not all that is to be written to the device was written")]
    NotWritten,
}

/// What one run saw.
#[derive(Clone, Debug)]
pub struct ScrubOutcome {
    /// The file system.
    pub filesystem: FilesystemInfo,
    /// What it was asked to look at.
    pub selected: Selected,
    /// Whether it got to the end.
    pub status: Status,
    /// The worst of what was found.
    pub verdict: Verdict,
    /// Wall clock at the start.
    pub started: SystemTime,
    /// How long it took.
    pub duration: Duration,
    /// Allocated bytes on all present devices.
    pub bytes_total: u64,
    /// Bytes of them that were read.
    pub bytes_scrubbed: u64,
    /// Sums over the devices.
    pub totals: Counters,
    /// By devid.
    pub devices: Vec<DeviceOutcome>,
    /// In the order of [`Finding::sort_key`]; at most the cap of the options.
    pub findings: Vec<Finding>,
    /// Findings beyond the cap: counted in the totals, not listed.
    pub findings_omitted: u64,
    /// Tree blocks that verify and are not what their parents describe, listed or not.
    pub broken_links: BTreeSet<Logical>,
    /// Members that missed transactions and cannot be called current, whatever is corrected.
    pub behind: BTreeMap<DeviceId, Behind>,
    /// Extents that are older than what was looked at and that were not there when the older ones were looked at.
    pub unknown_extents: u64,
    /// Who owns what the findings are about; empty until somebody looks ([`super::owners_of`]).
    pub owners: OwnerTable,
    /// What an administrator should know beside the findings, one lowercase line each.
    pub notes: Vec<String>,
}

impl ScrubOutcome {
    /// True where everything there is was looked at.
    pub fn is_complete(&self) -> bool {
        self.status == Status::Finished && self.selected.is_everything()
    }
}

impl DeviceOutcome {
    /// False for a device that was not read, where nothing is said of what is on it.
    pub fn tells_something(&self) -> bool {
        self.is_read || self.counters != Counters::default()
    }
}
