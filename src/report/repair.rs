//! What a repair planned and did, as text and as a part of the document.

use super::human;
use super::line::{noun, place_of_block, reason};
use super::words::Word;
use crate::repair::{Failure, RepairPlan, RepairSummary, Step, StepState};
use crate::scrub::mend::{Guess, GuessMethod, Source};
use crate::volume::raid56::RecoverySource;
use serde::Serialize;
use std::fmt;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

/// The part of a report that only a repair has.
#[derive(Clone, Copy, Debug)]
pub struct RepairReport<'a> {
    /// What was to be done.
    pub plan: &'a RepairPlan,
    /// What was done; `None` where the plan is only shown.
    pub summary: Option<&'a RepairSummary>,
    /// Where the old bytes are.
    pub undo_log: Option<&'a Path>,
}

impl RepairReport<'_> {
    fn done(&self, wanted: impl Fn(StepState) -> bool) -> u64 {
        self.summary.map_or(0, |summary| summary.findings_in(self.plan, wanted))
    }

    fn repaired(&self) -> u64 {
        self.done(|state| state == StepState::Done)
    }

    fn failed(&self) -> u64 {
        self.done(|state| matches!(state, StepState::Failed(_)))
    }

    fn steps(&self) -> impl Iterator<Item = (&Step, Option<StepState>)> {
        let state = |number: usize| self.summary.and_then(|summary| summary.states.get(number).copied());
        self.plan.steps().iter().enumerate().map(move |(number, step)| (step, state(number)))
    }
}

/// Where bytes come from, in words.
struct SourceText(Source);

impl fmt::Display for SourceText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Source::Mirror(mirror) => write!(f, "mirror {mirror}"),
            Source::EqualCopies(mirror) => write!(f, "mirror {mirror}, without checksum, equal in all readable copies"),
            Source::CurrentCopy(mirror) => write!(f, "mirror {mirror}, without checksum, on a current member"),
            Source::Rebuilt(RecoverySource::P) => f.write_str("rebuilt from P"),
            Source::Rebuilt(RecoverySource::Q) => f.write_str("rebuilt from Q"),
            Source::Rebuilt(RecoverySource::PQ { with }) => write!(f, "rebuilt from P and Q without column {with}"),
            Source::Rebuilt(RecoverySource::AsRead) | Source::RebuiltInParts => f.write_str("rebuilt sector by sector"),
            Source::Below => f.write_str("another copy, or parity, below"),
            Source::RowData => f.write_str("computed from the row's data"),
            Source::SuperblockOf(devid) => write!(f, "super block of devid {devid}"),
            Source::Chosen(mirror) => write!(f, "mirror {mirror}, without checksum, chosen by the user"),
            Source::Salvage(guess) => write!(f, "guess: {}", GuessText(guess)),
        }
    }
}

struct GuessText(Guess);

impl fmt::Display for GuessText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Guess { method, tries, check_bits } = self.0;
        let method = match method {
            GuessMethod::Splice => "put together from parts of bad copies",
            GuessMethod::OneBit => "one bit turned",
            GuessMethod::ChecksumBit => "one bit of the stored checksum turned",
            GuessMethod::Majority => "what most copies have",
        };
        let strength = self.0.strength_bits();
        write!(
            f,
            "{method}, {tries} tries against a checksum of {check_bits} bits: a wrong one would pass once in 2^{strength}"
        )
    }
}

/// The lines under the summary of a text.
pub(super) fn write_text(report: &RepairReport<'_>, max_steps: usize, out: &mut dyn Write) -> io::Result<()> {
    if let Some(summary) = report.summary {
        write_summary(report, summary, out)?;
    } else {
        let (bytes, devices) = (human::size(report.plan.bytes()), report.plan.devices().len() as u64);
        let writes = human::count(report.plan.steps().len() as u64, "write");
        let on = human::count(devices, "device");
        writeln!(out, "{:<17} {writes} of {bytes} on {on}; nothing was written", "Plan:")?;
        for (step, _) in report.steps().take(max_steps) {
            writeln!(out, "would write {}", StepText(step))?;
        }
        let more = report.plan.steps().len().saturating_sub(max_steps) as u64;
        if more > 0 {
            writeln!(out, "and {}", human::count(more, "more write"))?;
        }
    }
    for withheld in report.plan.withheld() {
        writeln!(out, "not written: {}: {}", StepText(&withheld.step), withheld.why)?;
    }
    Ok(())
}

