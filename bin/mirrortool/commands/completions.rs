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
    output::print(&script(args.shell))?;
    Ok(exit::GOOD)
}

fn script(shell: Shell) -> Vec<u8> {
    let mut script = Vec::new();
    generate(shell, &mut Cli::command(), "mirrortool", &mut script);
    script
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    /// The files that packages install. With `UPDATE=1` in the environment they are written instead.
    #[test]
    fn the_completions_in_man_are_what_the_command_line_says() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("man/completions");
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let name = match shell {
                Shell::Zsh => "_mirrortool".to_owned(),
                other => format!("mirrortool.{other}"),
            };
            let path = folder.join(&name);
            if std::env::var_os("UPDATE").is_some() {
                fs::write(&path, script(shell)).expect("writable");
            }
            let stored = fs::read(&path).unwrap_or_default();
            assert!(
                stored == script(shell),
                "man/completions/{name} is old: UPDATE=1 cargo test --bin mirrortool in_man"
            );
        }
    }
}
