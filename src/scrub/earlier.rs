//! A scrub in several sittings: what earlier ones found, and what is told to whoever keeps it for the next.

use super::commit::Commit;
use super::extent_sample::ExtentSample;
use super::finding::Finding;
use super::lost::RebuiltBytes;
use super::tally::Counters;
use crate::units::{DeviceId, Generation, Logical, LogicalRange};
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

/// A part of a file system that has been looked at to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// All super block copies.
    Superblocks,
    /// The section of a block group that starts here.
    Section(Logical),
    /// The last section of the block group at these addresses, and so all of it.
    BlockGroup(LogicalRange),
}

/// What one part has shown.
#[derive(Clone, Debug)]
pub struct PartDone {
    /// Which part.
    pub part: Part,
    /// The generation of the file system.
    pub generation: Generation,
    /// By device.
    pub counters: BTreeMap<DeviceId, Counters>,
    /// In report order, at most the cap of the options.
    pub findings: Vec<Finding>,
    /// Findings beyond it.
    pub findings_omitted: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Bytes of data without checksums.
    pub unsummed_bytes: u64,
    /// The extents in it.
    pub sample: ExtentSample,
    /// What became of the bytes of a lost member, where one is rebuilt.
    pub rebuilt: RebuiltBytes,
}

/// Is told of each part that is done, from the threads that do the work.
pub trait Observer: Sync {
    /// All of the part has been read and judged.
    fn part_done(&self, done: PartDone);
}

/// The sum of earlier sittings.
#[derive(Clone, Debug)]
pub struct Earlier {
    /// When the first began.
    pub started: SystemTime,
    /// How long they took.
    pub duration: Duration,
    /// By device.
    pub counters: BTreeMap<DeviceId, Counters>,
    /// What they found.
    pub findings: Vec<Finding>,
    /// And did not list.
    pub findings_omitted: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Bytes of data without checksums.
    pub unsummed_bytes: u64,
    /// What became of the bytes of a lost member.
    pub rebuilt: RebuiltBytes,
    /// What they were told to look at, in the words of whoever told them; all sittings of a scrub look at the same.
    pub parts: String,
    /// The generation at which the super blocks were looked at.
    pub superblocks_done: Option<Generation>,
    /// The commit that the last of them saw, on the devices that all of them had.
    pub commit: Commit,
    /// The extents in what they have seen.
    pub seen: ExtentSample,
}
