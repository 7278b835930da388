//! `mirrortool run` as cron starts it: no terminal, no environment but a short PATH, `/` as the working folder. What it
//! prints is the mail that somebody reads in the morning.

// A failed unwrap is a failed test, also in the helpers.
#![allow(clippy::unwrap_used)]

mod common;

use common::fixture;
use common::program::Run;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// The lines of a mail that can be read before coffee.
const MAIL_LINES: usize = 20;

/// A job file in a folder of its own, and a `mail` that writes what it is given to a file there.
struct Jobs {
    folder: TempDir,
}

impl Jobs {
    /// `HERE` in the job file is the folder.
    fn new(yaml: &str) -> Self {
        let jobs = Self { folder: tempfile::tempdir().unwrap() };
        let mail = "#!/bin/sh\n{ echo \"$@\"; cat; } >>\"${0%/*}/sent\"\n";
        fs::write(jobs.path("mail"), mail).unwrap();
        fs::set_permissions(jobs.path("mail"), fs::Permissions::from_mode(0o755)).unwrap();
        jobs.change(yaml);
        jobs
    }

    fn change(&self, yaml: &str) {
        let here = self.folder.path().display().to_string();
        fs::write(self.path("jobs.yaml"), yaml.replace("HERE", &here)).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn run(&self, options: &[&str]) -> Run {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mirrortool"));
        command.arg("run").args(options).arg(self.path("jobs.yaml")).current_dir("/").stdin(Stdio::null()).env_clear();
        command.env("PATH", format!("{}:/usr/bin:/bin", self.folder.path().display()));
        // Root's scrubs are remembered under /var/lib otherwise, which is not for a test to fill.
        command.env("XDG_STATE_HOME", self.path("state"));
        let output = command.output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Run { exit: output.status.code().unwrap_or(-1), stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    fn reports(&self) -> usize {
        fs::read_dir(self.path("reports")).unwrap().count()
    }
}

fn members(name: &str) -> String {
    fixture::shared(name).device(1).parent().unwrap().join("d*.img").display().to_string()
}

/// The job file that is shipped, over these members instead of those it speaks of.
fn shipped(pool: [&Path; 2], archive: &str, web: &str) -> String {
    let [first, second] = pool.map(|path| path.display().to_string());
    let fsid = fixture::facts(archive).fsid;
    let replacements = [
        ("/var/log/mirrortool", "HERE/reports".to_owned()),
        ("/dev/disk/by-id/ata-DISK_A", first),
        ("/dev/disk/by-id/ata-DISK_B", second),
        ("uuid: 389b092a-5a30-4de0-86bd-c136ddfc6456", format!("uuid: {fsid}\n    members: ['{}']", members(archive))),
        ("/srv/vm/web-*.img", format!("'{}'", members(web))),
    ];
    replacements.into_iter().fold(include_str!("../man/examples/jobs.yaml").to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "the shipped job file does not have {from}");
        text.replace(from, &to)
    })
}

#[test]
fn the_shipped_job_file_is_a_short_mail_when_all_is_well_and_none_with_quiet() {
    let pool = fixture::shared("raid1-crc32c");
    let jobs = Jobs::new(&shipped([pool.device(1), pool.device(2)], "raid5-3dev-crc32c", "raid10-4dev-crc32c"));
    let run = jobs.run(&[]);
    assert_eq!((run.exit, run.stderr.as_str()), (0, ""), "{}", run.stdout);
    assert!(run.stdout.lines().count() < MAIL_LINES);
    for (line, name) in run.stdout.lines().zip(["pool", "archive", "vm-web"]) {
        assert!(line.starts_with(&format!("{name}: scrub went well after 0:0")), "{line}");
        assert!(line.ends_with("MiB, no errors found"), "{line}");
    }
    assert_eq!((run.stdout.lines().count(), jobs.reports()), (3, 3));
    let quiet = jobs.run(&["--quiet"]);
    assert_eq!((quiet.exit, quiet.stdout + &quiet.stderr), (0, String::new()));
    assert!(!jobs.path("sent").exists(), "on_failure has nothing to send");
}

#[test]
fn a_damaged_and_an_incomplete_set_are_told_at_length_and_at_the_end_in_a_line() {
    let pool = fixture::shared("stale-raid1");
    let gone = Path::new("/no/such/disk");
    let jobs = Jobs::new(&shipped([pool.device(1), gone], "raid5-3dev-crc32c", "stale-raid1"));
    let run = jobs.run(&["--quiet"]);
    assert_eq!((run.exit, run.stderr.as_str()), (1, ""));
    for part in [
        "pool: scrub ended with exit status 1 after 0:0",
        "/no/such/disk: no such file or device",
        "vm-web: scrub ended with exit status 4 after 0:0",
        "\nResult:           ",
        "\nreport: ",
        "\n1 of 3 jobs went well, not pool (exit status 1), vm-web (exit status 4)\n",
    ] {
        assert!(run.stdout.contains(part), "{part:?} is not in {}", run.stdout);
    }
    assert!(!run.stdout.contains("archive"), "{}", run.stdout);
    let sent = fs::read_to_string(jobs.path("sent")).unwrap();
    assert!(sent.starts_with("-s mirrortool pool ended with 1 root\nmirrortool: /no/such/disk: "), "{sent}");
    assert!(sent.contains("\n-s mirrortool vm-web ended with 4 root\nUUID: "), "{sent}");
    let named = run.stdout.lines().find_map(|line| line.strip_prefix("report: ")).unwrap();
    assert!(Path::new(named).exists() && jobs.reports() == 2, "{named}");
}

#[test]
fn what_was_corrected_is_told_also_by_a_quiet_run() {
    let images = fixture::copy("stale-raid1");
    let pattern = images.device(1).parent().unwrap().join("d*.img").display().to_string();
    let jobs = Jobs::new(&format!(
        "reports: {{directory: HERE/reports}}\n\
         jobs:\n- {{name: bad, members: ['{pattern}'], options: [--repair, --yes]}}\n"
    ));
    let run = jobs.run(&["--quiet"]);
    assert_eq!((run.exit, run.stderr.as_str()), (0, ""), "{}", run.stdout);
    assert!(run.stdout.contains("corrected and read back"), "{}", run.stdout);
    assert!(run.stdout.lines().count() < MAIL_LINES);
    assert_eq!(jobs.reports(), 2, "the undo log is beside the report");
    assert_eq!(jobs.run(&["--quiet"]).stdout, "", "the second time there is nothing to correct");
}

#[test]
fn a_job_that_finds_something_prints_all_and_runs_on_failure() {
    let jobs = Jobs::new(&format!(
        "on_failure: 'cat >HERE/mail; echo $MIRRORTOOL_JOB $MIRRORTOOL_EXIT >>HERE/mail'\n\
         jobs:\n- {{name: bad, members: ['{}']}}\n- {{name: gone, members: [/no/such/image]}}\n\
         - {{name: good, members: ['{}']}}\n",
        members("stale-raid1"),
        members("raid1-crc32c")
    ));
    let run = jobs.run(&["--job", "bad", "--job", "good"]);
    assert_eq!(run.exit, 4, "{}", run.stderr);
    assert!(run.stdout.contains("bad: scrub ended with exit status 4") && run.stdout.contains("corrupt tree block: "));
    let mail = fs::read_to_string(jobs.path("mail")).unwrap();
    assert!(mail.starts_with("UUID: ") && mail.ends_with("\nbad 4\n"), "{mail}");
    let run = jobs.run(&["--job", "gone"]);
    assert_eq!(run.exit, 1);
    assert!(run.stdout.contains("/no/such/image: no such file or device"), "{}", run.stdout);
}

#[test]
fn a_scrub_that_may_end_early_is_no_failure() {
    let set = members("raid1-crc32c");
    let job = |accept: &str| {
        format!(
            "on_failure: 'touch HERE/failed'\n\
             jobs:\n- {{name: night, members: ['{set}'], options: [--time-limit, 0s, --continue]{accept}}}\n"
        )
    };
    let jobs = Jobs::new(&job(", accept: [5]"));
    let run = jobs.run(&[]);
    assert_eq!((run.exit, jobs.path("failed").exists()), (0, false), "{}", run.stderr);
    assert!(run.stdout.starts_with("night: scrub ended with exit status 5, as it may, after"), "{}", run.stdout);
    assert_eq!(run.stdout.lines().count(), 1, "{}", run.stdout);
    let jobs = Jobs::new(&job(""));
    assert_eq!((jobs.run(&[]).exit, jobs.path("failed").exists()), (5, true));
}

#[test]
fn a_mistake_in_a_job_file_has_a_line_and_a_column() {
    let refused = |yaml: &str, options: &[&str], words: &[&str]| {
        let run = Jobs::new(yaml).run(options);
        assert_eq!((run.exit, run.stdout.as_str()), (1, ""));
        assert!(words.iter().all(|word| run.stderr.contains(word)), "{}", run.stderr);
    };
    let mistake = ["jobs.yaml: ", "unknown field `memmbers`", "at line 3 column 3"];
    refused("jobs:\n- name: a\n  memmbers: [x]\n", &["--check"], &mistake);
    refused("jobs:\n- {name: a, members: [x]}\n", &["--job", "b"], &["there is no job b"]);
    assert_eq!(Jobs::new("jobs:\n- {name: a, members: [x]}\n").run(&["--check"]).exit, 0);
    let asks = "jobs:\n- {name: a, command: repair, members: [x]}\n";
    refused(asks, &["--check"], &["job a: nobody is there to be asked"]);
}
