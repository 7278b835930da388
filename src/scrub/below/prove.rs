//! Whether 4 KiB of a member that no window has brought are what they should be: for rows whose other blocks have been
//! judged already, or are judged elsewhere.

use crate::content::sums::{Part, Sums};
use crate::filesystem::Filesystem;
use crate::scrub::reserved::{Occupant, occupant};
use crate::tree::ParentCheck;
use crate::tree::block::check_block;
use crate::units::{DevicePhysical, Logical};
use crate::volume::Role;

/// What can be said of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Proof {
    /// Nothing is stored there.
    Free,
    /// They fit their checksum.
    Right,
    /// They have none, or it is not known whether they do.
    Open,
    /// They do not fit.
    Wrong,
}

/// What can be said of `bytes`, as read from `place`.
pub(super) fn prove(fs: &Filesystem, place: DevicePhysical, bytes: &[u8]) -> Proof {
    let extent = match occupant(fs, place) {
        Occupant::None => return Proof::Free,
        Occupant::Unknown => return Proof::Wrong,
        Occupant::Extent(extent) => extent,
    };
    let Some((chunk, Role::Data { logical, .. })) = fs.chunks().role_at(place) else { return Proof::Wrong };
    if chunk.holds_metadata() && is_tree_block(fs, extent, place, logical) {
        return Proof::Right;
    }
    if bytes.len() != fs.geometry().sectorsize() as usize {
        return Proof::Wrong;
    }
    match stored_sum(fs, logical) {
        Some(sum) if fs.geometry().csum_type().matches(bytes, &sum) => Proof::Right,
        Some(_) => Proof::Wrong,
        None if chunk.holds_metadata() => Proof::Wrong,
        None => Proof::Open,
    }
}

/// The checksum of the sector at `at`.
fn stored_sum(fs: &Filesystem, at: Logical) -> Option<Vec<u8>> {
    let geometry = fs.geometry();
    let sizes = (geometry.sectorsize(), geometry.csum_type().digest_len());
    let mut found = None;
    let mut sums = Sums::new(fs, fs.roots().csum, at, sizes, false);
    sums.cover(at..at + u64::from(geometry.sectorsize()), &mut |part| {
        if let Part::Summed(_, sum) = part {
            found = Some(sum.to_vec());
        }
    });
    found
}

/// The block at `extent` verifies on this copy, as it is.
fn is_tree_block(fs: &Filesystem, extent: Logical, place: DevicePhysical, logical: Logical) -> bool {
    let nodesize = fs.geometry().nodesize() as usize;
    let (Some(skip), Some(device)) = (logical.raw().checked_sub(extent.raw()), fs.device(place.devid)) else {
        return false;
    };
    let Some(start) = place.physical.raw().checked_sub(skip).filter(|_| skip < nodesize as u64) else { return false };
    let mut block = vec![0; nodesize];
    let is_read = device.read_at(crate::units::Physical::new(start), &mut block).is_ok();
    is_read && check_block(&block, extent, fs.geometry(), &ParentCheck::default()).is_ok()
}
