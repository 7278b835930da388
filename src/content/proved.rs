//! A range of data addresses, proved sector by sector: by its checksum from any copy, or from what parity rebuilds.
//!
//! A sector that no copy proves is told, and its bytes are those of the first copy that could be read: for whoever wants
//! to look at them, never for a file that is called whole.

use super::readers::Readers;
use super::sums::{Part, Sums};
use super::unsummed;
use crate::filesystem::Filesystem;
use crate::tree::LostSubtree;
use crate::units::{Logical, LogicalRange, range_len};

/// Why a sector could not be proved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// No copy, and nothing that parity gives, fits the checksum.
    Checksum,
    /// The devices that should have it gave errors.
    Unreadable,
    /// Every copy is on a device that is missing, or no chunk has the address.
    Missing,
    /// There is no checksum, and the copies are not equal.
    CopiesDiffer,
    /// There is no checksum, and the only copies are on a member that missed transactions.
    Stale,
    /// There is no checksum, and what is known of its chunk does not agree.
    Doubtful,
    /// The part of the checksum tree that should have its checksum is lost.
    SumsLost,
}

/// A sector that is not proved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadSector {
    /// Where.
    pub at: Logical,
    /// Why.
    pub fault: Fault,
}

/// What a read found out about its range.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Ascending by address.
    pub bad: Vec<BadSector>,
    /// Sectors without a checksum whose copies are equal, or of which there is only one.
    pub unsummed_sectors: u64,
}

impl Reading {
    /// Whether a checksum proves every sector.
    pub fn is_proved(&self) -> bool {
        self.bad.is_empty() && self.unsummed_sectors == 0
    }
}

/// Reads data of one file system; may be shared between threads.
#[derive(Clone, Copy)]
pub struct DataReader<'f> {
    fs: &'f Filesystem,
}

impl<'f> DataReader<'f> {
    /// A reader of `fs`.
    pub fn new(fs: &'f Filesystem) -> Self {
        Self { fs }
    }

    /// Fills `buf` with the data from `at` on, which both must be whole sectors.
    pub fn read(self, at: Logical, buf: &mut [u8]) -> Reading {
        let range = at..at + buf.len() as u64;
        let mut reading = Reading::default();
        let (parts, sums) = self.parts(&range);
        for part in parts {
            let from = (part.range.start - at) as usize;
            let Some(buf) = buf.get_mut(from..from + range_len(&part.range) as usize) else { continue };
            match part.kind {
                PartKind::Summed(first) => {
                    let sums = sums.get(first..).unwrap_or(&[]);
                    self.summed(part.range.start, buf, sums, &mut reading);
                }
                PartKind::Unsummed => unsummed::read(self.fs, part.range.start, buf, &mut reading),
                PartKind::SumsLost => {
                    let mut ignored = Reading::default();
                    unsummed::read(self.fs, part.range.start, buf, &mut ignored);
                    let step = u64::from(self.fs.geometry().sectorsize());
                    let sectors = (0..range_len(&part.range) / step).map(|n| part.range.start + n * step);
                    reading.bad.extend(sectors.map(|at| BadSector { at, fault: Fault::SumsLost }));
                }
            }
        }
        reading
    }

    /// The range in parts with and without checksums, and the checksums.
    fn parts(self, range: &LogicalRange) -> (Vec<RangePart>, Vec<u8>) {
        let geometry = self.fs.geometry();
        let sizes = (geometry.sectorsize(), geometry.csum_type().digest_len());
        let root = self.fs.roots().csum;
        let mut sums = Sums::new(self.fs, root, range.start, sizes, false);
        let (mut parts, mut bytes) = (Vec::new(), Vec::new());
        sums.cover(range.clone(), &mut |part| match part {
            Part::Summed(range, sums) => {
                parts.push(RangePart { range, kind: PartKind::Summed(bytes.len()) });
                bytes.extend_from_slice(sums);
            }
            Part::Unsummed(range) => parts.push(RangePart { range, kind: PartKind::Unsummed }),
        });
        let lost = sums.take_lost();
        let is_lost = |part: &RangePart| root.is_none() || lost.iter().any(|lost| may_hold_sums(lost, &part.range));
        for part in parts.iter_mut().filter(|part| part.kind == PartKind::Unsummed) {
            if is_lost(part) {
                part.kind = PartKind::SumsLost;
            }
        }
        (parts, bytes)
    }

    /// Reads sectors with these checksums, mirror by mirror until all are right, then by parity.
    fn summed(self, at: Logical, buf: &mut [u8], sums: &[u8], reading: &mut Reading) {
        let geometry = self.fs.geometry();
        let (sector, digest) = (geometry.sectorsize() as usize, geometry.csum_type().digest_len());
        let mut done = 0;
        while done < buf.len() {
            let at = at + done as u64;
            let rest = buf.get_mut(done..).unwrap_or_default();
            let sums = sums.get(done / sector * digest..).unwrap_or(&[]);
            let Some(mut readers) = Readers::at(self.fs, at, rest.len()) else {
                reading.bad.push(BadSector { at, fault: Fault::Missing });
                done += sector;
                continue;
            };
            let len = readers.len_bytes();
            let piece = rest.get_mut(..len).unwrap_or_default();
            for (nth, fault) in readers.proved(piece, sums) {
                reading.bad.push(BadSector { at: at + (nth * sector) as u64, fault });
            }
            done += len;
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PartKind {
    /// The first of its checksums.
    Summed(usize),
    Unsummed,
    SumsLost,
}

struct RangePart {
    range: LogicalRange,
    kind: PartKind,
}

/// Could the checksums of `range` have stood in what is lost?
fn may_hold_sums(lost: &LostSubtree, range: &LogicalRange) -> bool {
    lost.first.offset < range.end.raw() && lost.end.is_none_or(|end| end.offset > range.start.raw())
}
