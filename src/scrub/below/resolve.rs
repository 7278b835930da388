//! What is bad in a stripe is looked for in the copies and parities below it; what is good is held against them.

use super::LowerSector;
use crate::checksum::Digest;
use crate::device::{Below, LowerPlace, ReadDevice, search_below, sole_reading};
use crate::scrub::finding::{Evidence, Problem, RepairState};
use crate::scrub::judge::{accept, stored_sum};
use crate::scrub::links::BlockLink;
use crate::scrub::verify::{BadPiece, CopyVerdict, Unreadable, judge_block};
use crate::scrub::window::{Run, RunKind, Window};
use crate::tree::TreeGeometry;
use crate::units::{Logical, Physical};
use std::collections::BTreeMap;
use std::ops::Range;
use xxhash_rust::xxh3::xxh3_128;

/// A block that is right in the buffer, and not in every place below.
pub(in crate::scrub) struct BelowBlock {
    pub(in crate::scrub) logical: Logical,
    /// In the stripe's buffer.
    pub(in crate::scrub) bytes: Range<usize>,
    /// In [`Window::runs`].
    pub(in crate::scrub) run: usize,
    pub(in crate::scrub) problem: Problem,
    pub(in crate::scrub) evidence: Evidence,
    pub(in crate::scrub) repair: RepairState,
    pub(in crate::scrub) wrong: Vec<WrongPlace>,
}

/// A place below that does not hold what it should.
pub(in crate::scrub) struct WrongPlace {
    pub(in crate::scrub) place: LowerPlace,
    /// In the stripe's buffer.
    pub(in crate::scrub) bytes: Range<usize>,
    /// What is there; `None` where it cannot be read.
    pub(in crate::scrub) before: Option<Box<[u8]>>,
}

/// One stripe of a window, as it was read.
pub(in crate::scrub) struct Stripe<'a> {
    pub(in crate::scrub) window: &'a Window,
    pub(in crate::scrub) number: usize,
    pub(in crate::scrub) device: &'a dyn ReadDevice,
    pub(in crate::scrub) below: &'a dyn Below,
    pub(in crate::scrub) geometry: &'a TreeGeometry,
    pub(in crate::scrub) compare: bool,
}

/// Puts right what can be put right from below, in the buffer and in the verdict. Returns what is wrong below.
pub(in crate::scrub) fn resolve(
    stripe: &Stripe<'_>,
    buffer: &mut [u8],
    unreadable: &mut Unreadable,
    verdict: &mut CopyVerdict,
    lower: Vec<LowerSector>,
) -> Vec<BelowBlock> {
    let mut blocks = Vec::new();
    let mut seen: Vec<Range<usize>> = Vec::new();
    for bad in std::mem::take(&mut verdict.bad) {
        let Some(bytes) = stripe.bytes_of(&bad) else {
            verdict.bad.push(bad);
            continue;
        };
        seen.push(bytes.clone());
        match stripe.right(&bad, bytes.clone()) {
            Some(right) => blocks.push(stripe.put_right(bad, bytes, &right, buffer, unreadable, verdict)),
            None => verdict.bad.push(bad),
        }
    }
    verdict.fingerprints.sort_unstable_by_key(|(at, _)| *at);
    if !lower.is_empty() {
        blocks.extend(stripe.differing(buffer, lower, &seen));
    }
    blocks
}

