//! `mirrortool scrub`: opens, scrubs while watched, reports, and turns the outcome into an exit code.

use crate::finding_file::FindingFile;
use crate::options::{InputOptions, ReadPolicyOption, ReadaheadOption, ReportOptions, parse_duration};
use crate::outputs::{Named, ensure_distinct};
use crate::priority::PriorityOptions;
use crate::repairing::{self, RepairOptions};
use crate::selecting::SelectionOptions;
use crate::sittings::StateOptions;
use crate::{exit, output, watch};
use anyhow::{Context as _, ensure};
use clap::builder::RangedI64ValueParser;
use mirrortool::filesystem::Filesystem;
use mirrortool::repair::check_same_history;
use mirrortool::report::{self, Report};
use mirrortool::scrub::outcome::{ScrubOutcome, Status, Verdict};
use mirrortool::scrub::{Progress, ScrubOptions, scrub_on, settle, settle_sittings};
use std::path::PathBuf;
use std::time::Duration;
use time::UtcOffset;

/// Read every copy of everything allocated and say what is bad
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    input: InputOptions,

    /// Threads that read each device, 64 at most
    #[arg(long, value_name = "N", help_heading = "Input", default_value_t = default_threads(), value_parser = threads())]
    threads: u16,

    /// End after this time, with a report of what was done: 90s, 30m, 2h, 1d
    #[arg(long, value_name = "TIME", help_heading = "Window", value_parser = parse_duration)]
    time_limit: Option<Duration>,

    /// Also unpack every compressed extent whose checksums are right, and tell of those that do not unpack
    #[arg(long, help_heading = "Selection", conflicts_with = "repair")]
    decompress: bool,

    #[command(flatten)]
    selection: SelectionOptions,

    #[command(flatten)]
    state: StateOptions,

    /// Correct what can be corrected, as "mirrortool repair" does
    #[arg(long, help_heading = "Repair", conflicts_with_all = ["SelectionOptions", "StateOptions"])]
    repair: bool,

    #[command(flatten)]
    how: RepairOptions,

    #[command(flatten)]
    readahead: ReadaheadOption,

    #[command(flatten)]
    read_policy: ReadPolicyOption,

    #[command(flatten)]
    priority: PriorityOptions,

    /// Add each finding to FILE as a line of JSON while the scrub runs, without the files that own it
    #[arg(long, value_name = "FILE", help_heading = "Report")]
    findings: Option<PathBuf>,

    #[command(flatten)]
    report: ReportOptions,
}

fn default_threads() -> u16 {
    u16::try_from(ScrubOptions::default().threads_per_device).unwrap_or(1)
}

fn threads() -> RangedI64ValueParser<u16> {
    clap::value_parser!(u16).range(1..=64)
}

pub(crate) fn run(args: &Args, utc_offset: UtcOffset) -> anyhow::Result<exit::Code> {
    if args.repair {
        return repairing::run(&repairing::Job {
            readahead: args.readahead.readahead,
            read_policy: args.read_policy,
            command: "scrub",
            input: &args.input,
            repair: &args.how,
            report: &args.report,
            threads_per_device: usize::from(args.threads),
            time_limit: args.time_limit,
            dry_run: false,
            from: None,
            utc_offset,
        });
    }
    ensure!(args.how == RepairOptions::default(), "options of repair are given, and --repair is not");
    let others =
        [args.findings.as_deref().map(|path| Named { what: "the file of findings", path }), args.state.output()];
    let outputs: Vec<Named<'_>> = args.report.outputs().chain(others.into_iter().flatten()).collect();
    ensure_distinct(&outputs, &args.input.inputs().collect::<Vec<_>>())?;
    let sink = args.report.prepare(utc_offset)?;
    args.priority.apply()?;
    args.input.warn_of_users();
    let filesystem = args.input.open(args.read_policy)?;
    let keeper = args.state.open(filesystem.superblock().fsid(), args.selection.look())?;
    let parts = args.selection.typed();
    let earlier = match (args.state.resume, args.state.go_on) {
        (true, _) => keeper.resume(&parts)?,
        // A scrub of other parts is forgotten, as without the option.
        (_, true) => keeper.resume(&parts).unwrap_or_default(),
        _ => None,
    };
    if args.state.resume && earlier.is_none() {
        output::warn("no scrub of this file system was ended early: nothing to resume");
        return Ok(args.report.nothing_to_resume());
    }
    let forgotten = if earlier.is_none() { keeper.begin(parts) } else { None };
    if let Some(started) = forgotten {
        let started = report::date(started, utc_offset);
        output::warn(&format!("the scrub of {started} was ended early and is forgotten: --resume goes on with one"));
    }
    let history = keeper.history();
    let mut selection = args.selection.selection(&filesystem, &history)?;
    let everything = args.selection.leaves_nothing_unseen(&selection);
    let earliest = history.earliest_look();
    selection.done = history.done();
    selection.done_sections = history.sections;
    let options = ScrubOptions {
        threads_per_device: usize::from(args.threads),
        max_findings: args.report.max_findings,
        selection,
        limit_bytes_per_second: args.selection.limit,
        readahead: args.readahead.readahead,
        decompress: args.decompress,
    };
    let observer = FindingFile::open(args.findings.as_deref(), &keeper)?;
    let progress = Progress::default();
    watch::end_on_signals(&progress.cancel).context("cannot handle signals")?;
    let job = || scrub_on(&filesystem, &options, &progress, &observer, earlier.as_ref());
    let shown = || watch::with_bar(&progress, args.report.shows_progress(), job);
    let mut outcome = keeper.during(|| watch::with_limit(&progress, args.time_limit, shown))??;
    // What is bad stays in the sight of --since-last until a whole scrub has found nothing.
    let is_good = matches!(outcome.verdict, Verdict::Clean | Verdict::Corrected);
    let all_good = everything && is_good && check_same_history(&filesystem).is_ok();
    output::warn_of(keeper.end(outcome.status == Status::Finished, outcome.filesystem.generation, all_good));
    if let Some(then) = earliest {
        settle_sittings(&filesystem, &options, &progress, &mut outcome, then)?;
    }
    let now = settle(&filesystem, &options, &progress, &mut outcome)?;
    let filesystem = now.as_ref().unwrap_or(&filesystem);
    tell_of_choices(filesystem, &mut outcome);
    args.report.name_owners(filesystem, &mut outcome);
    let now = outcome.filesystem.generation;
    let is_finished = outcome.status == Status::Finished;
    let maps =
        report::device_maps(filesystem, |devid, chunk| is_finished && options.selection.is_whole_on(devid, chunk, now));
    sink.with_maps(maps).write(Report { command: "scrub", outcome: &outcome, repair: None });
    Ok(args.report.exit_code(&outcome))
}

/// What only the administrator can decide: which half of a split set is the right one, which copy without checksum.
fn tell_of_choices(filesystem: &Filesystem, outcome: &mut ScrubOutcome) {
    if let Err(split) = check_same_history(filesystem) {
        outcome.notes.insert(0, format!("{split}: which half is right is not for a scrub to say"));
        outcome.verdict = Verdict::Uncorrectable;
    }
    if outcome.totals.nodatasum_mismatch > 0 && outcome.verdict == Verdict::Uncorrectable {
        let how = "mirrortool repair --prefer-devid N, or --majority for three and four copies, chooses";
        outcome.notes.push(format!("no checksum says which copy is right where they differ: {how}"));
    }
}
