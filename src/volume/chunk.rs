//! One chunk, proved: a range of logical addresses and the stripes on devices that hold it.
//!
//! A [`Chunk`] exists only where every rule of the kernel's `btrfs_check_chunk_valid` (`fs/btrfs/tree-checker.c`) holds, no
//! address can overflow and no two stripes share bytes of a device, so that the [`geometry`](super::geometry) needs
//! no checks of its own. Whether the block group may mix data and metadata is not asked: it reads the same.

use super::profile::{Layout, Profile, ProfileError};
use crate::units::{DeviceId, Logical, LogicalRange, Physical};
use thiserror::Error;
use uuid::Uuid;

/// The length of a stripe unit; btrfs knows no other (`BTRFS_STRIPE_LEN`).
pub const STRIPE_LEN_BYTES: u64 = 64 * 1024;

/// The data columns that Q can tell apart: the order of 2 in GF(2^8).
const MAX_RAID6_DATA_COLUMNS: u64 = 255;

const TYPE_DATA: u64 = 1 << 0;
const TYPE_SYSTEM: u64 = 1 << 1;
const TYPE_METADATA: u64 = 1 << 2;
/// Data, system, metadata and the eight profile bits.
const KNOWN_TYPE_BITS: u64 = (1 << 11) - 1;

/// Where one stripe of a chunk lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stripe {
    /// The device.
    pub devid: DeviceId,
    /// Where the stripe starts on it.
    pub offset: Physical,
    /// The uuid of the device.
    pub dev_uuid: Uuid,
}

/// A chunk item as read, nothing checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawChunk {
    /// In bytes of logical space.
    pub length: u64,
    /// In bytes.
    pub stripe_len: u64,
    /// `BTRFS_BLOCK_GROUP_*`: kind and profile.
    pub type_flags: u64,
    /// Of meaning for RAID10 only.
    pub sub_stripes: u16,
    /// In the order of the item.
    pub stripes: Vec<Stripe>,
}

/// A chunk whose geometry can be relied on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    start: Logical,
    length_bytes: u64,
    flags: u64,
    profile: Profile,
    data_columns: u64,
    stripe_bytes: u64,
    stripes: Box<[Stripe]>,
}

/// Why a chunk is refused: which one, and what is wrong with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("corrupt chunk: logical={start}, {problem}")]
pub struct ChunkError {
    /// The logical address the chunk claims.
    pub start: Logical,
    /// What is wrong.
    pub problem: ChunkProblem,
}

/// What is wrong with a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ChunkProblem {
    /// The start is no multiple of the sector size.
    #[error("unaligned start, expect a multiple of {sectorsize}")]
    UnalignedStart {
        /// In bytes.
        sectorsize: u32,
    },
    /// The length is zero or no multiple of the sector size.
    #[error("invalid length {have}, expect a multiple of {sectorsize} above 0")]
    Length {
        /// In bytes.
        have: u64,
        /// In bytes.
        sectorsize: u32,
    },
    /// The stripe length is not 64 KiB.
    #[error("invalid stripe length, have {have} expect {STRIPE_LEN_BYTES}")]
    StripeLen {
        /// In bytes.
        have: u64,
    },
    /// The type has bits that nobody knows.
    #[error("unknown type bits {bits:#x}")]
    UnknownType {
        /// The unknown ones.
        bits: u64,
    },
    /// The type is none of data, metadata and system, or system and another.
    #[error("invalid type {flags:#x}, expect data, metadata, both, or system alone")]
    Kind {
        /// The type as read.
        flags: u64,
    },
    /// The type names more than one profile.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// The number of stripes does not fit the profile.
    #[error("invalid num_stripes:sub_stripes {num_stripes}:{sub_stripes} for {profile}")]
    Stripes {
        /// Stripes in the item.
        num_stripes: usize,
        /// As in the item.
        sub_stripes: u16,
        /// The profile of the chunk.
        profile: Profile,
    },
    /// The chunk, or one of its stripes, would reach past the end of the address space.
    #[error("length {length} reaches past the last address")]
    Overflow {
        /// In bytes.
        length: u64,
    },
    /// Two stripes hold the same bytes of a device.
    #[error("stripe at devid={devid} physical={physical} overlaps another of chunk {other}")]
    StripesOverlap {
        /// The device.
        devid: DeviceId,
        /// The start of the later stripe.
        physical: Physical,
        /// The chunk of the other stripe (which may be the same chunk).
        other: Logical,
    },
    /// Two chunks hold the same logical addresses.
    #[error("[{start}, {end}) overlaps chunk [{other_start}, {other_end})")]
    Overlap {
        /// Of the refused chunk.
        start: Logical,
        /// Of the refused chunk.
        end: Logical,
        /// Of the chunk already known.
        other_start: Logical,
        /// Of the chunk already known.
        other_end: Logical,
    },
}

impl Chunk {
    /// Checks a chunk item found under the logical address `start` in a file system of `sectorsize` bytes per sector.
    pub fn new(start: Logical, item: RawChunk, sectorsize: u32) -> Result<Self, ChunkError> {
        Self::checked(start, item, sectorsize).map_err(|problem| ChunkError { start, problem })
    }

