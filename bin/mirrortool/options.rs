//! Groups of options that several commands share.

use crate::advice;
use crate::exit;
use crate::layers::LayerOptions;
use crate::output::{self, PendingFile};
use crate::outputs::Named;
use anyhow::ensure;
use clap::ValueEnum;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use mirrortool::device::{IoEngine, users_of};
use mirrortool::filesystem::{Filesystem, OpenOptions};
use mirrortool::report::{self, DeviceMap, Encoding, PageOptions, Report, TextOptions};
use mirrortool::scrub::outcome::{ScrubOutcome, Status, Verdict};
use mirrortool::scrub::owners_of;
use mirrortool::tree::ReadaheadMode;
use mirrortool::units::DeviceId;
use mirrortool::volume::read_policy::PolicyKind;
use mirrortool::volume::{DeviceSet, SetOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use time::UtcOffset;

/// Files that a text on the screen lists below a finding.
const SCREEN_FILES: usize = 8;
/// Findings that a text on the screen lists.
const SCREEN_FINDINGS: usize = 20;

/// Which file system, and how to read it.
#[derive(Debug, clap::Args)]
pub(crate) struct InputOptions {
    /// The devices or image files of one file system, in any order
    #[arg(value_name = "IMAGE", required = true)]
    pub(crate) images: Vec<PathBuf>,

    /// Go on without the members that were not given
    #[arg(long, help_heading = "Input")]
    pub(crate) degraded: bool,

    /// How image files are read; block devices are always read directly
    #[arg(long, value_name = "ENGINE", help_heading = "Input", default_value_t, value_parser = engine_parser())]
    pub(crate) io_engine: IoEngine,

    #[command(flatten)]
    pub(crate) layers: LayerOptions,
}

/// A number of seconds, minutes, hours or days: `90s`, `30m`, `2h`, `1d`.
pub(crate) fn parse_duration(typed: &str) -> Result<Duration, String> {
    let units = [("s", 1), ("m", 60), ("h", 3600), ("d", 86400)];
    let found = units.into_iter().find_map(|(unit, seconds)| Some((typed.strip_suffix(unit)?, seconds)));
    let seconds = found.and_then(|(number, seconds)| number.parse::<u64>().ok()?.checked_mul(seconds));
    seconds.map(Duration::from_secs).ok_or_else(|| "expected a number and s, m, h or d, as in 90m".to_owned())
}

/// A number of bytes, with K, M, G or T for powers of 1024.
pub(crate) fn parse_size(typed: &str) -> Result<u64, String> {
    let units = [("K", 10), ("M", 20), ("G", 30), ("T", 40)];
    let upper = typed.to_ascii_uppercase();
    let found = units.into_iter().find_map(|(unit, shift)| Some((upper.strip_suffix(unit)?, shift)));
    let (number, shift) = found.unwrap_or((&upper, 0));
    let bytes = number.parse::<u64>().ok().filter(|n| *n > 0).and_then(|n| n.checked_mul(1 << shift));
    bytes.ok_or_else(|| "expected a number of bytes above 0, or with K, M, G or T, as in 50M".to_owned())
}

pub(crate) fn engine_parser() -> impl TypedValueParser<Value = IoEngine> {
    PossibleValuesParser::new(IoEngine::ALL.map(IoEngine::name)).try_map(|word| word.parse::<IoEngine>())
}

impl InputOptions {
    /// The members, which no file may be written over.
    pub(crate) fn inputs(&self) -> impl Iterator<Item = Named<'_>> {
        self.images.iter().map(|path| Named { what: "the member", path })
    }

    /// Opens all members and the file system they make.
    pub(crate) fn open(&self, read_policy: ReadPolicyOption) -> anyhow::Result<Filesystem> {
        read_policy.open(self.set()?)
    }

    /// Opens all members.
    pub(crate) fn set(&self) -> anyhow::Result<DeviceSet> {
        let opened = self.layers.open(&self.images, self.io_engine)?;
        Ok(DeviceSet::assemble(opened, SetOptions { degraded: self.degraded })?)
    }

    /// Says on stderr which members something else may be writing to: what is found in them may be half a change.
    pub(crate) fn warn_of_users(&self) {
        for image in &self.images {
            let users: Vec<_> = users_of(image).unwrap_or_default().iter().map(ToString::to_string).collect();
            if !users.is_empty() {
                let users = users.join(", ");
                output::warn(&format!("{}: {users}; what is read may change meanwhile", image.display()));
            }
        }
    }
}

/// How trees are read ahead.
#[derive(Debug, clap::Args)]
pub(crate) struct ReadaheadOption {
    /// How the trees are read: off, siblings (as the kernel) or pipeline[:DEPTH], so many requests per device
    #[arg(long, value_name = "MODE", help_heading = "Input", default_value_t)]
    pub(crate) readahead: ReadaheadMode,
}

