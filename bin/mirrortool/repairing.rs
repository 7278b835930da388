//! One repair from the command line, for `repair` and `scrub --repair`: plan, consent, exclusive open, undo log, apply,
//! report.

use crate::options::{InputOptions, ReadPolicyOption, ReportOptions, ReportSink, ensure_known};
use crate::outputs::{Named, ensure_distinct};
use crate::{exit, output, rebuilding, text_file, watch};
use anyhow::{Context as _, bail, ensure};
use mirrortool::device::{Below, Consent, lower_devid};
use mirrortool::filesystem::Filesystem;
use mirrortool::lease::{Lease, LeaseError, Wanted, WriteLease};
use mirrortool::repair::journal::{FileLog, LogHeader, LogMember};
use mirrortool::repair::{
    ApplyOptions, FromBadCopies, Journal, LogStore, PlanOptions, Planned, RepairSummary, apply, check_unused, plan,
    repair_at_once,
};
use mirrortool::report::{RepairReport, Report, SavedReport, count_of, device_maps, read_report};
use mirrortool::scrub::mend::{Choice, Salvage};
use mirrortool::scrub::outcome::{ScrubOutcome, Status, Verdict};
use mirrortool::scrub::{Progress, ScrubOptions, scrub};
use mirrortool::units::DeviceId;
use mirrortool::volume::Member;
use rustix::fs::Access;
use std::fs;
use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};
use time::UtcOffset;
use time::macros::format_description;

/// What may be written, and what is kept of it.
#[derive(Debug, Default, PartialEq, Eq, clap::Args)]
#[command(next_help_heading = "Repair")]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of its own on the command line")]
pub(crate) struct RepairOptions {
    /// Write without asking
    #[arg(short, long)]
    yes: bool,

    /// Keep what is overwritten in FILE, which must not exist [default: next to the report, or in this folder]
    #[arg(long, value_name = "FILE", conflicts_with = "no_undo_log")]
    undo_log: Option<PathBuf>,

    /// Keep nothing of what is overwritten: the repair cannot be undone
    #[arg(long)]
    no_undo_log: bool,

    /// Where copies without checksum differ, take the one on this device
    #[arg(long, value_name = "N", conflicts_with = "majority")]
    prefer_devid: Option<u64>,

    /// With --prefer-devid, also where that member missed transactions: what the others have since is overwritten
    #[arg(long, requires = "prefer_devid")]
    even_stale: bool,

    /// Where copies without checksum differ, take what more than half of three or four copies have
    #[arg(long)]
    majority: bool,

    /// Where every copy is bad, try to put the right bytes together; a guess, shown as such
    #[arg(long)]
    salvage: bool,

    /// Scrub again afterwards
    #[arg(long)]
    verify: bool,
}

impl RepairOptions {
    fn choice(&self) -> Choice {
        match self.prefer_devid {
            Some(devid) if self.even_stale => Choice::EvenStale(DeviceId::new(devid)),
            Some(devid) => Choice::Device(DeviceId::new(devid)),
            None if self.majority => Choice::Majority,
            None => Choice::Nobody,
        }
    }

    fn salvage(&self) -> Option<&'static dyn Salvage> {
        self.salvage.then_some(&FromBadCopies)
    }
}

/// A repair as it was asked for.
pub(crate) struct Job<'a> {
    pub(crate) command: &'a str,
    pub(crate) input: &'a InputOptions,
    pub(crate) repair: &'a RepairOptions,
    pub(crate) report: &'a ReportOptions,
    pub(crate) threads_per_device: usize,
    pub(crate) time_limit: Option<Duration>,
    pub(crate) readahead: mirrortool::tree::ReadaheadMode,
    pub(crate) read_policy: ReadPolicyOption,
    pub(crate) dry_run: bool,
    pub(crate) from: Option<&'a Path>,
    pub(crate) utc_offset: UtcOffset,
}

