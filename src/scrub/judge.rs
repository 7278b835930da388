//! Judges all copies of a window together where blocks are mirrored or stand alone: which bad copy has a good one
//! beside it, and which copies without checksum are not equal.
//!
//! A tree block whose checksum, address, generation and owner are right is what was written there: it is the source for
//! a copy that is rotten, also where its content cannot be right.

use super::compare::{Difference, differences};
use super::finding::{Evidence, Finding, FindingKind, Problem, RepairState};
use super::mend::{Choice, Fix, LostCopies, LostCopy, Mending, Source};
use super::selection::Selection;
use super::sink::Tally;
use super::stream::StripeCopy;
use super::verify::{BadPiece, Unreadable, unreadable_in};
use super::window::{Run, RunKind, Window};
use crate::tree::TreeGeometry;
use crate::units::{DeviceId, Logical, ObjectId};
use crate::volume::{Chunk, Layout, MirrorCopy, Standing};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// What the judges need to know of the file system, and of the run.
pub(super) struct Bench<'a> {
    pub(super) geometry: &'a TreeGeometry,
    /// Where the member with this devid stands; `None` where it is not at hand.
    pub(super) standing: &'a (dyn Fn(DeviceId) -> Option<Standing> + Sync),
    /// Can no file read the sector there? Then its copies need not be equal. Reads trees: asked only where they are not.
    pub(super) is_unwritten: &'a (dyn Fn(Logical) -> bool + Sync),
    /// Is the part of the checksum tree lost that would tell whether the sector has a checksum? Reads trees: asked only where
    /// its copies are not equal or not readable.
    pub(super) is_sum_lost: &'a (dyn Fn(Logical) -> bool + Sync),
    /// Is all known that the block group holds? Reads trees: asked only where parity does not fit.
    pub(super) is_accounted: &'a (dyn Fn(&Chunk) -> bool + Sync),
    /// Is parity looked at?
    pub(super) judges_parity: bool,
    /// Are right bytes to be collected, and by which rules?
    pub(super) mending: Option<&'a Mending<'a>>,
    /// What is to be told of.
    pub(super) selection: &'a Selection,
}

impl Bench<'_> {
    pub(super) fn is_present(&self, devid: DeviceId) -> bool {
        (self.standing)(devid).is_some()
    }

    /// Can a copy on this device be believed though nothing verifies it?
    pub(super) fn has_vote(&self, devid: DeviceId) -> bool {
        (self.standing)(devid).is_some_and(Standing::has_vote)
    }

    /// What is right may be known: a member with a history of its own stays as it is.
    pub(super) fn prospect_on(&self, devid: DeviceId, repair: RepairState) -> RepairState {
        let is_apart = (self.standing)(devid).is_some_and(Standing::is_apart);
        if is_apart && repair == RepairState::Possible { RepairState::Undecidable } else { repair }
    }

    /// Is a member that missed transactions at hand?
    pub(super) fn is_stale(&self, devid: DeviceId) -> bool {
        self.is_present(devid) && !self.has_vote(devid)
    }

    pub(super) fn sectors(&self, len_bytes: u64) -> u64 {
        len_bytes / u64::from(self.geometry.sectorsize())
    }
}

/// Adds to `tally` what the copies of a mirrored or striped window say together. `copies` are those of present devices.
pub(super) fn judge_mirrors(window: &Window, copies: &[StripeCopy], bench: &Bench<'_>, tally: &mut Tally) {
    debug_assert!(window.chunk.profile().row().layout != Layout::Parity);
    let mut by_block: BTreeMap<Logical, Vec<(usize, &BadPiece)>> = BTreeMap::new();
    for copy in copies {
        for bad in &copy.verdict.bad {
            by_block.entry(bad.logical).or_default().push((copy.stripe, bad));
        }
    }
    let mut differing = differences(window, copies, bench.standing);
    differing.retain(|at, _| !(bench.is_unwritten)(*at));
    let touched: BTreeSet<Logical> = by_block.keys().chain(differing.keys()).copied().collect();
    for at in touched {
        let bad = by_block.get(&at).map_or(&[][..], Vec::as_slice);
        let run = bad.first().map(|(_, b)| b.run).or_else(|| run_at(window, at));
        let Some(run) = run.and_then(|number| window.runs.get(number)) else { continue };
        let len_bytes = match run.kind {
            RunKind::Tree(_) => run.len_bytes,
            RunKind::Summed(_) | RunKind::Unsummed => u64::from(bench.geometry.sectorsize()),
        };
        let differs = differing.get(&at).copied();
        MirroredBlock { window, run, at, len_bytes, bad, all: copies, differs }.judge(bench, tally);
    }
    report_absent(window, bench, tally);
}

