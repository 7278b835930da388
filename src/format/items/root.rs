//! Root items (`struct btrfs_root_item`), old short ones too, and the names of subvolumes (`struct btrfs_root_ref`).

use super::inode::INODE_ITEM_BYTES;
use super::{ItemError, prefix, split};
use crate::format::{DiskKey, Key};
use crate::units::{Generation, Logical, ObjectId};
use uuid::Uuid;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

/// What root items of all ages have: up to `generation_v2`.
#[derive(FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawRootItem {
    inode: [u8; INODE_ITEM_BYTES],
    generation: U64,
    root_dirid: U64,
    bytenr: U64,
    byte_limit: U64,
    bytes_used: U64,
    last_snapshot: U64,
    flags: U64,
    refs: U32,
    drop_progress: DiskKey,
    drop_level: u8,
    level: u8,
}

/// The start of what came with kernel 3.6.
#[derive(FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawRootItemV2 {
    generation_v2: U64,
    uuid: [u8; 16],
    parent_uuid: [u8; 16],
    received_uuid: [u8; 16],
}

#[derive(FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawRootRef {
    dirid: U64,
    sequence: U64,
    name_len: U16,
}

const _: () = assert!(size_of::<RawRootItem>() == 239);
const _: () = assert!(size_of::<RawRootItemV2>() == 56);
const _: () = assert!(size_of::<RawRootRef>() == 18);

bitflags::bitflags! {
    /// States of a subvolume (`BTRFS_ROOT_SUBVOL_*`).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct RootFlags: u64 {
        /// Cannot be written.
        const RDONLY = 1;
        /// Deleted, not yet cleaned away.
        const DEAD = 1 << 48;
        const _ = !0;
    }
}

/// The root of one tree. Its key in the root tree is (tree, 132, 0 or the transaction that made the snapshot).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RootItem {
    /// The transaction that wrote the root block.
    pub generation: Generation,
    /// The inode of the top directory; 0 in trees that are not subvolumes.
    pub root_dirid: ObjectId,
    /// The root block.
    pub bytenr: Logical,
    /// The transaction of the last snapshot taken of it.
    pub last_snapshot: Generation,
    /// States.
    pub flags: RootFlags,
    /// Uses; 0 once it is deleted.
    pub refs: u32,
    /// Up to where the tree has been deleted; all zero if it is not being deleted.
    pub drop_progress: Key,
    /// The level at which `drop_progress` counts.
    pub drop_level: u8,
    /// The level of the root block.
    pub level: u8,
    /// 0 in old items. The uuids are valid where it equals `generation`.
    pub generation_v2: Generation,
    /// The uuid of the subvolume; nil where there is none.
    pub uuid: Uuid,
    /// The uuid of the subvolume it is a snapshot of; nil where there is none.
    pub parent_uuid: Uuid,
    /// The uuid of the subvolume it was received from; nil where there is none.
    pub received_uuid: Uuid,
}

impl RootItem {
    /// Parses the bytes of one item. Any size from 239 bytes up is read, what an old item does not have is zero.
    pub fn parse(bytes: &[u8]) -> Result<Self, ItemError> {
        let (raw, rest): (&RawRootItem, _) = prefix("root item", bytes)?;
        let (v2, uuids) = parse_v2(raw.generation.get(), rest);
        let [uuid, parent_uuid, received_uuid] = uuids;
        Ok(Self {
            generation: Generation::new(raw.generation.get()),
            root_dirid: ObjectId::new(raw.root_dirid.get()),
            bytenr: Logical::new(raw.bytenr.get()),
            last_snapshot: Generation::new(raw.last_snapshot.get()),
            flags: RootFlags::from_bits_retain(raw.flags.get()),
            refs: raw.refs.get(),
            drop_progress: raw.drop_progress.key(),
            drop_level: raw.drop_level,
            level: raw.level,
            generation_v2: Generation::new(v2),
            uuid,
            parent_uuid,
            received_uuid,
        })
    }
}

/// `generation_v2` and the uuids; an old kernel that wrote the item since leaves them stale, so they count for nothing.
fn parse_v2(generation: u64, bytes: &[u8]) -> (u64, [Uuid; 3]) {
    let Ok((raw, _)) = RawRootItemV2::ref_from_prefix(bytes) else { return (0, [Uuid::nil(); 3]) };
    let generation_v2 = raw.generation_v2.get();
    if generation_v2 != generation {
        return (generation_v2, [Uuid::nil(); 3]);
    }
    (generation_v2, [raw.uuid, raw.parent_uuid, raw.received_uuid].map(Uuid::from_bytes))
}

/// Where a subvolume is mounted into its parent: items of type 156 (key: parent, 156, child) and of type 144
/// (key: child, 144, parent) have the same form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RootRef<'a> {
    /// The directory in the parent.
    pub dirid: ObjectId,
    /// The offset of its `DIR_INDEX` item there.
    pub sequence: u64,
    /// The name: any bytes.
    pub name: &'a [u8],
}

impl<'a> RootRef<'a> {
    /// Parses the bytes of one item, which must end with the name.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ItemError> {
        let item = "root ref";
        let (raw, rest): (&RawRootRef, _) = prefix(item, bytes)?;
        let (name, rest) = split(item, rest, raw.name_len.get().into())?;
        if !rest.is_empty() {
            let expect_bytes = bytes.len() - rest.len();
            return Err(ItemError::Size { item, have_bytes: bytes.len(), expect_bytes });
        }
        Ok(Self { dirid: ObjectId::new(raw.dirid.get()), sequence: raw.sequence.get(), name })
    }
}
