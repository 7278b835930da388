//! Keys of btrfs trees (kernel: `struct btrfs_disk_key`): 17 bytes on disk, ordered by object, type, offset.

use crate::units::ObjectId;
use std::fmt;
use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// `struct btrfs_disk_key` as stored (kernel: `include/uapi/linux/btrfs_tree.h`).
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct DiskKey {
    objectid: U64,
    r#type: u8,
    offset: U64,
}

const _: () = assert!(size_of::<DiskKey>() == 17);

impl DiskKey {
    /// The key it stands for.
    pub(crate) const fn key(self) -> Key {
        Key::new(self.objectid.get(), self.r#type, self.offset.get())
    }
}

/// A key. The field order is the sort order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The object the item belongs to.
    pub objectid: ObjectId,
    /// `type` on disk: what kind of item it is.
    pub item_type: u8,
    /// Meaning depends on the type.
    pub offset: u64,
}

impl Key {
    /// A key from its three numbers.
    pub const fn new(objectid: u64, item_type: u8, offset: u64) -> Self {
        Self { objectid: ObjectId::new(objectid), item_type, offset }
    }

    /// The lowest key of all.
    pub const MIN: Self = Self::new(0, 0, 0);
    /// The highest key of all.
    pub const MAX: Self = Self::new(u64::MAX, u8::MAX, u64::MAX);
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({} {} {})", self.objectid, self.item_type, self.offset)
    }
}
