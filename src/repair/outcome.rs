//! What became of a plan, and the scrub's outcome once that is known.

use super::folded::{Folded, Sum};
use super::journal::Journal;
use super::plan::{RepairPlan, Step};
use crate::device::lower_devid;
use crate::lease::LeaseError;
use crate::scrub::below::BelowPlace;
use crate::scrub::finding::{Finding, FindingKind, RepairState};
use crate::scrub::outcome::{ScrubOutcome, Verdict};
use crate::scrub::tally::Counters;
use crate::units::{DeviceId, DevicePhysical};
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::time::Duration;

/// What became of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StepState {
    /// Not reached.
    #[default]
    Pending,
    /// Written and read back, or found right already.
    Done,
    /// Not as it should be.
    Failed(Failure),
}

/// Why a step failed. Numbers are what the kernel said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The write.
    Write(Option<i32>),
    /// The sync after it.
    Sync(Option<i32>),
    /// Reading back.
    ReadBack(Option<i32>),
    /// Reading back gave other bytes.
    ReadBackDiffers,
    /// The device had failed before.
    DeviceDropped,
    /// The device is not among those that may be written.
    NotOpen,
    /// The right bytes could not be proved a second time.
    NotProved,
    /// The device missed transactions, and something on it was not brought up to date in this run.
    NotCaughtUp,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, errno) = match self {
            Self::Write(errno) => ("write error", errno),
            Self::Sync(errno) => ("sync error", errno),
            Self::ReadBack(errno) => ("cannot be read back", errno),
            Self::ReadBackDiffers => return f.write_str("what was read back is not what was written"),
            Self::DeviceDropped => return f.write_str("the device failed before"),
            Self::NotOpen => return f.write_str("the device is not open for writing"),
            Self::NotProved => return f.write_str("the right bytes could not be proved again"),
            Self::NotCaughtUp => {
                return f.write_str("the device missed transactions and could not be brought up to date in this run");
            }
        };
        match errno {
            Some(errno) => write!(f, "{what}: {}", io::Error::from_raw_os_error(*errno)),
            None => f.write_str(what),
        }
    }
}

/// What a repair did.
#[derive(Debug, Default)]
pub struct RepairSummary {
    /// By the number of the step in the plan.
    pub states: Vec<StepState>,
    /// Bytes of the steps that are done.
    pub bytes_repaired: u64,
    /// Steps that are settled and not listed in the plan.
    pub folded: Folded,
    /// How long the writing took, with the reading for it.
    pub duration: Duration,
    /// Devices that failed, and how.
    pub dropped: BTreeMap<DeviceId, Failure>,
    /// The undo log could not be written: nothing was written after that.
    pub log_error: Option<io::Error>,
    /// The members are not what they were: nothing was written after that.
    pub lease_error: Option<LeaseError>,
    /// Some steps were not reached.
    pub is_interrupted: bool,
}

impl RepairSummary {
    /// Ends the undo log; one that cannot be ended is told as one that cannot be written.
    pub(super) fn end_log(&mut self, journal: &mut Journal) {
        if self.log_error.is_none() {
            self.log_error = journal.finish().err();
        }
    }

    /// Whether anything may have been written.
    pub fn has_written(&self) -> bool {
        self.folded.steps() > 0 || self.states.iter().any(|state| *state != StepState::Pending)
    }

    /// Steps in this state, counted by the findings they answer.
    pub fn findings_in(&self, plan: &RepairPlan, wanted: impl Fn(StepState) -> bool) -> u64 {
        let pairs = plan.steps().iter().zip(&self.states);
        let listed: u64 = pairs.filter(|(_, state)| wanted(**state)).map(|(step, _)| step.findings).sum();
        let folded = |state, sums: &BTreeMap<DeviceId, Sum>| -> u64 {
            if wanted(state) { sums.values().map(|sum| sum.findings).sum() } else { 0 }
        };
        let failed = StepState::Failed(Failure::Write(None));
        listed + folded(StepState::Done, self.folded.done()) + folded(failed, self.folded.failed())
    }
}

