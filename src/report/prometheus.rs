//! A result as metrics in Prometheus' text format, for the node exporter's textfile collector. Gauges all: each run
//! replaces what the last one said.

use super::words::Word;
use super::{Report, human, selected};
use crate::scrub::outcome::{ScrubOutcome, Status, Verdict};
use crate::scrub::tally::Counters;
use std::fmt::Display;
use std::io::{self, Write};
use std::time::SystemTime;

/// The counters that count something wrong.
const ERRORS: [&str; 13] = [
    "read_errors",
    "csum_errors",
    "verify_errors",
    "super_errors",
    "malloc_errors",
    "uncorrectable_errors",
    "unverified_errors",
    "corrected_errors",
    "correctable_errors",
    "nodatasum_mismatch",
    "parity_errors",
    "repair_write_failed",
    "csum_discards",
];

/// Writes all metrics of a run.
pub fn write_metrics(report: Report<'_>, out: &mut dyn Write) -> io::Result<()> {
    let outcome = report.outcome;
    let mut metrics = Metrics { out, labels: labels(report) };
    let ended = outcome.started + outcome.duration;
    let ended = ended.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    metrics.single("last_run_timestamp_seconds", "When the last run ended, in seconds since 1970.", &ended)?;
    metrics.single("duration_seconds", "How long the run took.", &outcome.duration.as_secs_f64())?;
    metrics.single("finished", "1 where the run came to its end.", &u8::from(outcome.status == Status::Finished))?;
    metrics.single("complete", "1 where everything there is was looked at.", &u8::from(outcome.is_complete()))?;
    let selection = selected::phrase(&outcome.selected).unwrap_or_else(|| "everything".to_owned());
    metrics.family("selection", "1 for what the run was asked to look at.")?;
    metrics.sample("selection", &format!("selection=\"{}\"", escaped(&selection)), &1)?;
    metrics.single("allocated_bytes", "Bytes there were to read.", &outcome.bytes_total)?;
    metrics.single("scrubbed_bytes", "Bytes read and checked.", &outcome.bytes_scrubbed)?;
    let rate = human::rate(outcome.bytes_scrubbed, outcome.duration);
    metrics.single("rate_bytes_per_second", "Bytes read and checked per second.", &rate)?;
    let findings = (outcome.findings.len() as u64).saturating_add(outcome.findings_omitted);
    metrics.single("findings", "Bad copies found.", &findings)?;
    let missing = outcome.filesystem.missing_devids.len();
    metrics.single("missing_devices", "Members that were not given.", &missing)?;
    for (name, help, value) in report.rebuilt.iter().flat_map(super::rebuild::metrics) {
        metrics.single(name, help, &value)?;
    }
    verdicts(&mut metrics, outcome)?;
    errors(&mut metrics, outcome)
}

fn verdicts(metrics: &mut Metrics<'_>, outcome: &ScrubOutcome) -> io::Result<()> {
    metrics.family("verdict", "1 for what the run found in sum, 0 for all else.")?;
    // What was not read is not clean: an alert that looks at nothing but this must not sleep.
    let is_unfinished = outcome.verdict == Verdict::Clean && outcome.status == Status::Interrupted;
    let is_partial = outcome.verdict == Verdict::Clean && !is_unfinished && !outcome.selected.is_everything();
    for verdict in [Verdict::Clean, Verdict::Corrected, Verdict::Correctable, Verdict::Uncorrectable] {
        let label = format!("verdict=\"{}\"", verdict.word());
        metrics.sample("verdict", &label, &u8::from(verdict == outcome.verdict && !is_unfinished && !is_partial))?;
    }
    metrics.sample("verdict", "verdict=\"unfinished\"", &u8::from(is_unfinished))?;
    metrics.sample("verdict", "verdict=\"partial\"", &u8::from(is_partial))
}

fn errors(metrics: &mut Metrics<'_>, outcome: &ScrubOutcome) -> io::Result<()> {
    metrics.family("errors", "What was wrong, by device and kind: sectors, super block copies, parity stripes.")?;
    for device in outcome.devices.iter().filter(|device| device.tells_something()) {
        let counters = Counters::NAMES.into_iter().zip(device.counters.values());
        for (name, value) in counters.filter(|(name, _)| ERRORS.contains(name)) {
            let kind = name.strip_suffix("_errors").unwrap_or(name);
            metrics.sample("errors", &format!("devid=\"{}\",kind=\"{kind}\"", device.devid), &value)?;
        }
    }
    Ok(())
}

/// The labels that every sample carries.
fn labels(report: Report<'_>) -> String {
    let filesystem = &report.outcome.filesystem;
    let (fsid, label) = (filesystem.fsid, escaped(&filesystem.label));
    format!("command=\"{}\",fsid=\"{fsid}\",label=\"{label}\"", report.command)
}

/// A label value may hold anything, with backslash, quote and newline escaped.
fn escaped(value: &str) -> String {
    value.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n")
}

struct Metrics<'a> {
    out: &'a mut dyn Write,
    labels: String,
}

impl Metrics<'_> {
    fn family(&mut self, name: &str, help: &str) -> io::Result<()> {
        writeln!(self.out, "# HELP mirrortool_{name} {help}\n# TYPE mirrortool_{name} gauge")
    }

    fn sample(&mut self, name: &str, more_labels: &str, value: &dyn Display) -> io::Result<()> {
        let comma = if more_labels.is_empty() { "" } else { "," };
        writeln!(self.out, "mirrortool_{name}{{{}{comma}{more_labels}}} {value}", self.labels)
    }

    fn single(&mut self, name: &str, help: &str, value: &dyn Display) -> io::Result<()> {
        self.family(name, help)?;
        self.sample(name, "", value)
    }
}

#[cfg(test)]
mod tests;
