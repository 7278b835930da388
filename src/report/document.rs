//! The report as JSON or YAML: numbers raw, keys never abbreviated, findings in the order of the outcome.

use super::layers::{BelowEntry, LowerEntry};
use super::owner::FileEntry;
use super::rebuild::RebuiltEntry;
use super::repair::RepairEntry;
use super::selected::SelectedEntry;
use super::words::Word;
use super::{Report, human};
use crate::bench::statistics::Spread;
use crate::owners::Owners;
use crate::scrub::finding::Finding;
use crate::scrub::outcome::{DeviceOutcome, FilesystemInfo, ScrubOutcome};
use crate::scrub::tally::Counters;
use serde::{Serialize, Serializer};
use std::io::{self, Write};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// How a document is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// Indented JSON.
    Json,
    /// YAML.
    Yaml,
}

/// A document could not be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The writer failed.
    #[error("cannot write the report")]
    Io(#[from] io::Error),
    /// The JSON encoder or its writer failed.
    #[error("cannot write the report as json")]
    Json(#[from] serde_json::Error),
    /// The YAML encoder or its writer failed.
    #[error("cannot write the report as yaml")]
    Yaml(#[from] serde_yaml::Error),
}

/// Writes the whole report, with a newline at its end.
pub fn write_document(report: Report<'_>, encoding: Encoding, out: &mut dyn Write) -> Result<(), WriteError> {
    encode(&Document::new(report), encoding, out)
}

/// Writes one finding as one line of JSON, without its owners: for a list that grows while a scrub runs.
pub fn write_finding_line(finding: &Finding, out: &mut dyn Write) -> Result<(), WriteError> {
    serde_json::to_writer(&mut *out, &FindingEntry::new(finding, Owners::default()))?;
    Ok(out.write_all(b"\n")?)
}

/// Writes any document in the encoding asked for.
pub(super) fn encode(document: &impl Serialize, encoding: Encoding, out: &mut dyn Write) -> Result<(), WriteError> {
    match encoding {
        Encoding::Json => {
            serde_json::to_writer_pretty(&mut *out, document)?;
            out.write_all(b"\n")?;
        }
        Encoding::Yaml => serde_yaml::to_writer(&mut *out, document)?,
    }
    Ok(())
}

/// A figure of several rounds.
#[derive(Serialize)]
pub(super) struct SpreadEntry {
    pub(super) median: f64,
    pub(super) min: f64,
    pub(super) max: f64,
}

impl From<Spread> for SpreadEntry {
    fn from(Spread { median, min, max }: Spread) -> Self {
        Self { median, min, max }
    }
}

#[derive(Serialize)]
struct Document<'a> {
    tool: Tool,
    command: &'a str,
    filesystem: FilesystemEntry<'a>,
    /// Null where everything was asked for.
    selection: Option<SelectedEntry>,
    status: &'static str,
    verdict: &'static str,
    started: String,
    duration_seconds: f64,
    bytes_total: u64,
    bytes_scrubbed: u64,
    rate_bytes_per_second: f64,
    totals: CountersEntry,
    devices: Vec<DeviceEntry>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    members: Vec<LowerEntry>,
    #[serde(skip_serializing_if = "Option::is_none")]
    repair: Option<RepairEntry>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rebuilt: Option<RebuiltEntry>,
    findings: Vec<FindingEntry>,
    findings_omitted: u64,
    notes: &'a [String],
}

/// Who wrote the report.
#[derive(Serialize)]
pub(super) struct Tool {
    name: &'static str,
    version: &'static str,
}

impl Tool {
    pub(super) const THIS: Self = Self { name: env!("CARGO_PKG_NAME"), version: env!("CARGO_PKG_VERSION") };
}

#[derive(Serialize)]
pub(super) struct FilesystemEntry<'a> {
    fsid: String,
    label: &'a str,
    generation: u64,
    csum_type: &'static str,
    sectorsize: u32,
    nodesize: u32,
    num_devices: u64,
    missing_devids: Vec<u64>,
}

