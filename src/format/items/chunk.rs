//! Chunk items (`struct btrfs_chunk`): which stripes on which devices a range of logical addresses lives on.
//! [`ChunkItem::check`] follows the kernel's `btrfs_check_chunk_valid`.

use super::{ItemError, exact, prefix, split};
use crate::format::types::STRIPE_LEN;
use crate::format::{BlockGroupFlags, IncompatFlags};
use crate::units::{DeviceId, Logical, ObjectId, Physical};
use uuid::Uuid;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

const ITEM: &str = "chunk item";
/// Chunks are shorter than 2^32 stripes.
const MAX_CHUNK_BYTES: u64 = u32::MAX as u64 * STRIPE_LEN;

/// `struct btrfs_chunk` up to its stripes.
#[derive(FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawChunk {
    length: U64,
    owner: U64,
    stripe_len: U64,
    r#type: U64,
    io_align: U32,
    io_width: U32,
    sector_size: U32,
    num_stripes: U16,
    sub_stripes: U16,
}

/// `struct btrfs_stripe`.
#[derive(FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawStripe {
    devid: U64,
    offset: U64,
    dev_uuid: [u8; 16],
}

const _: () = assert!(size_of::<RawChunk>() == 48);
const _: () = assert!(size_of::<RawStripe>() == 32);

/// One stripe of a chunk: a contiguous range of one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StripeItem {
    /// The device.
    pub devid: DeviceId,
    /// Where on it the stripe starts.
    pub offset: Physical,
    /// The uuid of the device.
    pub dev_uuid: Uuid,
}

/// One chunk. Its key is (256, 228, start).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkItem {
    /// Logical bytes that it maps.
    pub length: u64,
    /// The extent tree, always 2.
    pub owner: ObjectId,
    /// Bytes on one device before the next one follows.
    pub stripe_len: u64,
    /// `type` on disk: what is stored, and how it is spread.
    pub type_flags: BlockGroupFlags,
    /// A hint that nobody uses, in bytes.
    pub io_align: u32,
    /// A hint that nobody uses, in bytes.
    pub io_width: u32,
    /// The sector size of the file system.
    pub sector_size: u32,
    /// Copies within a RAID10 chunk.
    pub sub_stripes: u16,
    /// At least one.
    pub stripes: Vec<StripeItem>,
}

impl ChunkItem {
    /// Parses the bytes of one item, which must end with its last stripe.
    pub fn parse(bytes: &[u8]) -> Result<Self, ItemError> {
        let (chunk, rest) = Self::parse_prefix(bytes)?;
        if rest.is_empty() {
            return Ok(chunk);
        }
        Err(ItemError::Size { item: ITEM, have_bytes: bytes.len(), expect_bytes: bytes.len() - rest.len() })
    }

