//! What must not be written at all, whatever is bad about it.

use crate::device::{DeviceError, ReadOnlyReason, Use, users_of};
use crate::filesystem::{Filesystem, SplitBrain};
use crate::format::UnsupportedFeature;
use crate::scrub::mend::Choice;
use crate::units::{DeviceId, Generation};
use crate::volume::Standing;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Why a file system is not repaired. Nothing has been written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Refusal {
    /// A feature is not understood.
    #[error(transparent)]
    Unsupported(#[from] UnsupportedFeature),
    /// There is no data to repair, and the super blocks are not those of a file system to be used.
    #[error("the file system is a metadata dump (btrfs-image)")]
    Metadump,
    /// Sequential zones are not written in place: on the device the write fails.
    #[error("{path}: is the dump of a zoned device: what is in its sequential zones is not written in place", path = .0.display())]
    ZoneDump(PathBuf),
    /// A member is in use.
    #[error("{path}: {user}", path = .path.display())]
    InUse {
        /// The member.
        path: PathBuf,
        /// Its user.
        user: Use,
    },
    /// It cannot be found out who uses a member.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The copies of a member that missed transactions were to win.
    #[error(
        "devid {devid} is stale (generation {have}, the file system is at {newest}): what it missed would be put over \
         what the others have"
    )]
    StalePreferred {
        /// The member.
        devid: DeviceId,
        /// Its last transaction.
        have: Generation,
        /// The last one of the set.
        newest: Generation,
    },
    /// A member is put together from layers that are only read.
    #[error("{path}: {reason}, so it is not written", path = .path.display())]
    OnlyRead {
        /// The member.
        path: PathBuf,
        /// Why.
        reason: ReadOnlyReason,
    },
    /// Two members were written without each other: neither has all that the other has.
    #[error("{0}")]
    SplitBrain(Box<SplitBrain>),
}

/// Refuses file systems that this program does not understand well enough to write to.
pub fn check_may_write(fs: &Filesystem) -> Result<(), Refusal> {
    for member in fs.set().members() {
        let copies = member.superblock_copies().iter().filter_map(|copy| copy.state.as_ref().ok());
        for copy in copies.filter(|copy| copy.fsid() == member.fsid()) {
            copy.check_writable()?;
        }
    }
    if fs.superblock().is_metadump() {
        return Err(Refusal::Metadump);
    }
    if let Some(dump) = fs.set().members().find(|member| member.is_zone_dump()) {
        return Err(Refusal::ZoneDump(dump.path().to_owned()));
    }
    for member in fs.members() {
        if let Some(reason) = member.device().below().and_then(|below| below.read_only()) {
            return Err(Refusal::OnlyRead { path: member.path().to_owned(), reason: reason.clone() });
        }
    }
    Ok(())
}

/// Refuses a set of members with different histories.
pub fn check_same_history(fs: &Filesystem) -> Result<(), Refusal> {
    let split = fs.splits().first().cloned();
    split.map_or(Ok(()), |split| Err(Refusal::SplitBrain(Box::new(split))))
}

/// Refuses a choice that would let a member that missed transactions win without having been asked for as that.
pub fn check_choice(fs: &Filesystem, choice: Choice) -> Result<(), Refusal> {
    let Choice::Device(devid) = choice else { return Ok(()) };
    match fs.standing(devid).and_then(Standing::behind) {
        Some((have, newest)) => Err(Refusal::StalePreferred { devid, have, newest }),
        _ => Ok(()),
    }
}

/// Refuses members that are mounted, the backing file of a loop device, swap, locked by another process, or held by
/// device mapper or md. An early answer: what counts is the lease.
pub fn check_unused<'a>(paths: impl IntoIterator<Item = &'a Path>) -> Result<(), Refusal> {
    for path in paths {
        if let Some(user) = users_of(path)?.into_iter().next() {
            return Err(Refusal::InUse { path: path.to_owned(), user });
        }
    }
    Ok(())
}
