//! Extent items of the extent tree (`struct btrfs_extent_item`): which ranges are allocated, since when, and for whom.

use super::{InlineRefs, ItemError, prefix};
use crate::format::types::key_type;
use crate::format::{DiskKey, Key};
use crate::units::{Generation, Logical, LogicalRange};
use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

const ITEM: &str = "extent item";

#[derive(FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawExtentItem {
    refs: U64,
    generation: U64,
    flags: U64,
}

#[derive(FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawTreeBlockInfo {
    key: DiskKey,
    level: u8,
}

const _: () = assert!(size_of::<RawExtentItem>() == 24);
const _: () = assert!(size_of::<RawTreeBlockInfo>() == 18);

bitflags::bitflags! {
    /// What an extent holds (`BTRFS_EXTENT_FLAG_*`, `BTRFS_BLOCK_FLAG_FULL_BACKREF`).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct ExtentFlags: u64 {
        /// File data.
        const DATA = 1;
        /// One tree block.
        const TREE_BLOCK = 1 << 1;
        /// The tree block's own references name their parent, not their root.
        const FULL_BACKREF = 1 << 8;
        const _ = !0;
    }
}

/// What an extent item that is not skinny says of its tree block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeBlockInfo {
    /// The first key of the block when it was allocated.
    pub key: Key,
    /// 0 for a leaf.
    pub level: u8,
}

/// One allocated range. The key is (start, 168, bytes), or (start, 169, level) for a tree block.
#[derive(Clone, Debug)]
pub struct ExtentItem<'a> {
    /// How often it is used.
    pub refs: u64,
    /// The transaction that allocated it; a tree block carries the same.
    pub generation: Generation,
    /// What it holds.
    pub flags: ExtentFlags,
    /// Tree blocks under a key of type 168 only.
    pub tree_block: Option<TreeBlockInfo>,
    inline: &'a [u8],
}

impl<'a> ExtentItem<'a> {
    /// Parses the bytes of the item with this key, of type 168 or 169. References are parsed by [`Self::inline_refs`].
    pub fn parse(key: &Key, bytes: &'a [u8]) -> Result<Self, ItemError> {
        if !matches!(key.item_type, key_type::EXTENT_ITEM | key_type::METADATA_ITEM) {
            let have = u64::from(key.item_type);
            return Err(ItemError::Value { item: ITEM, field: "key type", have, expect: "168 or 169" });
        }
        let (raw, rest): (&RawExtentItem, _) = prefix(ITEM, bytes)?;
        let flags = ExtentFlags::from_bits_retain(raw.flags.get());
        let has_info = key.item_type == key_type::EXTENT_ITEM && flags.contains(ExtentFlags::TREE_BLOCK);
        let (tree_block, inline) = if has_info { parse_tree_block_info(rest)? } else { (None, rest) };
        Ok(Self { refs: raw.refs.get(), generation: Generation::new(raw.generation.get()), flags, tree_block, inline })
    }

    /// Whether this is one tree block; else it is file data.
    pub fn is_tree_block(&self) -> bool {
        self.flags.contains(ExtentFlags::TREE_BLOCK)
    }

    /// The level of the tree block under `key`, `None` for data and for levels that cannot be.
    pub fn level(&self, key: &Key) -> Option<u8> {
        if key.item_type == key_type::METADATA_ITEM {
            return u8::try_from(key.offset).ok();
        }
        self.tree_block.map(|info| info.level)
    }

    /// The references that are stored in the item itself; more of them may follow in items of their own.
    pub fn inline_refs(&self) -> InlineRefs<'a> {
        InlineRefs::new(self.inline)
    }

    /// The addresses that the extent with this key covers.
    pub fn range(key: &Key, nodesize: u32) -> LogicalRange {
        let start = Logical::new(key.objectid.raw());
        let length_bytes = if key.item_type == key_type::METADATA_ITEM { u64::from(nodesize) } else { key.offset };
        start..start + length_bytes
    }
}

fn parse_tree_block_info(bytes: &[u8]) -> Result<(Option<TreeBlockInfo>, &[u8]), ItemError> {
    let (raw, rest): (&RawTreeBlockInfo, _) = prefix(ITEM, bytes)?;
    Ok((Some(TreeBlockInfo { key: raw.key.key(), level: raw.level }), rest))
}