/// Which of several copies is read.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub(crate) struct ReadPolicyOption {
    /// Which mirror is read where one is enough: pid, round-robin[:MIN_CONTIG], devid:N, latency[:SAMPLES] or auto
    #[arg(long, value_name = "POLICY", help_heading = "Input", default_value_t)]
    pub(crate) read_policy: PolicyKind,
}

impl ReadPolicyOption {
    /// Opens the file system of a set, to be read by this policy.
    pub(crate) fn open(self, set: DeviceSet) -> anyhow::Result<Filesystem> {
        let fs = Filesystem::open(set, &OpenOptions { read_policy: self.read_policy })?;
        if let PolicyKind::Devid(devid) = self.read_policy {
            let is_missing = fs.set().missing().iter().any(|item| item.devid == devid);
            if is_missing {
                output::warn(&format!("devid {devid} of --read-policy is missing: the other copies are read"));
            } else {
                ensure_known(&fs, devid)?;
            }
        }
        Ok(fs)
    }
}

/// Refuses a device that is not among the members.
pub(crate) fn ensure_known(fs: &Filesystem, devid: DeviceId) -> anyhow::Result<()> {
    let known: Vec<String> = fs.members().map(|member| member.devid().to_string()).collect();
    ensure!(fs.device(devid).is_some(), "no devid {devid} among the images, there are {}", known.join(", "));
    Ok(())
}

/// The form of a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people; that of a scrub as btrfs scrub status
    #[default]
    Text,
    /// For programs
    Json,
    /// For programs and people
    Yaml,
}

/// What is reported, and where to.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Report")]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of its own on the command line")]
pub(crate) struct ReportOptions {
    /// The form of the report on stdout
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,

    /// A block of text per device instead of one for all
    #[arg(short = 'd', long)]
    pub(crate) per_device: bool,

    /// All counters by their names instead of a summary
    #[arg(short = 'R', long)]
    pub(crate) raw: bool,

    /// Write the whole report to FILE too; .json, .yaml, .txt and .html choose its form, else --format does
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,

    /// Write metrics in Prometheus' text format to FILE, for the node exporter's textfile collector
    #[arg(long, value_name = "FILE")]
    pub(crate) metrics: Option<PathBuf>,

    /// Store the result where "btrfs scrub status" looks for it: in DIR, or /var/lib/btrfs
    #[arg(long, value_name = "DIR", num_args = 0..=1, require_equals = true, default_missing_value = "/var/lib/btrfs")]
    pub(crate) btrfs_status: Option<PathBuf>,

    /// Exit as fsck does: 0 good, 1 corrected, 4 errors left, 8 failed, 16 usage, 32 ended early
    #[arg(long)]
    pub(crate) fsck_exit: bool,

    /// Print nothing where nothing is wrong, and no progress
    #[arg(short, long)]
    pub(crate) quiet: bool,

    /// Show no progress on the terminal
    #[arg(long)]
    pub(crate) no_progress: bool,

    /// Keep at most N findings for the report; the rest is counted
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    pub(crate) max_findings: usize,

    /// Do not look up which files are hit
    #[arg(long, conflicts_with = "max_owners")]
    pub(crate) no_paths: bool,

    /// List at most N files for each bad sector; the rest is counted
    #[arg(long, value_name = "N", default_value_t = 32)]
    pub(crate) max_owners: usize,
}

impl ReportOptions {
    pub(crate) fn shows_progress(&self) -> bool {
        !self.quiet && !self.no_progress
    }

    /// Looks up which files and trees are hit, unless told not to.
    pub(crate) fn name_owners(&self, filesystem: &Filesystem, outcome: &mut ScrubOutcome) {
        if !self.no_paths {
            outcome.owners = owners_of(filesystem, &outcome.findings, self.max_owners);
        }
    }

    /// The files that will be written, as far as their names are known before the run.
    pub(crate) fn outputs(&self) -> impl Iterator<Item = Named<'_>> {
        let report = self.report.as_deref().map(|path| Named { what: "the report", path });
        let metrics = self.metrics.as_deref().map(|path| Named { what: "the file of metrics", path });
        report.into_iter().chain(metrics)
    }

    /// Makes sure that all files can be written, before the run.
    pub(crate) fn prepare(&self, utc_offset: UtcOffset) -> anyhow::Result<ReportSink<'_>> {
        let pending = |path: Option<&Path>| path.map(PendingFile::create).transpose();
        let status = self.btrfs_status.as_ref().map(|folder| folder.join("scrub.status"));
        Ok(ReportSink {
            options: self,
            file: pending(self.report.as_deref())?,
            metrics: pending(self.metrics.as_deref())?,
            status: pending(status.as_deref())?,
            maps: Vec::new(),
            utc_offset,
        })
    }

    /// What is shown to whoever is asked: the text, whatever the report will be.
    pub(crate) fn text_to_ask_with(&self, report: Report<'_>, utc_offset: UtcOffset) -> io::Result<Vec<u8>> {
        rendered(|out| report::write_text(report, &self.text(utc_offset), out))
    }

    /// The exit code of an outcome, in the way asked for.
    pub(crate) fn exit_code(&self, outcome: &ScrubOutcome) -> exit::Code {
        let (status, verdict) = (outcome.status, outcome.verdict);
        if self.fsck_exit { exit::of_outcome_as_fsck(status, verdict) } else { exit::of_outcome(status, verdict) }
    }

    /// The exit code where a scrub was to be gone on with and there is none.
    pub(crate) fn nothing_to_resume(&self) -> exit::Code {
        if self.fsck_exit { exit::FAILED_AS_FSCK } else { exit::NOTHING_TO_RESUME }
    }

    fn file_format(&self, path: &Path) -> Format {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("json") => Format::Json,
            Some("yaml" | "yml") => Format::Yaml,
            Some("txt") => Format::Text,
            _ => self.format,
        }
    }

    fn text(&self, utc_offset: UtcOffset) -> TextOptions<'_> {
        TextOptions {
            per_device: self.per_device,
            raw: self.raw,
            max_findings: SCREEN_FINDINGS,
            max_files: SCREEN_FILES,
            more_advice: if self.report.is_some() { " in the report file" } else { "; --report FILE lists all" },
            utc_offset,
        }
    }
}