pub(crate) fn run(job: &Job<'_>) -> anyhow::Result<exit::Code> {
    job.ensure_nothing_is_overwritten()?;
    let sink = job.report.prepare(job.utc_offset)?;
    let from = job.from.map(saved_report).transpose()?;
    if job.dry_run {
        job.input.warn_of_users();
    } else {
        check_unused(job.input.images.iter().map(PathBuf::as_path))?;
    }
    let filesystem = job.input.open(job.read_policy)?;
    if let Some(saved) = &from {
        ensure_same(saved, &filesystem)?;
    }
    if let Some(devid) = job.repair.prefer_devid {
        ensure_known(&filesystem, DeviceId::new(devid))?;
    }
    let progress = Progress::default();
    watch::end_on_signals(&progress.cancel).context("cannot handle signals")?;
    let scrub_options = ScrubOptions {
        threads_per_device: job.threads_per_device,
        readahead: job.readahead,
        max_findings: job.report.max_findings,
        ..ScrubOptions::default()
    };
    let options = PlanOptions {
        scrub: &scrub_options,
        choice: job.repair.choice(),
        salvage: job.repair.salvage(),
        from: from.as_ref().map(|saved| &saved.findings[..]),
    };
    let omitted = from.as_ref().map_or(0, |saved| saved.findings_omitted);
    let lease = if job.dry_run { None } else { Some(hold(&filesystem)?) };
    let mut done = match lease {
        Some(lease) if job.repair.yes && lease.read_only().is_empty() => {
            at_once(job, &filesystem, lease, &options, &progress)?
        }
        lease => by_plan(job, &filesystem, lease, &options, &progress)?,
    };
    let outcome = &mut done.planned.outcome;
    outcome.notes.extend(rebuilding::hint(&filesystem));
    job.report.name_owners(&filesystem, outcome);
    let is_whole = outcome.status == Status::Finished && from.is_none();
    let sink = sink.with_maps(device_maps(&filesystem, |_, _| is_whole));
    if omitted > 0 {
        outcome.notes.push(format!(
            "{} not listed in the report and not looked at",
            count_of(omitted, "finding is", "findings are")
        ));
        outcome.verdict = outcome.verdict.max(Verdict::Correctable);
    }
    if let Some(error) = done.summary.as_ref().and_then(|summary| summary.log_error.as_ref()) {
        output::warn(&format!("the undo log cannot be written, nothing was written after that: {error}"));
    }
    if let Some(lost) = done.summary.as_ref().and_then(|summary| summary.lease_error.as_ref()) {
        output::warn(&format!("nothing was written after that: {lost}"));
    }
    if job.repair.verify && done.summary.is_some() && outcome.status == Status::Finished {
        drop(filesystem);
        if let Err(error) = job.verify(&scrub_options, &progress, outcome) {
            // What was repaired is repaired, and told; that it is good now is not known.
            output::warn_of(Err(error.context("cannot scrub again after the repair")));
            outcome.notes.push("not scrubbed again after the repair: that failed".to_owned());
            outcome.status = Status::Interrupted;
        }
    }
    let has_to_do = job.dry_run && !done.planned.plan.is_empty() && done.planned.outcome.status == Status::Finished;
    if from.is_some_and(|saved| !saved.is_finished) {
        let outcome = &mut done.planned.outcome;
        outcome
            .notes
            .push("the report is of a run that was ended early: what that had not read was not looked at".to_owned());
        outcome.status = Status::Interrupted;
    }
    Ok(job.show(sink, &done, has_to_do))
}

/// A repair, or only the plan of one.
struct Done {
    planned: Planned,
    summary: Option<RepairSummary>,
    undo_log: Option<PathBuf>,
}

