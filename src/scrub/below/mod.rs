//! The copies and parities that layers below btrfs keep: every md copy is read and judged, and what is bad on one of them
//! is taken from another.
//!
//! A stripe of a device that is put together from others is read copy by copy (`read`); where its bytes do not verify,
//! the other copies and parity are asked (`resolve`), and from there on the stripe counts as good, with a finding for each
//! place below that is not. So the judges of mirrors and rows know nothing of layers. Parity itself is judged by
//! `rows`. md cannot say which copy is right; checksums can.

mod bring;
mod prove;
mod read;
mod resolve;
pub(super) mod rows;
mod tell;

pub(super) use bring::bring;
pub(super) use read::{Into, LowerSector, read};
pub(super) use resolve::{BelowBlock, Stripe, resolve};
pub(super) use tell::{place_below, tell, to_lower};

use crate::device::{Below, LowerPlace};
use std::path::PathBuf;

use crate::units::Physical;

/// A place below btrfs that a finding is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BelowPlace {
    /// The layer: `md` where an array keeps it.
    pub kind: &'static str,
    /// md's number of the slot.
    pub role: Option<u32>,
    /// The file.
    pub path: PathBuf,
    /// Its number among those of the set.
    pub file: u32,
    /// Where in the file.
    pub physical: Physical,
    /// In bytes.
    pub length: u32,
}

impl BelowPlace {
    fn new(below: &dyn Below, place: LowerPlace, length: u64) -> Option<Self> {
        let file = below.files().get(place.file as usize)?;
        let kind = match place.role {
            Some(_) => "md",
            None => file.layers.first().map_or("file", crate::device::Layer::kind),
        };
        let (path, length) = (file.path.clone(), u32::try_from(length).unwrap_or(u32::MAX));
        Some(Self { kind, role: place.role, path, file: place.file, physical: place.at, length })
    }
}

/// What is in a place, or why it cannot be read.
type Have = Result<Vec<u8>, Option<i32>>;

/// The places below where a range is not `right`, with what is there.
pub(super) fn wrong_copies(below: &dyn Below, at: Physical, right: &[u8]) -> Vec<(BelowPlace, Have)> {
    let mut wrong = Vec::new();
    for part in below.parts(at, right.len() as u64) {
        let range = part.offset_bytes as usize..(part.offset_bytes + part.len_bytes) as usize;
        for copy in &part.copies {
            let Some(file) = below.files().get(copy.file as usize) else { continue };
            let mut have = vec![0; range.len()];
            let read = file.device.read_at(copy.at, &mut have);
            if read.is_ok() && right.get(range.clone()) == Some(&have[..]) {
                continue;
            }
            let have = read.map(|()| have).map_err(|error| error.raw_os_error());
            wrong.extend(BelowPlace::new(below, *copy, part.len_bytes).map(|place| (place, have)));
        }
    }
    wrong
}
