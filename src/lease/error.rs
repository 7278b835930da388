//! Why members may not be written, or not any more.

use crate::device::{DeviceError, Use};
use crate::units::Physical;
use std::path::PathBuf;
use std::sync::Arc;
use thiserror::Error;

/// Why members cannot be held, or are not what they were.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum LeaseError {
    /// A member cannot be opened for writing, is in use by another process, was replaced, or has another length.
    #[error(transparent)]
    Device(Arc<DeviceError>),
    /// Something uses a member.
    #[error("{path}: {user}", path = .path.display())]
    InUse {
        /// The file or device.
        path: PathBuf,
        /// Its user.
        user: Use,
    },
    /// A super block is not the one that was read.
    #[error(
        "{path}: the super block at {at} has changed since it was read (have {have} expect {expect}): \
         something else writes to the file system",
        path = .path.display()
    )]
    Superblock {
        /// The member.
        path: PathBuf,
        /// The place.
        at: Physical,
        /// What is there now.
        have: String,
        /// What was there.
        expect: String,
    },
    /// A member is said to be made of nothing.
    #[error("{path}: nothing to write to", path = .path.display())]
    NoParts {
        /// The member.
        path: PathBuf,
    },
}

impl From<DeviceError> for LeaseError {
    fn from(error: DeviceError) -> Self {
        Self::Device(Arc::new(error))
    }
}
