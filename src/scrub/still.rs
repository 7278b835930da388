//! Did the file system hold still? One that is mounted somewhere moves on while it is read: what was bad may only have
//! been overwritten. Where its generation has moved, every finding is judged again as of the new generation.
//!
//! Noticed are commits. What is written between two of them cannot be seen from outside; it lies where the last commit
//! refers to nothing, except for data without copy on write.

use super::earlier::Earlier;
use super::finding::{Finding, Problem};
use super::mend::Places;
use super::outcome::{ScrubOutcome, Status};
use super::progress::Progress;
use super::run::scrub;
use super::selection::Selection;
use super::tally::Counters;
use super::{ScrubError, ScrubOptions};
use crate::filesystem::Filesystem;
use crate::units::{DeviceId, Generation};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How often the findings are judged again where the file system keeps moving.
const MAX_ROUNDS: u32 = 3;

/// Looks whether `fs` has moved on since it was opened; if so, judges the findings of `outcome` again and says in a note
/// that it was not still. Returns the file system as it is now.
pub fn settle(
    fs: &Filesystem,
    options: &ScrubOptions,
    progress: &Progress,
    outcome: &mut ScrubOutcome,
) -> Result<Option<Filesystem>, ScrubError> {
    let opened = fs.superblock().generation();
    if fs.generation_now() <= opened {
        return Ok(None);
    }
    let before = outcome.findings.len();
    let mut settled = None;
    let mut is_still = false;
    for _ in 0..MAX_ROUNDS {
        let Ok(now) = fs.reopen() else { break };
        let is_judged = outcome.status == Status::Finished && !progress.is_cancelled();
        if is_judged && !outcome.findings.is_empty() {
            judge_again(&now, options, progress, outcome)?;
        }
        is_still = now.generation_now() <= now.superblock().generation();
        settled = Some(now);
        if is_still || !is_judged {
            break;
        }
    }
    let last = settled.as_ref().map_or_else(|| fs.generation_now(), |now| now.superblock().generation());
    outcome.notes.extend(notes(opened, last, before, outcome, settled.is_some() && is_still));
    Ok(settled)
}

/// Judges the findings of a scrub in several sittings again where the file system has moved on between them: the earliest
/// of its looks saw it in generation `then`. Where it has not, what earlier sittings found may have been corrected.
pub fn settle_sittings(
    fs: &Filesystem,
    options: &ScrubOptions,
    progress: &Progress,
    outcome: &mut ScrubOutcome,
    (earlier, then): (&Earlier, Generation),
) -> Result<(), ScrubError> {
    let now = fs.superblock().generation();
    if now <= then {
        return settle_corrected(fs, options, progress, outcome, earlier);
    }
    let before = outcome.findings.len();
    let is_judged = outcome.status == Status::Finished && before > 0;
    if is_judged {
        judge_again(fs, options, progress, outcome)?;
    }
    let moved = format!("the file system moved on between the sittings, from generation {then} to {now}");
    outcome.notes.push(format!("{moved}: what was written meanwhile in block groups seen before was looked at again"));
    if is_judged && outcome.status == Status::Finished {
        let after = outcome.findings.len();
        outcome
            .notes
            .push(format!("the findings were judged again as of generation {now}: {after} of {before} are left"));
    }
    Ok(())
}

/// Judges the findings again where earlier sittings have some: a repair does not change the generation.
fn settle_corrected(
    fs: &Filesystem,
    options: &ScrubOptions,
    progress: &Progress,
    outcome: &mut ScrubOutcome,
    earlier: &Earlier,
) -> Result<(), ScrubError> {
    if outcome.status != Status::Finished || earlier.findings.is_empty() {
        return Ok(());
    }
    let mut again = outcome.clone();
    judge_again(fs, options, progress, &mut again)?;
    let (before, after) = (outcome.findings.len(), again.findings.len());
    let places = |outcome: &ScrubOutcome| -> Vec<_> {
        outcome.findings.iter().map(|finding| (finding.sort_key(), finding.repair)).collect()
    };
    if places(&again) != places(outcome) || again.status != outcome.status {
        *outcome = again;
        let of = format!("{after} of {before} are left");
        outcome
            .notes
            .push(format!("what earlier sittings found was judged again, for it may have been corrected: {of}"));
    }
    if earlier.findings_omitted > 0 {
        outcome.notes.push("findings of earlier sittings that are not listed were not judged again".to_owned());
    }
    Ok(())
}

