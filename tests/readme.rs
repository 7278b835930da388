//! README.md is kept true: its example prints what it says, and every command and option it names exists.

// A failed unwrap is a failed test, also in the helpers.
#![allow(clippy::unwrap_used)]

mod common;

use common::fixture;
use common::program::{commands, mirrortool};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

const README: &str = include_str!("../README.md");

/// The lines between "```KIND" and "```", of all such blocks.
fn blocks(kind: &str) -> Vec<&'static str> {
    let mut lines = README.lines();
    let mut found = Vec::new();
    while lines.any(|line| line.strip_prefix("```") == Some(kind)) {
        found.extend(lines.by_ref().take_while(|line| *line != "```"));
    }
    found
}

/// What is between backquotes outside of blocks.
fn quoted() -> Vec<&'static str> {
    let mut in_block = false;
    let prose = README.lines().filter(|line| {
        in_block ^= line.starts_with("```");
        !in_block && !line.starts_with("```")
    });
    prose.flat_map(|line| line.split('`').skip(1).step_by(2)).collect()
}

/// A line without what differs from run to run.
fn timeless(line: &str) -> &str {
    ["Scrub started:", "Repair started:", "Duration:", "Rate:", "Repaired:"]
        .into_iter()
        .find(|label| line.starts_with(label))
        .unwrap_or(line)
}

/// `zstd` need not be there: the images are the test's own copies of the same fixture.
#[test]
fn the_first_scrub_prints_what_the_readme_says() {
    let images = fixture::copy("raid1-crc32c");
    let folder = tempfile::tempdir().unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_mirrortool")).parent().unwrap().display().to_string();
    let path = format!("{program}:{}", std::env::var("PATH").unwrap());
    let mut printed = Vec::new();
    for typed in blocks("console").iter().filter_map(|line| line.strip_prefix("$ ")) {
        if let Some(unpacked) =
            typed.strip_prefix("zstd -dq fixtures/raid1-crc32c/").and_then(|t| t.split(" -o ").nth(1))
        {
            let name = Path::new(unpacked).file_name().unwrap();
            fs::rename(images.device(1).with_file_name(name), folder.path().join(unpacked)).unwrap();
            continue;
        }
        let mut shell = Command::new("sh");
        let output = shell
            .args(["-c", typed])
            .current_dir(&folder)
            .env("PATH", &path)
            .env("XDG_STATE_HOME", folder.path())
            .output()
            .unwrap();
        assert_eq!(String::from_utf8(output.stderr).unwrap(), "", "{typed}");
        printed.extend(String::from_utf8(output.stdout).unwrap().lines().map(ToOwned::to_owned));
    }
    let expected: Vec<_> = blocks("console").into_iter().filter(|line| !line.starts_with("$ ")).map(timeless).collect();
    assert_eq!(printed.iter().map(|line| timeless(line)).collect::<Vec<_>>(), expected);
}

/// The first console block, up to its repair, as a picture of a terminal.
fn terminal() -> String {
    let (line_height, margin) = (18, 16);
    let lines: Vec<_> =
        blocks("console").into_iter().take_while(|line| !line.starts_with("$ mirrortool repair")).collect();
    let height = lines.len() * line_height + 2 * margin;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"1060\" height=\"{height}\">\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#1d1f21\"/>\n\
         <g font-family=\"monospace\" font-size=\"13\" fill=\"#c5c8c6\" xml:space=\"preserve\">\n"
    );
    for (row, line) in lines.iter().enumerate() {
        let y = margin + (row + 1) * line_height - 5;
        let colour = match line {
            line if line.starts_with("$ ") => " fill=\"#8abeb7\"",
            line if line.starts_with("corrupt ") => " fill=\"#f0c674\"",
            _ => "",
        };
        let text = line.replace('&', "&amp;").replace('<', "&lt;");
        writeln!(svg, "<text x=\"{margin}\" y=\"{y}\"{colour}>{text}</text>").unwrap();
    }
    svg + "</g>\n</svg>\n"
}

/// With `UPDATE=1` in the environment the picture is drawn anew instead.
#[test]
fn the_picture_shows_the_example() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("man/examples/terminal.svg");
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&path, terminal()).unwrap();
    }
    assert!(fs::read_to_string(path).unwrap_or_default() == terminal(), "UPDATE=1 cargo test --test readme");
    assert!(README.contains("(man/examples/terminal.svg)"));
}

#[test]
fn every_command_and_option_that_the_readme_names_exists() {
    let of_command = |command: String| mirrortool([command.as_str(), "--help"]).stdout;
    let all_help = mirrortool(["--help"]).stdout + &commands().into_iter().map(of_command).collect::<String>();
    let options = quoted().into_iter().flat_map(str::split_ascii_whitespace).filter(|word| word.starts_with('-'));
    let foreign = ["--path", "--check-data-csum", "--bench", "-o", "-l"];
    for option in options.filter(|option| !foreign.contains(option)) {
        assert!(all_help.contains(option), "README.md names {option}, which no command has");
    }
    for words in quoted().into_iter().filter_map(|words| words.strip_prefix("mirrortool ")) {
        let command = words.split(' ').next().unwrap();
        assert_eq!(mirrortool([command, "--help"]).exit, 0, "README.md names the command {words}");
    }
}

#[test]
fn every_command_is_in_the_readme_and_in_the_changelog() {
    for command in commands() {
        let name = format!("mirrortool {command}");
        assert!(README.contains(&name), "README.md does not name {name}");
        assert!(include_str!("../CHANGELOG.md").contains(&name), "CHANGELOG.md does not name {name}");
    }
}

#[test]
fn the_files_that_the_readme_names_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let words = quoted().into_iter().flat_map(|words| words.split([' ', '(', ')']));
    for path in words.filter(|word| ["man/", "fixtures/", "tests/", "src/"].iter().any(|p| word.starts_with(p))) {
        assert!(root.join(path).exists(), "README.md names {path}");
    }
}
