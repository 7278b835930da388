//! The super block: 4 KiB at three fixed places of every device (kernel: `struct btrfs_super_block` in
//! `include/uapi/linux/btrfs_tree.h`, `btrfs_validate_super` in `fs/btrfs/disk-io.c`).
//! Decides whether 4 KiB are a super block that can be trusted; never which of several copies is the best, and never
//! refuses a feature by itself: [`Superblock::check_supported`] is a step of its own.

mod check;
mod error;
mod placed;
mod raw;

pub use error::SuperblockError;
pub use placed::{NotPlaced, PlacedSuperblock};

use crate::checksum::ChecksumType;
use crate::format::features::{check_readable, unknown_compat_ro};
use crate::format::items::{ChunkItem, DevItem};
use crate::format::{CompatRoFlags, IncompatFlags, SuperFlags, UnsupportedFeature};
use crate::units::{Generation, Logical, Physical};
use raw::{RawBackup, RawSuperblock};
use std::fmt;
use uuid::Uuid;
use zerocopy::{FromBytes, IntoBytes};

/// Where the copies are: 64 KiB, 64 MiB, 256 GiB. A device too short for one does not have it.
pub const SUPERBLOCK_OFFSETS: [Physical; 3] =
    [Physical::new(64 << 10), Physical::new(64 << 20), Physical::new(256 << 30)];
/// The size of a super block in bytes.
pub const SUPERBLOCK_BYTES: usize = 4096;
/// `_BHRfS_M`.
pub const SUPERBLOCK_MAGIC: [u8; 8] = *b"_BHRfS_M";

/// A super block whose every field has been checked.
#[derive(Clone)]
pub struct Superblock {
    raw: Box<RawSuperblock>,
    csum_type: ChecksumType,
    dev_item: DevItem,
    sys_chunks: Vec<SysChunk>,
}

/// A chunk of the `sys_chunk_array`: what is needed to read the chunk tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SysChunk {
    /// Where it starts.
    pub logical: Logical,
    /// Where it is stored.
    pub chunk: ChunkItem,
}

/// The root block of a tree, as a super block names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeRoot {
    /// Where it is; 0 where there is no such tree.
    pub bytenr: Logical,
    /// The transaction that wrote it.
    pub generation: Generation,
    /// 0 for a leaf. Not checked in a [`BackupRoot`].
    pub level: u8,
}

/// The roots of one of the last four transactions (`struct btrfs_root_backup`). Nothing in it has been checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackupRoot {
    /// Root tree; its generation is that of the transaction.
    pub tree_root: TreeRoot,
    /// Chunk tree.
    pub chunk_root: TreeRoot,
    /// Extent tree.
    pub extent_root: TreeRoot,
    /// Top-level subvolume.
    pub fs_root: TreeRoot,
    /// Device tree.
    pub dev_root: TreeRoot,
    /// Checksum tree.
    pub csum_root: TreeRoot,
    /// The size of the file system in bytes.
    pub total_bytes: u64,
    /// Bytes in use.
    pub bytes_used: u64,
    /// Members.
    pub num_devices: u64,
}

impl Superblock {
    /// Checks the 4 KiB that were read from `at`, which is one of [`SUPERBLOCK_OFFSETS`].
    pub fn parse(bytes: &[u8], at: Physical) -> Result<Self, SuperblockError> {
        let raw = RawSuperblock::read_from_bytes(bytes)
            .map_err(|_| SuperblockError::Length { have_bytes: bytes.len(), expect_bytes: SUPERBLOCK_BYTES })?;
        check::check_magic(&raw)?;
        let csum_type = check::check_checksum(&raw)?;
        check::check_fields(&raw, at)?;
        let sys_chunks = check::check_sys_chunks(&raw)?;
        let dev_item = DevItem::from_raw(&raw.dev_item);
        Ok(Self { raw: Box::new(raw), csum_type, dev_item, sys_chunks })
    }

    /// The 4 KiB as read.
    pub fn as_bytes(&self) -> &[u8] {
        self.raw.as_bytes()
    }

