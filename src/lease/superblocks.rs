//! The super blocks of a member as they stand there, byte by byte: a file system that is mounted and written changes
//! them with every transaction.

use super::LeaseError;
use crate::device::WriteDevice;
use crate::format::{SUPERBLOCK_BYTES, SUPERBLOCK_OFFSETS, Superblock};
use crate::units::Physical;
use crate::volume::{Member, SuperblockDefect};
use std::path::Path;

/// What stood in each of their places; `None` where it could not be read, or was written by ourselves since.
pub(super) struct Superblocks([Option<Box<[u8; SUPERBLOCK_BYTES]>>; SUPERBLOCK_OFFSETS.len()]);

impl Superblocks {
    /// Reads them.
    pub(super) fn of(device: &dyn WriteDevice) -> Self {
        Self(SUPERBLOCK_OFFSETS.map(|at| read(device, at)))
    }

    /// Refuses a member whose super blocks are not those that it had when it was looked at.
    pub(super) fn compare_with(&self, member: &Member) -> Result<(), LeaseError> {
        for copy in member.superblock_copies() {
            let Some(now) = self.at(copy.at) else { continue };
            let is_same = match (&copy.state, Superblock::parse(now, copy.at)) {
                (Ok(then), Ok(now)) => *then == now,
                (Err(SuperblockDefect::Unreadable { .. }), _) => true,
                (Err(SuperblockDefect::Invalid(then)), Err(now)) => *then == now,
                (Err(SuperblockDefect::PastEnd), _) | (Ok(_), Err(_)) | (Err(_), Ok(_)) => false,
            };
            if !is_same {
                let expect = match &copy.state {
                    Ok(then) => of_generation(then),
                    Err(defect) => defect.to_string(),
                };
                return Err(changed(member.path(), copy.at, now, expect));
            }
        }
        Ok(())
    }

    /// Refuses a device on which one is not what it was. One that cannot be read says nothing; one that was not known is
    /// known from now on.
    pub(super) fn compare(&mut self, device: &dyn WriteDevice, path: &Path) -> Result<(), LeaseError> {
        for (at, then) in SUPERBLOCK_OFFSETS.into_iter().zip(&mut self.0) {
            let Some(now) = read(device, at) else { continue };
            match then {
                Some(then) if *then != now => return Err(changed(path, at, &now, said(&then[..], at))),
                _ => *then = Some(now),
            }
        }
        Ok(())
    }

    /// Whether a write of so many bytes touches a place of one.
    pub(super) fn touches(at: Physical, bytes: usize) -> bool {
        let end = at.raw().saturating_add(bytes as u64);
        SUPERBLOCK_OFFSETS.into_iter().any(|place| at.raw() < end_of(place) && place.raw() < end)
    }

    /// To be told of own writes: whether they have arrived is for others to find out.
    pub(super) fn forget(&mut self, at: Physical, bytes: usize) {
        let end = at.raw().saturating_add(bytes as u64);
        for (place, block) in SUPERBLOCK_OFFSETS.into_iter().zip(&mut self.0) {
            if at.raw() < end_of(place) && place.raw() < end {
                *block = None;
            }
        }
    }

    fn at(&self, at: Physical) -> Option<&[u8; SUPERBLOCK_BYTES]> {
        SUPERBLOCK_OFFSETS.into_iter().zip(&self.0).find(|(place, _)| *place == at)?.1.as_deref()
    }
}

fn end_of(place: Physical) -> u64 {
    place.raw() + SUPERBLOCK_BYTES as u64
}

fn read(device: &dyn WriteDevice, at: Physical) -> Option<Box<[u8; SUPERBLOCK_BYTES]>> {
    let mut bytes = Box::new([0; SUPERBLOCK_BYTES]);
    device.read_at(at, &mut bytes[..]).ok()?;
    Some(bytes)
}

fn changed(path: &Path, at: Physical, now: &[u8; SUPERBLOCK_BYTES], expect: String) -> LeaseError {
    LeaseError::Superblock { path: path.to_owned(), at, have: said(now, at), expect }
}

fn said(bytes: &[u8], at: Physical) -> String {
    match Superblock::parse(bytes, at) {
        Ok(superblock) => of_generation(&superblock),
        Err(defect) => defect.to_string(),
    }
}

fn of_generation(superblock: &Superblock) -> String {
    format!("generation {}", superblock.generation())
}
