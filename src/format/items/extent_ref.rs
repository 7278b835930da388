//! Who uses an extent: references inside of extent items (`struct btrfs_extent_inline_ref`) and in items of their own.

use super::{ItemError, exact, next_record, prefix};
use crate::format::Key;
use crate::format::types::key_type;
use crate::units::{Logical, ObjectId};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

const ITEM: &str = "extent reference";

#[derive(FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawExtentDataRef {
    root: U64,
    objectid: U64,
    offset: U64,
    count: U32,
}

#[derive(FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawSharedDataRef {
    count: U32,
}

/// The size of a reference to data of a file, in bytes.
pub const DATA_REF_BYTES: usize = size_of::<RawExtentDataRef>();
const _: () = assert!(DATA_REF_BYTES == 28);
const _: () = assert!(size_of::<RawSharedDataRef>() == 4);

/// One user of an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtentRef {
    /// A tree block that belongs to a tree (176).
    TreeBlock {
        /// The tree.
        root: ObjectId,
    },
    /// A tree block below a shared one (182).
    SharedBlock {
        /// The block above it.
        parent: Logical,
    },
    /// Data of a file (178).
    ExtentData {
        /// The subvolume.
        root: ObjectId,
        /// The inode.
        objectid: ObjectId,
        /// The file offset at which the extent would start; wraps below 0.
        offset: u64,
        /// How many file extents refer to it so.
        count: u32,
    },
    /// Data of a file whose leaf is shared (184).
    SharedData {
        /// The leaf.
        parent: Logical,
        /// How many of its items refer to it.
        count: u32,
    },
    /// Not a use, but who is charged for it: simple quota (172).
    Owner {
        /// The subvolume.
        root: ObjectId,
    },
}

impl ExtentRef {
    /// The reference in an item of its own: types 176, 178, 182 and 184.
    pub fn parse_keyed(key: &Key, bytes: &[u8]) -> Result<Self, ItemError> {
        match key.item_type {
            key_type::TREE_BLOCK_REF => {
                empty(bytes)?;
                Ok(Self::TreeBlock { root: ObjectId::new(key.offset) })
            }
            key_type::SHARED_BLOCK_REF => {
                empty(bytes)?;
                Ok(Self::SharedBlock { parent: Logical::new(key.offset) })
            }
            key_type::EXTENT_DATA_REF => exact(ITEM, bytes).map(Self::from_data_ref),
            key_type::SHARED_DATA_REF => {
                let raw: &RawSharedDataRef = exact(ITEM, bytes)?;
                Ok(Self::SharedData { parent: Logical::new(key.offset), count: raw.count.get() })
            }
            other => Err(unknown(other)),
        }
    }

    /// Its type as in a key.
    pub fn item_type(&self) -> u8 {
        match self {
            Self::TreeBlock { .. } => key_type::TREE_BLOCK_REF,
            Self::SharedBlock { .. } => key_type::SHARED_BLOCK_REF,
            Self::ExtentData { .. } => key_type::EXTENT_DATA_REF,
            Self::SharedData { .. } => key_type::SHARED_DATA_REF,
            Self::Owner { .. } => key_type::EXTENT_OWNER_REF,
        }
    }

    /// How many of the extent's `refs` it accounts for.
    pub fn count(&self) -> u64 {
        match self {
            Self::TreeBlock { .. } | Self::SharedBlock { .. } => 1,
            Self::ExtentData { count, .. } | Self::SharedData { count, .. } => u64::from(*count),
            Self::Owner { .. } => 0,
        }
    }

    fn parse_inline(bytes: &[u8]) -> Result<(Self, &[u8]), ItemError> {
        let (item_type, rest): (&u8, _) = prefix(ITEM, bytes)?;
        if *item_type == key_type::EXTENT_DATA_REF {
            let (raw, rest) = prefix(ITEM, rest)?;
            return Ok((Self::from_data_ref(raw), rest));
        }
        let (offset, rest): (&U64, _) = prefix(ITEM, rest)?;
        let (root, parent) = (ObjectId::new(offset.get()), Logical::new(offset.get()));
        match *item_type {
            key_type::TREE_BLOCK_REF => Ok((Self::TreeBlock { root }, rest)),
            key_type::SHARED_BLOCK_REF => Ok((Self::SharedBlock { parent }, rest)),
            key_type::EXTENT_OWNER_REF => Ok((Self::Owner { root }, rest)),
            key_type::SHARED_DATA_REF => {
                let (raw, rest): (&RawSharedDataRef, _) = prefix(ITEM, rest)?;
                Ok((Self::SharedData { parent, count: raw.count.get() }, rest))
            }
            other => Err(unknown(other)),
        }
    }

    fn from_data_ref(raw: &RawExtentDataRef) -> Self {
        Self::ExtentData {
            root: ObjectId::new(raw.root.get()),
            objectid: ObjectId::new(raw.objectid.get()),
            offset: raw.offset.get(),
            count: raw.count.get(),
        }
    }
}

/// The references inside of one extent item. Ends after the first error.
#[derive(Clone, Debug)]
pub struct InlineRefs<'a> {
    rest: &'a [u8],
}

impl<'a> InlineRefs<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }
}

impl Iterator for InlineRefs<'_> {
    type Item = Result<ExtentRef, ItemError>;

    fn next(&mut self) -> Option<Self::Item> {
        next_record(&mut self.rest, ExtentRef::parse_inline)
    }
}

fn empty(bytes: &[u8]) -> Result<(), ItemError> {
    if bytes.is_empty() {
        return Ok(());
    }
    Err(ItemError::Size { item: ITEM, have_bytes: bytes.len(), expect_bytes: 0 })
}

fn unknown(item_type: u8) -> ItemError {
    ItemError::Value { item: ITEM, field: "type", have: item_type.into(), expect: "172, 176, 178, 182 or 184" }
}