    /// The same super block for another place or member of so many: address, device item and number of devices are
    /// replaced, the checksum is made anew.
    pub fn with_place(&self, at: Physical, dev_item: &DevItem, num_devices: u64) -> [u8; SUPERBLOCK_BYTES] {
        let mut raw = RawSuperblock {
            bytenr: at.raw().into(),
            dev_item: dev_item.to_raw(),
            num_devices: num_devices.into(),
            ..*self.raw
        };
        check::sign(&mut raw, self.csum_type);
        let mut bytes = [0; SUPERBLOCK_BYTES];
        bytes.copy_from_slice(raw.as_bytes());
        bytes
    }

    /// The same super block with another log root, signed anew.
    #[must_use]
    pub fn with_log_root(&self, log: Option<TreeRoot>) -> Self {
        let mut raw = RawSuperblock {
            log_root: log.map_or(0, |root| root.bytenr.raw()).into(),
            log_root_level: log.map_or(0, |root| root.level),
            ..*self.raw
        };
        check::sign(&mut raw, self.csum_type);
        Self { raw: Box::new(raw), ..self.clone() }
    }

    /// The log root that a damaged super block of this file system and transaction names. It proves nothing: what can be
    /// believed of it is up to the block that it points to.
    pub fn log_root_of_damaged(&self, bytes: &[u8]) -> Option<TreeRoot> {
        let raw = RawSuperblock::read_from_bytes(bytes).ok()?;
        let is_ours = raw.magic == SUPERBLOCK_MAGIC && raw.fsid == self.raw.fsid;
        let claim = Self { raw: Box::new(raw), ..self.clone() };
        claim.log_root().filter(|_| is_ours && claim.generation() == self.generation())
    }

    /// Whether this program can read the file system. Everything in it must be understood.
    pub fn check_supported(&self) -> Result<(), UnsupportedFeature> {
        check_readable(self.incompat(), self.flags())
    }

    /// Whether this program may write to the file system.
    pub fn check_writable(&self) -> Result<(), UnsupportedFeature> {
        self.check_supported()?;
        self.unknown_features().next().map_or(Ok(()), Err)
    }

    /// Features that are not understood and yet do not prevent reading, for a warning.
    pub fn unknown_features(&self) -> impl Iterator<Item = UnsupportedFeature> {
        unknown_compat_ro(self.compat_ro())
    }

    /// The uuid that users see.
    pub fn fsid(&self) -> Uuid {
        Uuid::from_bytes(self.raw.fsid)
    }

    /// The uuid that is in every tree block and device item; differs from `fsid` only after `btrfstune -m`.
    pub fn metadata_uuid(&self) -> Uuid {
        if self.incompat().contains(IncompatFlags::METADATA_UUID) {
            Uuid::from_bytes(self.raw.metadata_uuid)
        } else {
            self.fsid()
        }
    }

    /// Where this copy is.
    pub fn bytenr(&self) -> Physical {
        Physical::new(self.raw.bytenr.get())
    }

    /// States of the file system.
    pub fn flags(&self) -> SuperFlags {
        SuperFlags::from_bits_retain(self.raw.flags.get())
    }

    /// Whether it was restored from a metadata dump, so that there is no data to check.
    pub fn is_metadump(&self) -> bool {
        self.flags().intersects(SuperFlags::METADUMP | SuperFlags::METADUMP_V2)
    }

    /// The last transaction.
    pub fn generation(&self) -> Generation {
        Generation::new(self.raw.generation.get())
    }

    /// Root tree.
    pub fn root(&self) -> TreeRoot {
        let raw = &self.raw;
        TreeRoot { bytenr: Logical::new(raw.root.get()), generation: self.generation(), level: raw.root_level }
    }

    /// Chunk tree.
    pub fn chunk_root(&self) -> TreeRoot {
        TreeRoot {
            bytenr: Logical::new(self.raw.chunk_root.get()),
            generation: Generation::new(self.raw.chunk_root_generation.get()),
            level: self.raw.chunk_root_level,
        }
    }

    /// The tree of log trees, `None` where there is nothing to replay. A log is written before its transaction commits: its generation is
    /// that of the super block plus one.
    pub fn log_root(&self) -> Option<TreeRoot> {
        let bytenr = Logical::new(self.raw.log_root.get());
        let generation = Generation::new(self.generation().raw().saturating_add(1));
        (bytenr.raw() != 0).then_some(TreeRoot { bytenr, generation, level: self.raw.log_root_level })
    }