/// Replaces the findings by what is found in their places now, and the counts of errors with them.
fn judge_again(
    now: &Filesystem,
    options: &ScrubOptions,
    progress: &Progress,
    outcome: &mut ScrubOutcome,
) -> Result<(), ScrubError> {
    // A link is judged by two blocks that need not lie in one place: it stays as it was.
    let (links, others): (Vec<Finding>, Vec<Finding>) =
        outcome.findings.drain(..).partition(|finding| finding.problem == Problem::FirstKey);
    let selection = Selection {
        kinds: options.selection.kinds,
        copies: options.selection.copies,
        places: Some(Places::of_findings(&others, now.chunks())),
        ..Selection::default()
    };
    let quiet = Progress { cancel: Arc::clone(&progress.cancel), ..Progress::default() };
    let mut again = scrub(now, &ScrubOptions { selection, ..options.clone() }, &quiet)?;
    if again.status == Status::Interrupted {
        outcome.findings = links.into_iter().chain(others).collect();
        outcome.findings.sort_by_key(Finding::sort_key);
        outcome.status = Status::Interrupted;
        return Ok(());
    }
    again.findings.retain(|finding| finding.problem != Problem::FirstKey);
    // Findings that were not listed cannot be judged again, so their counts and their part of the verdict stay.
    if outcome.findings_omitted == 0 && links.is_empty() {
        outcome.verdict = again.verdict;
        replace_errors(outcome, &again);
    }
    outcome.findings_omitted = outcome.findings_omitted.saturating_add(again.findings_omitted);
    outcome.findings = links.into_iter().chain(again.findings).collect();
    outcome.findings.sort_by_key(Finding::sort_key);
    outcome.filesystem = again.filesystem;
    Ok(())
}

fn replace_errors(outcome: &mut ScrubOutcome, again: &ScrubOutcome) {
    let by_device: BTreeMap<DeviceId, &Counters> =
        again.devices.iter().map(|device| (device.devid, &device.counters)).collect();
    for device in &mut outcome.devices {
        if let Some(counters) = by_device.get(&device.devid) {
            device.counters = with_errors_of(&device.counters, counters);
        }
    }
    outcome.totals = with_errors_of(&outcome.totals, &again.totals);
}

/// What was read stays as it was counted; what was wrong is what is wrong now.
fn with_errors_of(read: &Counters, errors: &Counters) -> Counters {
    Counters {
        data_extents_scrubbed: read.data_extents_scrubbed,
        tree_extents_scrubbed: read.tree_extents_scrubbed,
        data_bytes_scrubbed: read.data_bytes_scrubbed,
        tree_bytes_scrubbed: read.tree_bytes_scrubbed,
        no_csum: read.no_csum,
        csum_discards: read.csum_discards,
        last_physical: read.last_physical,
        ..*errors
    }
}

fn notes(from: Generation, to: Generation, before: usize, outcome: &ScrubOutcome, is_still: bool) -> Vec<String> {
    let mut notes = vec![format!(
        "the file system was not still: its generation went from {from} to {to} meanwhile; what was written since {from} \
         was not looked at"
    )];
    let after = outcome.findings.len();
    if outcome.status == Status::Interrupted {
        notes.push("the findings were not judged again as of now".to_owned());
    } else if before > 0 {
        notes.push(format!("the findings were judged again as of generation {to}: {after} of {before} are left"));
    }
    if !is_still {
        notes.push(
            "it went on changing: findings may be half a change; scrub it again when nothing writes to it".to_owned(),
        );
    }
    if outcome.findings_omitted > 0 && before > 0 {
        notes.push("findings that are not listed were not judged again, and their counts stand".to_owned());
    }
    notes
}