#[derive(Serialize)]
struct DeviceEntry {
    devid: u64,
    /// Null for a missing member.
    path: Option<String>,
    /// Was anything of it looked at?
    read: bool,
    bytes_total: u64,
    /// Null where it was not, and nothing is known of it.
    counters: Option<CountersEntry>,
}

#[derive(Serialize)]
pub(super) struct FindingEntry {
    kind: &'static str,
    problem: &'static str,
    logical: u64,
    length: u32,
    mirror: u8,
    devid: u64,
    physical: u64,
    profile: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    have: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expect: Option<String>,
    repair: &'static str,
    files: Vec<FileEntry>,
    #[serde(skip_serializing_if = "is_zero")]
    files_omitted: u64,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    files_incomplete: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    holds: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    below: Vec<BelowEntry>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

pub(super) struct CountersEntry(pub(super) Counters);

impl Serialize for CountersEntry {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(Counters::NAMES.into_iter().zip(self.0.values()))
    }
}

impl<'a> Document<'a> {
    fn new(report: Report<'a>) -> Self {
        let outcome: &ScrubOutcome = report.outcome;
        Self {
            tool: Tool::THIS,
            command: report.command,
            filesystem: FilesystemEntry::new(&outcome.filesystem),
            selection: SelectedEntry::new(&outcome.selected),
            status: outcome.status.word(),
            verdict: outcome.verdict.word(),
            started: OffsetDateTime::from(outcome.started).format(&Rfc3339).unwrap_or_default(),
            duration_seconds: outcome.duration.as_secs_f64(),
            bytes_total: outcome.bytes_total,
            bytes_scrubbed: outcome.bytes_scrubbed,
            rate_bytes_per_second: human::rate(outcome.bytes_scrubbed, outcome.duration),
            totals: CountersEntry(outcome.totals),
            devices: outcome.devices.iter().map(DeviceEntry::new).collect(),
            members: outcome.filesystem.lower.iter().map(LowerEntry::new).collect(),
            repair: report.repair.as_ref().map(RepairEntry::new),
            rebuilt: report.rebuilt.as_ref().map(RebuiltEntry::new),
            findings: outcome
                .findings
                .iter()
                .map(|finding| FindingEntry::new(finding, outcome.owners_of(finding)))
                .collect(),
            findings_omitted: outcome.findings_omitted,
            notes: &outcome.notes,
        }
    }
}

impl<'a> FilesystemEntry<'a> {
    pub(super) fn new(info: &'a FilesystemInfo) -> Self {
        Self {
            fsid: info.fsid.to_string(),
            label: &info.label,
            generation: info.generation.raw(),
            csum_type: info.csum_type.word(),
            sectorsize: info.sectorsize,
            nodesize: info.nodesize,
            num_devices: info.num_devices,
            missing_devids: info.missing_devids.iter().map(|devid| devid.raw()).collect(),
        }
    }
}

impl DeviceEntry {
    fn new(device: &DeviceOutcome) -> Self {
        Self {
            devid: device.devid.raw(),
            path: (!device.path.as_os_str().is_empty()).then(|| device.path.display().to_string()),
            read: device.is_read,
            bytes_total: device.bytes_total,
            counters: device.tells_something().then_some(CountersEntry(device.counters)),
        }
    }
}

impl FindingEntry {
    pub(super) fn new(finding: &Finding, owners: Owners) -> Self {
        let (have, expect) = finding.evidence.strings();
        Self {
            kind: finding.kind.word(),
            problem: finding.problem.word(),
            logical: finding.logical.raw(),
            length: finding.length,
            mirror: finding.mirror.raw(),
            devid: finding.devid.raw(),
            physical: finding.physical.raw(),
            profile: finding.profile.word(),
            owner: finding.owner,
            have,
            expect,
            repair: finding.repair.word(),
            files: owners.files.iter().map(FileEntry::new).collect(),
            files_omitted: owners.omitted,
            files_incomplete: owners.is_partial || owners.is_cut,
            holds: owners.holds,
            below: finding.below.iter().map(BelowEntry::new).collect(),
        }
    }
}
