//! Why what lies below btrfs cannot be put together. No advice; that is written where the command line is known.

use crate::device::DeviceError;
use crate::format::Signature;
use std::path::PathBuf;
use thiserror::Error;
use uuid::Uuid;

/// The layers below btrfs cannot be used as they were given.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StackError {
    /// Nothing was given.
    #[error("no image was given")]
    Nothing,
    /// More files than a set has.
    #[error("{0} images are too many")]
    TooMany(usize),
    /// One member, given twice.
    #[error("{first} and {second} are the same file or device", first = .first.display(), second = .second.display())]
    SameFile {
        /// The first of the two.
        first: PathBuf,
        /// The other.
        second: PathBuf,
    },
    /// Several file systems, and nothing says which.
    #[error("there is more than one btrfs here: {}", .0.join("; "))]
    Several(Vec<String>),
    /// The choice fits nothing.
    #[error("no btrfs {wanted}; there is: {}", if .found.is_empty() { "none".to_owned() } else { .found.join("; ") })]
    NoSuch {
        /// What was asked for.
        wanted: String,
        /// What there is.
        found: Vec<String>,
    },
    /// Layers were taken apart, and no btrfs is in them.
    #[error("{path}: {chain} holds {}", .what.map_or_else(|| "no file system that is known".to_owned(), |what| what.to_string()), path = .path.display())]
    NoBtrfs {
        /// The file.
        path: PathBuf,
        /// The layers.
        chain: String,
        /// What is there instead.
        what: Option<Signature>,
    },
    /// Two members of an array say they are the same.
    #[error("{first} and {second} are one md member twice (device uuid {uuid})", first = .first.display(), second = .second.display())]
    MdTwins {
        /// The first of the two.
        first: PathBuf,
        /// The other.
        second: PathBuf,
        /// Of both.
        uuid: Uuid,
    },
    /// Too few for the level.
    #[error("{array}: only {have} members can be used, it takes {need}")]
    MdTooFew {
        /// The array.
        array: String,
        /// Members there.
        have: usize,
        /// Members needed.
        need: usize,
    },
    /// The numbers of the super block make no array.
    #[error("{array}: its super block describes no array that can be")]
    MdGeometry {
        /// The array.
        array: String,
    },
    /// A level that is none of md's.
    #[error("md level {level} is not supported")]
    MdLevel {
        /// In the super block.
        level: i32,
    },
    /// Two layouts are possible and the super block does not say which.
    #[error(
        "{array}: members of unequal size, and the super block does not say which of the two layouts of raid0 it has"
    )]
    MdRaid0Layout {
        /// The array.
        array: String,
    },
    /// The volume group is not as it has to be.
    #[error("{path}: LVM: {why}", path = .path.display())]
    Lvm {
        /// A physical volume.
        path: PathBuf,
        /// What is wrong.
        why: super::lvm::LvmError,
    },
    /// A file could not be opened.
    #[error(transparent)]
    Device(#[from] DeviceError),
}
