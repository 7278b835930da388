//! Names: directory entries and extended attributes (`struct btrfs_dir_item`), and the way back from an inode to its
//! names (`struct btrfs_inode_ref`, `struct btrfs_inode_extref`). An item may hold several.

use super::{ItemError, next_record, prefix, split};
use crate::format::types::key_type;
use crate::format::{DiskKey, Key};
use crate::units::{Generation, ObjectId};
use zerocopy::little_endian::{U16, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

#[derive(FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawDirItem {
    location: DiskKey,
    transid: U64,
    data_len: U16,
    name_len: U16,
    r#type: u8,
}

#[derive(FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawInodeRef {
    index: U64,
    name_len: U16,
}

#[derive(FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawInodeExtref {
    parent_objectid: U64,
    index: U64,
    name_len: U16,
}

const _: () = assert!(size_of::<RawDirItem>() == 30);
const _: () = assert!(size_of::<RawInodeRef>() == 10);
const _: () = assert!(size_of::<RawInodeExtref>() == 18);

/// One name in a directory, or one extended attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirEntry<'a> {
    /// The inode or the root item that the name stands for.
    pub location: Key,
    /// When it was made.
    pub transid: Generation,
    /// `type` on disk (`BTRFS_FT_*`): 1 file, 2 directory, ... 8 extended attribute.
    pub file_type: u8,
    /// The name: any bytes.
    pub name: &'a [u8],
    /// The value of an extended attribute, else empty.
    pub data: &'a [u8],
}

/// The entries of one item of type 84, 96 or 24. Ends after the first error.
#[derive(Clone, Debug)]
pub struct DirEntries<'a> {
    rest: &'a [u8],
}

impl<'a> DirEntries<'a> {
    /// The entries in the bytes of one item.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }
}

impl<'a> Iterator for DirEntries<'a> {
    type Item = Result<DirEntry<'a>, ItemError>;

    fn next(&mut self) -> Option<Self::Item> {
        next_record(&mut self.rest, parse_entry)
    }
}

/// The hash that items of type 84 and 24 have as their key offset (kernel: `btrfs_name_hash`, a bare CRC-32C that
/// starts at -2).
pub fn name_hash(name: &[u8]) -> u32 {
    !crc32c::crc32c_append(1, name)
}

fn parse_entry(bytes: &[u8]) -> Result<(DirEntry<'_>, &[u8]), ItemError> {
    let item = "directory entry";
    let (raw, rest): (&RawDirItem, _) = prefix(item, bytes)?;
    let (name, rest) = split(item, rest, raw.name_len.get().into())?;
    let (data, rest) = split(item, rest, raw.data_len.get().into())?;
    let entry = DirEntry {
        location: raw.location.key(),
        transid: Generation::new(raw.transid.get()),
        file_type: raw.r#type,
        name,
        data,
    };
    Ok((entry, rest))
}

/// One name of an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InodeName<'a> {
    /// The directory that holds the name.
    pub parent: ObjectId,
    /// The offset of its `DIR_INDEX` item there.
    pub index: u64,
    /// The name: any bytes.
    pub name: &'a [u8],
}

/// The names in one item of type 12 (all of one directory) or 13. Ends after the first error.
#[derive(Clone, Debug)]
pub struct InodeNames<'a> {
    key: Key,
    rest: &'a [u8],
}

impl<'a> InodeNames<'a> {
    /// The names in the bytes of the item with this key.
    pub fn new(key: &Key, bytes: &'a [u8]) -> Self {
        Self { key: *key, rest: bytes }
    }
}

impl<'a> Iterator for InodeNames<'a> {
    type Item = Result<InodeName<'a>, ItemError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.key.item_type == key_type::INODE_EXTREF {
            return next_record(&mut self.rest, parse_extref);
        }
        let parent = ObjectId::new(self.key.offset);
        next_record(&mut self.rest, |bytes| parse_ref(parent, bytes))
    }
}

fn parse_ref(parent: ObjectId, bytes: &[u8]) -> Result<(InodeName<'_>, &[u8]), ItemError> {
    let item = "inode ref";
    let (raw, rest): (&RawInodeRef, _) = prefix(item, bytes)?;
    let (name, rest) = split(item, rest, raw.name_len.get().into())?;
    Ok((InodeName { parent, index: raw.index.get(), name }, rest))
}

fn parse_extref(bytes: &[u8]) -> Result<(InodeName<'_>, &[u8]), ItemError> {
    let item = "inode extref";
    let (raw, rest): (&RawInodeExtref, _) = prefix(item, bytes)?;
    let (name, rest) = split(item, rest, raw.name_len.get().into())?;
    Ok((InodeName { parent: ObjectId::new(raw.parent_objectid.get()), index: raw.index.get(), name }, rest))
}
