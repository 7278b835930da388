//! Why devices do not make a set, and what was done about those that did not fit. Facts only: what to do about it is
//! said where the command line is known.

use crate::format::UnsupportedFeature;
use crate::units::{DeviceId, Generation, Physical};
use crate::volume::NotBtrfs;
use std::path::PathBuf;
use thiserror::Error;
use uuid::Uuid;

/// Why the devices given cannot be used together.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SetError {
    /// No device was given, or all were rejected.
    #[error("no device with a btrfs super block")]
    Empty,
    /// A device is no btrfs member.
    #[error("{path}: {why}", path = .path.display())]
    NotBtrfs {
        /// The device.
        path: PathBuf,
        /// What it is instead.
        why: NotBtrfs,
    },
    /// One device was given twice, perhaps under two names.
    #[error("{second}: is the same device as {first}", second = .second.display(), first = .first.display())]
    SameFile {
        /// The name given first.
        first: PathBuf,
        /// The name given later.
        second: PathBuf,
    },
    /// Two devices carry the uuid of one: one is a copy of the other, and nothing tells which is the right one.
    #[error(
        "{second}: is a copy of {first}, both are devid {devid} with uuid {uuid} of file system {fsid}",
        second = .second.display(), first = .first.display()
    )]
    Clone {
        /// The device given first.
        first: PathBuf,
        /// The device given later.
        second: PathBuf,
        /// The number both have.
        devid: DeviceId,
        /// The uuid both have.
        uuid: Uuid,
        /// The file system of both.
        fsid: Uuid,
    },
    /// Devices of two file systems were given.
    #[error(
        "{second}: belongs to file system {second_fsid}, {first} to {first_fsid}",
        second = .second.display(), first = .first.display()
    )]
    TwoFilesystems {
        /// A device of the file system that most belong to.
        first: PathBuf,
        /// That file system.
        first_fsid: Uuid,
        /// The first device that does not.
        second: PathBuf,
        /// Its file system.
        second_fsid: Uuid,
    },
    /// The file system needs something that is not understood.
    #[error("{path}: super block at {at}: {feature}", path = .path.display())]
    Unsupported {
        /// The device whose super block says so.
        path: PathBuf,
        /// Which of its copies: the first that does.
        at: Physical,
        /// What.
        feature: UnsupportedFeature,
    },
    /// Devices of the chunk tree were not given.
    #[error("missing {}", Missing(.devices))]
    Missing {
        /// The number and uuid of each, by number.
        devices: Vec<(DeviceId, Uuid)>,
    },
}

/// Something about a set that does not prevent its use.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SetWarning {
    /// A device is no btrfs member and is not used.
    #[error("{path}: {why}, not used", path = .path.display())]
    NotBtrfs {
        /// The device.
        path: PathBuf,
        /// What it is instead.
        why: NotBtrfs,
    },
    /// A device missed transactions. It is used: its checksums tell what is old.
    #[error("{path}: is stale, devid {devid} is at generation {have}, the file system at {expect}", path = .path.display())]
    Stale {
        /// The device.
        path: PathBuf,
        /// Its number.
        devid: DeviceId,
        /// Its last transaction.
        have: Generation,
        /// The last transaction of the set.
        expect: Generation,
    },
    /// A device says it is a member, but the chunk tree does not list it (any more). It is not used.
    #[error(
        "{path}: is no member any more, devid {devid} with uuid {uuid} (generation {have}) is not in the chunk tree \
         (generation {expect}), not used",
        path = .path.display()
    )]
    NotListed {
        /// The device.
        path: PathBuf,
        /// The number it gives itself.
        devid: DeviceId,
        /// Its uuid.
        uuid: Uuid,
        /// Its last transaction.
        have: Generation,
        /// The last transaction of the set.
        expect: Generation,
    },
    /// A device is being filled by a device replace that has not finished: no member yet. It is not used.
    #[error("{path}: is the target of a device replace that has not finished, no member yet, not used", path = .path.display())]
    ReplaceTarget {
        /// The device.
        path: PathBuf,
    },
    /// A device of the chunk tree was not given.
    #[error("devid {devid} with uuid {uuid} is missing")]
    Missing {
        /// Its number.
        devid: DeviceId,
        /// Its uuid.
        uuid: Uuid,
    },
    /// A device is smaller than the file system thinks.
    #[error("{path}: devid {devid} is {have_bytes} bytes long, its device item says {expect_bytes}", path = .path.display())]
    Truncated {
        /// The device.
        path: PathBuf,
        /// Its number.
        devid: DeviceId,
        /// Its size.
        have_bytes: u64,
        /// Its size in the chunk tree.
        expect_bytes: u64,
    },
    /// The super block counts other devices than the chunk tree has.
    #[error("super block num_devices is {have}, the chunk tree has {expect} device items")]
    DeviceCount {
        /// In the super block.
        have: u64,
        /// In the chunk tree.
        expect: u64,
    },
}

struct Missing<'a>(&'a [(DeviceId, Uuid)]);

impl std::fmt::Display for Missing<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (nth, (devid, uuid)) in self.0.iter().enumerate() {
            write!(f, "{}devid {devid} with uuid {uuid}", if nth == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}
