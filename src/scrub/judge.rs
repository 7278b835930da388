//! Judges all copies of a window together where blocks are mirrored or stand alone: which bad copy has a good one
//! beside it, and which copies without checksum are not equal.

use super::finding::{Evidence, Finding, FindingKind, Problem, RepairState};
use super::sink::Tally;
use super::stream::StripeCopy;
use super::verify::BadPiece;
use super::window::{Run, RunKind, Window};
use crate::units::{DeviceId, Logical};
use crate::volume::{Layout, MirrorCopy};
use std::collections::{BTreeMap, BTreeSet};

/// What the judges need to know of the file system.
pub(super) struct Bench<'a> {
    pub(super) sectorsize: u32,
    /// Is a member with this devid at hand?
    pub(super) is_present: &'a (dyn Fn(DeviceId) -> bool + Sync),
    /// Can no file read the sector there? Then its copies need not be equal. Reads trees: asked only where they are not.
    pub(super) is_unwritten: &'a (dyn Fn(Logical) -> bool + Sync),
}

impl Bench<'_> {
    fn sectors(&self, len_bytes: u64) -> u64 {
        len_bytes / u64::from(self.sectorsize)
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
    let mut differing = differing(window, copies);
    differing.retain(|at| !(bench.is_unwritten)(*at));
    let touched: BTreeSet<Logical> = by_block.keys().chain(differing.iter()).copied().collect();
    for at in touched {
        let bad = by_block.get(&at).map_or(&[][..], Vec::as_slice);
        judge_block(window, at, bad, differing.contains(&at), bench, tally);
    }
    report_absent(window, bench, tally);
}

/// One block that is bad on some copy, or whose copies differ.
fn judge_block(
    window: &Window,
    at: Logical,
    bad: &[(usize, &BadPiece)],
    differs: bool,
    bench: &Bench<'_>,
    tally: &mut Tally,
) {
    let copies = window.chunk.copies(at);
    let problem_on = |copy: &MirrorCopy| bad.iter().find(|(stripe, _)| *stripe == copy.stripe).map(|(_, b)| *b);
    let present = |copy: &MirrorCopy| (bench.is_present)(copy.place.devid);
    let has_good = copies.iter().any(|copy| present(copy) && problem_on(copy).is_none());
    let repair = match (differs, has_good) {
        (true, _) => RepairState::Undecidable,
        (false, true) => RepairState::Possible,
        (false, false) => RepairState::Impossible,
    };
    let run = bad.first().map(|(_, b)| b.run).or_else(|| run_at(window, at));
    let Some(run) = run.and_then(|number| window.runs.get(number)) else { return };
    let len_bytes = bad.first().map_or(u64::from(bench.sectorsize), |(_, b)| b.len_bytes);
    for copy in &copies {
        let (problem, evidence) = match problem_on(copy) {
            Some(bad) => (bad.problem, bad.evidence.clone()),
            None if !present(copy) && !has_good => (Problem::Missing, Evidence::None),
            None if present(copy) && differs => (Problem::CopiesDiffer, Evidence::None),
            None => continue,
        };
        let found = Found { window, run, at, len_bytes, copy, problem, evidence, repair };
        found.tell(bench, tally);
    }
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
        let (kind, owner) = match self.run.kind {
            RunKind::Tree(check) => (FindingKind::Metadata, check.owner.map(|o| o.raw())),
            RunKind::Summed(_) | RunKind::Unsummed => (FindingKind::Data, None),
        };
        let counters = tally.device(self.copy.place.devid);
        match (self.problem, kind) {
            (Problem::Missing, _) => {}
            (Problem::ReadError, _) => counters.read_errors += sectors,
            (Problem::CopiesDiffer, _) => counters.nodatasum_mismatch += sectors,
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
            repair: self.repair,
            owner,
        };
        tally.find(finding, sectors);
    }
}

/// The run that holds the byte at `at`.
pub(super) fn run_at(window: &Window, at: Logical) -> Option<usize> {
    let after = window.runs.partition_point(|run| run.logical <= at);
    after.checked_sub(1).filter(|number| window.runs.get(*number).is_some_and(|run| at < run.end()))
}

/// Sectors without checksum whose readable copies are not all equal.
fn differing(window: &Window, copies: &[StripeCopy]) -> BTreeSet<Logical> {
    let mut differing = BTreeSet::new();
    if window.chunk.mirrors() < 2 || copies.iter().all(|c| c.verdict.fingerprints.is_empty()) {
        return differing;
    }
    let mut seen: BTreeMap<Logical, u128> = BTreeMap::new();
    for (at, fingerprint) in copies.iter().flat_map(|c| &c.verdict.fingerprints) {
        if *seen.entry(*at).or_insert(*fingerprint) != *fingerprint {
            differing.insert(*at);
        }
    }
    differing
}

/// Blocks all of whose copies are on missing devices: nobody has looked at them yet.
fn report_absent(window: &Window, bench: &Bench<'_>, tally: &mut Tally) {
    if window.chunk.stripes().iter().all(|s| (bench.is_present)(s.devid)) {
        return;
    }
    for run in &window.runs {
        let step = match run.kind {
            RunKind::Tree(_) => run.len_bytes,
            RunKind::Summed(_) | RunKind::Unsummed => u64::from(bench.sectorsize),
        };
        let mut at = run.logical;
        while at < run.end() {
            let copies = window.chunk.copies(at);
            if copies.iter().any(|c| (bench.is_present)(c.place.devid)) {
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
