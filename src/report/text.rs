//! The report for people: `btrfs scrub status` to the letter (btrfs-progs `cmds/scrub.c`) where the notions agree, then
//! what btrfs does not say: the sum with its units, one line per finding or run of them, notes.
//!
//! Three things are said otherwise than btrfs says them. What could be corrected but was not is `Correctable`;
//! `Corrected` counts only what was read back. A run that did not get to its end never says "no errors found".

use super::runs::write_runs;
use super::{Report, human, selected};
use crate::scrub::finding::{Finding, FindingKind, RepairState};
use crate::scrub::outcome::{DeviceOutcome, ScrubOutcome, Status, Verdict};
use crate::scrub::tally::Counters;
use crate::units::DeviceId;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use time::UtcOffset;

/// How much of a report the text shows.
#[derive(Clone, Copy, Debug)]
pub struct TextOptions<'a> {
    /// A block per device instead of one for all (`btrfs scrub status -d`).
    pub per_device: bool,
    /// The counters by their names instead of a summary (`-R`).
    pub raw: bool,
    /// Lines of findings at most, each of one or of neighbours that are alike; the rest is counted.
    pub max_findings: usize,
    /// Files listed below a finding at most; the rest is counted.
    pub max_files: usize,
    /// Ends the line that counts the findings not listed: where to see them.
    pub more_advice: &'a str,
    /// The time zone that dates are shown in.
    pub utc_offset: UtcOffset,
}

impl Default for TextOptions<'_> {
    fn default() -> Self {
        Self {
            per_device: false,
            raw: false,
            max_findings: 20,
            max_files: 4,
            more_advice: "",
            utc_offset: UtcOffset::UTC,
        }
    }
}

/// Writes the report as text.
pub fn write_text(report: Report<'_>, options: &TextOptions<'_>, out: &mut dyn Write) -> io::Result<()> {
    let outcome = report.outcome;
    let head = Head { command: report.command, outcome, options };
    field(out, "UUID", &outcome.filesystem.fsid)?;
    if options.per_device {
        for device in &outcome.devices {
            if device.path.as_os_str().is_empty() {
                writeln!(out, "\n{} device missing (id {})", head.capitalised_command(), device.devid)?;
                continue;
            }
            let (path, devid) = (device.path.display(), device.devid);
            if !device.tells_something() {
                writeln!(out, "\n{} device {path} (id {devid}) not read", head.capitalised_command())?;
                continue;
            }
            let state = if outcome.status == Status::Finished { "done" } else { "stopped" };
            writeln!(out, "\n{} device {path} (id {devid}) {state}", head.capitalised_command())?;
            head.write(out)?;
            counters(out, options, &Part::of_device(device, outcome))?;
        }
    } else {
        head.write(out)?;
        counters(out, options, &Part::whole(outcome))?;
    }
    missing(out, outcome)?;
    result(out, outcome)?;
    if let Some(repair) = &report.repair {
        super::repair::write_text(repair, options.max_findings, out)?;
    }
    if let Some(rebuilt) = &report.rebuilt {
        super::rebuild::write_text(rebuilt, out)?;
    }
    findings(out, outcome, options)?;
    outcome.notes.iter().try_for_each(|note| writeln!(out, "note: {note}"))
}

/// A label and its value, the value in column 19 as in btrfs.
fn field(out: &mut dyn Write, label: &str, value: &dyn std::fmt::Display) -> io::Result<()> {
    writeln!(out, "{:<17} {value}", format!("{label}:"))
}

/// The lines that stand above every set of counters.
struct Head<'a> {
    command: &'a str,
    outcome: &'a ScrubOutcome,
    options: &'a TextOptions<'a>,
}

impl Head<'_> {
    fn capitalised_command(&self) -> String {
        let mut letters = self.command.chars();
        letters.next().map_or_else(String::new, |first| format!("{}{}", first.to_ascii_uppercase(), letters.as_str()))
    }

    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let started = human::date(self.outcome.started, self.options.utc_offset);
        let status = match self.outcome.status {
            Status::Finished => "finished",
            Status::Interrupted => "interrupted",
        };
        field(out, &format!("{} started", self.capitalised_command()), &started)?;
        field(out, "Status", &status)?;
        field(out, "Duration", &human::clock(self.outcome.duration))?;
        selected::phrase(&self.outcome.selected).map_or(Ok(()), |selected| field(out, "Selected", &selected))
    }
}

/// The counters of one device or of all.
struct Part<'a> {
    /// One device, or all.
    devid: Option<DeviceId>,
    counters: &'a Counters,
    bytes_total: u64,
    bytes_scrubbed: u64,
    outcome: &'a ScrubOutcome,
}

