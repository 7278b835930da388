//! One member of a set: a device with its super block copies read and judged.
//!
//! Decides which copy speaks for the device and, where none does, what the device is instead. Never looks at other
//! devices. Kernel: `btrfs_scan_one_device` and `btrfs_read_disk_super` in `fs/btrfs/volumes.c`, which look at the first
//! copy alone; `write_dev_supers` in `fs/btrfs/disk-io.c` for which copies a device has.

mod ring;

use crate::device::{Identity, ReadDevice, search_below};
use crate::format::{
    IncompatFlags, SUPERBLOCK_BYTES, SUPERBLOCK_OFFSETS, Signature, SuperFlags, Superblock, SuperblockError, recognise,
};
use crate::units::{DeviceId, Generation, Physical};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thiserror::Error;
use uuid::Uuid;

/// A device that was opened and not yet looked into.
pub struct Opened {
    /// As the user named it.
    pub path: PathBuf,
    /// Its bytes.
    pub device: Arc<dyn ReadDevice>,
    /// What the path leads to.
    pub identity: Identity,
}

/// One of the places of a super block on one device, and what is there.
#[derive(Clone, Debug)]
pub struct SuperblockCopy {
    /// The place.
    pub at: Physical,
    /// The super block, or why there is none to trust.
    pub state: Result<Superblock, SuperblockDefect>,
}

/// Why a copy of the super block cannot be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SuperblockDefect {
    /// The device returned an error.
    #[error("cannot be read: {}", std::io::Error::from_raw_os_error(*.errno))]
    Unreadable {
        /// What the kernel said.
        errno: i32,
    },
    /// The device ends before it.
    #[error("past the end of the device")]
    PastEnd,
    /// It was read, and it is not one.
    #[error(transparent)]
    Invalid(#[from] SuperblockError),
}

/// Why a device is no member of any btrfs.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NotBtrfs {
    /// It ends before the first super block does.
    #[error("is too small for btrfs ({len_bytes} bytes)")]
    TooSmall {
        /// The size of the device.
        len_bytes: u64,
    },
    /// There are zeros in all places of a super block.
    #[error("holds no file system, all {places} super block places are zero")]
    Blank {
        /// Places within the device.
        places: usize,
    },
    /// There is something else that is known by its magic.
    #[error("is {what}, no btrfs")]
    Recognised {
        /// What it is.
        what: Signature,
    },
    /// There is something else in all places of a super block.
    #[error("is not btrfs, none of its {places} super block places has the magic")]
    NoMagic {
        /// Places within the device.
        places: usize,
    },
    /// There is a super block, and every copy is damaged.
    #[error("has no intact super block, {damaged} of {places} copies are damaged; the one at {at}: {defect}")]
    Damaged {
        /// Places within the device.
        places: usize,
        /// Copies that once were super blocks, or that cannot be read.
        damaged: usize,
        /// Where the first of those is.
        at: Physical,
        /// What is wrong with it.
        defect: Box<SuperblockDefect>,
    },
}

/// A device with at least one intact super block.
pub struct Member {
    path: PathBuf,
    device: Arc<dyn ReadDevice>,
    identity: Identity,
    superblock: Superblock,
    copies: Vec<SuperblockCopy>,
    is_zone_dump: bool,
}

impl Member {
    /// Reads all super block copies of a device and picks the one that speaks for it: of those that belong to the
    /// same file system as the first intact one, the newest.
    pub fn probe(opened: Opened) -> Result<Self, (PathBuf, NotBtrfs)> {
        let Opened { path, device, identity } = opened;
        let mut copies: Vec<SuperblockCopy> =
            SUPERBLOCK_OFFSETS.into_iter().map(|at| SuperblockCopy { at, state: read_copy(&*device, at) }).collect();
        let found = speaker(&copies);
        // What a zoned device has at the ordinary places is old or none of it; and one that is full of zeros there may
        // have its super blocks elsewhere.
        let may_be_zoned = found.is_none_or(|superblock| superblock.incompat().contains(IncompatFlags::ZONED));
        let log = if may_be_zoned { ring::newest(&*device, found.map(Superblock::fsid)) } else { Vec::new() };
        if let Some(Ok(superblock)) = log.first().map(|newest| newest.state.clone()) {
            return Ok(Self { path, device, identity, superblock, copies: log, is_zone_dump: true });
        }
        let Some(superblock) = found.cloned() else {
            return Err((path, name_it(diagnose(&copies, device.len()), &*device)));
        };
        let total_bytes = superblock.dev_item().total_bytes;
        let first = copies.first().map(|copy| copy.at);
        copies.retain(|copy| Some(copy.at) == first || has_copy_at(copy.at, total_bytes));
        Ok(Self { path, device, identity, superblock, copies, is_zone_dump: false })
    }

    /// The path as the user gave it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The bytes.
    pub fn device(&self) -> &Arc<dyn ReadDevice> {
        &self.device
    }

