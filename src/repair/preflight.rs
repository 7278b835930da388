//! What must not be written at all, whatever is bad about it.

use crate::device::{DeviceError, Use, users_of};
use crate::filesystem::Filesystem;
use crate::format::UnsupportedFeature;
use crate::scrub::mend::Choice;
use crate::units::{DeviceId, Generation, Logical};
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
    /// Two members were written without each other: neither has all that the other has.
    #[error(
        "split brain: {one} (devid {one_devid}, generation {one_generation}) and {other} (devid {other_devid}, \
         generation {other_generation}) were written without each other: {proof}",
        one = .0.one.display(), one_devid = .0.one_devid, one_generation = .0.one_generation,
        other = .0.other.display(), other_devid = .0.other_devid, other_generation = .0.other_generation,
        proof = .0.proof
    )]
    SplitBrain(Box<SplitBrain>),
}

/// Two members with histories of their own.
#[derive(Debug)]
pub struct SplitBrain {
    /// The member with the older or equal generation.
    pub one: PathBuf,
    /// Its number.
    pub one_devid: DeviceId,
    /// Its last transaction.
    pub one_generation: Generation,
    /// The member that the set goes by.
    pub other: PathBuf,
    /// Its number.
    pub other_devid: DeviceId,
    /// Its last transaction.
    pub other_generation: Generation,
    /// What shows it.
    pub proof: SplitProof,
}

/// What shows that two members were written without each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SplitProof {
    /// Two super blocks of one transaction name different trees.
    #[error("their super blocks of generation {generation} name different roots")]
    Roots {
        /// Of both.
        generation: Generation,
    },
    /// A block verifies on both and is not the same block.
    #[error("tree block {at} of generation {generation} is whole on both and not the same")]
    Block {
        /// Where.
        at: Logical,
        /// Of both.
        generation: Generation,
    },
    /// A block that one wrote was never written on the other, though it was there by its own account.
    #[error("tree block {at} of generation {expect} is of generation {have} on the other")]
    Missed {
        /// Where.
        at: Logical,
        /// On the one that lacks it.
        have: Generation,
        /// On the one that has it.
        expect: Generation,
    },
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
    Ok(())
}

/// Refuses a choice that would let a member that missed transactions win without having been asked for as that.
pub fn check_choice(fs: &Filesystem, choice: Choice) -> Result<(), Refusal> {
    let Choice::Device(devid) = choice else { return Ok(()) };
    match fs.volume().standing(devid) {
        Some(Standing::Stale { have, newest }) => Err(Refusal::StalePreferred { devid, have, newest }),
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