/// Puts into `outcome` what became of the findings.
pub(super) fn settle(outcome: &mut ScrubOutcome, plan: &RepairPlan, summary: &RepairSummary) {
    for (step, state) in plan.steps().iter().zip(&summary.states) {
        let devices = outcome.devices.iter_mut().filter(|device| device.devid == step.member.devid);
        let sum = Sum::of(step);
        devices.map(|device| &mut device.counters).for_each(|counters| count(counters, sum, *state));
        count(&mut outcome.totals, sum, *state);
    }
    let failed = StepState::Failed(Failure::Write(None));
    let done = summary.folded.done().iter().map(|(devid, sum)| (devid, sum, StepState::Done));
    for (devid, sum, state) in done.chain(summary.folded.failed().iter().map(|(devid, sum)| (devid, sum, failed))) {
        let devices = outcome.devices.iter_mut().filter(|device| device.devid == *devid);
        devices.map(|device| &mut device.counters).for_each(|counters| count(counters, *sum, state));
        count(&mut outcome.totals, *sum, state);
    }
    if summary.folded.steps() > 0 {
        outcome.notes.push(format!("{} more steps of the repair are counted and not listed", summary.folded.steps()));
    }
    let is_open = |state: &RepairState| *state == RepairState::Possible;
    for finding in outcome.findings.iter_mut().filter(|finding| is_open(&finding.repair)) {
        finding.repair = state_of(finding, plan, summary);
    }
    let has_failed =
        !summary.folded.failed().is_empty() || summary.states.iter().any(|state| matches!(state, StepState::Failed(_)));
    let all_done = summary.states.iter().all(|state| *state == StepState::Done)
        && outcome.findings.iter().all(|finding| !is_open(&finding.repair))
        && plan.withheld().is_empty()
        && outcome.filesystem.missing_devids.is_empty()
        && !outcome.filesystem.is_degraded_below();
    outcome.verdict = match outcome.verdict {
        Verdict::Uncorrectable => Verdict::Uncorrectable,
        _ if has_failed => Verdict::Uncorrectable,
        Verdict::Correctable if all_done => Verdict::Corrected,
        other => other,
    };
}

fn count(counters: &mut Counters, step: Sum, state: StepState) {
    match state {
        StepState::Pending => return,
        StepState::Done => {
            counters.corrected_errors += step.sectors;
            counters.repaired_verified += step.findings;
        }
        StepState::Failed(_) => counters.repair_write_failed += step.findings,
    }
    counters.correctable_errors = counters.correctable_errors.saturating_sub(step.sectors);
}

/// A finding is done when all steps within its place are; below btrfs, within all of its places.
fn state_of(finding: &Finding, plan: &RepairPlan, summary: &RepairSummary) -> RepairState {
    if finding.below.is_empty() {
        let place = DevicePhysical { devid: finding.devid, physical: finding.physical };
        let state = state_within(finding, place, u64::from(finding.length), plan, summary);
        return state.unwrap_or_else(|| state_of_folded(place.devid, plan, summary));
    }
    let of_place = |below: &BelowPlace| {
        let place = DevicePhysical { devid: lower_devid(below.file), physical: below.physical };
        state_within(finding, place, u64::from(below.length), plan, summary)
    };
    // A copy that was right already needs no step.
    let states: Vec<RepairState> = finding.below.iter().filter_map(of_place).collect();
    let worst = [RepairState::Failed, RepairState::Possible, RepairState::Done];
    let folded = || {
        let first = finding.below.first().map(|below| state_of_folded(lower_devid(below.file), plan, summary));
        first.unwrap_or(RepairState::Possible)
    };
    worst.into_iter().find(|state| states.contains(state)).unwrap_or_else(folded)
}

fn state_within(
    finding: &Finding,
    place: DevicePhysical,
    len_bytes: u64,
    plan: &RepairPlan,
    summary: &RepairSummary,
) -> Option<RepairState> {
    let (start, end) = (place.physical, place.physical + len_bytes);
    let is_superblock = finding.kind == FindingKind::Superblock;
    let order = |step: &Step| (step.kind == FindingKind::Superblock, step.place.devid, step.end());
    let first = plan.steps().partition_point(|step| order(step) <= (is_superblock, place.devid, start));
    let steps = plan.steps().iter().zip(&summary.states).skip(first);
    let within = steps.take_while(|(step, _)| {
        (step.kind == FindingKind::Superblock, step.place.devid) == (is_superblock, place.devid)
            && step.place.physical < end
    });
    let mut seen = None;
    for (_, state) in within {
        match state {
            StepState::Failed(_) => return Some(RepairState::Failed),
            StepState::Pending => return Some(RepairState::Possible),
            StepState::Done => seen = Some(RepairState::Done),
        }
    }
    seen
}

/// Of a finding whose steps are not listed: what all steps of the device have come to that are not.
fn state_of_folded(devid: DeviceId, plan: &RepairPlan, summary: &RepairSummary) -> RepairState {
    let is_withheld = || plan.withheld().iter().any(|withheld| withheld.step.place.devid == devid);
    if !summary.folded.done().contains_key(&devid) && !summary.folded.failed().contains_key(&devid) {
        RepairState::Possible
    } else if summary.folded.failed().contains_key(&devid) {
        RepairState::Failed
    } else if summary.is_interrupted || is_withheld() {
        RepairState::Possible
    } else {
        RepairState::Done
    }
}
