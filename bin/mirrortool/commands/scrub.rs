//! `mirrortool scrub`: opens, scrubs while watched, reports, and turns the outcome into an exit code.

use crate::options::{InputOptions, ReportOptions, parse_duration};
use crate::{exit, watch};
use anyhow::Context as _;
use mirrortool::report::Report;
use mirrortool::scrub::{Progress, ScrubOptions, scrub};
use std::num::NonZeroUsize;
use std::time::Duration;
use time::UtcOffset;

/// Read every copy of everything allocated and say what is bad; writes nothing
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    input: InputOptions,

    /// Threads that read each device
    #[arg(long, value_name = "N", help_heading = "Input", default_value_t = default_threads())]
    threads: NonZeroUsize,

    /// End after this time, with a report of what was done: 90s, 30m, 2h, 1d
    #[arg(long, value_name = "TIME", help_heading = "Input", value_parser = parse_duration)]
    time_limit: Option<Duration>,

    #[command(flatten)]
    report: ReportOptions,
}

fn default_threads() -> NonZeroUsize {
    NonZeroUsize::new(ScrubOptions::default().threads_per_device).unwrap_or(NonZeroUsize::MIN)
}

pub(crate) fn run(args: &Args, utc_offset: UtcOffset) -> anyhow::Result<exit::Code> {
    let sink = args.report.prepare(utc_offset)?;
    args.input.warn_of_users();
    let filesystem = args.input.open()?;
    let options = ScrubOptions { threads_per_device: args.threads.get(), max_findings: args.report.max_findings };
    let progress = Progress::default();
    watch::end_on_signals(&progress.cancel).context("cannot handle signals")?;
    let job = || scrub(&filesystem, &options, &progress);
    let shown = || watch::with_bar(&progress, args.report.shows_progress(), job);
    let mut outcome = watch::with_limit(&progress, args.time_limit, shown)?;
    args.report.name_owners(&filesystem, &mut outcome);
    sink.write(Report { command: "scrub", outcome: &outcome })?;
    Ok(args.report.exit_code(&outcome))
}
