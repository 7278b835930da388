//! `mirrortool man`: the manual pages. Names, synopsis and options come from the definitions of the command line, so
//! that they cannot drift; the rest is written, in `man/*.roff` beside this folder. For packagers, hidden in the help.

use crate::args::Cli;
use crate::exit;
use anyhow::Context as _;
use clap::{Command, CommandFactory as _};
use clap_mangen::Man;
use std::fs;
use std::io::{self, Write as _};
use std::path::PathBuf;

/// Where in a written page the options go.
const OPTIONS_HERE: &str = ".\\\" OPTIONS\n";

/// The written parts by page name. A test asks for one per command.
const WRITTEN: &[(&str, &str)] = &[
    ("mirrortool", include_str!("../man/mirrortool.roff")),
    ("mirrortool-scrub", include_str!("../man/scrub.roff")),
    ("mirrortool-repair", include_str!("../man/repair.roff")),
    ("mirrortool-repair-undo", include_str!("../man/repair-undo.roff")),
    ("mirrortool-rebuild", include_str!("../man/rebuild.roff")),
    ("mirrortool-extract", include_str!("../man/extract.roff")),
    ("mirrortool-show", include_str!("../man/show.roff")),
    ("mirrortool-policy-bench", include_str!("../man/policy-bench.roff")),
    ("mirrortool-layout-bench", include_str!("../man/layout-bench.roff")),
    ("mirrortool-readahead-bench", include_str!("../man/readahead-bench.roff")),
    ("mirrortool-run", include_str!("../man/run.roff")),
    ("mirrortool-completions", include_str!("../man/completions.roff")),
];

/// Write the manual pages into a folder
#[derive(Debug, clap::Args)]
#[command(hide = true)]
pub(crate) struct Args {
    /// The folder, which must exist
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<exit::Code> {
    for (file_name, text) in pages().context("cannot render the manual pages")? {
        let path = args.folder.join(file_name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(exit::GOOD)
}

/// File name and text of every page.
fn pages() -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut root = Cli::command().disable_help_subcommand(true);
    root.build();
    with_subcommands(&root).into_iter().cloned().map(page).collect()
}

/// A command and all below it that the help shows.
fn with_subcommands(command: &Command) -> Vec<&Command> {
    let below = command.get_subcommands().filter(|command| !command.is_hide_set()).flat_map(with_subcommands);
    std::iter::once(command).chain(below).collect()
}

fn page(mut command: Command) -> io::Result<(String, Vec<u8>)> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
    let written = WRITTEN.iter().find(|(page, _)| *page == name).map_or("", |(_, text)| text);
    let (before, after) = written.split_once(OPTIONS_HERE).unwrap_or((written, ""));
    let has_options = command.get_arguments().any(|argument| !argument.is_hide_set());
    let has_commands = command.get_subcommands().any(|subcommand| !subcommand.is_hide_set());
    let usage = command.render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ").replace('-', "\\-");
    let man = Man::new(command)
        .title(name.to_uppercase())
        .section("8")
        .source(concat!("mirrortool ", env!("CARGO_PKG_VERSION")))
        .manual("System Administration");
    let mut text = Vec::new();
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    writeln!(text, ".SH SYNOPSIS\n.B {usage}")?;
    text.extend_from_slice(before.as_bytes());
    if has_commands {
        man.render_subcommands_section(&mut text)?;
    }
    if has_options {
        man.render_options_section(&mut text)?;
    }
    text.extend_from_slice(after.as_bytes());
    Ok((format!("{name}.8"), text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::path::Path;

    /// With `UPDATE=1` in the environment the pages are rewritten instead.
    #[test]
    fn the_pages_in_man_are_what_the_command_line_says() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("man");
        let pages = pages().expect("rendered");
        if std::env::var_os("UPDATE").is_some() {
            run(&Args { folder: folder.clone() }).expect("written");
        }
        for (name, text) in &pages {
            let stored = fs::read(folder.join(name)).unwrap_or_default();
            assert!(
                stored == *text,
                "man/{name} is not what the program prints: UPDATE=1 cargo test --bin mirrortool in_man"
            );
        }
        let rendered: BTreeSet<_> = pages.into_iter().map(|(name, _)| name).collect();
        let stored: BTreeSet<_> = fs::read_dir(folder)
            .expect("the man folder")
            .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
            .filter(|name| name.ends_with(".8"))
            .collect();
        assert_eq!(stored, rendered);
    }

    #[test]
    fn every_option_that_a_page_speaks_of_exists() {
        let mut root = Cli::command();
        root.build();
        let arguments = with_subcommands(&root).into_iter().flat_map(Command::get_arguments);
        let known: BTreeSet<_> = arguments.filter_map(clap::Arg::get_long).collect();
        for (page, text) in WRITTEN {
            let plain = text.replace("\\-", "-");
            for words in plain.split("--").skip(1) {
                let option = words.split(|c: char| !c.is_ascii_lowercase() && c != '-').next().unwrap_or_default();
                assert!(known.contains(option), "{page} speaks of --{option}");
            }
        }
    }

    #[test]
    fn every_command_has_a_description_and_an_exit_status() {
        for (name, text) in pages().expect("rendered") {
            let text = String::from_utf8(text).expect("utf-8");
            for section in [".SH DESCRIPTION\n", ".SH EXAMPLES\n", ".SH \"EXIT STATUS\"\n", ".SH \"SEE ALSO\"\n"] {
                assert!(text.contains(section), "{name} lacks {section}");
            }
        }
    }
}
