//! Data without checksums: right as far as its copies are equal, or there is only one. A member that missed transactions
//! has no say: what it holds was right once.

use super::proved::{BadSector, Fault, Reading};
use super::readers::Readers;
use crate::filesystem::Filesystem;
use crate::units::{DeviceId, Logical};
use std::collections::BTreeSet;

/// Fills `buf` with the sectors from `at` on.
pub(super) fn read(fs: &Filesystem, at: Logical, buf: &mut [u8], reading: &mut Reading) {
    let sector = fs.geometry().sectorsize() as usize;
    let stale: BTreeSet<DeviceId> = fs.set().stale().map(|member| member.devid()).collect();
    let mut done = 0;
    while done < buf.len() {
        let at = at + done as u64;
        let rest = buf.get_mut(done..).unwrap_or_default();
        let Some(readers) = Readers::at(fs, at, rest.len()) else {
            reading.bad.push(BadSector { at, fault: Fault::Missing });
            done += sector;
            continue;
        };
        let piece = rest.get_mut(..readers.len_bytes()).unwrap_or_default();
        Comparison { fs, readers: &readers, stale: &stale, sector }.run(at, piece, reading);
        done += readers.len_bytes();
    }
}

struct Comparison<'a> {
    fs: &'a Filesystem,
    readers: &'a Readers<'a>,
    stale: &'a BTreeSet<DeviceId>,
    sector: usize,
}

impl Comparison<'_> {
    fn run(&self, at: Logical, buf: &mut [u8], reading: &mut Reading) {
        let sectors = buf.len() / self.sector;
        let voters = || self.readers.copies().iter().filter(|copy| !self.stale.contains(&copy.place.devid));
        let without = match (voters().next(), self.readers.copies().first()) {
            (Some(_), _) => Fault::Unreadable,
            (None, Some(_)) => Fault::Stale,
            (None, None) => Fault::Missing,
        };
        let is_doubtful = self.fs.chunks().lookup(at).is_ok_and(|chunk| self.fs.knowledge().doubts(chunk));
        let mut seen = vec![false; sectors];
        let mut differ = vec![false; sectors];
        for copy in voters() {
            let mut other = vec![0; buf.len()];
            let failed = self.readers.read(copy, &mut other);
            for nth in (0..sectors).filter(|nth| failed.binary_search(nth).is_err()) {
                let range = nth * self.sector..(nth + 1) * self.sector;
                let (Some(to), Some(from)) = (buf.get_mut(range.clone()), other.get(range)) else { continue };
                match (seen.get_mut(nth), differ.get_mut(nth)) {
                    (Some(seen), _) if !*seen => {
                        to.copy_from_slice(from);
                        *seen = true;
                    }
                    (_, Some(differ)) => *differ |= to != from,
                    _ => {}
                }
            }
        }
        for nth in 0..sectors {
            let here = at + (nth * self.sector) as u64;
            let is_seen = seen.get(nth).copied().unwrap_or_default();
            let range = nth * self.sector..(nth + 1) * self.sector;
            let is_there = is_seen || buf.get_mut(range).is_some_and(|to| self.rebuild(here, to));
            if is_doubtful {
                reading.bad.push(BadSector { at: here, fault: Fault::Doubtful });
            } else if differ.get(nth).copied().unwrap_or_default() {
                reading.bad.push(BadSector { at: here, fault: Fault::CopiesDiffer });
            } else if is_there {
                reading.unsummed_sectors += 1;
            } else {
                reading.bad.push(BadSector { at: here, fault: without });
            }
        }
    }

    /// One sector by parity, where all of its row is of the last transaction.
    fn rebuild(&self, at: Logical, to: &mut [u8]) -> bool {
        let Ok(chunk) = self.fs.chunks().lookup(at) else { return false };
        let is_stale = |devid: DeviceId| self.stale.contains(&devid);
        if chunk.full_stripe(at).is_none() || chunk.stripes().iter().any(|stripe| is_stale(stripe.devid)) {
            return false;
        }
        let found = self.fs.volume().recover(at, to.len(), self.sector, |_| true);
        let found = found.filter(|found| found.bytes.len() == to.len());
        if let Some(found) = &found {
            to.copy_from_slice(&found.bytes);
        }
        found.is_some()
    }
}
