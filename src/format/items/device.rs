//! Device items of the chunk tree and of super blocks (`struct btrfs_dev_item`), and device extents
//! (`struct btrfs_dev_extent`).

use super::{ItemError, exact};
use crate::format::Key;
use crate::units::{DeviceId, DevicePhysical, Generation, Logical, ObjectId, Physical};
use uuid::Uuid;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The size of a device item in bytes.
pub const DEV_ITEM_BYTES: usize = 98;

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(in crate::format) struct RawDevItem {
    devid: U64,
    total_bytes: U64,
    bytes_used: U64,
    io_align: U32,
    io_width: U32,
    sector_size: U32,
    r#type: U64,
    generation: U64,
    start_offset: U64,
    dev_group: U32,
    seek_speed: u8,
    bandwidth: u8,
    uuid: [u8; 16],
    fsid: [u8; 16],
}

const _: () = assert!(size_of::<RawDevItem>() == DEV_ITEM_BYTES);

impl RawDevItem {
    pub(in crate::format) fn fsid(&self) -> [u8; 16] {
        self.fsid
    }
}

/// One member device. Its key in the chunk tree is (1, 216, devid).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DevItem {
    /// Its number in the file system.
    pub devid: DeviceId,
    /// Its size, as far as the file system uses it. 0 while it is being removed.
    pub total_bytes: u64,
    /// Bytes in device extents.
    pub bytes_used: u64,
    /// A hint in bytes.
    pub io_align: u32,
    /// A hint in bytes.
    pub io_width: u32,
    /// The sector size of the file system.
    pub sector_size: u32,
    /// `type` on disk: no kernel uses it.
    pub type_flags: u64,
    /// No kernel keeps it up to date.
    pub generation: Generation,
    /// No kernel uses it.
    pub start_offset: u64,
    /// No kernel uses it.
    pub dev_group: u32,
    /// No kernel uses it.
    pub seek_speed: u8,
    /// No kernel uses it.
    pub bandwidth: u8,
    /// The device's own uuid.
    pub uuid: Uuid,
    /// The file system it belongs to: the metadata uuid.
    pub fsid: Uuid,
}

impl DevItem {
    /// Parses the bytes of one item.
    pub fn parse(bytes: &[u8]) -> Result<Self, ItemError> {
        exact("device item", bytes).map(Self::from_raw)
    }

    pub(in crate::format) fn from_raw(raw: &RawDevItem) -> Self {
        Self {
            devid: DeviceId::new(raw.devid.get()),
            total_bytes: raw.total_bytes.get(),
            bytes_used: raw.bytes_used.get(),
            io_align: raw.io_align.get(),
            io_width: raw.io_width.get(),
            sector_size: raw.sector_size.get(),
            type_flags: raw.r#type.get(),
            generation: Generation::new(raw.generation.get()),
            start_offset: raw.start_offset.get(),
            dev_group: raw.dev_group.get(),
            seek_speed: raw.seek_speed,
            bandwidth: raw.bandwidth,
            uuid: Uuid::from_bytes(raw.uuid),
            fsid: Uuid::from_bytes(raw.fsid),
        }
    }

    pub(in crate::format) fn to_raw(self) -> RawDevItem {
        RawDevItem {
            devid: self.devid.raw().into(),
            total_bytes: self.total_bytes.into(),
            bytes_used: self.bytes_used.into(),
            io_align: self.io_align.into(),
            io_width: self.io_width.into(),
            sector_size: self.sector_size.into(),
            r#type: self.type_flags.into(),
            generation: self.generation.raw().into(),
            start_offset: self.start_offset.into(),
            dev_group: self.dev_group.into(),
            seek_speed: self.seek_speed,
            bandwidth: self.bandwidth,
            uuid: *self.uuid.as_bytes(),
            fsid: *self.fsid.as_bytes(),
        }
    }

    /// The bytes as stored on disk.
    pub fn to_bytes(self) -> [u8; DEV_ITEM_BYTES] {
        let mut bytes = [0; DEV_ITEM_BYTES];
        bytes.copy_from_slice(self.to_raw().as_bytes());
        bytes
    }
}

#[derive(FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawDevExtent {
    chunk_tree: U64,
    chunk_objectid: U64,
    chunk_offset: U64,
    length: U64,
    chunk_tree_uuid: [u8; 16],
}

const _: () = assert!(size_of::<RawDevExtent>() == 48);

/// A range of a device that a chunk uses. Its key in the device tree is (devid, 204, start on the device).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DevExtent {
    /// Always 3.
    pub chunk_tree: ObjectId,
    /// Always 256.
    pub chunk_objectid: ObjectId,
    /// Where the chunk starts.
    pub chunk_offset: Logical,
    /// Bytes on the device.
    pub length: u64,
    /// Zero in file systems of some old mkfs.
    pub chunk_tree_uuid: Uuid,
}

impl DevExtent {
    /// Parses the bytes of one item.
    pub fn parse(bytes: &[u8]) -> Result<Self, ItemError> {
        let raw: &RawDevExtent = exact("device extent", bytes)?;
        Ok(Self {
            chunk_tree: ObjectId::new(raw.chunk_tree.get()),
            chunk_objectid: ObjectId::new(raw.chunk_objectid.get()),
            chunk_offset: Logical::new(raw.chunk_offset.get()),
            length: raw.length.get(),
            chunk_tree_uuid: Uuid::from_bytes(raw.chunk_tree_uuid),
        })
    }

    /// Where the extent with this key starts.
    pub fn place(key: &Key) -> DevicePhysical {
        DevicePhysical { devid: DeviceId::new(key.objectid.raw()), physical: Physical::new(key.offset) }
    }
}
