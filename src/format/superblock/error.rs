//! Why 4 KiB are not a super block that can be trusted.

use crate::checksum::Digest;
use crate::format::Key;
use crate::format::items::ItemError;
use crate::units::{Logical, Physical};
use thiserror::Error;
use uuid::Uuid;

/// Why 4 KiB are not a super block that can be trusted. The message says what, the caller adds where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SuperblockError {
    /// Not 4 KiB.
    #[error("super block cut short, have {have_bytes} expect {expect_bytes} bytes")]
    Length {
        /// The bytes there are.
        have_bytes: usize,
        /// The bytes it needs.
        expect_bytes: usize,
    },
    /// Nothing was ever written here, or it was erased.
    #[error("no super block, all bytes are zero")]
    Zeros,
    /// mkfs was interrupted.
    #[error("temporary super block of an unfinished mkfs (magic !BHRfS_M)")]
    Temporary,
    /// Something else is here.
    #[error("no super block, bad magic, have 0x{have:016x} expect 0x{expect:016x}")]
    Magic {
        /// The magic read as a little-endian number.
        have: u64,
        /// The magic of btrfs.
        expect: u64,
    },
    /// An algorithm that is not known.
    #[error("unknown checksum type {csum_type}")]
    ChecksumType {
        /// Its number.
        csum_type: u16,
    },
    /// The checksum does not fit the bytes.
    #[error("super block checksum mismatch, have {have} expect {expect}")]
    Checksum {
        /// Of the bytes.
        have: Digest,
        /// As stored.
        expect: Digest,
    },
    /// A copy of the super block of another place.
    #[error("bad super block bytenr, have {have} expect {expect}")]
    Bytenr {
        /// As stored.
        have: Physical,
        /// Where it was read.
        expect: Physical,
    },
    /// A field has a value that it cannot have.
    #[error("bad super block {field}, have {have} expect {expect}")]
    Field {
        /// By its kernel name.
        field: &'static str,
        /// What it holds.
        have: u64,
        /// What it may hold.
        expect: &'static str,
    },
    /// The block of a tree root is at an address that cannot be.
    #[error("bad super block {field}, have {have} expect a multiple of {sectorsize}")]
    Unaligned {
        /// By its kernel name.
        field: &'static str,
        /// What it holds.
        have: Logical,
        /// The sector size in bytes.
        sectorsize: u32,
    },
    /// The device item is of another file system.
    #[error("bad super block dev_item fsid, have {have} expect {expect}")]
    DevItemFsid {
        /// In the device item.
        have: Uuid,
        /// In the super block.
        expect: Uuid,
    },
    /// The `sys_chunk_array` ends within an entry.
    #[error("bad super block sys_chunk_array, entry at offset {offset} does not fit in {array_bytes} bytes")]
    SysChunkCut {
        /// Where the entry starts.
        offset: usize,
        /// The size of the array.
        array_bytes: usize,
    },
    /// The `sys_chunk_array` has a key in it that is not one of a chunk.
    #[error("bad super block sys_chunk_array key at offset {offset}, have {have} expect (256 228 ...)")]
    SysChunkKey {
        /// Where the entry starts.
        offset: usize,
        /// Its key.
        have: Key,
    },
    /// A chunk of the `sys_chunk_array` is wrong in itself.
    #[error("bad super block sys_chunk_array, chunk {logical}: {error}")]
    SysChunk {
        /// Where the chunk starts.
        logical: Logical,
        /// What is wrong.
        error: ItemError,
    },
    /// The chunk tree cannot live in this chunk.
    #[error("bad super block sys_chunk_array, chunk {logical} is not of type system")]
    SysChunkType {
        /// Where the chunk starts.
        logical: Logical,
    },
}
