//! Findings that lie next to each other on one device and say the same, put together for people: a run of bad sectors is
//! one line and not thousands. Documents list each finding.

use super::line::SpanLine;
use super::owner;
use crate::owners::{FileUse, Owners};
use crate::scrub::finding::{Finding, FindingKind};
use crate::scrub::outcome::ScrubOutcome;
use std::io::{self, Write};

/// How many of the newest runs a finding may go on with: the copies of a block, and a parity, have a run each.
const OPEN_RUNS: usize = 8;

/// One finding or several, from low to high addresses.
#[derive(Clone, Debug)]
pub(super) struct Run<'a> {
    pub(super) first: &'a Finding,
    pub(super) last: &'a Finding,
    pub(super) count: u64,
    /// Was the same found in all?
    is_one_evidence: bool,
    first_owners: Owners,
    last_owners: Owners,
}

impl<'a> Run<'a> {
    /// Goes on with `next` where that is what comes next, of the same device and files.
    fn extend(&mut self, next: &'a Finding, owners: impl FnOnce() -> Owners) -> bool {
        if !follows(self.last, next) {
            return false;
        }
        let owners = owners();
        let bytes = u64::from(next.length);
        // What a compressed piece holds starts at one place in the file for all of its sectors.
        let is_at_one_place = owners.files.first().map(|file| file.offset) == self.last_offset();
        let step = if is_at_one_place { 0 } else { bytes };
        let goes_as_before = self.count == 1 || (self.first_offset() == self.last_offset()) == is_at_one_place;
        if !goes_as_before || !are_same(&self.last_owners, &owners, step) {
            return false;
        }
        self.is_one_evidence &= self.last.evidence == next.evidence;
        (self.last, self.last_owners) = (next, owners);
        self.count += 1;
        true
    }

    fn first_offset(&self) -> Option<u64> {
        self.first_owners.files.first().map(|file| file.offset)
    }

    fn last_offset(&self) -> Option<u64> {
        self.last_owners.files.first().map(|file| file.offset)
    }

    /// Is this a copy of the same blocks?
    fn has_the_blocks_of(&self, other: &Self) -> bool {
        let blocks = |run: &Self| (run.first.kind, run.first.logical, run.last.logical);
        blocks(self) == blocks(other)
    }
}

/// Does `next` say of the block behind that of `last` what `last` says of its own?
fn follows(last: &Finding, next: &Finding) -> bool {
    let said = |finding: &Finding| {
        let Finding { kind, problem, length, mirror, devid, profile, repair, owner, .. } = finding;
        let below: Vec<_> = finding.below.iter().map(|place| (place.file, place.role)).collect();
        (*kind, *problem, *length, *mirror, *devid, *profile, *repair, *owner, below)
    };
    let bytes = u64::from(last.length);
    let is_block = matches!(last.kind, FindingKind::Data | FindingKind::Metadata);
    is_block
        && said(last) == said(next)
        && last.logical.raw().checked_add(bytes) == Some(next.logical.raw())
        && last.physical.raw().checked_add(bytes) == Some(next.physical.raw())
}

/// Are these the same files, each `step` bytes further on?
fn are_same(before: &Owners, after: &Owners, step: u64) -> bool {
    let file = |one: &FileUse, other: &FileUse| {
        let whose = |file: &FileUse| (file.subvolume.id, file.inode);
        whose(one) == whose(other) && one.path == other.path && one.offset.checked_add(step) == Some(other.offset)
    };
    let besides = |owners: &Owners| (owners.files.len(), owners.omitted, owners.is_partial, owners.is_cut);
    besides(before) == besides(after)
        && before.holds == after.holds
        && before.files.iter().zip(&after.files).all(|(one, other)| file(one, other))
}

