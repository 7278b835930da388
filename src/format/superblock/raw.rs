//! `struct btrfs_super_block` byte for byte (kernel: `include/uapi/linux/btrfs_tree.h`). Offsets are asserted at
//! compile time.

use crate::format::items::RawDevItem;
use crate::format::node::CSUM_FIELD_BYTES;
use std::mem::offset_of;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Room for the chunks of the chunk tree (`BTRFS_SYSTEM_CHUNK_ARRAY_SIZE`).
pub(super) const SYS_CHUNK_ARRAY_BYTES: usize = 2048;

/// `struct btrfs_super_block`.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct RawSuperblock {
    pub(super) csum: [u8; CSUM_FIELD_BYTES],
    pub(super) fsid: [u8; 16],
    pub(super) bytenr: U64,
    pub(super) flags: U64,
    pub(super) magic: [u8; 8],
    pub(super) generation: U64,
    pub(super) root: U64,
    pub(super) chunk_root: U64,
    pub(super) log_root: U64,
    pub(super) unused_log_root_transid: U64,
    pub(super) total_bytes: U64,
    pub(super) bytes_used: U64,
    pub(super) root_dir_objectid: U64,
    pub(super) num_devices: U64,
    pub(super) sectorsize: U32,
    pub(super) nodesize: U32,
    pub(super) leafsize: U32,
    pub(super) stripesize: U32,
    pub(super) sys_chunk_array_size: U32,
    pub(super) chunk_root_generation: U64,
    pub(super) compat_flags: U64,
    pub(super) compat_ro_flags: U64,
    pub(super) incompat_flags: U64,
    pub(super) csum_type: U16,
    pub(super) root_level: u8,
    pub(super) chunk_root_level: u8,
    pub(super) log_root_level: u8,
    pub(super) dev_item: RawDevItem,
    pub(super) label: [u8; 256],
    pub(super) cache_generation: U64,
    pub(super) uuid_tree_generation: U64,
    pub(super) metadata_uuid: [u8; 16],
    pub(super) reserved: [u8; 224],
    pub(super) sys_chunk_array: [u8; SYS_CHUNK_ARRAY_BYTES],
    pub(super) super_roots: [RawBackup; 4],
    pub(super) padding: [u8; 565],
}

/// `struct btrfs_root_backup`.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct RawBackup {
    pub(super) tree_root: RawBackupTree,
    pub(super) chunk_root: RawBackupTree,
    pub(super) extent_root: RawBackupTree,
    pub(super) fs_root: RawBackupTree,
    pub(super) dev_root: RawBackupTree,
    pub(super) csum_root: RawBackupTree,
    pub(super) total_bytes: U64,
    pub(super) bytes_used: U64,
    pub(super) num_devices: U64,
    pub(super) unused_64: [U64; 4],
    pub(super) tree_root_level: u8,
    pub(super) chunk_root_level: u8,
    pub(super) extent_root_level: u8,
    pub(super) fs_root_level: u8,
    pub(super) dev_root_level: u8,
    pub(super) csum_root_level: u8,
    pub(super) unused_8: [u8; 10],
}

/// A pair of fields, `X` and `X_gen`, of `struct btrfs_root_backup`.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct RawBackupTree {
    pub(super) bytenr: U64,
    pub(super) r#gen: U64,
}

const _: () = assert!(size_of::<RawSuperblock>() == super::SUPERBLOCK_BYTES);
const _: () = assert!(size_of::<RawBackup>() == 168);
const _: () = assert!(offset_of!(RawSuperblock, magic) == 0x40);
const _: () = assert!(offset_of!(RawSuperblock, num_devices) == 0x88);
const _: () = assert!(offset_of!(RawSuperblock, incompat_flags) == 0xbc);
const _: () = assert!(offset_of!(RawSuperblock, dev_item) == 0xc9);
const _: () = assert!(offset_of!(RawSuperblock, label) == 0x12b);
const _: () = assert!(offset_of!(RawSuperblock, metadata_uuid) == 0x23b);
const _: () = assert!(offset_of!(RawSuperblock, sys_chunk_array) == 0x32b);
const _: () = assert!(offset_of!(RawSuperblock, super_roots) == 0xb2b);
