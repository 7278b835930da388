//! SIGINT, SIGTERM and SIGHUP end a scrub with a report and something to go on from; a second one ends it at once. No
//! test waits for a time: a scrub that ends by itself is made impossible first.

// A failed unwrap is a failed test, also in the helpers.
#![allow(clippy::unwrap_used)]

mod common;

use common::fixture::{self, Images};
use common::program::{self, Run};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

/// Long enough for the slowest machine; reached only where a test fails.
const PATIENCE: usize = 3000;
/// Between two looks.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// A set whose second member is stale: there are findings.
struct Bench {
    images: Images,
}

impl Bench {
    fn new() -> Self {
        Self { images: fixture::copy("stale-raid1") }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.images.scratch().join(name)
    }

    fn state_option(&self) -> String {
        format!("--state={}", self.file("state.json").display())
    }

    /// Starts a scrub, and returns once its handlers stand: the state file is written after they were set up.
    fn start(&self, options: &[&str], stdout: Stdio) -> Child {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mirrortool"));
        command.args(["scrub", "--format", "json", &self.state_option()]).args(options).args(&self.images.paths);
        let child = command.stdout(stdout).stderr(Stdio::piped()).spawn().unwrap();
        let is_there = || self.file("state.json").exists();
        assert!(
            (0..PATIENCE).any(|_| is_there() || {
                thread::sleep(LOOK_INTERVAL);
                false
            }),
            "no state file"
        );
        child
    }

    fn resume(&self) -> Run {
        program::scrub(&[self.state_option().as_str(), "--resume"], &self.images.paths)
    }
}

fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

#[test]
fn a_signal_ends_with_a_report_and_exit_5_and_the_scrub_is_gone_on_with() {
    let whole = program::scrub(&["--no-state"], &Bench::new().images.paths).report().unwrap();
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let bench = Bench::new();
        // At one byte per second it does not come to its end.
        let child = bench.start(&["--limit", "1"], Stdio::piped());
        send(&child, signal);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(5), "{signal:?}: {}", String::from_utf8_lossy(&output.stderr));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["status"], "interrupted");
        let state: Value = serde_json::from_slice(&fs::read(bench.file("state.json")).unwrap()).unwrap();
        assert!(state["sitting"].is_object(), "{state}");

        let rest = bench.resume();
        assert_eq!(rest.exit, 4, "{}", rest.stderr);
        let rest = rest.report().unwrap();
        assert_eq!(program::difference(&rest.findings().unwrap(), &whole.findings().unwrap()), "");
        for key in ["status", "verdict", "totals", "findings", "bytes_scrubbed"] {
            assert!(rest.0[key] == whole.0[key], "{signal:?}: {key} is not that of one run");
        }
    }
}

/// A pipe with a name that nobody reads, and that is full: who writes to it waits for ever.
fn stuffed_pipe(path: &std::path::Path) -> File {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
    let mut pipe = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(path).unwrap();
    for bytes in [4096, 1] {
        while match pipe.write(&vec![b'\n'; bytes]) {
            Ok(_) => true,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                false
            }
        } {}
    }
    pipe
}

#[test]
fn a_second_signal_ends_at_once() {
    let bench = Bench::new();
    let pipe = stuffed_pipe(&bench.file("stdout"));
    let stdout = OpenOptions::new().write(true).open(bench.file("stdout")).unwrap();
    let mut child = bench.start(&["--limit", "1"], stdout.into());
    // The first signal makes it print its report, which nobody takes: it cannot end because of that signal. Signals that
    // come while one is not yet delivered are one with it, so there may have to be more than two.
    let mut sent = 0;
    let status = loop {
        assert!(sent < PATIENCE, "signals do not end it");
        send(&child, Signal::TERM);
        sent += 1;
        thread::sleep(LOOK_INTERVAL);
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
    };
    assert_eq!(status.signal(), Some(Signal::TERM.as_raw()));
    assert!(sent > 1, "the first only asks");
    drop(pipe);
    assert_eq!(bench.resume().exit, 4, "also this one is gone on with");
}

#[test]
fn a_run_of_jobs_hands_a_signal_on_and_begins_no_other_job() {
    let bench = Bench::new();
    let members: Vec<_> = bench.images.paths.iter().map(|path| path.display().to_string()).collect();
    let members = members.join(", ");
    let yaml = format!(
        "jobs:\n- {{name: slow, members: [{members}], options: ['{}', --limit, '1']}}\n\
         - {{name: next, members: [{members}], options: [--no-state]}}\n",
        bench.state_option()
    );
    fs::write(bench.file("jobs.yaml"), yaml).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_mirrortool"));
    command.arg("run").arg(bench.file("jobs.yaml")).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    let is_there = || bench.file("state.json").exists();
    assert!(
        (0..PATIENCE).any(|_| is_there() || {
            thread::sleep(LOOK_INTERVAL);
            false
        }),
        "no state file"
    );
    send(&child, Signal::TERM);
    let output = child.wait_with_output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(5), "{printed}");
    for part in [
        "slow: scrub ended with exit status 5 after ",
        "\nStatus:           interrupted\n",
        "\nnext: scrub not begun, for the run was told to end\n",
        "\n0 of 2 jobs went well, not slow (exit status 5), next (exit status 5)\n",
    ] {
        assert!(printed.contains(part), "{part:?} is not in {printed}");
    }
}
