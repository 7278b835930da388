//! Repair in one pass over the file system: what a window proves is written while the next windows are read. The plan is
//! what was done.
//!
//! Only data and the parity of data are written meanwhile. Tree blocks wait until the scrub has held them against their
//! parents, super blocks until all else is written; both are then proved again and written by [`super::apply`]'s rules.

use super::RepairError;
use super::apply::{ApplyOptions, carry_out, sorted};
use super::batch::Writer;
use super::journal::Journal;
use super::ledger::{Book, Intake, Ledger};
use super::outcome::{RepairSummary, StepState, settle};
use super::pipeline::{Ended, Reading, run};
use super::plan::{Planned, RepairPlan, settle_deferred};
use super::preflight::{check_choice, check_may_write, check_same_history};
use crate::filesystem::Filesystem;
use crate::lease::WriteLease;
use crate::scrub::mend::Places;
use crate::scrub::outcome::{Behind, Status};
use crate::scrub::{Progress, ScrubError};
use std::io;
use std::time::Instant;

/// Scrubs and repairs. What is refused has been refused before anything is written. Ends early, between two batches, when
/// `progress` is cancelled, the log cannot be written, or the members are not what they were.
pub fn repair_at_once(
    fs: &Filesystem,
    options: &ApplyOptions<'_>,
    lease: &WriteLease,
    journal: &mut Journal,
    progress: &Progress,
) -> Result<(Planned, RepairSummary), RepairError> {
    let clock = Instant::now();
    check_may_write(fs)?;
    check_choice(fs, options.choice)?;
    check_same_history(fs)?;
    // Every finding that is listed has its steps; a report to work from has as many as it lists.
    let max_listed = if options.from.is_some() { usize::MAX } else { options.scrub.max_findings };
    let ledger = Ledger::new(Intake::AtOnce(fs), None).listing(max_listed);
    let places = options.from.map(|findings| Places::of_findings(findings, fs.chunks()));
    let reading = Reading { fs, options, scrub: options.scrub, places: places.as_ref(), progress };
    let writer = Writer::new(lease);
    let Ended { scrubbed, early, log_error } = run(&reading, &ledger, journal, &writer, progress);
    let lost_thread = || ScrubError::Memory(io::ErrorKind::Other.into());
    let scrubbed = scrubbed.ok_or_else(lost_thread).flatten();
    let Book { steps, states, withheld, deferred, folded, .. } = ledger.close(early || scrubbed.is_err());
    let outcome = match scrubbed {
        Ok(outcome) => outcome,
        Err(error) if folded.steps() == 0 && states.iter().all(|state| *state == StepState::Pending) => {
            return Err(error.into());
        }
        Err(error) => {
            // The log has all that was written, whether it can be ended or not.
            let _ = journal.finish();
            return Err(RepairError::Broken(error));
        }
    };
    let mut summary = RepairSummary { log_error, ..RepairSummary::default() };
    let mut behind = outcome.behind.clone();
    for (step, _) in steps.iter().zip(&states).filter(|(_, state)| **state != StepState::Done) {
        behind.entry(step.place.devid).or_insert(Behind::NotWritten);
    }
    for devid in folded.failed().keys() {
        behind.entry(*devid).or_insert(Behind::NotWritten);
    }
    let plan = settle_deferred(fs, deferred, withheld, &outcome.broken_links, &behind);
    let mut planned = Planned { outcome, plan };
    let mut rest = planned.plan.steps().to_vec();
    let mut rest_states = vec![StepState::Pending; rest.len()];
    if !early && !planned.plan.is_empty() && planned.outcome.status == Status::Finished {
        let (late_steps, late) = carry_out(fs, &planned, options, journal, &writer, progress);
        (rest, rest_states) = (late_steps, late.states);
        summary.log_error = late.log_error;
    }
    summary.dropped = writer.into_dropped();
    summary.lease_error = lease.lost();
    summary.end_log(journal);
    let all = steps.into_iter().zip(states);
    let (steps, states) = sorted(all.chain(rest.into_iter().zip(rest_states)).collect());
    let done = steps.iter().zip(&states).filter(|(_, state)| **state == StepState::Done);
    let folded_bytes = folded.done().values().map(|sum| sum.bytes).sum::<u64>();
    summary.bytes_repaired = done.map(|(step, _)| step.len_bytes).sum::<u64>() + folded_bytes;
    summary.folded = folded;
    summary.is_interrupted = states.contains(&StepState::Pending);
    summary.states = states;
    planned.plan = RepairPlan::of(steps, planned.plan.withheld().to_vec());
    if summary.is_interrupted || early {
        planned.outcome.status = Status::Interrupted;
    }
    summary.duration = clock.elapsed();
    settle(&mut planned.outcome, &planned.plan, &summary);
    Ok((planned, summary))
}