fn write_summary(report: &RepairReport<'_>, summary: &RepairSummary, out: &mut dyn Write) -> io::Result<()> {
    if report.plan.is_empty() {
        return Ok(());
    }
    let size = human::size(summary.bytes_repaired);
    let rate = human::size(human::rate(summary.bytes_repaired, summary.duration) as u64);
    let (repaired, took) = (human::count(report.repaired(), "finding"), human::clock(summary.duration));
    writeln!(out, "{:<17} {repaired}, {size} in {took} ({rate}/s), read back", "Repaired:")?;
    if report.failed() > 0 {
        writeln!(out, "{:<17} {}", "Failed:", human::count(report.failed(), "finding"))?;
    }
    if let Some(path) = report.undo_log {
        writeln!(out, "{:<17} {}", "Undo log:", path.display())?;
    }
    for (devid, failure) in &summary.dropped {
        writeln!(out, "devid {devid} was dropped: {failure}")?;
    }
    for (step, state) in report.steps() {
        match state {
            Some(StepState::Failed(failure)) => writeln!(out, "failed: {}: {failure}", StepText(step))?,
            Some(StepState::Done) if matches!(step.source, Source::Salvage(_)) => {
                writeln!(out, "guessed: {}", StepText(step))?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// One step as a line.
struct StepText<'a>(&'a Step);

impl fmt::Display for StepText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let step = self.0;
        write!(f, "{}: ", noun(step.kind))?;
        place_of_block(step.kind, step.logical, step.mirror, f)?;
        let (devid, physical, length) = (step.place.devid, step.place.physical, step.len_bytes);
        write!(f, " devid={devid} physical={physical} length={length}, {}", reason(step.problem))?;
        write!(f, "; from {}", SourceText(step.source))?;
        if let Some(before) = step.before {
            write!(f, "; before {before}")?;
        }
        write!(f, ", after {}", step.after)
    }
}

#[derive(Serialize)]
pub(super) struct RepairEntry {
    dry_run: bool,
    repaired: u64,
    failed: u64,
    withheld: u64,
    bytes_planned: u64,
    bytes_repaired: u64,
    duration_seconds: f64,
    rate_bytes_per_second: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    undo_log: Option<String>,
    dropped_devices: Vec<DroppedEntry>,
    steps: Vec<StepEntry>,
    withheld_steps: Vec<StepEntry>,
}

#[derive(Serialize)]
struct DroppedEntry {
    devid: u64,
    why: String,
}

#[derive(Serialize)]
struct StepEntry {
    kind: &'static str,
    problem: &'static str,
    logical: u64,
    mirror: u8,
    devid: u64,
    physical: u64,
    length: u64,
    source: String,
    is_guess: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<String>,
    after: String,
    findings: u64,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

impl RepairEntry {
    pub(super) fn new(report: &RepairReport<'_>) -> Self {
        let duration = report.summary.map_or(Duration::ZERO, |summary| summary.duration);
        let bytes_repaired = report.summary.map_or(0, |summary| summary.bytes_repaired);
        let dropped = report.summary.into_iter().flat_map(|summary| &summary.dropped);
        let entry = |(devid, why): (&crate::units::DeviceId, &Failure)| DroppedEntry {
            devid: devid.raw(),
            why: why.to_string(),
        };
        let withheld = report.plan.withheld();
        Self {
            dry_run: report.summary.is_none(),
            repaired: report.repaired(),
            failed: report.failed(),
            withheld: withheld.iter().map(|withheld| withheld.step.findings).sum(),
            bytes_planned: report.plan.bytes(),
            bytes_repaired,
            duration_seconds: duration.as_secs_f64(),
            rate_bytes_per_second: human::rate(bytes_repaired, duration),
            undo_log: report.undo_log.map(|path| path.display().to_string()),
            dropped_devices: dropped.map(entry).collect(),
            steps: report.steps().map(|(step, state)| StepEntry::new(step, state)).collect(),
            withheld_steps: withheld
                .iter()
                .map(|withheld| StepEntry {
                    state: "withheld",
                    why: Some(withheld.why.to_string()),
                    ..StepEntry::new(&withheld.step, None)
                })
                .collect(),
        }
    }
}

impl StepEntry {
    fn new(step: &Step, state: Option<StepState>) -> Self {
        let (state, why) = match state {
            None => ("planned", None),
            Some(StepState::Pending) => ("pending", None),
            Some(StepState::Done) => ("done", None),
            Some(StepState::Failed(failure)) => ("failed", Some(failure.to_string())),
        };
        Self {
            kind: step.kind.word(),
            problem: step.problem.word(),
            logical: step.logical.raw(),
            mirror: step.mirror.raw(),
            devid: step.place.devid.raw(),
            physical: step.place.physical.raw(),
            length: step.len_bytes,
            source: SourceText(step.source).to_string(),
            is_guess: matches!(step.source, Source::Salvage(_)),
            before: step.before.map(|before| before.to_string()),
            after: step.after.to_string(),
            findings: step.findings,
            state,
            why,
        }
    }
}