/// With consent beforehand: one pass over the members.
fn at_once(
    job: &Job<'_>,
    filesystem: &Filesystem,
    lease: Lease,
    options: &PlanOptions<'_>,
    progress: &Progress,
) -> anyhow::Result<Done> {
    let lease = lease.agreed(Consent::given_by_user())?;
    let undo_log = job.undo_log(filesystem)?;
    let mut journal = match undo_log.clone() {
        Some(path) => {
            let make = move || Ok(Box::new(FileLog::create(&path)?) as Box<dyn LogStore>);
            Journal::on_demand(&log_header(filesystem), Box::new(make))
        }
        None => Journal::none(),
    };
    let options = ApplyOptions::of(options);
    let repairing = || repair_at_once(filesystem, &options, &lease, &mut journal, progress);
    let shown = || watch::with_bar(progress, job.report.shows_progress(), repairing);
    let (planned, summary) = watch::with_limit(progress, job.time_limit, shown)?;
    refuse_if_nothing_was_written(&summary)?;
    Ok(Done { planned, summary: Some(summary), undo_log: undo_log.filter(|path| path.exists()) })
}

/// Scrubs, shows what is to be done or asks, and does it.
fn by_plan(
    job: &Job<'_>,
    filesystem: &Filesystem,
    lease: Option<Lease>,
    options: &PlanOptions<'_>,
    progress: &Progress,
) -> anyhow::Result<Done> {
    let planning = || plan(filesystem, options, progress);
    let shown = || watch::with_bar(progress, job.report.shows_progress(), planning);
    let mut planned = watch::with_limit(progress, job.time_limit, shown)?;
    let is_whole = planned.outcome.status == Status::Finished;
    let not_done = |planned| Ok(Done { planned, summary: None, undo_log: None });
    let Some(lease) = lease.filter(|_| is_whole && !planned.plan.is_empty()) else { return not_done(planned) };
    if !consents(job, filesystem, &mut planned, progress)? {
        return not_done(planned);
    }
    let lease = agreed(lease, &planned)?;
    let undo_log = job.undo_log(filesystem)?;
    let summary = carry_out(job, filesystem, &mut planned, options, &lease, undo_log.as_deref(), progress)?;
    Ok(Done { planned, summary: Some(summary), undo_log })
}

