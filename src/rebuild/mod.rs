//! Makes a lost member again on a new device, from the others, while the file system is not mounted.
//!
//! One pass: the scrub engine reads what holds a part of the member and hands over what belongs on it ([`scrub::lost`]);
//! here it is written, synced and read back around the page cache (`rebuild`). The super blocks come last, the first of
//! them at the very end, and until then its place holds a [`Marker`]: nobody takes the device for a member before it is
//! whole. The other members are never written. What nobody has stays away, and is told.
//!
//! [`scrub::lost`]: crate::scrub::lost

mod forecast;
mod marker;
mod preflight;
mod redundancy;
mod run;
mod signature;
mod state;
mod superblocks;
mod target;
mod writer;

pub use forecast::Forecast;
pub use marker::Marker;
pub use preflight::{RebuildRefusal, find_lost};
pub use redundancy::{OneCopy, one_copy_only};
pub use run::{Rebuild, Rebuilt, survey};
pub use state::{RebuildState, StateStore};
pub use target::{Found, TargetRefusal};

use crate::format::NotPlaced;
use crate::lease::LeaseError;
use crate::scrub::ScrubError;
use crate::units::Physical;
use std::io;
use thiserror::Error;

/// Why a rebuild could not be done. What it could not find is never an error.
#[derive(Debug, Error)]
pub enum RebuildError {
    /// Must not be done.
    #[error(transparent)]
    Refused(#[from] RebuildRefusal),
    /// The new device is not fit for it.
    #[error(transparent)]
    Target(#[from] TargetRefusal),
    /// Reading failed.
    #[error(transparent)]
    Scrub(#[from] ScrubError),
    /// The new device failed.
    #[error("the new device: {0}")]
    Device(#[from] DeviceFailure),
    /// The super block cannot be made.
    #[error(transparent)]
    Superblock(#[from] NotPlaced),
    /// The members, or the new device, are not what they were.
    #[error("the new device is no member: {0}")]
    Lease(#[from] LeaseError),
    /// The lease does not hold the new device.
    #[error("the new device is not open for writing")]
    NotOpen,
    /// The file system was written to meanwhile.
    #[error(
        "the file system has changed since it was opened: something else writes to it; the new device is no member"
    )]
    Moved,
}

/// What went wrong with the new device.
#[derive(Debug, Error)]
pub enum DeviceFailure {
    /// A write failed.
    #[error("cannot write at {at}: {error}")]
    Write {
        /// Where.
        at: Physical,
        /// What the kernel said.
        error: io::Error,
    },
    /// What was written may not be there.
    #[error("cannot sync: {0}")]
    Sync(#[source] io::Error),
    /// What was written cannot be read back.
    #[error("cannot read back at {at}: {error}")]
    ReadBack {
        /// Where.
        at: Physical,
        /// What the kernel said.
        error: io::Error,
    },
    /// It does not hold what was written.
    #[error("does not hold what was written at {at}")]
    Differs {
        /// Where.
        at: Physical,
    },
}