/// Puts the findings of an outcome into at most `most` runs, in the order of their first. Returns how many findings
/// found no place.
fn runs(outcome: &ScrubOutcome, most: usize) -> (Vec<Run<'_>>, u64) {
    let (mut runs, mut unlisted) = (Vec::<Run<'_>>::new(), 0);
    for finding in &outcome.findings {
        let owners = || outcome.owners_of(finding);
        if runs.iter_mut().rev().take(OPEN_RUNS).any(|run| run.extend(finding, owners)) {
            continue;
        }
        if runs.len() >= most {
            unlisted += 1;
            continue;
        }
        let owners = owners();
        let (first_owners, last_owners) = (owners.clone(), owners);
        let (first, last, count) = (finding, finding, 1);
        runs.push(Run { first, last, count, is_one_evidence: true, first_owners, last_owners });
    }
    (runs, unlisted)
}

/// Writes at most `most` lines of findings, each with at most `most_files` owners. Returns how many findings are on none
/// of them.
pub(super) fn write_runs(
    outcome: &ScrubOutcome,
    most: usize,
    most_files: usize,
    out: &mut dyn Write,
) -> io::Result<u64> {
    let (runs, unlisted) = runs(outcome, most);
    for (index, run) in runs.iter().enumerate() {
        let evidence = run.is_one_evidence.then_some(&run.first.evidence);
        writeln!(out, "{}", SpanLine { first: run.first, last: run.last, count: run.count, evidence })?;
        // All copies of a block have the same owners, which follow the last.
        if runs.get(index + 1).is_none_or(|next| !next.has_the_blocks_of(run)) {
            let end_bytes = u64::from(run.last.length);
            owner::write_lines((&run.first_owners, &run.last_owners), end_bytes, most_files, out)?;
        }
    }
    Ok(unlisted)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{bad_sector, correctable};
    use super::*;
    use crate::scrub::finding::{Evidence, RepairState};
    use crate::units::{Logical, Physical};

    fn sector(mirror: u8, number: u64) -> Finding {
        let at = bad_sector(mirror, RepairState::Possible);
        let (logical, physical) = (at.logical.raw() + number * 4096, at.physical.raw() + number * 4096);
        Finding { logical: Logical::new(logical), physical: Physical::new(physical), ..at }
    }

    fn lines(findings: Vec<Finding>, most: usize) -> (Vec<String>, u64) {
        let outcome = ScrubOutcome { findings, ..correctable() };
        let mut out = Vec::new();
        let unlisted = write_runs(&outcome, most, 4, &mut out).expect("a vector takes all");
        (String::from_utf8(out).expect("utf-8").lines().map(ToOwned::to_owned).collect(), unlisted)
    }

    #[test]
    fn neighbours_are_one_line_for_each_copy() {
        let both = (0..1000).flat_map(|number| [sector(1, number), sector(2, number)]);
        let (lines, unlisted) = lines(both.chain([sector(1, 2000)]).collect(), 3);
        let run = |mirror: u8| {
            format!(
                "corrupt data: logical=[298844160, 302940160) mirror={mirror} devid={mirror} \
                 physical=[1048576, 5144576), 1000 sectors, bad checksum, have 0x8f010203 expect 0x8e010203; correctable"
            )
        };
        assert_eq!((&lines[..2], lines.len(), unlisted), (&[run(1), run(2)][..], 3, 0));
        assert!(
            lines[2].starts_with("corrupt data: logical=307036160 mirror=1 devid=1 physical=9240576, bad checksum")
        );
    }

    #[test]
    fn what_differs_in_more_than_its_address_is_a_line_of_its_own() {
        let other = |change: fn(&mut Finding)| {
            let mut next = sector(1, 1);
            change(&mut next);
            lines(vec![sector(1, 0), next], 10).0
        };
        assert_eq!(other(|_| ()).len(), 1);
        assert_eq!(other(|next| next.repair = RepairState::Impossible).len(), 2);
        assert_eq!(other(|next| next.physical = Physical::new(0)).len(), 2);
        assert_eq!(other(|next| next.kind = FindingKind::Superblock).len(), 2);
        let found_otherwise = other(|next| next.evidence = Evidence::None);
        assert!(found_otherwise.len() == 1 && found_otherwise[0].ends_with(", 2 sectors, bad checksum; correctable"));
    }

    #[test]
    fn a_run_that_is_listed_is_listed_whole_and_the_rest_is_counted() {
        let both = (0..10).flat_map(|number| [sector(1, number), sector(2, number)]).collect();
        let (lines, unlisted) = lines(both, 1);
        assert!(lines.len() == 1 && lines[0].contains(", 10 sectors, "), "{lines:?}");
        assert_eq!(unlisted, 10);
    }
}
