//! One chunk, proved: a range of logical addresses and the stripes on devices that hold it.
//!
//! A [`Chunk`] exists only where the item keeps every rule of [`ChunkItem::check`] (kernel: `btrfs_check_chunk_valid` in
//! `fs/btrfs/tree-checker.c`), no address can overflow, no two stripes share bytes of a device, and Q can tell the
//! columns apart: the [`geometry`](super::geometry) needs no checks of its own.

use super::profile::{Layout, Profile, ProfileError};
use crate::format::items::{ChunkItem, ItemError, StripeItem};
use crate::format::types::STRIPE_LEN;
use crate::format::{BlockGroupFlags, IncompatFlags};
use crate::units::{DeviceId, Logical, LogicalRange, Physical};
use thiserror::Error;

/// The length of a stripe unit, the same for all chunks.
pub const STRIPE_LEN_BYTES: u64 = STRIPE_LEN;

/// The data columns that Q can tell apart: the order of 2 in GF(2^8).
const MAX_RAID6_DATA_COLUMNS: u64 = 255;

/// A chunk whose geometry can be relied on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    start: Logical,
    length_bytes: u64,
    flags: BlockGroupFlags,
    profile: Profile,
    data_columns: u64,
    stripe_bytes: u64,
    stripes: Box<[StripeItem]>,
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
    /// A field of the item is wrong.
    #[error(transparent)]
    Item(#[from] ItemError),
    /// The type names more than one profile.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// A RAID6 row has more data columns than Q can tell apart.
    #[error("too many data columns for raid6, have {have} expect {MAX_RAID6_DATA_COLUMNS} at most")]
    Columns {
        /// Data columns of the chunk.
        have: u64,
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
    /// Checks a chunk item found under the logical address `start` of a file system with these parameters.
    pub fn new(start: Logical, item: ChunkItem, sectorsize: u32, incompat: IncompatFlags) -> Result<Self, ChunkError> {
        Self::checked(start, item, sectorsize, incompat).map_err(|problem| ChunkError { start, problem })
    }

    fn checked(
        start: Logical,
        item: ChunkItem,
        sectorsize: u32,
        incompat: IncompatFlags,
    ) -> Result<Self, ChunkProblem> {
        item.check(start, sectorsize, incompat)?;
        let ChunkItem { length, type_flags: flags, stripes, .. } = item;
        let profile = Profile::from_flags(flags)?;
        let data_columns = data_columns(profile, stripes.len());
        if profile == Profile::Raid6 && data_columns > MAX_RAID6_DATA_COLUMNS {
            return Err(ChunkProblem::Columns { have: data_columns });
        }
        let overflow = ChunkProblem::Overflow { length };
        let stripe_bytes = stripe_bytes(profile, length, data_columns).ok_or(overflow)?;
        // The last row counts as whole, so that no address inside any row can overflow.
        let rows_bytes = stripe_bytes.checked_mul(data_columns).ok_or(overflow)?;
        start.raw().checked_add(rows_bytes).ok_or(overflow)?;
        if stripes.iter().any(|stripe| stripe.offset.raw().checked_add(stripe_bytes).is_none()) {
            return Err(overflow);
        }
        if let Some(stripe) = overlapping(&stripes, stripe_bytes) {
            let StripeItem { devid, offset: physical, .. } = stripe;
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

    /// What is stored, and how it is spread.
    pub fn flags(&self) -> BlockGroupFlags {
        self.flags
    }

    /// True where the block group holds file data (it may hold metadata as well).
    pub fn holds_data(&self) -> bool {
        self.flags.contains(BlockGroupFlags::DATA)
    }

    /// True where the block group holds tree blocks: metadata, system, or mixed.
    pub fn holds_metadata(&self) -> bool {
        self.flags.intersects(BlockGroupFlags::METADATA | BlockGroupFlags::SYSTEM)
    }

    /// True for chunks that hold the chunk tree.
    pub fn is_system(&self) -> bool {
        self.flags.contains(BlockGroupFlags::SYSTEM)
    }

    /// The profile.
    pub fn profile(&self) -> Profile {
        self.profile
    }

    /// The stripes, in the order of the chunk item.
    pub fn stripes(&self) -> &[StripeItem] {
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

/// The data columns of a row of a chunk whose number of stripes fits its profile; never 0.
fn data_columns(profile: Profile, num_stripes: usize) -> u64 {
    let row = profile.row();
    let stripes = num_stripes as u64;
    let columns = match row.layout {
        Layout::Mirrored => 1,
        Layout::Striped => stripes / u64::from(row.sub_stripes),
        Layout::Parity => stripes.saturating_sub(u64::from(row.nparity)),
    };
    columns.max(1)
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
fn overlapping(stripes: &[StripeItem], stripe_bytes: u64) -> Option<StripeItem> {
    let mut sorted: Vec<&StripeItem> = stripes.iter().collect();
    sorted.sort_by_key(|stripe| (stripe.devid, stripe.offset));
    let clash = |pair: &&[&StripeItem]| match pair {
        [before, after] => before.devid == after.devid && after.offset - before.offset < stripe_bytes,
        _ => false,
    };
    sorted.windows(2).find(clash).and_then(|pair| pair.last().map(|stripe| **stripe))
}

#[cfg(test)]
mod tests;