impl Job<'_> {
    /// No output may be another one, a member, or the report to work from; an undo log least of all.
    fn ensure_nothing_is_overwritten(&self) -> anyhow::Result<()> {
        let log = self.repair.undo_log.as_deref().map(|path| Named { what: "the undo log", path });
        let outputs: Vec<Named<'_>> = self.report.outputs().chain(log).collect();
        let from = self.from.map(|path| Named { what: "the report to work from", path });
        let inputs: Vec<Named<'_>> = self.input.inputs().chain(from).collect();
        ensure_distinct(&outputs, &inputs)?;
        if let Some(log) = log {
            // A link that leads nowhere is there too: nothing could be made in its place.
            ensure!(log.path.symlink_metadata().is_err(), "the undo log {} exists already", log.path.display());
        }
        Ok(())
    }

    /// Asked what there is to do, the answer is that there is something, whatever else is lost.
    fn show(&self, sink: ReportSink<'_>, done: &Done, has_to_do: bool) -> exit::Code {
        let Done { planned, summary, undo_log } = done;
        let repair =
            Some(RepairReport { plan: &planned.plan, summary: summary.as_ref(), undo_log: undo_log.as_deref() });
        sink.write(Report { command: self.command, outcome: &planned.outcome, repair, rebuilt: None });
        if has_to_do { exit::CORRECTABLE } else { self.report.exit_code(&planned.outcome) }
    }

    /// The path of the log to be, `None` where none is wanted.
    fn undo_log(&self, filesystem: &Filesystem) -> anyhow::Result<Option<PathBuf>> {
        if self.repair.no_undo_log {
            return Ok(None);
        }
        if let Some(path) = &self.repair.undo_log {
            let status =
                self.report.btrfs_status.as_ref().map(|folder| {
                    folder.join(mirrortool::report::btrfs_status_file_name(filesystem.superblock().fsid()))
                });
            let status = status.as_deref().map(|path| Named { what: "the file of the status", path });
            let log = Named { what: "the undo log", path };
            ensure_distinct(&status.into_iter().chain([log]).collect::<Vec<_>>(), &[])?;
            ensure_can_be_made(path)?;
            return Ok(Some(path.clone()));
        }
        let format = format_description!("[year][month][day]-[hour][minute][second]");
        let now = time::OffsetDateTime::from(SystemTime::now()).to_offset(self.utc_offset).format(&format)?;
        let folder = self.report.report.as_deref().and_then(Path::parent).unwrap_or(Path::new(""));
        let name = |nth: usize| {
            let nth = if nth == 1 { String::new() } else { format!("-{nth}") };
            folder.join(format!("mirrortool-undo-{}-{now}{nth}.log", filesystem.superblock().fsid()))
        };
        let path = (1..=usize::MAX).map(name).find(|path| !path.exists());
        path.as_deref().map(ensure_can_be_made).transpose()?;
        Ok(path)
    }

    /// Scrubs what is on the members now.
    fn verify(&self, options: &ScrubOptions, progress: &Progress, outcome: &mut ScrubOutcome) -> anyhow::Result<()> {
        let filesystem = self.input.open(self.read_policy)?;
        let again = watch::with_bar(progress, self.report.shows_progress(), || scrub(&filesystem, options, progress))?;
        outcome.verdict = outcome.verdict.max(again.verdict);
        outcome.status = again.status;
        let found = again.findings.len() as u64 + again.findings_omitted;
        outcome.notes.push(format!("scrubbed again after the repair: {}", count_of(found, "finding", "findings")));
        Ok(())
    }
}

/// The log is made when there is something to write, which may be hours away: that it can be is better known now.
fn ensure_can_be_made(log: &Path) -> anyhow::Result<()> {
    rustix::fs::access(FileLog::folder(log), Access::WRITE_OK | Access::EXEC_OK)
        .with_context(|| format!("the undo log {} cannot be made; --undo-log FILE puts it elsewhere", log.display()))
}

/// Starts the log, and writes.
fn carry_out(
    job: &Job<'_>,
    filesystem: &Filesystem,
    planned: &mut Planned,
    options: &PlanOptions<'_>,
    lease: &WriteLease,
    log: Option<&Path>,
    progress: &Progress,
) -> anyhow::Result<RepairSummary> {
    let mut journal = match log {
        Some(path) => start_log(path, filesystem)?,
        None => Journal::none(),
    };
    let options = ApplyOptions::of(options);
    let writing = || apply(filesystem, planned, &options, lease, &mut journal, progress);
    let summary = watch::with_bar(progress, job.report.shows_progress(), writing);
    refuse_if_nothing_was_written(&summary)?;
    Ok(summary)
}

/// All members, so that nobody uses any of them meanwhile. Seeds are never written.
fn hold(filesystem: &Filesystem) -> Result<Lease, LeaseError> {
    let members = filesystem.members().filter(|member| !member.is_seed());
    let (layered, bare): (Vec<_>, Vec<_>) = members.partition(|member| member.device().below().is_some());
    let below = layered.iter().find_map(|member| member.device().below());
    let files = (0..).zip(below.into_iter().flat_map(Below::files));
    let files = files.filter(|(_, file)| file.is_written());
    let files: Vec<Wanted> = files.map(|(number, file)| Wanted::new_device(lower_devid(number), &file.path)).collect();
    Lease::take(bare.into_iter().map(Wanted::member).chain(files))
}

/// With consent. A member that cannot be written need not be where the plan leaves it alone.
fn agreed(lease: Lease, planned: &Planned) -> anyhow::Result<WriteLease> {
    let needed = planned.plan.devices();
    if let Some((_, error)) = lease.read_only().iter().find(|(devid, _)| needed.contains(devid)) {
        return Err(LeaseError::Device(Arc::clone(error)).into());
    }
    Ok(lease.agreed(Consent::given_by_user())?)
}

