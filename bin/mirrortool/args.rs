//! What may be typed. Nothing here is opened, combined or defaulted beyond what clap does; commands do that.

use crate::commands::{
    completions, extract, layout_bench, man, policy_bench, readahead_bench, rebuild, repair, run, scrub, show,
};
use clap::{Parser, Subcommand};

/// Scrubs, repairs and measures btrfs file systems that are not mounted.
#[derive(Debug, Parser)]
#[command(name = "mirrortool", version, propagate_version = true, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
#[allow(clippy::large_enum_variant, reason = "there is one of it")]
pub(crate) enum Command {
    Scrub(scrub::Args),
    Repair(repair::Args),
    Rebuild(rebuild::Args),
    Extract(extract::Args),
    Show(show::Args),
    PolicyBench(policy_bench::Args),
    LayoutBench(layout_bench::Args),
    ReadaheadBench(readahead_bench::Args),
    Run(run::Args),
    Completions(completions::Args),
    Man(man::Args),
}
