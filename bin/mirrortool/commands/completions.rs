//! `mirrortool completions`: a completion script for a shell, from the same definitions as the help.

use crate::args::Cli;
use crate::{exit, output};
use clap::CommandFactory as _;
use clap_complete::{Shell, generate};

/// Print a completion script for a shell
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The shell to complete in
    shell: Shell,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<exit::Code> {
    let mut script = Vec::new();
    generate(args.shell, &mut Cli::command(), "mirrortool", &mut script);
    output::print(&script)?;
    Ok(exit::GOOD)
}