/// One block that is bad on some copy, or whose copies differ.
struct MirroredBlock<'a> {
    window: &'a Window,
    run: &'a Run,
    at: Logical,
    len_bytes: u64,
    /// By stripe.
    bad: &'a [(usize, &'a BadPiece)],
    all: &'a [StripeCopy],
    differs: Option<Difference>,
}

/// Right bytes of a block.
struct Right<'a> {
    bytes: Cow<'a, [u8]>,
    source: Source,
    /// It is what was written, and its content cannot be right.
    is_odd: bool,
}

impl MirroredBlock<'_> {
    fn judge(&self, bench: &Bench<'_>, tally: &mut Tally) {
        let sectorsize = bench.geometry.sectorsize();
        let copies = self.window.chunk.copies(self.at);
        // A sector whose checksum is lost is none that never had one: nothing says that its readable copies are right.
        let is_open = self.run.kind == RunKind::Unsummed && (bench.is_sum_lost)(self.at);
        let right = bench.mending.filter(|_| !is_open).and_then(|mending| self.right_bytes(&copies, mending, bench));
        let has_good = copies.iter().any(|copy| self.is_good(copy, bench));
        let has_odd = copies.iter().any(|copy| self.is_odd(copy));
        for copy in &copies {
            let is_there = bench.is_present(copy.place.devid);
            let (problem, evidence) = match self.problem_on(copy) {
                Some(bad) => (bad.problem, bad.evidence.clone()),
                None if is_there => match self.difference_on(copy, bench) {
                    Some(difference) => difference,
                    // A copy that was chosen wins over what nothing speaks against.
                    None if right.as_ref().is_some_and(|right| matches!(right.source, Source::Chosen(_))) => {
                        (Problem::CopiesDiffer, Evidence::None)
                    }
                    None => continue,
                },
                None if !has_good && !has_odd && right.is_none() => (Problem::Missing, Evidence::None),
                None => continue,
            };
            let repair = match self.differs {
                _ if right.as_ref().is_some_and(|right| !right.is_odd) => RepairState::Possible,
                _ if is_open => RepairState::Undecidable,
                Some(Difference::Open | Difference::Unproved) => RepairState::Undecidable,
                _ if has_good || (has_odd && !self.is_odd(copy)) => RepairState::Possible,
                _ => RepairState::Impossible,
            };
            if let Some(right) = &right {
                let is_same =
                    self.bytes_on(copy).is_some_and(|have| *have.bytes == *right.bytes && have.is_whole(sectorsize));
                match is_same {
                    true if right.is_odd => {}
                    true => continue,
                    false => self.mend(copy, problem, &right.bytes, right.source, bench, tally),
                }
            }
            let Self { window, run, at, len_bytes, .. } = *self;
            Found { window, run, at, len_bytes, copy, problem, evidence, repair }.tell(bench, tally);
        }
    }

    /// Is there nothing against the copy, and something for it?
    fn is_good(&self, copy: &MirrorCopy, bench: &Bench<'_>) -> bool {
        let (devid, is_verified) = (copy.place.devid, self.run.kind != RunKind::Unsummed);
        bench.is_present(devid) && self.problem_on(copy).is_none() && (is_verified || bench.has_vote(devid))
    }

    /// Is it what was written there, though its content cannot be right?
    fn is_odd(&self, copy: &MirrorCopy) -> bool {
        self.problem_on(copy).is_some_and(|bad| bad.is_odd_block(self.run))
    }

    /// What speaks against a copy that has no fault in itself.
    fn difference_on(&self, copy: &MirrorCopy, bench: &Bench<'_>) -> Option<(Problem, Evidence)> {
        let standing = (bench.standing)(copy.place.devid)?;
        match (self.differs?, standing) {
            (Difference::Open, Standing::Current | Standing::Seed) => Some((Problem::CopiesDiffer, Evidence::None)),
            (Difference::Open, Standing::Stale { have, newest } | Standing::Apart { have, newest }) => {
                Some((Problem::CopiesDiffer, Evidence::Stale { have, newest }))
            }
            (Difference::Stale, Standing::Stale { have, newest } | Standing::Apart { have, newest })
                if self.is_unlike_current(copy, bench) =>
            {
                Some((Problem::CopiesDiffer, Evidence::Stale { have, newest }))
            }
            (Difference::Unproved, Standing::Stale { have, newest } | Standing::Apart { have, newest }) => {
                Some((Problem::Generation, Evidence::Stale { have, newest }))
            }
            (Difference::Stale | Difference::Unproved, _) => None,
        }
    }

    /// Is what this copy has not what the current ones have?
    fn is_unlike_current(&self, copy: &MirrorCopy, bench: &Bench<'_>) -> bool {
        let stripes = self.window.chunk.stripes();
        let has_vote = |read: &&StripeCopy| stripes.get(read.stripe).is_some_and(|s| bench.has_vote(s.devid));
        let current = self.all.iter().filter(has_vote).find_map(|read| read.verdict.fingerprint_at(self.at));
        let own = self.all.iter().find(|read| read.stripe == copy.stripe);
        own.and_then(|read| read.verdict.fingerprint_at(self.at)).is_some_and(|own| Some(own) != current)
    }

    fn problem_on(&self, copy: &MirrorCopy) -> Option<&BadPiece> {
        self.bad.iter().find(|(stripe, _)| *stripe == copy.stripe).map(|(_, bad)| *bad)
    }

    /// What was read of a copy; `None` where its device is missing.
    fn bytes_on(&self, copy: &MirrorCopy) -> Option<CopyBytes<'_>> {
        let read = self.all.iter().find(|read| read.stripe == copy.stripe)?;
        let base = self.window.chunk.stripes().get(copy.stripe)?.offset + self.window.from_bytes;
        let (offset, len) = ((copy.place.physical - base) as usize, self.len_bytes as usize);
        let bytes = read.buffer.as_ref()?.get(offset..offset + len)?;
        Some(CopyBytes { bytes, offset, unreadable: &read.unreadable })
    }

    /// Bytes that verify, or that the rules of `mending` make the right ones.
    fn right_bytes<'s>(&'s self, copies: &[MirrorCopy], mending: &Mending<'_>, bench: &Bench<'_>) -> Option<Right<'s>> {
        let sectorsize = bench.geometry.sectorsize();
        let readable: Vec<(&MirrorCopy, &[u8])> = copies
            .iter()
            .filter_map(|copy| Some((copy, self.bytes_on(copy)?)))
            .filter(|(_, have)| have.is_whole(sectorsize))
            .map(|(copy, have)| (copy, have.bytes))
            .collect();
        let borrowed = |bytes, source| Right { bytes: Cow::Borrowed(bytes), source, is_odd: false };
        let is_summed = self.run.kind != RunKind::Unsummed;
        if self.differs.is_some() && !is_summed {
            let is_open = self.differs == Some(Difference::Open);
            if let Some((copy, bytes)) = chosen(&readable, copies, mending.choice, bench, is_open) {
                return Some(borrowed(bytes, Source::Chosen(copy.mirror)));
            }
        }
        if matches!(self.differs, Some(Difference::Open | Difference::Unproved)) {
            return None;
        }
        if let Some((copy, bytes)) = readable.iter().find(|(copy, _)| self.is_good(copy, bench)) {
            let source = match self.differs {
                _ if is_summed => Source::Mirror(copy.mirror),
                Some(_) => Source::CurrentCopy(copy.mirror),
                None => Source::EqualCopies(copy.mirror),
            };
            return Some(borrowed(bytes, source));
        }
        if let Some((copy, bytes)) = readable.iter().find(|(copy, _)| self.is_odd(copy)) {
            return Some(Right { is_odd: true, ..borrowed(bytes, Source::Mirror(copy.mirror)) });
        }
        let (bytes, source) = salvage(self.window, self.run, self.at, mending, bench, || {
            copies.iter().filter_map(|copy| Some(self.bytes_on(copy)?.as_lost(sectorsize))).collect()
        })?;
        Some(Right { bytes: Cow::Owned(bytes), source, is_odd: false })
    }

    fn mend(
        &self,
        copy: &MirrorCopy,
        problem: Problem,
        right: &[u8],
        source: Source,
        bench: &Bench<'_>,
        tally: &mut Tally,
    ) {
        let Some(have) = self.bytes_on(copy) else { return };
        let sectorsize = bench.geometry.sectorsize();
        let lost: Vec<usize> = have.unreadable_sectors(sectorsize).collect();
        let fix = Fix {
            kind: self.run.finding_kind(),
            problem,
            logical: self.at,
            mirror: copy.mirror,
            member: copy.place,
            place: copy.place,
            source,
            right,
            before: have.bytes,
            lost: &lost,
            findings: 1,
            sectors: bench.sectors(self.len_bytes),
        };
        fix.push(&mut tally.mends, sectorsize as usize);
    }
}

