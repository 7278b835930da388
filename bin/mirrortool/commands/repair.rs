//! `mirrortool repair`: plans, shows, asks, writes, and reports; `repair undo` takes it back.

use crate::options::{InputOptions, ReadPolicyOption, ReadaheadOption, ReportOptions};
use crate::repairing::{self, RepairOptions};
use crate::{exit, undoing};
use clap::Subcommand;
use time::UtcOffset;

/// Correct what a scrub finds, from sources that verify; can be undone
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true, disable_help_subcommand = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,

    #[command(flatten)]
    input: InputOptions,

    #[command(flatten)]
    repair: RepairOptions,

    /// Print what would be written, and write nothing; exits 4 where there is something
    #[arg(long, help_heading = "Repair", conflicts_with = "yes")]
    dry_run: bool,

    /// Look only at the places that this report (JSON or YAML of --report) lists
    #[arg(long, value_name = "REPORT", help_heading = "Repair")]
    from: Option<std::path::PathBuf>,

    #[command(flatten)]
    readahead: ReadaheadOption,

    #[command(flatten)]
    read_policy: ReadPolicyOption,

    #[command(flatten)]
    report: ReportOptions,
}

#[derive(Debug, Subcommand)]
enum Command {
    Undo(undoing::Args),
}

pub(crate) fn run(args: &Args, utc_offset: UtcOffset) -> anyhow::Result<exit::Code> {
    if let Some(Command::Undo(undo)) = &args.command {
        return undoing::run(undo);
    }
    let job = repairing::Job {
        command: "repair",
        input: &args.input,
        repair: &args.repair,
        report: &args.report,
        readahead: args.readahead.readahead,
        read_policy: args.read_policy,
        threads_per_device: mirrortool::scrub::ScrubOptions::default().threads_per_device,
        time_limit: None,
        dry_run: args.dry_run,
        from: args.from.as_deref(),
        utc_offset,
    };
    repairing::run(&job)
}