    /// What the path leads to.
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// The number it gives itself.
    pub fn devid(&self) -> DeviceId {
        self.superblock.dev_item().devid
    }

    /// The uuid of the device itself.
    pub fn uuid(&self) -> Uuid {
        self.superblock.dev_item().uuid
    }

    /// The file system it says it belongs to.
    pub fn fsid(&self) -> Uuid {
        self.superblock.fsid()
    }

    /// The last transaction it saw.
    pub fn generation(&self) -> Generation {
        self.superblock.generation()
    }

    /// True where it is read-only and other file systems may grow from it.
    pub fn is_seed(&self) -> bool {
        self.superblock.flags().contains(SuperFlags::SEEDING)
    }

    /// True for the dump of a zoned device: its super blocks are a log, and its sequential zones are not written in place.
    pub fn is_zone_dump(&self) -> bool {
        self.is_zone_dump
    }

    /// The super block that speaks for it.
    pub fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// Every copy that a device of this recorded size has, intact or not, by place. A copy of another file system or of
    /// an older transaction is among them as what it is.
    pub fn superblock_copies(&self) -> &[SuperblockCopy] {
        &self.copies
    }
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Member").field("path", &self.path).field("superblock", &self.superblock).finish_non_exhaustive()
    }
}

/// Whether the kernel keeps a copy at `at` on a device of `total_bytes`.
fn has_copy_at(at: Physical, total_bytes: u64) -> bool {
    (at + SUPERBLOCK_BYTES as u64).raw() < total_bytes
}

/// Where a device of `total_bytes` has super blocks, ascending.
pub fn superblock_places(total_bytes: u64) -> impl DoubleEndedIterator<Item = Physical> {
    SUPERBLOCK_OFFSETS.into_iter().filter(move |at| has_copy_at(*at, total_bytes))
}

fn read_copy(device: &dyn ReadDevice, at: Physical) -> Result<Superblock, SuperblockDefect> {
    if (at + SUPERBLOCK_BYTES as u64).raw() > device.len() {
        return Err(SuperblockDefect::PastEnd);
    }
    let read = read_plain(device, at);
    if read.is_ok() || device.below().is_none() {
        return read;
    }
    // Another copy below may be whole, and is what a scrub will put in its place.
    let is_whole = |bytes: &[u8]| Superblock::parse(bytes, at).is_ok();
    match search_below(device, at, SUPERBLOCK_BYTES, &is_whole) {
        Some(bytes) => Ok(Superblock::parse(&bytes, at)?),
        None => read,
    }
}

fn read_plain(device: &dyn ReadDevice, at: Physical) -> Result<Superblock, SuperblockDefect> {
    let mut bytes = [0; SUPERBLOCK_BYTES];
    device.read_at(at, &mut bytes).map_err(|error| match error.raw_os_error() {
        Some(errno) => SuperblockDefect::Unreadable { errno },
        None => SuperblockDefect::PastEnd,
    })?;
    Ok(Superblock::parse(&bytes, at)?)
}

fn speaker(copies: &[SuperblockCopy]) -> Option<&Superblock> {
    let intact = || copies.iter().filter_map(|copy| copy.state.as_ref().ok());
    let family = intact().next()?.fsid();
    // Of equals the last is taken by `max_by_key`: hence backwards.
    intact().rev().filter(|superblock| superblock.fsid() == family).max_by_key(|superblock| superblock.generation())
}

/// Where there is no trace of btrfs: what else there is.
fn name_it(why: NotBtrfs, device: &dyn ReadDevice) -> NotBtrfs {
    if matches!(why, NotBtrfs::Damaged { .. }) {
        return why;
    }
    let read = |at: u64, len: usize| {
        let mut bytes = vec![0; len];
        device.read_at(Physical::new(at), &mut bytes).ok().map(|()| bytes)
    };
    recognise(device.len(), read).map_or(why, |what| NotBtrfs::Recognised { what })
}

fn diagnose(copies: &[SuperblockCopy], len_bytes: u64) -> NotBtrfs {
    let defects = || {
        copies.iter().filter_map(|copy| match &copy.state {
            Err(SuperblockDefect::PastEnd) | Ok(_) => None,
            Err(defect) => Some((copy.at, *defect)),
        })
    };
    let is_blank = |defect| matches!(defect, SuperblockDefect::Invalid(SuperblockError::Zeros));
    let has_none =
        |defect| is_blank(defect) || matches!(defect, SuperblockDefect::Invalid(SuperblockError::Magic { .. }));
    let places = defects().count();
    let damaged = || defects().filter(|(_, defect)| !has_none(*defect));
    match damaged().next() {
        Some((at, defect)) => NotBtrfs::Damaged { places, damaged: damaged().count(), at, defect: Box::new(defect) },
        None if places == 0 => NotBtrfs::TooSmall { len_bytes },
        None if defects().all(|(_, defect)| is_blank(defect)) => NotBtrfs::Blank { places },
        None => NotBtrfs::NoMagic { places },
    }
}

#[cfg(test)]
mod tests;