    fn checked(start: Logical, item: RawChunk, sectorsize: u32) -> Result<Self, ChunkProblem> {
        let RawChunk { length, stripe_len, type_flags: flags, sub_stripes, stripes } = item;
        let step_bytes = u64::from(sectorsize.max(1));
        if !start.raw().is_multiple_of(step_bytes) {
            return Err(ChunkProblem::UnalignedStart { sectorsize });
        }
        if length == 0 || !length.is_multiple_of(step_bytes) {
            return Err(ChunkProblem::Length { have: length, sectorsize });
        }
        if stripe_len != STRIPE_LEN_BYTES {
            return Err(ChunkProblem::StripeLen { have: stripe_len });
        }
        let profile = check_type(flags)?;
        let Some(data_columns) = data_columns(profile, stripes.len(), sub_stripes) else {
            return Err(ChunkProblem::Stripes { num_stripes: stripes.len(), sub_stripes, profile });
        };
        let overflow = ChunkProblem::Overflow { length };
        let stripe_bytes = stripe_bytes(profile, length, data_columns).ok_or(overflow)?;
        // The last row counts as whole, so that no address inside any row can overflow.
        let rows_bytes = stripe_bytes.checked_mul(data_columns).ok_or(overflow)?;
        start.raw().checked_add(rows_bytes).ok_or(overflow)?;
        if stripes.iter().any(|stripe| stripe.offset.raw().checked_add(stripe_bytes).is_none()) {
            return Err(overflow);
        }
        if let Some(stripe) = overlapping(&stripes, stripe_bytes) {
            let Stripe { devid, offset: physical, .. } = stripe;
            return Err(ChunkProblem::StripesOverlap { devid, physical, other: start });
        }
        let stripes = stripes.into_boxed_slice();
        Ok(Self { start, length_bytes: length, flags, profile, data_columns, stripe_bytes, stripes })
    }

    /// The first logical address.
    pub fn start(&self) -> Logical {
        self.start
    }

    /// The logical address after the last.
    pub fn end(&self) -> Logical {
        self.start + self.length_bytes
    }

    /// The length in bytes of logical space.
    pub fn len_bytes(&self) -> u64 {
        self.length_bytes
    }

    /// The logical addresses of the chunk.
    pub fn range(&self) -> LogicalRange {
        self.start..self.end()
    }

    /// `BTRFS_BLOCK_GROUP_*`: kind and profile.
    pub fn flags(&self) -> u64 {
        self.flags
    }

    /// True where the block group holds file data (it may hold metadata as well).
    pub fn holds_data(&self) -> bool {
        self.flags & TYPE_DATA != 0
    }

    /// True where the block group holds tree blocks: metadata, system, or mixed.
    pub fn holds_metadata(&self) -> bool {
        self.flags & (TYPE_METADATA | TYPE_SYSTEM) != 0
    }

    /// True for chunks that hold the chunk tree.
    pub fn is_system(&self) -> bool {
        self.flags & TYPE_SYSTEM != 0
    }

    /// The profile.
    pub fn profile(&self) -> Profile {
        self.profile
    }

    /// The stripes, in the order of the chunk item.
    pub fn stripes(&self) -> &[Stripe] {
        &self.stripes
    }

    /// How many stripes of a row hold different data.
    pub fn data_columns(&self) -> u64 {
        self.data_columns
    }

    /// The bytes that each stripe takes on its device (the length of its dev extent).
    pub fn stripe_bytes(&self) -> u64 {
        self.stripe_bytes
    }
}

fn check_type(flags: u64) -> Result<Profile, ChunkProblem> {
    let unknown = flags & !KNOWN_TYPE_BITS;
    if unknown != 0 {
        return Err(ChunkProblem::UnknownType { bits: unknown });
    }
    let profile = Profile::from_flags(flags)?;
    match flags & (TYPE_DATA | TYPE_SYSTEM | TYPE_METADATA) {
        0 => Err(ChunkProblem::Kind { flags }),
        TYPE_SYSTEM => Ok(profile),
        kind if kind & TYPE_SYSTEM != 0 => Err(ChunkProblem::Kind { flags }),
        _ => Ok(profile),
    }
}

/// The data columns of a row, or `None` where the number of stripes is not one that the profile can have.
fn data_columns(profile: Profile, num_stripes: usize, sub_stripes: u16) -> Option<u64> {
    let row = profile.row();
    let stripes = num_stripes as u64;
    match row.layout {
        Layout::Mirrored => (stripes == u64::from(row.ncopies)).then_some(1),
        Layout::Striped => {
            let group = u64::from(row.sub_stripes);
            let groups_fit = group == 1 || (u64::from(sub_stripes) == group && stripes.is_multiple_of(group));
            (groups_fit && stripes >= group).then_some(stripes / group)
        }
        Layout::Parity => {
            let columns = stripes.checked_sub(u64::from(row.nparity))?;
            let most = if profile == Profile::Raid6 { MAX_RAID6_DATA_COLUMNS } else { u64::MAX };
            (stripes >= u64::from(row.devs_min) && columns <= most).then_some(columns)
        }
    }
}

/// What each device gives to a chunk: all of it where mirrored, whole stripe units of its column otherwise.
fn stripe_bytes(profile: Profile, length_bytes: u64, data_columns: u64) -> Option<u64> {
    match profile.row().layout {
        Layout::Mirrored => Some(length_bytes),
        Layout::Striped | Layout::Parity => {
            let row_bytes = STRIPE_LEN_BYTES.checked_mul(data_columns)?;
            length_bytes.div_ceil(row_bytes).checked_mul(STRIPE_LEN_BYTES)
        }
    }
}

/// The first stripe that shares bytes of its device with one before it.
fn overlapping(stripes: &[Stripe], stripe_bytes: u64) -> Option<Stripe> {
    let mut sorted: Vec<&Stripe> = stripes.iter().collect();
    sorted.sort_by_key(|stripe| (stripe.devid, stripe.offset));
    let clash = |pair: &&[&Stripe]| match pair {
        [before, after] => before.devid == after.devid && after.offset - before.offset < stripe_bytes,
        _ => false,
    };
    sorted.windows(2).find(clash).and_then(|pair| pair.last().map(|stripe| **stripe))
}

#[cfg(test)]
mod tests;
