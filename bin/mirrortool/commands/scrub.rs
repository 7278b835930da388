//! `mirrortool scrub`: opens, scrubs while watched, reports, and turns the outcome into an exit code.

use crate::finding_file::FindingFile;
use crate::options::{InputOptions, ReadPolicyOption, ReadaheadOption, ReportOptions, parse_duration};
use crate::outputs::{Named, ensure_distinct};
use crate::priority::PriorityOptions;
use crate::rebuilding;
use crate::repairing::{self, RepairOptions};
use crate::selecting::{Base, SelectionOptions};
use crate::sittings::{Keeper, Resumed, StateOptions};
use crate::{exit, output, watch};
use anyhow::{Context as _, ensure};
use clap::builder::RangedI64ValueParser;
use mirrortool::filesystem::Filesystem;
use mirrortool::repair::check_same_history;
use mirrortool::report::{self, Report};
use mirrortool::scrub::commit::Break;
use mirrortool::scrub::earlier::Earlier;
use mirrortool::scrub::outcome::{ScrubOutcome, Status, Verdict};
use mirrortool::scrub::{Progress, ScrubOptions, scrub_on, settle, settle_sittings};
use mirrortool::units::Generation;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
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
    let keeper = args.state.open(&filesystem, args.selection.look())?;
    let observer = FindingFile::open(args.findings.as_deref(), &keeper)?;
    let progress = Progress::default();
    watch::end_on_signals(&progress.cancel).context("cannot handle signals")?;
    let run = Run {
        args,
        filesystem: &filesystem,
        keeper: &keeper,
        observer: &observer,
        progress: &progress,
        clock: Instant::now(),
        utc_offset,
    };
    let Some((mut outcome, options)) = run.run()? else { return Ok(args.report.nothing_to_resume()) };
    let now = settle(&filesystem, &options, &progress, &mut outcome)?;
    let filesystem = now.as_ref().unwrap_or(&filesystem);
    tell_of_choices(filesystem, &mut outcome);
    outcome.notes.extend(rebuilding::hint(filesystem));
    output::warn_of(keeper.remember(&outcome, args.selection.typed()));
    args.report.name_owners(filesystem, &mut outcome);
    let now = outcome.filesystem.generation;
    let is_finished = outcome.status == Status::Finished;
    let maps =
        report::device_maps(filesystem, |devid, chunk| is_finished && options.selection.is_whole_on(devid, chunk, now));
    sink.with_maps(maps).write(Report { command: "scrub", outcome: &outcome, repair: None, rebuilt: None });
    Ok(args.report.exit_code(&outcome))
}

/// One scrub, or two where the first shows that nothing can be built on what is remembered.
struct Run<'a> {
    args: &'a Args,
    filesystem: &'a Filesystem,
    keeper: &'a Keeper,
    observer: &'a FindingFile<'a>,
    progress: &'a Progress,
    clock: Instant,
    utc_offset: UtcOffset,
}

impl Run<'_> {
    /// The outcome, and what was looked at; `None` where there was a scrub to go on with and there is none.
    fn run(&self) -> anyhow::Result<Option<(ScrubOutcome, ScrubOptions)>> {
        let (state, parts) = (&self.args.state, self.args.selection.typed());
        let mut notes = Vec::new();
        let resumed = match (state.resume, state.go_on) {
            (true, _) => self.keeper.resume(&parts, self.filesystem)?,
            // A scrub of other parts is forgotten, as without the option.
            (_, true) => self.keeper.resume(&parts, self.filesystem).unwrap_or(Resumed::Nothing),
            _ => Resumed::Nothing,
        };
        let earlier = match resumed {
            Resumed::Earlier(earlier) => Some(*earlier),
            Resumed::Nothing if state.resume => {
                output::warn("no scrub of this file system was ended early: nothing to resume");
                return Ok(None);
            }
            Resumed::Nothing => {
                self.begin(parts.clone());
                None
            }
            Resumed::Broken(why) => {
                self.keeper.begin(parts.clone());
                notes.push(format!("the scrub that was ended early is begun anew: {why}"));
                None
            }
        };
        let (base, broken) = self.args.selection.base(self.filesystem, &self.keeper.history())?;
        notes.extend(broken.map(not_since_last));
        let (mut outcome, mut options) = self.scrub(base, earlier.as_ref())?;
        if outcome.unknown_extents > 0 {
            let then = earlier.as_ref().map_or_else(|| self.last_generation(), |earlier| earlier.commit.generation);
            let why = Break::OtherExtents { count: outcome.unknown_extents, then };
            self.keeper.distrust();
            notes.push(match earlier {
                Some(_) => format!("the scrub that was ended early is begun anew: {why}"),
                None => not_since_last(why),
            });
            // One that was ended early is begun anew the next time.
            if outcome.status == Status::Finished {
                self.keeper.begin(parts);
                self.progress.bytes_done.store(0, Ordering::Relaxed);
                (outcome, options) = self.scrub(Base::Nothing, None)?;
            }
        }
        outcome.notes.splice(0..0, notes);
        Ok(Some((outcome, options)))
    }

    fn last_generation(&self) -> Generation {
        self.keeper.history().finished.map(|finished| finished.commit.generation).unwrap_or_default()
    }

    /// Begins anew, and says so where a scrub that was ended early is forgotten.
    fn begin(&self, parts: String) {
        if let Some(started) = self.keeper.begin(parts) {
            let started = report::date(started, self.utc_offset);
            output::warn(&format!(
                "the scrub of {started} was ended early and is forgotten: --resume goes on with one"
            ));
        }
    }

    fn scrub(&self, base: Base, earlier: Option<&Earlier>) -> anyhow::Result<(ScrubOutcome, ScrubOptions)> {
        let (args, filesystem, progress) = (self.args, self.filesystem, self.progress);
        let history = self.keeper.history();
        let earliest = history.earliest_look();
        let selection = args.selection.selection(filesystem, &history, base)?;
        let everything = args.selection.leaves_nothing_unseen(&selection);
        let options = ScrubOptions {
            threads_per_device: usize::from(args.threads),
            max_findings: args.report.max_findings,
            selection,
            limit_bytes_per_second: args.selection.limit,
            readahead: args.readahead.readahead,
            decompress: args.decompress,
        };
        let job = || scrub_on(filesystem, &options, progress, self.observer, earlier);
        let shown = || watch::with_bar(progress, args.report.shows_progress(), job);
        let time_left = args.time_limit.map(|limit| limit.saturating_sub(self.clock.elapsed()));
        let mut outcome = self.keeper.during(|| watch::with_limit(progress, time_left, shown))??;
        if let (Some(earlier), Some(then)) = (earlier, earliest) {
            settle_sittings(filesystem, &options, progress, &mut outcome, (earlier, then))?;
        }
        // What is bad stays in the sight of --since-last until a whole scrub has found nothing.
        let is_good = matches!(outcome.verdict, Verdict::Clean | Verdict::Corrected) && outcome.unknown_extents == 0;
        let all_good = everything && is_good && check_same_history(filesystem).is_ok();
        output::warn_of(self.keeper.end(outcome.status == Status::Finished, all_good, base == Base::LastRun));
        Ok((outcome, options))
    }
}

/// The note of a run with `--since-last` that looks at everything.
fn not_since_last(why: Break) -> String {
    format!("everything is looked at, not only what was written since the last scrub: {why}")
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
