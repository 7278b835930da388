//! Block group items (`struct btrfs_block_group_item`), in the extent tree or in the block group tree.

use super::{ItemError, exact};
use crate::format::{BlockGroupFlags, Key};
use crate::units::{Logical, LogicalRange, ObjectId};
use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

#[derive(FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawBlockGroupItem {
    used: U64,
    chunk_objectid: U64,
    flags: U64,
}

const _: () = assert!(size_of::<RawBlockGroupItem>() == 24);

/// How much of a chunk is in use, and what for. The key is (start, 192, length).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockGroupItem {
    /// Bytes allocated in it.
    pub used: u64,
    /// Always 256.
    pub chunk_objectid: ObjectId,
    /// What is stored, and how it is spread.
    pub flags: BlockGroupFlags,
}

impl BlockGroupItem {
    /// Parses the bytes of one item.
    pub fn parse(bytes: &[u8]) -> Result<Self, ItemError> {
        let raw: &RawBlockGroupItem = exact("block group item", bytes)?;
        Ok(Self {
            used: raw.used.get(),
            chunk_objectid: ObjectId::new(raw.chunk_objectid.get()),
            flags: BlockGroupFlags::from_bits_retain(raw.flags.get()),
        })
    }

    /// The addresses that the block group with this key covers.
    pub fn range(key: &Key) -> LogicalRange {
        let start = Logical::new(key.objectid.raw());
        start..start + key.offset
    }
}
