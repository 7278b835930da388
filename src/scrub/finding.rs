//! What a scrub found: one value per bad copy. A finding is data for reports and for repair, never an error.

use super::below::BelowPlace;
use crate::checksum::Digest;
use crate::format::Key;
use crate::units::{DeviceId, Generation, Logical, MirrorNum, Physical};
use crate::volume::Profile;
use std::fmt;
use uuid::Uuid;

/// The class of block that a finding is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FindingKind {
    /// One copy of a super block; `logical` is the offset it lives at, `mirror` the copy's number from 1.
    Superblock,
    /// One whole node of one metadata copy.
    Metadata,
    /// One sector of one data copy.
    Data,
    /// One 64 KiB parity stripe; `logical` is where the full stripe's data starts, mirror 1 is P and 2 is Q.
    Parity,
}

/// What is wrong with the copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Problem {
    /// The stored checksum does not fit the bytes.
    Checksum,
    /// The block carries another address than the one it was read from.
    Bytenr,
    /// The block belongs to another file system.
    Fsid,
    /// The block carries another chunk tree uuid.
    ChunkUuid,
    /// The block is of another transaction than its extent item (or parent, or super block) says.
    Generation,
    /// The block is at another level than its extent item or parent says.
    Level,
    /// The block belongs to another tree than its extent item or parent says.
    Owner,
    /// The block starts with another key than its parent says.
    FirstKey,
    /// The block verifies but its inside cannot be right.
    Structure,
    /// The device returned an error.
    ReadError,
    /// The device of this copy is missing and no other copy can stand in.
    Missing,
    /// The copies of a sector without checksum are not equal.
    CopiesDiffer,
    /// Parity does not fit the data of its row.
    ParityMismatch,
    /// Two structures that must agree do not, or keys of a tree are lost; the evidence says which.
    Contradiction,
    /// A compressed extent has the right checksums and does not unpack to what its references need.
    Decompression,
}

/// What was seen and what was expected, where that says something.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Evidence {
    /// Nothing to add.
    #[default]
    None,
    /// Two checksums.
    Checksum {
        /// Computed from the bytes.
        have: Digest,
        /// Stored in the checksum tree or in the block's header.
        expect: Digest,
    },
    /// Two numbers: addresses, generations, levels, owners.
    Number {
        /// In the block.
        have: u64,
        /// Promised by whoever points to it.
        expect: u64,
    },
    /// Two uuids.
    Uuid {
        /// In the block.
        have: Uuid,
        /// Of the file system.
        expect: Uuid,
    },
    /// Two keys.
    Key {
        /// The block's first key.
        have: Key,
        /// The key in the parent.
        expect: Key,
    },
    /// The copy is on a member that missed transactions.
    Stale {
        /// The last transaction of the member.
        have: Generation,
        /// The last one of the file system.
        newest: Generation,
    },
    /// The errno of a failed read, `None` where the read reached past the end of the device.
    Errno(Option<i32>),
    /// What is wrong inside a block, as one lowercase clause.
    Text(Box<str>),
    /// What an earlier run said of it: the strings of its report.
    Said {
        /// In the block.
        have: Box<str>,
        /// Promised, where that says something.
        expect: Option<Box<str>>,
    },
}

impl Evidence {
    /// The `have` and `expect` strings of a report: addresses decimal, checksums hex.
    pub fn strings(&self) -> (Option<String>, Option<String>) {
        fn both(have: impl fmt::Display, expect: impl fmt::Display) -> (Option<String>, Option<String>) {
            (Some(have.to_string()), Some(expect.to_string()))
        }
        match self {
            Self::None => (None, None),
            Self::Checksum { have, expect } => both(have, expect),
            Self::Number { have, expect } => both(have, expect),
            Self::Uuid { have, expect } => both(have, expect),
            Self::Key { have, expect } => both(have, expect),
            Self::Stale { have, newest } => {
                both(format_args!("member at generation {have}"), format_args!("file system at {newest}"))
            }
            Self::Errno(Some(errno)) => (Some(std::io::Error::from_raw_os_error(*errno).to_string()), None),
            Self::Errno(None) => (Some("past the end of the device".to_owned()), None),
            Self::Text(text) => (Some(text.to_string()), None),
            Self::Said { have, expect } => (Some(have.to_string()), expect.as_ref().map(ToString::to_string)),
        }
    }
}

/// What can be, or has been, done about a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RepairState {
    /// A source that verifies exists; nothing was written.
    Possible,
    /// Written and read back.
    Done,
    /// Writing or reading back failed.
    Failed,
    /// No copy and no reconstruction verifies.
    Impossible,
    /// Copies or parity disagree and no checksum decides.
    Undecidable,
}

/// See [`Finding::sort_key`].
type SortKey = (Logical, MirrorNum, DeviceId, Physical, FindingKind, Problem, Option<(u32, Physical)>);

/// One bad copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The class of block.
    pub kind: FindingKind,
    /// What is wrong.
    pub problem: Problem,
    /// Where, in btrfs's address space (see [`FindingKind`] for super blocks and parity).
    pub logical: Logical,
    /// In bytes.
    pub length: u32,
    /// Which copy, from 1.
    pub mirror: MirrorNum,
    /// The device that holds the copy.
    pub devid: DeviceId,
    /// Where on that device.
    pub physical: Physical,
    /// The profile of the block group (single for super blocks).
    pub profile: Profile,
    /// Have and expect.
    pub evidence: Evidence,
    /// The prospects.
    pub repair: RepairState,
    /// For metadata: the tree that owns the block, where known.
    pub owner: Option<u64>,
    /// Where below btrfs it is, if its device is put together from others.
    pub below: Vec<BelowPlace>,
}

impl Finding {
    /// The order of findings in every report: by address, then copy, then place.
    pub fn sort_key(&self) -> SortKey {
        let below = self.below.first().map(|place| (place.file, place.physical));
        (self.logical, self.mirror, self.devid, self.physical, self.kind, self.problem, below)
    }
}