/// One copy as it was read.
struct CopyBytes<'a> {
    bytes: &'a [u8],
    /// In the stripe's buffer.
    offset: usize,
    unreadable: &'a Unreadable,
}

impl<'a> CopyBytes<'a> {
    fn as_lost(&self, sectorsize: u32) -> LostCopy<'a> {
        lost_copy(self.bytes, self.unreadable_sectors(sectorsize), sectorsize as usize)
    }

    /// Numbers within the block.
    fn unreadable_sectors(&self, sectorsize: u32) -> impl Iterator<Item = usize> {
        let first = self.offset / sectorsize as usize;
        let lost = unreadable_in(self.unreadable, self.offset, self.bytes.len(), sectorsize);
        lost.iter().map(move |(sector, _)| sector - first)
    }

    fn is_whole(&self, sectorsize: u32) -> bool {
        self.unreadable_sectors(sectorsize).next().is_none()
    }
}

/// The copy that wins by `choice` among the readable ones of `all`. One on a member that missed transactions wins only where
/// it was asked for as that; a current one where the current ones differ (`is_open`).
fn chosen<'c, 'b>(
    readable: &[(&'c MirrorCopy, &'b [u8])],
    all: &[MirrorCopy],
    choice: Choice,
    bench: &Bench<'_>,
    is_open: bool,
) -> Option<(&'c MirrorCopy, &'b [u8])> {
    let is_stale = |copy: &MirrorCopy| (bench.standing)(copy.place.devid).is_some_and(|s| !s.has_vote());
    let current = || readable.iter().filter(|(copy, _)| !is_stale(copy));
    let on = |devid: DeviceId| move |(copy, _): &&(&'c MirrorCopy, &'b [u8])| copy.place.devid == devid;
    match choice {
        Choice::Nobody => None,
        Choice::EvenStale(devid) => readable.iter().find(on(devid)).copied(),
        Choice::Device(devid) => current().find(on(devid)).filter(|_| is_open).copied(),
        Choice::Majority => {
            let total = all.iter().filter(|copy| !is_stale(copy)).count();
            let votes = |bytes: &[u8]| current().filter(|(_, other)| *other == bytes).count();
            current().find(|(_, bytes)| total > 2 && votes(bytes) * 2 > total).filter(|_| is_open).copied()
        }
    }
}

