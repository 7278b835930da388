//! The command line of mirrortool: parses what was typed, runs one command, prints its result or its error, and is the
//! only place that turns either into an exit code. Decides nothing about file systems.

#![allow(clippy::doc_markdown, reason = "doc comments of options are their help texts")]
#![allow(clippy::struct_excessive_bools, reason = "a flag of the command line is a bool")]

mod advice;
mod args;
mod commands;
#[cfg(test)]
mod examples;
mod exit;
mod finding_file;
mod job_outcome;
mod jobs;
mod layer_advice;
mod layers;
mod manifest;
mod members;
mod options;
mod output;
mod outputs;
mod priority;
mod rebuilding;
mod repairing;
mod selecting;
mod sittings;
mod text_file;
mod undoing;
mod watch;
mod yaml_place;

use args::{Cli, Command};
use clap::Parser as _;
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use time::UtcOffset;

fn main() -> ExitCode {
    mirrortool::device::share_one_heap();
    // Asked before any thread exists: afterwards the answer would be refused.
    let utc_offset = UtcOffset::current_local_offset().unwrap_or(UtcOffset::UTC);
    let typed = called_as(std::env::args_os());
    // Looked for by hand because it matters also where the rest cannot be parsed.
    let as_fsck = typed.iter().any(|word| word == "--fsck-exit");
    let (usage_code, failed_code) =
        if as_fsck { (exit::USAGE_AS_FSCK, exit::FAILED_AS_FSCK) } else { (exit::FAILED, exit::FAILED) };
    let cli = match Cli::try_parse_from(typed) {
        Ok(cli) => cli,
        Err(usage) => {
            // A closed pipe is the reader's choice.
            let _ = usage.print();
            return if usage.use_stderr() { usage_code.into() } else { ExitCode::SUCCESS };
        }
    };
    match run(cli.command, utc_offset) {
        Ok(code) => code.into(),
        Err(error) => {
            output::complain(&error, advice::for_error(&error));
            exit::of_error(&error, failed_code).into()
        }
    }
}

fn run(command: Command, utc_offset: UtcOffset) -> anyhow::Result<exit::Code> {
    match command {
        Command::Completions(args) => commands::completions::run(&args),
        Command::Scrub(args) => commands::scrub::run(&args, utc_offset),
        Command::Repair(args) => commands::repair::run(&args, utc_offset),
        Command::Rebuild(args) => commands::rebuild::run(&args, utc_offset),
        Command::Extract(args) => commands::extract::run(&args, utc_offset),
        Command::Show(args) => commands::show::run(&args),
        Command::PolicyBench(args) => commands::policy_bench::run(&args),
        Command::LayoutBench(args) => commands::layout_bench::run(&args),
        Command::ReadaheadBench(args) => commands::readahead_bench::run(&args),
        Command::Run(args) => commands::run::run(&args, utc_offset),
        Command::Man(args) => commands::man::run(&args),
    }
}

/// One binary that answers to its subcommands' names: a link called `mirrortool-scrub` is `mirrortool scrub`.
fn called_as(typed: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut typed: Vec<_> = typed.into_iter().collect();
    let name = typed.first().and_then(|name| Path::new(name).file_name()?.to_str());
    if let Some(command) = name.and_then(|name| name.strip_prefix("mirrortool-")) {
        let command = OsString::from(command);
        typed.splice(..1, ["mirrortool".into(), command]);
    }
    typed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn called(typed: &[&str]) -> Vec<OsString> {
        called_as(typed.iter().map(OsString::from))
    }

    #[test]
    fn a_link_named_after_a_command_is_that_command() {
        assert_eq!(called(&["/usr/sbin/mirrortool-scrub", "a.img"]), called(&["mirrortool", "scrub", "a.img"]));
        assert_eq!(called(&["mirrortool-readahead-bench"]), ["mirrortool", "readahead-bench"]);
        assert_eq!(called(&["./mirrortool", "scrub"]), ["./mirrortool", "scrub"]);
        assert_eq!(called(&[]), [""; 0]);
    }
}
