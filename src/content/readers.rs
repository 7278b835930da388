//! The copies of a piece of data that lies in one piece on each of its devices, and the parity of its row.

use super::proved::Fault;
use crate::checksum::ChecksumType;
use crate::device::read_tolerant;
use crate::filesystem::Filesystem;
use crate::units::Logical;
use crate::volume::{Chunk, Copies, MirrorCopy};

/// Neighbouring pieces are read from one copy, so that a device reads on in sequence: 16 MiB.
const TURN_BYTES: u64 = 16 << 20;

/// Where a piece can be read from.
pub(super) struct Readers<'f> {
    fs: &'f Filesystem,
    at: Logical,
    len_bytes: usize,
    copies: Copies,
}

impl<'f> Readers<'f> {
    /// The piece of at most `max_bytes` at `at`; `None` where no chunk has the address.
    pub(super) fn at(fs: &'f Filesystem, at: Logical, max_bytes: usize) -> Option<Self> {
        let chunk = fs.chunks().lookup(at).ok()?;
        let len_bytes = chunk.contiguous_bytes(at).min(max_bytes as u64) as usize;
        let whole = len_bytes - len_bytes % fs.geometry().sectorsize().max(1) as usize;
        (whole > 0).then(|| Self { fs, at, len_bytes: whole, copies: in_turn(fs, chunk, at) })
    }

    /// The size of the piece.
    pub(super) fn len_bytes(&self) -> usize {
        self.len_bytes
    }

    /// The copies that are there.
    pub(super) fn copies(&self) -> &[MirrorCopy] {
        &self.copies
    }

    /// Reads one copy; the numbers of the sectors that cannot be read, ascending.
    pub(super) fn read(&self, copy: &MirrorCopy, buf: &mut [u8]) -> Vec<usize> {
        let sectors = || (0..buf.len().div_ceil(self.sector_bytes())).collect();
        let Some(device) = self.fs.device(copy.place.devid) else { return sectors() };
        let mut failed = Vec::new();
        read_tolerant(&**device, copy.place.physical, buf, self.sector_bytes(), &mut failed);
        failed.into_iter().map(|sector| sector.index).collect()
    }

    /// Fills `buf`, as long as the piece, with what fits `sums`; the sectors for which there is nothing, with the reason.
    pub(super) fn proved(&mut self, buf: &mut [u8], sums: &[u8]) -> Vec<(usize, Fault)> {
        let mut left: Vec<(usize, Fault)> = Vec::new();
        for (nth, copy) in self.copies.iter().enumerate() {
            if nth == 0 {
                let failed = self.read(copy, buf);
                left = self.wrong(buf, sums, &failed);
            } else {
                let mut other = vec![0; buf.len()];
                let failed = self.read(copy, &mut other);
                let wrong = self.wrong(&other, sums, &failed);
                left = self.take_right(buf, &other, &left, &wrong);
            }
            if left.is_empty() {
                return left;
            }
        }
        if self.copies.is_empty() {
            left = (0..buf.len() / self.sector_bytes()).map(|sector| (sector, Fault::Missing)).collect();
        }
        self.rebuilt(buf, sums, left)
    }

    /// Takes over the sectors among `left` that are not among `wrong`. What is wrong everywhere stays as the first copy
    /// that could be read has it.
    fn take_right(
        &self,
        buf: &mut [u8],
        other: &[u8],
        left: &[(usize, Fault)],
        wrong: &[(usize, Fault)],
    ) -> Vec<(usize, Fault)> {
        let mut still = Vec::new();
        for &(sector, fault) in left {
            let there = wrong.binary_search_by_key(&sector, |(sector, _)| *sector).ok().and_then(|n| wrong.get(n));
            let is_better = there.is_none_or(|(_, theirs)| fault == Fault::Unreadable && *theirs == Fault::Checksum);
            let range = sector * self.sector_bytes()..(sector + 1) * self.sector_bytes();
            if let (true, Some(to), Some(from)) = (is_better, buf.get_mut(range.clone()), other.get(range)) {
                to.copy_from_slice(from);
            }
            still.extend(there.map(|(_, theirs)| (sector, if is_better { *theirs } else { fault })));
        }
        still
    }

