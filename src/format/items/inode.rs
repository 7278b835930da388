//! Inode items (`struct btrfs_inode_item`): as much of them as checks and path names need.

use super::{ItemError, exact};
use crate::units::Generation;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

/// The size of an inode item in bytes; a root item starts with one.
pub(super) const INODE_ITEM_BYTES: usize = 160;

#[derive(FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawInodeItem {
    generation: U64,
    transid: U64,
    size: U64,
    nbytes: U64,
    block_group: U64,
    nlink: U32,
    uid: U32,
    gid: U32,
    mode: U32,
    rdev: U64,
    flags: U64,
    sequence: U64,
    reserved: [U64; 4],
    times: [RawTime; 4],
}

/// `struct btrfs_timespec`.
#[derive(FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawTime {
    sec: U64,
    nsec: U32,
}

const _: () = assert!(size_of::<RawTime>() == 12);
const _: () = assert!(size_of::<RawInodeItem>() == INODE_ITEM_BYTES);

bitflags::bitflags! {
    /// Properties of a file (`BTRFS_INODE_*`), those that matter to a scrub.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct InodeFlags: u64 {
        /// Its data has no checksums.
        const NODATASUM = 1;
        /// Its data is overwritten in place.
        const NODATACOW = 1 << 1;
        /// It has, or had, preallocated extents.
        const PREALLOC = 1 << 4;
        const _ = !0;
    }
}

/// A moment, as `struct timespec`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InodeTime {
    /// Seconds since 1970, below 0 before that.
    pub seconds: i64,
    /// Below one second.
    pub nanoseconds: u32,
}

/// One inode. Its key is (inode, 1, 0).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InodeItem {
    /// The transaction that made it.
    pub generation: Generation,
    /// The transaction that last changed it.
    pub transid: Generation,
    /// The size of the file in bytes.
    pub size: u64,
    /// Names.
    pub nlink: u32,
    /// The user it belongs to.
    pub uid: u32,
    /// The group it belongs to.
    pub gid: u32,
    /// Type and permissions, as `st_mode`.
    pub mode: u32,
    /// Of a device file: major number times 2^20, plus the minor number.
    pub rdev: u64,
    /// When it was last read.
    pub atime: InodeTime,
    /// When its content last changed.
    pub mtime: InodeTime,
    /// Properties.
    pub flags: InodeFlags,
}

impl RawTime {
    fn time(&self) -> InodeTime {
        InodeTime { seconds: self.sec.get().cast_signed(), nanoseconds: self.nsec.get() }
    }
}

impl InodeItem {
    /// Parses the bytes of one item.
    pub fn parse(bytes: &[u8]) -> Result<Self, ItemError> {
        let raw: &RawInodeItem = exact("inode item", bytes)?;
        let [atime, _, mtime, _] = &raw.times;
        Ok(Self {
            generation: Generation::new(raw.generation.get()),
            transid: Generation::new(raw.transid.get()),
            size: raw.size.get(),
            nlink: raw.nlink.get(),
            uid: raw.uid.get(),
            gid: raw.gid.get(),
            mode: raw.mode.get(),
            rdev: raw.rdev.get(),
            atime: atime.time(),
            mtime: mtime.time(),
            flags: InodeFlags::from_bits_retain(raw.flags.get()),
        })
    }
}