/// Members that were not what they were before anything was written: then the repair was not performed.
fn refuse_if_nothing_was_written(summary: &RepairSummary) -> Result<(), LeaseError> {
    match &summary.lease_error {
        Some(lost) if !summary.has_written() => Err(lost.clone()),
        _ => Ok(()),
    }
}

fn log_header(filesystem: &Filesystem) -> LogHeader {
    let member = |member: &Arc<Member>| LogMember {
        devid: member.devid(),
        uuid: member.uuid(),
        len_bytes: member.device().len(),
        generation: member.generation(),
        path: fs::canonicalize(member.path()).unwrap_or_else(|_| member.path().to_owned()),
    };
    let below = filesystem.members().find_map(|member| member.device().below());
    let files = (0..).zip(below.into_iter().flat_map(Below::files)).filter(|(_, file)| file.is_written());
    let lower = files.map(|(number, file)| LogMember {
        devid: lower_devid(number),
        uuid: file.uuid,
        len_bytes: file.device.len(),
        generation: filesystem.superblock().generation(),
        path: fs::canonicalize(&file.path).unwrap_or_else(|_| file.path.clone()),
    });
    LogHeader {
        fsid: filesystem.superblock().fsid(),
        generation: filesystem.superblock().generation(),
        created: SystemTime::now(),
        members: filesystem.members().map(member).chain(lower).collect(),
    }
}

fn start_log(path: &Path, filesystem: &Filesystem) -> anyhow::Result<Journal> {
    let cannot = || format!("cannot write the undo log {}", path.display());
    let file = FileLog::create(path).with_context(cannot)?;
    Journal::start(Box::new(file), &log_header(filesystem)).with_context(cannot)
}

fn saved_report(path: &Path) -> anyhow::Result<SavedReport> {
    let cannot = || format!("cannot use the report {}", path.display());
    let bytes = text_file::read(path).with_context(cannot)?;
    read_report(&bytes).with_context(cannot)
}

fn ensure_same(saved: &SavedReport, filesystem: &Filesystem) -> anyhow::Result<()> {
    let (have, expect) = (saved.fsid, filesystem.superblock().fsid());
    ensure!(have == expect, "the report is about file system {have}, the members are of {expect}");
    let (have, expect) = (saved.generation, filesystem.superblock().generation());
    ensure!(have == expect, "the report is about generation {have}, the file system is at {expect}: scrub again");
    Ok(())
}

/// `--yes`, or the answer of whoever sits at the terminal, having seen the plan.
fn consents(
    job: &Job<'_>,
    filesystem: &Filesystem,
    planned: &mut Planned,
    progress: &Progress,
) -> anyhow::Result<bool> {
    if job.repair.yes {
        return Ok(true);
    }
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        bail!(NoConsent);
    }
    job.report.name_owners(filesystem, &mut planned.outcome);
    let repair = Some(RepairReport { plan: &planned.plan, summary: None, undo_log: None });
    let report = Report { command: job.command, outcome: &planned.outcome, repair, rebuilt: None };
    // Nothing is under way: a signal that comes now is as good as a second one, and ends the program.
    if progress.cancel.swap(true, Ordering::Relaxed) {
        return Ok(false);
    }
    let mut err = io::stderr().lock();
    err.write_all(&job.report.text_to_ask_with(report, job.utc_offset)?)?;
    write!(err, "Write this? [y/N] ")?;
    err.flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    progress.cancel.store(false, Ordering::Relaxed);
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// There is something to write, and nobody to ask.
#[derive(Debug, thiserror::Error)]
#[error("nothing was written: there is no terminal to ask on")]
pub(crate) struct NoConsent;