    /// Asks the parity of the row for the sectors in `left`: for all of the piece at once where most of it is missing.
    fn rebuilt(&self, buf: &mut [u8], sums: &[u8], left: Vec<(usize, Fault)>) -> Vec<(usize, Fault)> {
        let has_parity = self.fs.chunks().lookup(self.at).is_ok_and(|chunk| chunk.full_stripe(self.at).is_some());
        if left.is_empty() || !has_parity {
            return left;
        }
        let (csum_type, sector, digest) = (self.csum_type(), self.sector_bytes(), self.csum_type().digest_len());
        if left.len() * sector == buf.len() {
            let all_right = |bytes: &[u8]| {
                let mut bad = 0_usize;
                csum_type.verify_sectors(bytes, sector, sums, &mut |_| bad += 1);
                bad == 0
            };
            if let Some(found) = self.fs.volume().recover(self.at, buf.len(), sector, all_right) {
                buf.copy_from_slice(&found.bytes);
                return Vec::new();
            }
        }
        let mut still = Vec::new();
        for (nth, fault) in left {
            let at = self.at + (nth * sector) as u64;
            let stored = sums.get(nth * digest..(nth + 1) * digest).unwrap_or(&[]);
            let found = self.fs.volume().recover(at, sector, sector, |bytes| csum_type.matches(bytes, stored));
            match (found, buf.get_mut(nth * sector..(nth + 1) * sector)) {
                (Some(found), Some(to)) if found.bytes.len() == to.len() => to.copy_from_slice(&found.bytes),
                _ => still.push((nth, fault)),
            }
        }
        still
    }

    /// The sectors of one copy that are not right, ascending.
    fn wrong(&self, bytes: &[u8], sums: &[u8], failed: &[usize]) -> Vec<(usize, Fault)> {
        let mut wrong: Vec<(usize, Fault)> = failed.iter().map(|sector| (*sector, Fault::Unreadable)).collect();
        self.csum_type().verify_sectors(bytes, self.sector_bytes(), sums, &mut |sector| {
            if failed.binary_search(&sector).is_err() {
                wrong.push((sector, Fault::Checksum));
            }
        });
        // A sector of zeros that could not be read may fit its checksum, and is right then.
        wrong.retain(|(sector, fault)| *fault == Fault::Checksum || !self.fits(bytes, sums, *sector));
        wrong.sort_unstable();
        wrong
    }

    fn fits(&self, bytes: &[u8], sums: &[u8], sector: usize) -> bool {
        let (len, digest) = (self.sector_bytes(), self.csum_type().digest_len());
        let bytes = bytes.get(sector * len..(sector + 1) * len);
        let stored = sums.get(sector * digest..(sector + 1) * digest);
        bytes.zip(stored).is_some_and(|(bytes, stored)| self.csum_type().matches(bytes, stored))
    }

    fn csum_type(&self) -> ChecksumType {
        self.fs.geometry().csum_type()
    }

    fn sector_bytes(&self) -> usize {
        self.fs.geometry().sectorsize() as usize
    }
}

/// The copies on devices that are there, another one first every [`TURN_BYTES`]; those of a member that missed
/// transactions last.
fn in_turn(fs: &Filesystem, chunk: &Chunk, at: Logical) -> Copies {
    let mut copies = chunk.copies(at);
    copies.retain(|copy| fs.device(copy.place.devid).is_some());
    let turn = (at.raw() / TURN_BYTES) as usize % copies.len().max(1);
    copies.rotate_left(turn);
    let stale: Vec<_> = fs.set().stale().map(|member| member.devid()).collect();
    copies.sort_by_key(|copy| stale.contains(&copy.place.devid));
    copies
}
