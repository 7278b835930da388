//! Looks at the new device before anything is written to it, and makes room on it.

use super::signature::signature_on;
use super::{DeviceFailure, Marker};
use crate::device::ReadDevice;
use crate::format::{PlacedSuperblock, SUPERBLOCK_BYTES, SUPERBLOCK_MAGIC, SUPERBLOCK_OFFSETS};
use crate::lease::LeasedDevice;
use crate::units::Physical;
use crate::volume::LostMember;
use std::path::{Path, PathBuf};
use thiserror::Error;
use uuid::Uuid;

/// Where the magic stands in a super block.
const MAGIC_OFFSET: usize = 0x40;
/// btrfs allocates nothing below this.
const RESERVED_BYTES: u64 = 1 << 20;
/// What other things write at the end of a device fits in here.
const TAIL_BYTES: u64 = 128 << 10;
/// What a disk writes as a whole or not at all.
const ATOM_BYTES: usize = 512;
/// Zeros are written in pieces of this size.
const ZERO_BYTES: u64 = 64 << 10;

/// Why a device is not taken. Nothing has been written to it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TargetRefusal {
    /// It is shorter than the member is recorded to be.
    #[error("{path}: is too small by {} bytes: {have_bytes} bytes long, the member has {expect_bytes}", .expect_bytes - .have_bytes, path = .path.display())]
    TooSmall {
        /// The device.
        path: PathBuf,
        /// Its length.
        have_bytes: u64,
        /// The length that is needed.
        expect_bytes: u64,
    },
    /// Something is on it.
    #[error("{path}: holds {what} (at {at})", path = .path.display())]
    Holds {
        /// The device.
        path: PathBuf,
        /// What.
        what: &'static str,
        /// Where that shows.
        at: Physical,
    },
    /// The place of a super block cannot be read.
    #[error("{path}: cannot be read at {at}", path = .path.display())]
    Unreadable {
        /// The device.
        path: PathBuf,
        /// The place.
        at: Physical,
    },
}

/// What is on the new device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// Nothing that is known.
    Nothing,
    /// A part of the same member, left by an earlier run.
    Half(Marker),
    /// Something that the user has agreed to lose.
    ToBeOverwritten,
}

/// Looks whether the member can be made here.
pub(super) fn look_at(
    device: &dyn ReadDevice,
    path: &Path,
    fsid: Uuid,
    lost: &LostMember,
    overwrite: bool,
) -> Result<Found, TargetRefusal> {
    let (have_bytes, expect_bytes) = (device.len(), lost.item().total_bytes);
    if have_bytes < expect_bytes {
        return Err(TargetRefusal::TooSmall { path: path.to_owned(), have_bytes, expect_bytes });
    }
    let half = read_place(device, Marker::AT).as_deref().and_then(Marker::parse);
    if let Some(marker) = half.filter(|marker| marker.fsid == fsid && marker.uuid == lost.item().uuid) {
        return Ok(Found::Half(marker));
    }
    let on_it = contents(device, path)?;
    match on_it {
        None => Ok(Found::Nothing),
        Some(_) if overwrite => Ok(Found::ToBeOverwritten),
        Some((what, at)) => Err(TargetRefusal::Holds { path: path.to_owned(), what, at }),
    }
}

/// Whether the power was cut in the last write of all: each 512 bytes are those of the marker or of the super block that was
/// to replace it.
pub(super) fn is_between(device: &dyn ReadDevice, marker: &Marker, superblock: &PlacedSuperblock) -> bool {
    let Some(have) = read_place(device, superblock.at()) else { return false };
    let (before, after) = (marker.to_bytes(), superblock.bytes());
    let mut atoms = have.chunks(ATOM_BYTES).zip(before.chunks(ATOM_BYTES)).zip(after.chunks(ATOM_BYTES));
    superblock.at() == Marker::AT && atoms.all(|((have, before), after)| have == before || have == after)
}

fn contents(device: &dyn ReadDevice, path: &Path) -> Result<Option<(&'static str, Physical)>, TargetRefusal> {
    for at in SUPERBLOCK_OFFSETS.into_iter().filter(|at| (*at + SUPERBLOCK_BYTES as u64).raw() <= device.len()) {
        let bytes = read_place(device, at).ok_or_else(|| TargetRefusal::Unreadable { path: path.to_owned(), at })?;
        let has_magic = bytes.get(MAGIC_OFFSET..).is_some_and(|rest| rest.starts_with(&SUPERBLOCK_MAGIC));
        if has_magic {
            return Ok(Some(("a btrfs super block", at)));
        }
        if Marker::parse(&bytes).is_some() {
            return Ok(Some(("a part of another rebuilt device", at)));
        }
        if bytes.iter().any(|byte| *byte != 0) {
            return Ok(signature_on(device).or(Some(("something in the place of a super block", at))));
        }
    }
    Ok(signature_on(device))
}

fn read_place(device: &dyn ReadDevice, at: Physical) -> Option<Vec<u8>> {
    let mut bytes = vec![0; SUPERBLOCK_BYTES];
    device.read_at(at, &mut bytes).ok()?;
    Some(bytes)
}

/// Takes away what could be mistaken for something, and puts the marker there: from now on the device is nothing but the
/// member to be.
pub(super) fn make_room(device: &LeasedDevice, found: Found, marker: Marker) -> Result<(), DeviceFailure> {
    let len = device.len();
    let places = SUPERBLOCK_OFFSETS.map(Physical::raw).map(|at| at..at + SUPERBLOCK_BYTES as u64);
    let edges = [0..RESERVED_BYTES.min(len), (len.saturating_sub(TAIL_BYTES) & !0xfff)..len];
    let ranges: Vec<_> = match found {
        Found::Nothing => Vec::new(),
        Found::Half(_) => places.into_iter().skip(1).collect(),
        Found::ToBeOverwritten => places.into_iter().chain(edges).collect(),
    };
    for range in ranges.into_iter().filter(|range| range.end <= len) {
        let mut at = range.start;
        while at < range.end {
            let step = ZERO_BYTES.min(range.end - at);
            write(device, Physical::new(at), &vec![0; step as usize])?;
            at += step;
        }
    }
    device.sync().map_err(DeviceFailure::Sync)?;
    put(device, Marker::AT, &marker.to_bytes())
}

/// Writes, syncs, and reads back around the page cache.
pub(super) fn put(device: &LeasedDevice, at: Physical, bytes: &[u8]) -> Result<(), DeviceFailure> {
    write(device, at, bytes)?;
    device.sync().map_err(DeviceFailure::Sync)?;
    let mut back = vec![0; bytes.len()];
    device.read_at(at, &mut back).map_err(|error| DeviceFailure::ReadBack { at, error })?;
    if back == bytes { Ok(()) } else { Err(DeviceFailure::Differs { at }) }
}

fn write(device: &LeasedDevice, at: Physical, bytes: &[u8]) -> Result<(), DeviceFailure> {
    device.write_at(at, bytes).map_err(|error| DeviceFailure::Write { at, error })
}