/// Where the report of a run will go.
#[derive(Debug)]
pub(crate) struct ReportSink<'a> {
    options: &'a ReportOptions,
    file: Option<PendingFile>,
    metrics: Option<PendingFile>,
    status: Option<PendingFile>,
    maps: Vec<DeviceMap>,
    utc_offset: UtcOffset,
}

impl ReportSink<'_> {
    /// What lies where on the devices, for a report that draws it.
    pub(crate) fn with_maps(self, maps: Vec<DeviceMap>) -> Self {
        Self { maps, ..self }
    }

    /// Prints, and then writes the files. The run has done what it did: whatever cannot be written is told, takes nothing
    /// else with it, and changes nothing in how the run ended.
    pub(crate) fn write(self, report: Report<'_>) {
        let screen = self.options.text(self.utc_offset);
        let outcome = report.outcome;
        let is_silent = self.options.quiet && outcome.verdict == Verdict::Clean && outcome.status == Status::Finished;
        let print = || output::print(&render(report, self.options.format, &screen)?);
        output::warn_of(if is_silent { Ok(()) } else { print() });
        let write_file = |file: PendingFile, path: &Path| {
            let all = TextOptions { max_findings: usize::MAX, max_files: usize::MAX, more_advice: "", ..screen };
            let content = match path.extension().and_then(|extension| extension.to_str()) {
                Some("html") => page(report, &self.maps, self.utc_offset)?,
                _ => render(report, self.options.file_format(path), &all)?,
            };
            file.publish(&content)
        };
        if let (Some(file), Some(path)) = (self.file, &self.options.report) {
            output::warn_of(write_file(file, path));
        }
        if let Some(metrics) = self.metrics {
            let content = rendered(|out| report::write_metrics(report, out));
            output::warn_of(content.map_err(Into::into).and_then(|content| metrics.publish(&content)));
        }
        if let Some(status) = self.status {
            let name = report::btrfs_status_file_name(report.outcome.filesystem.fsid);
            let content = rendered(|out| report::write_btrfs_status(report, out));
            output::warn_of(content.map_err(Into::into).and_then(|content| status.publish_as(&name, &content)));
        }
    }
}

fn rendered(write: impl FnOnce(&mut dyn io::Write) -> io::Result<()>) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    write(&mut out)?;
    Ok(out)
}

fn page(report: Report<'_>, maps: &[DeviceMap], utc_offset: UtcOffset) -> anyhow::Result<Vec<u8>> {
    let advice = advice::for_outcome(report.command, report.outcome);
    let mut out = Vec::new();
    report::write_page(report, &PageOptions { maps, advice: &advice, utc_offset }, &mut out)?;
    Ok(out)
}

fn render(report: Report<'_>, format: Format, text: &TextOptions<'_>) -> anyhow::Result<Vec<u8>> {
    let mut out = Vec::new();
    match format {
        Format::Text => report::write_text(report, text, &mut out)?,
        Format::Json => report::write_document(report, Encoding::Json, &mut out)?,
        Format::Yaml => report::write_document(report, Encoding::Yaml, &mut out)?,
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_take_suffixes_of_either_case() {
        assert_eq!(parse_size("4096"), Ok(4096));
        assert_eq!(parse_size("64k"), Ok(65536));
        assert_eq!(parse_size("2G"), Ok(2 << 30));
        for bad in ["", "K", "0", "1.5G", "99999999999T"] {
            assert!(parse_size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn durations_have_a_unit() {
        assert_eq!(parse_duration("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(parse_duration("2h"), Ok(Duration::from_secs(7200)));
        assert_eq!(parse_duration("1d"), Ok(Duration::from_secs(86400)));
        for wrong in ["", "5", "h", "-1h", "1.5h", "99999999999999999999d", "9999999999999999999d"] {
            assert!(parse_duration(wrong).is_err(), "{wrong}");
        }
    }
}
