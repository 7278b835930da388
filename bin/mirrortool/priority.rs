//! How a run stands back for others: CPU niceness and I/O class, as `btrfs scrub start -c -n` and `nice` do.

use anyhow::Context as _;
use clap::ValueEnum;
use mirrortool::device::{IoClass, set_io_class};

/// I/O classes, by name or by the kernel's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Class {
    /// Before all others; only for root
    #[value(alias = "1")]
    Realtime,
    /// As everybody
    #[value(alias = "2")]
    BestEffort,
    /// Only when nobody else wants the disk
    #[value(alias = "3")]
    Idle,
}

/// How much the run counts beside others.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Window")]
pub(crate) struct PriorityOptions {
    /// I/O class, by name or as 1, 2 or 3
    #[arg(short = 'c', long, value_name = "CLASS", value_enum)]
    io_class: Option<Class>,

    /// Priority within the I/O class, from 0 (first) to 7
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=7), requires = "io_class")]
    io_level: Option<u8>,

    /// CPU niceness, from 0 to 19 (last)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(0..=19))]
    nice: Option<i32>,
}

impl PriorityOptions {
    /// Applies to this thread, and to all that it starts.
    pub(crate) fn apply(&self) -> anyhow::Result<()> {
        if let Some(nice) = self.nice {
            rustix::process::nice(nice).context("cannot set the CPU niceness")?;
        }
        let Some(class) = self.io_class else { return Ok(()) };
        let class = match class {
            Class::Realtime => IoClass::Realtime,
            Class::BestEffort => IoClass::BestEffort,
            Class::Idle => IoClass::Idle,
        };
        set_io_class(class, self.io_level.unwrap_or(4)).context("cannot set the I/O class")
    }
}