impl<'a> Part<'a> {
    fn whole(outcome: &'a ScrubOutcome) -> Self {
        let (bytes_total, bytes_scrubbed) = (outcome.bytes_total, outcome.bytes_scrubbed);
        Self { devid: None, counters: &outcome.totals, bytes_total, bytes_scrubbed, outcome }
    }

    fn of_device(device: &'a DeviceOutcome, outcome: &'a ScrubOutcome) -> Self {
        let counters = &device.counters;
        let bytes_scrubbed = counters.data_bytes_scrubbed.saturating_add(counters.tree_bytes_scrubbed);
        Self { devid: Some(device.devid), counters, bytes_total: device.bytes_total, bytes_scrubbed, outcome }
    }

    /// Super block copies of these prospects: the counters of sectors do not have them.
    fn superblocks(&self, state: RepairState) -> u64 {
        let is_here = |devid| self.devid.is_none_or(|only| only == devid);
        let counted = |f: &&Finding| f.kind == FindingKind::Superblock && f.repair == state && is_here(f.devid);
        self.outcome.findings.iter().filter(counted).count() as u64
    }
}

fn counters(out: &mut dyn Write, options: &TextOptions<'_>, part: &Part<'_>) -> io::Result<()> {
    if options.raw { raw_counters(out, part.counters) } else { summary(out, part) }
}

/// The kernel's counters always, ours where they are not 0.
fn raw_counters(out: &mut dyn Write, counters: &Counters) -> io::Result<()> {
    for (index, (name, value)) in Counters::NAMES.into_iter().zip(counters.values()).enumerate() {
        if index < Counters::KERNEL || value > 0 {
            writeln!(out, "\t{name}: {value}")?;
        }
    }
    Ok(())
}

fn summary(out: &mut dyn Write, part: &Part<'_>) -> io::Result<()> {
    let rate = human::rate(part.bytes_scrubbed, part.outcome.duration);
    field(out, "Total to scrub", &human::size(part.bytes_total))?;
    if part.outcome.status == Status::Interrupted {
        field(out, "Bytes scrubbed", &human::size(part.bytes_scrubbed))?;
    }
    field(out, "Rate", &human::per_second(rate))?;
    let errors = error_kinds(part.counters);
    if errors.is_empty() {
        return field(out, "Error summary", &no_errors(part));
    }
    field(out, "Error summary", &errors.join(" "))?;
    let c = part.counters;
    let supers = |state| part.superblocks(state);
    for (label, count) in [
        ("Correctable", c.correctable_errors + supers(RepairState::Possible)),
        ("Corrected", c.corrected_errors + supers(RepairState::Done)),
        ("Uncorrectable", c.uncorrectable_errors + supers(RepairState::Impossible)),
        ("Unverified", c.unverified_errors),
    ] {
        writeln!(out, "  {:<15} {count}", format!("{label}:"))?;
    }
    Ok(())
}

/// `kind=count` for each kind of error seen, btrfs's kinds first.
fn error_kinds(c: &Counters) -> Vec<String> {
    let kinds = [
        ("read", c.read_errors),
        ("super", c.super_errors),
        ("verify", c.verify_errors),
        ("csum", c.csum_errors),
        ("parity", c.parity_errors),
        ("nodatasum", c.nodatasum_mismatch),
    ];
    let others = c.uncorrectable_errors > 0 || c.correctable_errors > 0 || c.corrected_errors > 0;
    let seen: Vec<_> = kinds.into_iter().filter(|(_, n)| *n > 0).map(|(kind, n)| format!("{kind}={n}")).collect();
    if seen.is_empty() && others { vec!["see below".to_owned()] } else { seen }
}

/// What may be said where nothing bad was seen: less after a run that stopped early, or with members missing.
fn no_errors(part: &Part<'_>) -> String {
    let (outcome, total) = (part.outcome, human::size(part.bytes_total));
    match outcome.status {
        Status::Interrupted => {
            let done = human::size(part.bytes_scrubbed);
            format!("stopped after {done} of {total}; no errors in the part checked")
        }
        Status::Finished if !outcome.filesystem.missing_devids.is_empty() => {
            "no errors found on the devices that are here".to_owned()
        }
        Status::Finished if !outcome.selected.is_everything() => "no errors found in what was selected".to_owned(),
        Status::Finished => "no errors found".to_owned(),
    }
}

fn missing(out: &mut dyn Write, outcome: &ScrubOutcome) -> io::Result<()> {
    let missing = &outcome.filesystem.missing_devids;
    if missing.is_empty() {
        return Ok(());
    }
    let devids: Vec<_> = missing.iter().map(ToString::to_string).collect();
    field(out, "Missing", &format!("devid {}", devids.join(", devid ")))
}