impl Stripe<'_> {
    fn base(&self) -> Physical {
        let stripe = self.window.chunk.stripes().get(self.number);
        stripe.map(|stripe| stripe.offset + self.window.from_bytes).unwrap_or_default()
    }

    fn sectorsize(&self) -> usize {
        self.geometry.sectorsize() as usize
    }

    fn bytes_of(&self, bad: &BadPiece) -> Option<Range<usize>> {
        let run = self.window.runs.get(bad.run)?;
        self.window.pieces_on(run, self.number).find_map(|(piece, offset)| {
            let within = bad.logical.raw().checked_sub(piece.logical.raw())?;
            let start = offset + within as usize;
            (within < piece.len_bytes).then(|| start..start + bad.len_bytes as usize)
        })
    }

    /// The right bytes of a block, from wherever below they are.
    fn right(&self, bad: &BadPiece, bytes: Range<usize>) -> Option<Vec<u8>> {
        let run = self.window.runs.get(bad.run)?;
        let at = self.base() + bytes.start as u64;
        match accept(self.window, run, bad.logical, self.geometry) {
            Some(accept) => search_below(self.device, at, bytes.len(), &*accept),
            None => sole_reading(self.device, at, bytes.len()),
        }
    }

    fn put_right(
        &self,
        bad: BadPiece,
        bytes: Range<usize>,
        right: &[u8],
        buffer: &mut [u8],
        unreadable: &mut Unreadable,
        verdict: &mut CopyVerdict,
    ) -> BelowBlock {
        if let Some(room) = buffer.get_mut(bytes.clone()) {
            room.copy_from_slice(right);
        }
        let sectors = bytes.start / self.sectorsize()..bytes.end.div_ceil(self.sectorsize());
        unreadable.retain(|(sector, _)| !sectors.contains(sector));
        match self.window.runs.get(bad.run).map(|run| run.kind) {
            Some(RunKind::Tree(_)) => verdict.links.extend(BlockLink::of(bad.logical, right)),
            Some(RunKind::Unsummed) if self.compare => verdict.fingerprints.push((bad.logical, xxh3_128(right))),
            _ => {}
        }
        let wrong = self.wrong_places(bytes.clone(), right);
        let (BadPiece { logical, run, problem, evidence, .. }, repair) = (bad, RepairState::Possible);
        BelowBlock { logical, bytes, run, problem, evidence, repair, wrong }
    }

    /// The places of a block that do not hold `right`, read once more.
    fn wrong_places(&self, bytes: Range<usize>, right: &[u8]) -> Vec<WrongPlace> {
        let sectorsize = self.sectorsize();
        let mut wrong = Vec::new();
        for part in self.below.parts(self.base() + bytes.start as u64, bytes.len() as u64) {
            let from = part.offset_bytes as usize;
            let Some(right) = right.get(from..from + part.len_bytes as usize) else { continue };
            for copy in &part.copies {
                let Some(file) = self.below.files().get(copy.file as usize) else { continue };
                for (nth, right) in right.chunks(sectorsize).enumerate() {
                    let place = LowerPlace { at: copy.at + (nth * sectorsize) as u64, ..*copy };
                    let mut have = vec![0; right.len()];
                    let read = file.device.read_at(place.at, &mut have);
                    if read.is_ok() && have == right {
                        continue;
                    }
                    let start = bytes.start + from + nth * sectorsize;
                    let before = read.is_ok().then(|| have.into_boxed_slice());
                    wrong.push(WrongPlace { place, bytes: start..start + right.len(), before });
                }
            }
        }
        wrong
    }

    /// Blocks that are good as read, of which another copy is not the same.
    fn differing(&self, buffer: &[u8], lower: Vec<LowerSector>, seen: &[Range<usize>]) -> Vec<BelowBlock> {
        let sectorsize = self.sectorsize();
        let mut by_sector: BTreeMap<usize, Vec<LowerSector>> = BTreeMap::new();
        for one in lower {
            by_sector.entry(one.sector).or_default().push(one);
        }
        let mut blocks = Vec::new();
        for (number, run) in self.window.runs.iter().enumerate() {
            for (piece, offset) in self.window.pieces_on(run, self.number) {
                let step = if matches!(run.kind, RunKind::Tree(_)) { piece.len_bytes as usize } else { sectorsize };
                let (first, last) = (offset / sectorsize, (offset + piece.len_bytes as usize).div_ceil(sectorsize));
                let touched: Vec<usize> = by_sector.range(first..last).map(|(sector, _)| *sector).collect();
                let mut starts: Vec<usize> =
                    touched.iter().map(|sector| offset + (sector * sectorsize - offset) / step * step).collect();
                starts.dedup();
                for start in starts {
                    let bytes = start..start + step;
                    if seen.iter().any(|seen| seen.start < bytes.end && bytes.start < seen.end) {
                        continue;
                    }
                    let logical = piece.logical + (start - offset) as u64;
                    let sectors = start / sectorsize..bytes.end.div_ceil(sectorsize);
                    let lower: Vec<&LowerSector> = by_sector.range(sectors).flat_map(|(_, all)| all).collect();
                    blocks.extend(self.differing_block(number, run, logical, bytes, buffer, &lower));
                }
            }
        }
        blocks
    }

    fn differing_block(
        &self,
        number: usize,
        run: &Run,
        logical: Logical,
        bytes: Range<usize>,
        buffer: &[u8],
        lower: &[&LowerSector],
    ) -> Option<BelowBlock> {
        let sectorsize = self.sectorsize();
        let first = *lower.first()?;
        let good = buffer.get(bytes.clone())?;
        let (problem, evidence) = match (&first.bytes, &run.kind) {
            (Err(errno), _) => (Problem::ReadError, Evidence::Errno(*errno)),
            (Ok(_), RunKind::Unsummed) => (Problem::CopiesDiffer, Evidence::None),
            (Ok(have), RunKind::Summed(_)) => {
                let have = self.geometry.csum_type().digest(have);
                let expect = Digest::new(stored_sum(self.window, run, logical, self.geometry)?);
                (Problem::Checksum, Evidence::Checksum { have, expect })
            }
            (Ok(_), RunKind::Tree(check)) => {
                let mut other = good.to_vec();
                for one in lower.iter().filter(|one| one.place.file == first.place.file) {
                    let (Ok(have), at) = (&one.bytes, one.sector * sectorsize - bytes.start) else { continue };
                    other.get_mut(at..at + have.len())?.copy_from_slice(have);
                }
                judge_block(logical, &other, check, self.geometry).unwrap_or((Problem::CopiesDiffer, Evidence::None))
            }
        };
        let is_open = problem == Problem::CopiesDiffer;
        let wrong_place = |one: &&LowerSector| {
            let start = one.sector * sectorsize;
            let before = one.bytes.as_ref().ok().cloned();
            WrongPlace { place: one.place, bytes: start..start + sectorsize, before }
        };
        let wrong = if is_open { self.all_places(&bytes) } else { lower.iter().map(wrong_place).collect() };
        let repair = if is_open { RepairState::Undecidable } else { RepairState::Possible };
        Some(BelowBlock { logical, bytes, run: number, problem, evidence, repair, wrong })
    }

    /// Where nothing decides, every copy may be the wrong one.
    fn all_places(&self, bytes: &Range<usize>) -> Vec<WrongPlace> {
        let parts = self.below.parts(self.base() + bytes.start as u64, bytes.len() as u64);
        let places = parts.into_iter().flat_map(|part| {
            let start = bytes.start + part.offset_bytes as usize;
            let range = start..start + part.len_bytes as usize;
            part.copies.into_iter().map(move |place| WrongPlace { place, bytes: range.clone(), before: None })
        });
        places.collect()
    }
}
