//! File extents (`struct btrfs_file_extent_item`): where the content of a file is.

use super::{ItemError, exact, prefix};
use crate::units::{Generation, Logical, LogicalRange};
use zerocopy::little_endian::{U16, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

const ITEM: &str = "file extent";

/// The part that inline extents have too (up to `BTRFS_FILE_EXTENT_INLINE_DATA_START`).
#[derive(FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawHead {
    generation: U64,
    ram_bytes: U64,
    compression: u8,
    encryption: u8,
    other_encoding: U16,
    r#type: u8,
}

#[derive(FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawPointer {
    disk_bytenr: U64,
    disk_num_bytes: U64,
    offset: U64,
    num_bytes: U64,
}

const _: () = assert!(size_of::<RawHead>() == 21);
const _: () = assert!(size_of::<RawHead>() + size_of::<RawPointer>() == 53);

/// How the content is packed (`BTRFS_COMPRESS_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    None,
    /// Deflate.
    Zlib,
    /// LZO.
    Lzo,
    /// Zstandard.
    Zstd,
}

/// Where a piece of a file is in the logical address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtentPointer {
    /// The extent; 0 for a hole.
    pub disk_bytenr: Logical,
    /// The size of the extent on disk, in bytes.
    pub disk_num_bytes: u64,
    /// Where in the (unpacked) extent the piece starts, in bytes.
    pub offset: u64,
    /// Bytes of the file.
    pub num_bytes: u64,
}

impl ExtentPointer {
    /// Whether nothing is stored.
    pub fn is_hole(&self) -> bool {
        self.disk_bytenr.raw() == 0
    }

    /// The addresses of the whole extent, also where only a part of it is used.
    pub fn disk_range(&self) -> LogicalRange {
        self.disk_bytenr..self.disk_bytenr + self.disk_num_bytes
    }
}

/// Where the content is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileExtent<'a> {
    /// In the item itself, packed or not.
    Inline(&'a [u8]),
    /// In a data extent, or nowhere (a hole).
    Regular(ExtentPointer),
    /// In a data extent that was reserved but not written: reads as zeros, and has no checksums.
    Prealloc(ExtentPointer),
}

/// One piece of a file. Its key is (inode, 108, file offset).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileExtentItem<'a> {
    /// The transaction that made the extent.
    pub generation: Generation,
    /// The size of the unpacked extent in bytes (an upper limit).
    pub ram_bytes: u64,
    /// How it is packed.
    pub compression: Compression,
    /// Where it is.
    pub extent: FileExtent<'a>,
}

impl<'a> FileExtentItem<'a> {
    /// Parses the bytes of one item. Encryption does not exist yet and is refused; `other_encoding` is passed over, as the
    /// kernel does.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ItemError> {
        let (head, rest): (&RawHead, _) = prefix(ITEM, bytes)?;
        let compression = match head.compression {
            0 => Compression::None,
            1 => Compression::Zlib,
            2 => Compression::Lzo,
            3 => Compression::Zstd,
            other => return Err(invalid("compression", other.into(), "0 to 3")),
        };
        if head.encryption != 0 {
            return Err(invalid("encryption", head.encryption.into(), "0"));
        }
        let extent = match head.r#type {
            0 => FileExtent::Inline(rest),
            1 => FileExtent::Regular(parse_pointer(rest)?),
            2 => FileExtent::Prealloc(parse_pointer(rest)?),
            other => return Err(invalid("type", other.into(), "0 to 2")),
        };
        Ok(Self {
            generation: Generation::new(head.generation.get()),
            ram_bytes: head.ram_bytes.get(),
            compression,
            extent,
        })
    }

    /// Where the piece is, unless it is inline.
    pub fn pointer(&self) -> Option<&ExtentPointer> {
        match &self.extent {
            FileExtent::Inline(_) => None,
            FileExtent::Regular(pointer) | FileExtent::Prealloc(pointer) => Some(pointer),
        }
    }
}

fn parse_pointer(bytes: &[u8]) -> Result<ExtentPointer, ItemError> {
    let raw: &RawPointer = exact(ITEM, bytes)?;
    Ok(ExtentPointer {
        disk_bytenr: Logical::new(raw.disk_bytenr.get()),
        disk_num_bytes: raw.disk_num_bytes.get(),
        offset: raw.offset.get(),
        num_bytes: raw.num_bytes.get(),
    })
}

const fn invalid(field: &'static str, have: u64, expect: &'static str) -> ItemError {
    ItemError::Value { item: ITEM, field, have, expect }
}