    /// Parses the chunk that `bytes` starts with; also returns what follows it.
    pub fn parse_prefix(bytes: &[u8]) -> Result<(Self, &[u8]), ItemError> {
        let (raw, rest): (&RawChunk, _) = prefix(ITEM, bytes)?;
        let count = usize::from(raw.num_stripes.get());
        if count == 0 {
            return Err(invalid("num_stripes", 0, "at least 1"));
        }
        let (stripes, rest) = split(ITEM, rest, count * size_of::<RawStripe>())?;
        let stripes = stripes.chunks_exact(size_of::<RawStripe>()).map(parse_stripe).collect::<Result<_, _>>()?;
        let chunk = Self {
            length: raw.length.get(),
            owner: ObjectId::new(raw.owner.get()),
            stripe_len: raw.stripe_len.get(),
            type_flags: BlockGroupFlags::from_bits_retain(raw.r#type.get()),
            io_align: raw.io_align.get(),
            io_width: raw.io_width.get(),
            sector_size: raw.sector_size.get(),
            sub_stripes: raw.sub_stripes.get(),
            stripes,
        };
        Ok((chunk, rest))
    }

    /// Whether the chunk makes sense at logical address `at` of a file system with these parameters. What passes has a
    /// known profile, the right number of stripes for it, and an end that does not overflow.
    pub fn check(&self, at: Logical, sectorsize: u32, incompat: IncompatFlags) -> Result<(), ItemError> {
        let sector = u64::from(sectorsize.max(1));
        if !at.raw().is_multiple_of(sector) {
            return Err(invalid("start", at.raw(), "a multiple of the sector size"));
        }
        if self.sector_size != sectorsize {
            return Err(invalid("sector_size", self.sector_size.into(), "the sector size of the super block"));
        }
        if self.length == 0 || !self.length.is_multiple_of(sector) {
            return Err(invalid("length", self.length, "a multiple of the sector size, not 0"));
        }
        if self.length >= MAX_CHUNK_BYTES || at.raw().checked_add(self.length).is_none() {
            return Err(invalid("length", self.length, "less than 2^32 stripes, within the address space"));
        }
        if self.stripe_len != STRIPE_LEN {
            return Err(invalid("stripe_len", self.stripe_len, "65536"));
        }
        check_kind(self.type_flags, incompat)?;
        self.check_stripe_count()
    }

    fn check_stripe_count(&self) -> Result<(), ItemError> {
        let count = self.stripes.len();
        let (fits, expect) = match self.type_flags.profile() {
            BlockGroupFlags::RAID0 => (count >= 1, "at least 1 for raid0"),
            BlockGroupFlags::RAID1 => (count == 2, "2 for raid1"),
            BlockGroupFlags::DUP => (count == 2, "2 for dup"),
            BlockGroupFlags::RAID10 => {
                if self.sub_stripes != 2 {
                    return Err(invalid("sub_stripes", self.sub_stripes.into(), "2 for raid10"));
                }
                (count >= 2 && count.is_multiple_of(2), "an even number for raid10")
            }
            BlockGroupFlags::RAID5 => (count >= 2, "at least 2 for raid5"),
            BlockGroupFlags::RAID6 => (count >= 3, "at least 3 for raid6"),
            BlockGroupFlags::RAID1C3 => (count == 3, "3 for raid1c3"),
            BlockGroupFlags::RAID1C4 => (count == 4, "4 for raid1c4"),
            _ => (count == 1, "1 for single"),
        };
        if fits { Ok(()) } else { Err(invalid("num_stripes", count as u64, expect)) }
    }
}

/// Whether the type is known, one of the four that exist, and of at most one profile.
fn check_kind(flags: BlockGroupFlags, incompat: IncompatFlags) -> Result<(), ItemError> {
    let known = BlockGroupFlags::TYPE_MASK | BlockGroupFlags::PROFILE_MASK;
    if !known.contains(flags) {
        return Err(invalid("type", flags.bits(), "known bits only"));
    }
    if flags.profile().bits().count_ones() > 1 {
        return Err(invalid("type", flags.bits(), "at most one profile"));
    }
    let mixed = BlockGroupFlags::DATA | BlockGroupFlags::METADATA;
    let kind = flags.kind();
    let single_kind = kind.bits().is_power_of_two();
    if single_kind || (kind == mixed && incompat.contains(IncompatFlags::MIXED_GROUPS)) {
        return Ok(());
    }
    Err(invalid("type", flags.bits(), "data, metadata or system (data with metadata where mixed-groups is set)"))
}

fn parse_stripe(bytes: &[u8]) -> Result<StripeItem, ItemError> {
    let raw: &RawStripe = exact(ITEM, bytes)?;
    Ok(StripeItem {
        devid: DeviceId::new(raw.devid.get()),
        offset: Physical::new(raw.offset.get()),
        dev_uuid: Uuid::from_bytes(raw.dev_uuid),
    })
}

const fn invalid(field: &'static str, have: u64, expect: &'static str) -> ItemError {
    ItemError::Value { item: ITEM, field, have, expect }
}
