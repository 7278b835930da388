//! Carries a plan out. The right bytes are proved once more, window by window, while earlier ones are being written; what
//! comes out differently than planned is left alone.

use super::batch::Writer;
use super::journal::Journal;
use super::ledger::{Book, Intake, Ledger};
use super::outcome::{RepairSummary, StepState, settle};
use super::pipeline::{Ended, Reading, run};
use super::plan::{PlanOptions, Planned, Step, in_order};
use crate::filesystem::Filesystem;
use crate::lease::WriteLease;
use crate::scrub::finding::Finding;
use crate::scrub::mend::{Choice, Salvage};
use crate::scrub::outcome::Status;
use crate::scrub::{Progress, ScrubOptions};
use std::sync::atomic::Ordering;
use std::time::Instant;

/// The usual size of a batch.
const BATCH_BYTES: usize = 8 << 20;

/// How to carry out; the same choices as the plan was made with.
#[derive(Clone, Copy)]
pub struct ApplyOptions<'a> {
    /// How to read.
    pub scrub: &'a ScrubOptions,
    /// Who wins where nothing can be verified.
    pub choice: Choice,
    /// What is tried where every copy is bad.
    pub salvage: Option<&'a dyn Salvage>,
    /// Look only at the places of these findings; `None` is everywhere. A plan has places of its own.
    pub from: Option<&'a [Finding]>,
    /// A batch is written when it has so many bytes: one sync of the log and one of each device for it.
    pub batch_bytes: usize,
}

impl<'a> ApplyOptions<'a> {
    /// The choices of the plan, and batches of 8 MiB.
    pub fn of(plan: &PlanOptions<'a>) -> Self {
        let PlanOptions { scrub, choice, salvage, from } = *plan;
        Self { scrub, choice, salvage, from, batch_bytes: BATCH_BYTES }
    }
}

/// Writes what the plan says and nothing else. `planned.outcome` becomes that of the repair. Ends early, between two
/// batches, when `progress` is cancelled, the log cannot be written, or the members are not what they were.
pub fn apply(
    fs: &Filesystem,
    planned: &mut Planned,
    options: &ApplyOptions<'_>,
    lease: &WriteLease,
    journal: &mut Journal,
    progress: &Progress,
) -> RepairSummary {
    let clock = Instant::now();
    progress.bytes_done.store(0, Ordering::Relaxed);
    progress.bytes_total.store(planned.plan.bytes(), Ordering::Relaxed);
    let writer = Writer::new(lease);
    let (steps, mut summary) = carry_out(fs, planned, options, journal, &writer, progress);
    planned.plan.replace_steps(steps);
    summary.lease_error = lease.lost();
    summary.end_log(journal);
    summary.dropped = writer.into_dropped();
    summary.duration = clock.elapsed();
    if summary.is_interrupted {
        planned.outcome.status = Status::Interrupted;
    }
    settle(&mut planned.outcome, &planned.plan, &summary);
    summary
}

/// The same, without what is told of it. The steps are those of the plan, or parts of them where not all of one could be
/// written.
pub(super) fn carry_out(
    fs: &Filesystem,
    planned: &Planned,
    options: &ApplyOptions<'_>,
    journal: &mut Journal,
    writer: &Writer<'_>,
    progress: &Progress,
) -> (Vec<Step>, RepairSummary) {
    let places = planned.plan.places(fs);
    let scrub = ScrubOptions { max_findings: 0, ..options.scrub.clone() };
    let reading = Reading { fs, options, scrub: &scrub, places: Some(&places), progress: &Progress::default() };
    let ledger = Ledger::new(Intake::Planned(&planned.plan), Some(progress));
    // A failure to read leaves steps that were not proved, and they are told as such.
    let Ended { early, log_error, .. } = run(&reading, &ledger, journal, writer, progress);
    let Book { steps, states, .. } = ledger.close(early);
    let (steps, states) = sorted(steps.into_iter().zip(states).collect());
    let done = steps.iter().zip(&states).filter(|(_, state)| **state == StepState::Done);
    let bytes_repaired = done.map(|(step, _)| step.len_bytes).sum();
    let is_interrupted = states.contains(&StepState::Pending);
    (steps, RepairSummary { states, bytes_repaired, log_error, is_interrupted, ..RepairSummary::default() })
}

/// In the order of a plan.
pub(super) fn sorted(mut pairs: Vec<(Step, StepState)>) -> (Vec<Step>, Vec<StepState>) {
    pairs.sort_by_key(|(step, _)| in_order(step));
    pairs.into_iter().unzip()
}
