//! Holds the examples in `man/examples` against the program: every command line in them must be one it takes.

use crate::args::Cli;
use crate::jobs::JobFile;
use clap::Parser as _;
use std::collections::BTreeSet;

const JOBS: &str = include_str!("../../man/examples/jobs.yaml");
const SERVICE: &str = include_str!("../../man/examples/mirrortool.service");
const TIMER: &str = include_str!("../../man/examples/mirrortool.timer");
const CRONTAB: &str = include_str!("../../man/examples/crontab");

/// The sections and keys that an example uses.
const SERVICE_KEYS: [&str; 14] = [
    "Unit.Description",
    "Unit.Documentation",
    "Unit.ConditionPathExists",
    "Service.Type",
    "Service.ExecStart",
    "Service.Nice",
    "Service.IOSchedulingClass",
    "Service.TimeoutStopSec",
    "Service.ProtectSystem",
    "Service.ProtectHome",
    "Service.StateDirectory",
    "Service.LogsDirectory",
    "Service.NoNewPrivileges",
    "Service.PrivateTmp",
];
const TIMER_KEYS: [&str; 6] = [
    "Unit.Description",
    "Unit.Documentation",
    "Timer.OnCalendar",
    "Timer.RandomizedDelaySec",
    "Timer.Persistent",
    "Install.WantedBy",
];

/// `Section.Key` and value of each line of a unit file.
fn unit(text: &str) -> Vec<(String, &str)> {
    let (mut section, mut entries) = ("", Vec::new());
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix('[') {
            section = name.strip_suffix(']').expect("a closing bracket");
        } else {
            let (key, value) = line.split_once('=').expect("key=value");
            entries.push((format!("{section}.{key}"), value));
        }
    }
    entries
}

fn assert_is_a_command_line(words: &str) {
    let (program, _) = words.split_once(' ').expect("arguments");
    assert!(program.rsplit('/').next() == Some("mirrortool"), "{words}");
    let parsed = Cli::try_parse_from(words.split_ascii_whitespace());
    assert!(parsed.is_ok(), "{words}: {}", parsed.expect_err("an error"));
}

#[test]
fn the_job_file_has_no_mistake() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let text = JOBS.replace("/var/log/mirrortool", &folder.path().display().to_string());
    assert_eq!(JobFile::parse(&text).expect("a good job file").jobs.len(), 3);
}

#[test]
fn the_systemd_units_use_known_keys_and_a_good_command_line() {
    for (text, keys) in [(SERVICE, &SERVICE_KEYS[..]), (TIMER, &TIMER_KEYS[..])] {
        let used: BTreeSet<_> = unit(text).into_iter().map(|(key, _)| key).collect();
        assert_eq!(used, keys.iter().map(ToString::to_string).collect());
    }
    let service = unit(SERVICE);
    let (_, start) = service.iter().find(|(key, _)| key == "Service.ExecStart").expect("a command");
    assert_is_a_command_line(start);
}

#[test]
fn the_crontab_line_has_five_times_a_user_and_a_good_command() {
    let line = CRONTAB.lines().find(|line| line.starts_with(|c: char| c.is_ascii_digit())).expect("an entry");
    let fields: Vec<_> = line.split_ascii_whitespace().collect();
    let time = |field: &&str| field.bytes().all(|b| b.is_ascii_digit() || b"*-,/".contains(&b));
    assert!(fields[..5].iter().all(time) && fields[5] == "root", "{line}");
    let (_, command) = line.split_once("&& ").expect("a condition and a command");
    assert_is_a_command_line(command);
    assert!(!line.replace("\\%", "").contains('%'), "cron takes a bare % for the end of the command");
}
