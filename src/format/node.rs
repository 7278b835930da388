//! Tree blocks: the header, and the items of a leaf or the pointers of a node, as checked views over bytes.
//!
//! Layout: kernel `struct btrfs_header`, `btrfs_item` and `btrfs_key_ptr` in `include/uapi/linux/btrfs_tree.h`. Whether
//! a block is the right one is decided in `tree`; whether its inside makes sense, in `tree_checker`.

use super::{DiskKey, Key};
use crate::units::{Generation, Logical, ObjectId};
use uuid::Uuid;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

/// Tree levels are 0 (leaf) to 7 (`BTRFS_MAX_LEVEL` is their number).
pub const MAX_LEVEL: u8 = 7;
/// Bytes of the stored checksum at the start of tree blocks and super blocks.
pub const CSUM_FIELD_BYTES: usize = 32;
/// Bytes of the header of a tree block.
pub const HEADER_BYTES: usize = size_of::<RawHeader>();
/// Bytes of an entry of a leaf's item table.
pub const ITEM_BYTES: usize = size_of::<RawItem>();
const KEY_PTR_BYTES: usize = size_of::<RawKeyPtr>();
const _: () = assert!(HEADER_BYTES == 101 && ITEM_BYTES == 25 && KEY_PTR_BYTES == 33);

#[derive(FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawHeader {
    csum: [u8; CSUM_FIELD_BYTES],
    fsid: [u8; 16],
    bytenr: U64,
    flags: U64,
    chunk_tree_uuid: [u8; 16],
    generation: U64,
    owner: U64,
    nritems: U32,
    level: u8,
}

#[derive(FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawItem {
    key: DiskKey,
    offset: U32,
    size: U32,
}

#[derive(FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawKeyPtr {
    key: DiskKey,
    blockptr: U64,
    generation: U64,
}

/// What a tree block says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The file system (its `metadata_uuid` where that differs from the fsid).
    pub fsid: Uuid,
    /// Where the block thinks it lives.
    pub bytenr: Logical,
    /// `BTRFS_HEADER_FLAG_*` and the backref revision in the top byte.
    pub flags: u64,
    /// The chunk tree's uuid.
    pub chunk_tree_uuid: Uuid,
    /// The transaction that wrote it.
    pub generation: Generation,
    /// The tree it was made for.
    pub owner: ObjectId,
    /// Items of a leaf, or pointers of a node.
    pub nritems: u32,
    /// 0 for leaves.
    pub level: u8,
}

impl Header {
    /// The header at the start of `block`; `None` where there are fewer than [`HEADER_BYTES`].
    pub fn parse(block: &[u8]) -> Option<Self> {
        let (raw, _) = RawHeader::ref_from_prefix(block).ok()?;
        Some(Self {
            fsid: Uuid::from_bytes(raw.fsid),
            bytenr: Logical::new(raw.bytenr.get()),
            flags: raw.flags.get(),
            chunk_tree_uuid: Uuid::from_bytes(raw.chunk_tree_uuid),
            generation: Generation::new(raw.generation.get()),
            owner: ObjectId::new(raw.owner.get()),
            nritems: raw.nritems.get(),
            level: raw.level,
        })
    }
}

/// How many items (level 0) or pointers a block of `nodesize` bytes can hold at the very most.
pub fn max_nritems(nodesize: usize, level: u8) -> usize {
    nodesize.saturating_sub(HEADER_BYTES) / if level == 0 { ITEM_BYTES } else { KEY_PTR_BYTES }
}

/// One pointer of a node: what the parent promises of the child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyPtr {
    /// The child's first key.
    pub key: Key,
    /// `blockptr`: where the child lives.
    pub child: Logical,
    /// The child's generation.
    pub generation: Generation,
}

/// Where an item's bytes lie, as written in the leaf's item table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ItemPlace {
    /// The item's key.
    pub key: Key,
    /// Offset of the data, counted from the end of the header.
    pub offset: u32,
    /// Bytes of data.
    pub size: u32,
}

/// The pointer in `slot` of the node `block`; `None` past the end of the bytes.
pub fn key_ptr(block: &[u8], slot: usize) -> Option<KeyPtr> {
    let at = HEADER_BYTES.checked_add(slot.checked_mul(KEY_PTR_BYTES)?)?;
    let (raw, _) = RawKeyPtr::ref_from_prefix(block.get(at..)?).ok()?;
    Some(KeyPtr {
        key: raw.key.key(),
        child: Logical::new(raw.blockptr.get()),
        generation: Generation::new(raw.generation.get()),
    })
}

/// The entry in `slot` of the leaf `block`'s item table; `None` past the end of the bytes.
pub fn item_place(block: &[u8], slot: usize) -> Option<ItemPlace> {
    let at = HEADER_BYTES.checked_add(slot.checked_mul(ITEM_BYTES)?)?;
    let (raw, _) = RawItem::ref_from_prefix(block.get(at..)?).ok()?;
    Some(ItemPlace { key: raw.key.key(), offset: raw.offset.get(), size: raw.size.get() })
}

/// The key and bytes of the item in `slot` of the leaf `block`; `None` where they are not inside the block.
pub fn item(block: &[u8], slot: usize) -> Option<(Key, &[u8])> {
    let place = item_place(block, slot)?;
    let start = HEADER_BYTES.checked_add(place.offset as usize)?;
    let data = block.get(start..start.checked_add(place.size as usize)?)?;
    Some((place.key, data))
}

/// The key in `slot`, of a leaf or a node.
pub fn key_at(block: &[u8], level: u8, slot: usize) -> Option<Key> {
    if level == 0 { item_place(block, slot).map(|p| p.key) } else { key_ptr(block, slot).map(|p| p.key) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leaf_item_is_found_by_its_table_entry() {
        let mut block = vec![0u8; 4096];
        block[96] = 1; // nritems
        block[101] = 5; // objectid
        block[109] = 1; // type
        block[118..122].copy_from_slice(&3000u32.to_le_bytes());
        block[122..126].copy_from_slice(&4u32.to_le_bytes());
        block[3101..3105].copy_from_slice(b"data");
        assert_eq!(Header::parse(&block).map(|h| h.nritems), Some(1));
        assert_eq!(item(&block, 0), Some((Key::new(5, 1, 0), &b"data"[..])));
    }

    #[test]
    fn items_and_pointers_outside_the_block_are_none() {
        let mut block = vec![0xffu8; 4096];
        assert_eq!(item(&block, 0), None);
        assert_eq!(item(&block, usize::MAX), None);
        assert_eq!(key_ptr(&block, 4096), None);
        block.truncate(100);
        assert_eq!(Header::parse(&block), None);
    }
}