/// The sum in words, each number with its unit and the number of devices it is spread over.
fn result(out: &mut dyn Write, outcome: &ScrubOutcome) -> io::Result<()> {
    result_phrases(outcome).map_or(Ok(()), |phrases| field(out, "Result", &phrases))
}

/// The same as one line; `None` where nothing bad was found.
pub(super) fn result_phrases(outcome: &ScrubOutcome) -> Option<String> {
    let mut parts: Vec<String> = SUMS.iter().filter_map(|sum| sum.phrase(outcome)).collect();
    parts.extend(OTHER_UNITS.iter().flat_map(|sum| sum.phrases(outcome)));
    if parts.is_empty() {
        return None;
    }
    if outcome.status == Status::Interrupted {
        let (done, total) = (human::size(outcome.bytes_scrubbed), human::size(outcome.bytes_total));
        parts.push(format!("stopped after {done} of {total}"));
    }
    Some(parts.join("; "))
}

/// One number of the result: its unit, what it counts, where it stands.
struct Sum {
    unit: &'static str,
    what: &'static str,
    of: fn(&Counters) -> u64,
}

const SUMS: [Sum; 6] = [
    Sum { unit: "sector", what: "uncorrectable", of: |c| c.uncorrectable_errors },
    Sum { unit: "sector", what: "without checksum not equal in all copies", of: |c| c.nodatasum_mismatch },
    Sum { unit: "sector", what: "correctable", of: |c| c.correctable_errors },
    Sum { unit: "sector", what: "corrected and read back", of: |c| c.corrected_errors },
    Sum { unit: "sector", what: "bad at first and good when read again", of: |c| c.unverified_errors },
    Sum { unit: "correction", what: "failed", of: |c| c.repair_write_failed },
];

impl Sum {
    fn phrase(&self, outcome: &ScrubOutcome) -> Option<String> {
        let total = (self.of)(&outcome.totals);
        let devices = outcome.devices.iter().filter(|device| (self.of)(&device.counters) > 0).count();
        let (number, on) = (human::count(total, self.unit), human::count(devices as u64, "device"));
        (total > 0).then(|| format!("{number} {} on {on}", self.what))
    }
}

/// A number that is not of sectors.
struct OtherUnit {
    kind: FindingKind,
    unit: &'static str,
    of: fn(&Counters) -> u64,
}

const OTHER_UNITS: [OtherUnit; 2] = [
    OtherUnit { kind: FindingKind::Superblock, unit: "super block copy", of: |c| c.super_errors },
    OtherUnit { kind: FindingKind::Parity, unit: "parity stripe", of: |c| c.parity_errors },
];

impl OtherUnit {
    /// By what can be or was done about them, which the counters do not tell: where their findings are not all listed, the
    /// verdict is what is known of them.
    fn phrases(&self, outcome: &ScrubOutcome) -> Vec<String> {
        let listed = outcome.findings.iter().filter(|finding| finding.kind == self.kind).count() as u64;
        if outcome.findings_omitted > 0 && listed < (self.of)(&outcome.totals) {
            let is_corrected = outcome.verdict == Verdict::Corrected;
            let what = if is_corrected { prospects(RepairState::Done) } else { "bad" };
            return Sum { unit: self.unit, what, of: self.of }.phrase(outcome).into_iter().collect();
        }
        let mut states: BTreeMap<RepairState, (u64, BTreeSet<DeviceId>)> = BTreeMap::new();
        for finding in outcome.findings.iter().filter(|finding| finding.kind == self.kind) {
            let (count, devices) = states.entry(finding.repair).or_default();
            *count += 1;
            devices.insert(finding.devid);
        }
        let phrase = |(state, (count, devices)): (RepairState, (u64, BTreeSet<DeviceId>))| {
            let (number, on) = (human::count(count, self.unit), human::count(devices.len() as u64, "device"));
            format!("{number} {} on {on}", prospects(state))
        };
        states.into_iter().map(phrase).collect()
    }
}

fn prospects(state: RepairState) -> &'static str {
    match state {
        RepairState::Possible => "correctable",
        RepairState::Done => "corrected and read back",
        RepairState::Failed => "not corrected",
        RepairState::Impossible => "uncorrectable",
        RepairState::Undecidable => "undecidable",
    }
}

fn findings(out: &mut dyn Write, outcome: &ScrubOutcome, options: &TextOptions<'_>) -> io::Result<()> {
    let unlisted = write_runs(outcome, options.max_findings, options.max_files, out)?;
    if unlisted > 0 {
        writeln!(out, "and {}{}", human::count(unlisted, "more finding"), options.more_advice)?;
    }
    match outcome.findings_omitted {
        0 => Ok(()),
        omitted => writeln!(out, "and {}, counted and not listed", human::count(omitted, "more finding")),
    }
}