/// Tells whether bytes are the right ones of a block.
pub(super) type Accept<'a> = Box<dyn Fn(&[u8]) -> bool + 'a>;

/// The check that tells the right bytes of the block at `at`; `None` where it has no checksum.
pub(super) fn accept<'a>(
    window: &'a Window,
    run: &'a Run,
    at: Logical,
    geometry: &'a TreeGeometry,
) -> Option<Accept<'a>> {
    match run.kind {
        RunKind::Tree(check) => {
            Some(Box::new(move |bytes| super::verify::judge_block(at, bytes, &check, geometry).is_none()))
        }
        RunKind::Summed(_) | RunKind::Unsummed => {
            let sum = stored_sum(window, run, at, geometry)?;
            Some(Box::new(move |bytes| geometry.csum_type().matches(bytes, sum)))
        }
    }
}

/// The checksum of the sector of data at `at`.
pub(super) fn stored_sum<'a>(window: &'a Window, run: &Run, at: Logical, geometry: &TreeGeometry) -> Option<&'a [u8]> {
    let RunKind::Summed(first) = run.kind else { return None };
    let digest_len = geometry.csum_type().digest_len();
    let nth = (at - run.logical) as usize / geometry.sectorsize() as usize;
    let from = first + nth * digest_len;
    window.sums.get(from..from + digest_len)
}

/// What was read of a block but for these sectors of it.
pub(super) fn lost_copy(bytes: &[u8], unreadable: impl IntoIterator<Item = usize>, sectorsize: usize) -> LostCopy<'_> {
    let range = |sector: usize| sector * sectorsize..(sector + 1) * sectorsize;
    LostCopy { bytes: bytes.into(), unreadable: unreadable.into_iter().map(range).collect() }
}