    /// The sum of the members' sizes in bytes.
    pub fn total_bytes(&self) -> u64 {
        self.raw.total_bytes.get()
    }

    /// Logical bytes allocated.
    pub fn bytes_used(&self) -> u64 {
        self.raw.bytes_used.get()
    }

    /// Members; at least 1.
    pub fn num_devices(&self) -> u64 {
        self.raw.num_devices.get()
    }

    /// Bytes per sector, the unit of data checksums: a power of two, 4 KiB to 64 KiB.
    pub fn sectorsize(&self) -> u32 {
        self.raw.sectorsize.get()
    }

    /// Bytes per tree block: a power of two, a sector to 64 KiB.
    pub fn nodesize(&self) -> u32 {
        self.raw.nodesize.get()
    }

    /// The checksum algorithm of the whole file system.
    pub fn csum_type(&self) -> ChecksumType {
        self.csum_type
    }

    /// The member this copy is on.
    pub fn dev_item(&self) -> &DevItem {
        &self.dev_item
    }

    /// The name of the file system; what is not UTF-8 is replaced.
    pub fn label(&self) -> String {
        let bytes = self.raw.label.split(|byte| *byte == 0).next().unwrap_or_default();
        String::from_utf8_lossy(bytes).into_owned()
    }

    /// The transaction of the free space cache; all ones where there is none.
    pub fn cache_generation(&self) -> Generation {
        Generation::new(self.raw.cache_generation.get())
    }

    /// Features without which it cannot be read.
    pub fn incompat(&self) -> IncompatFlags {
        IncompatFlags::from_bits_retain(self.raw.incompat_flags.get())
    }

    /// Features without which it cannot be written.
    pub fn compat_ro(&self) -> CompatRoFlags {
        CompatRoFlags::from_bits_retain(self.raw.compat_ro_flags.get())
    }

    /// The chunks that hold the chunk tree, each proved by [`ChunkItem::check`].
    pub fn sys_chunks(&self) -> &[SysChunk] {
        &self.sys_chunks
    }

    /// The roots of the last four transactions, in the order stored.
    pub fn backup_roots(&self) -> [BackupRoot; 4] {
        self.raw.super_roots.each_ref().map(backup_root)
    }
}

impl fmt::Debug for Superblock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Superblock")
            .field("fsid", &self.fsid())
            .field("devid", &self.dev_item.devid)
            .field("bytenr", &self.bytenr())
            .field("generation", &self.generation())
            .finish_non_exhaustive()
    }
}

impl PartialEq for Superblock {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for Superblock {}

fn backup_root(raw: &RawBackup) -> BackupRoot {
    let root = |at: &raw::RawBackupTree, level| TreeRoot {
        bytenr: Logical::new(at.bytenr.get()),
        generation: Generation::new(at.r#gen.get()),
        level,
    };
    BackupRoot {
        tree_root: root(&raw.tree_root, raw.tree_root_level),
        chunk_root: root(&raw.chunk_root, raw.chunk_root_level),
        extent_root: root(&raw.extent_root, raw.extent_root_level),
        fs_root: root(&raw.fs_root, raw.fs_root_level),
        dev_root: root(&raw.dev_root, raw.dev_root_level),
        csum_root: root(&raw.csum_root, raw.csum_root_level),
        total_bytes: raw.total_bytes.get(),
        bytes_used: raw.bytes_used.get(),
        num_devices: raw.num_devices.get(),
    }
}

/// Puts the checksum that fits the changed bytes of a super block with a known algorithm.
#[cfg(test)]
pub(crate) fn resign(bytes: &mut [u8; SUPERBLOCK_BYTES]) {
    let mut raw = RawSuperblock::read_from_bytes(bytes).unwrap();
    if let Some(csum_type) = ChecksumType::from_raw(raw.csum_type.get()) {
        check::sign(&mut raw, csum_type);
        bytes.copy_from_slice(raw.as_bytes());
    }
}

#[cfg(test)]
mod tests;