/// The last attempt at a block without a good copy, where the user has asked for it. Only then `copies` is called.
pub(super) fn salvage<'a>(
    window: &Window,
    run: &Run,
    logical: Logical,
    mending: &Mending<'_>,
    bench: &Bench<'_>,
    copies: impl FnOnce() -> Vec<LostCopy<'a>>,
) -> Option<(Vec<u8>, Source)> {
    let salvage = mending.salvage?;
    let accept = accept(window, run, logical, bench.geometry)?;
    let lost = LostCopies {
        logical,
        kind: run.finding_kind(),
        copies: &copies(),
        accept: &*accept,
        csum_type: bench.geometry.csum_type(),
        stored: stored_sum(window, run, logical, bench.geometry),
    };
    let (bytes, guess) = salvage.salvage(&lost)?;
    // Whoever salvages is not trusted to have asked.
    accept(&bytes).then_some((bytes, Source::Salvage(guess)))
}

/// A bad copy on its way into the tally.
pub(super) struct Found<'a> {
    pub(super) window: &'a Window,
    pub(super) run: &'a Run,
    pub(super) at: Logical,
    pub(super) len_bytes: u64,
    pub(super) copy: &'a MirrorCopy,
    pub(super) problem: Problem,
    pub(super) evidence: Evidence,
    pub(super) repair: RepairState,
}

impl Found<'_> {
    /// Counts the copy in the kernel's units and notes the finding.
    pub(super) fn tell(self, bench: &Bench<'_>, tally: &mut Tally) {
        let sectors = bench.sectors(self.len_bytes);
        let kind = self.run.finding_kind();
        if !bench.selection.wants_finding(kind, self.copy.place.devid) {
            return;
        }
        let owner = match self.run.kind {
            RunKind::Tree(check) => check.owner.map(ObjectId::raw),
            RunKind::Summed(_) | RunKind::Unsummed => None,
        };
        let counters = tally.device(self.copy.place.devid);
        match (self.problem, kind) {
            (Problem::Missing, _) => {}
            (Problem::ReadError, _) => counters.read_errors += sectors,
            (Problem::CopiesDiffer | Problem::Generation, FindingKind::Data) => counters.nodatasum_mismatch += sectors,
            (_, FindingKind::Metadata) => counters.verify_errors += sectors,
            (_, _) => counters.csum_errors += sectors,
        }
        let finding = Finding {
            kind,
            problem: self.problem,
            logical: self.at,
            length: self.len_bytes as u32,
            mirror: self.copy.mirror,
            devid: self.copy.place.devid,
            physical: self.copy.place.physical,
            profile: self.window.chunk.profile(),
            evidence: self.evidence,
            repair: bench.prospect_on(self.copy.place.devid, self.repair),
            owner,
            below: Vec::new(),
        };
        tally.find(finding, sectors);
    }
}

/// The run that holds the byte at `at`.
pub(super) fn run_at(window: &Window, at: Logical) -> Option<usize> {
    let after = window.runs.partition_point(|run| run.logical <= at);
    after.checked_sub(1).filter(|number| window.runs.get(*number).is_some_and(|run| at < run.end()))
}

/// Blocks all of whose copies are on missing devices: nobody has looked at them yet.
fn report_absent(window: &Window, bench: &Bench<'_>, tally: &mut Tally) {
    if window.chunk.stripes().iter().all(|s| bench.is_present(s.devid)) {
        return;
    }
    for run in &window.runs {
        let step = match run.kind {
            RunKind::Tree(_) => run.len_bytes,
            RunKind::Summed(_) | RunKind::Unsummed => u64::from(bench.geometry.sectorsize()),
        };
        let mut at = run.logical;
        while at < run.end() {
            let copies = window.chunk.copies(at);
            if copies.iter().any(|c| bench.is_present(c.place.devid)) {
                // The rest of the stripe unit is on the same devices.
                at = at + window.chunk.contiguous_bytes(at).max(step).next_multiple_of(step);
                continue;
            }
            for copy in &copies {
                let (problem, evidence, repair) = (Problem::Missing, Evidence::None, RepairState::Impossible);
                Found { window, run, at, len_bytes: step, copy, problem, evidence, repair }.tell(bench, tally);
            }
            at = at + step;
        }
    }
}
