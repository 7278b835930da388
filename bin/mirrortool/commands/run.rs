//! `mirrortool run`: the jobs of a file one after the other, each as a process of its own, so that one job's memory,
//! locks and failures are not the next one's. One line for each that went well, everything for each that did not.

use crate::job_outcome::JobOutcome;
use crate::jobs::{Job, JobFile, Reports};
use crate::{exit, members, output};
use anyhow::Context as _;
use mirrortool::report::count_of;
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::fs;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};
use time::{OffsetDateTime, UtcOffset, macros::format_description};

/// How often a waiting run looks whether it was told to end.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Run the jobs of a file: sets, options, reports, and what to do on failure
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The job file
    #[arg(value_name = "JOBS.yaml")]
    file: PathBuf,

    /// Only look for mistakes in the file
    #[arg(long)]
    check: bool,

    /// Run only the job of this name; may be given several times
    #[arg(long = "job", value_name = "NAME")]
    only: Vec<String>,

    /// Print nothing for jobs that found nothing and warned of nothing
    #[arg(short, long)]
    quiet: bool,
}

pub(crate) fn run(args: &Args, utc_offset: UtcOffset) -> anyhow::Result<exit::Code> {
    let file = JobFile::read(&args.file)?;
    if let Some(unknown) = args.only.iter().find(|name| file.jobs.iter().all(|job| job.name != **name)) {
        anyhow::bail!("{}: there is no job {unknown}", args.file.display());
    }
    if args.check {
        let jobs = count_of(file.jobs.len() as u64, "job", "jobs");
        output::print(format!("{}: {jobs}, no mistake\n", args.file.display()).as_bytes())?;
        return Ok(exit::GOOD);
    }
    let told_to_end = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&told_to_end)).context("cannot handle signals")?;
    }
    if let Some(reports) = &file.reports {
        reports.make_directory()?;
    }
    let jobs = file.jobs.iter().filter(|job| args.only.is_empty() || args.only.contains(&job.name));
    let mut ended = Vec::new();
    for job in jobs {
        let code = if told_to_end.load(Ordering::Relaxed) {
            output::print(
                format!("{}: {} not begun, for the run was told to end\n", job.name, job.command).as_bytes(),
            )?;
            exit::INTERRUPTED
        } else {
            Runner { file: &file, job, told_to_end: &told_to_end, quiet: args.quiet }.run(utc_offset)?
        };
        ended.push((job.name.as_str(), code));
    }
    if let Some(sum) = sum(&ended) {
        output::print(sum.as_bytes())?;
    }
    Ok(ended.iter().fold(exit::GOOD, |worst, (_, code)| worst.or_worse(*code)))
}

/// Which of several jobs did not go well, as the last line of a long mail.
fn sum(ended: &[(&str, exit::Code)]) -> Option<String> {
    let bad = ended.iter().filter(|(_, code)| *code != exit::GOOD);
    let bad: Vec<_> = bad.map(|(name, code)| format!("{name} ({code})")).collect();
    let (good, all) = (ended.len() - bad.len(), ended.len());
    (all > 1 && good < all).then(|| format!("{good} of {all} jobs went well, not {}\n", bad.join(", ")))
}

/// One job at work.
struct Runner<'a> {
    file: &'a JobFile,
    job: &'a Job,
    told_to_end: &'a AtomicBool,
    quiet: bool,
}

impl Runner<'_> {
    fn run(&self, utc_offset: UtcOffset) -> anyhow::Result<exit::Code> {
        let started = Instant::now();
        let report = self.file.reports.as_ref().map(|reports| report_path(reports, &self.job.name, utc_offset));
        let result = members::of_job(self.job).and_then(|members| self.command(&members, report.as_deref()));
        let (code, stdout, stderr) = match result {
            Ok(done) => (exit::Code::of_process(done.status), done.stdout, done.stderr),
            Err(error) => (exit::FAILED, Vec::new(), format!("mirrortool: {error:#}\n").into_bytes()),
        };
        let outcome = JobOutcome::of(code, &self.job.accept, stdout, stderr, started.elapsed());
        if !self.quiet || !outcome.is_all_well() {
            output::print(&outcome.message(&format!("{}: {}", self.job.name, self.job.command)))?;
        }
        // A job that could not be performed has no report.
        let report = report.filter(|report| report.exists());
        if !outcome.is_well {
            if let Some(report) = &report {
                output::print(format!("report: {}\n", report.display()).as_bytes())?;
            }
            self.on_failure(code, &outcome.printed(), report.as_deref());
        }
        if let Some(reports) = &self.file.reports {
            // The next job has to run all the same.
            rotate(reports, &self.job.name).unwrap_or_else(|error| output::warn(&format!("{error:#}")));
        }
        Ok(if outcome.is_well { exit::GOOD } else { code })
    }

    fn command(&self, members: &[PathBuf], report: Option<&Path>) -> anyhow::Result<Output> {
        let program = std::env::current_exe().context("cannot find this program's own file")?;
        let mut words = self.job.command_line(members);
        if let Some(report) = report {
            words.splice(1..1, ["--report".into(), report.into()]);
        }
        let mut command = Command::new(program);
        command.args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Out of reach of the terminal's Ctrl-C: it comes to this process, which hands it on once.
        command.process_group(0);
        let child = command.spawn().context("cannot start a job")?;
        self.wait(child)
    }

    /// Waits, and hands on each signal that asks to end: of a second one the job dies.
    fn wait(&self, child: Child) -> anyhow::Result<Output> {
        let pid = Pid::from_child(&child);
        let (sender, ended) = channel();
        thread::spawn(move || sender.send(child.wait_with_output()).ok());
        let mut handed_on = false;
        let output = loop {
            match ended.recv_timeout(POLL_INTERVAL) {
                Err(RecvTimeoutError::Timeout) if self.told_to_end.swap(false, Ordering::Relaxed) => {
                    handed_on = true;
                    // A job that ended meanwhile needs no signal.
                    let _ = kill_process(pid, Signal::TERM);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => anyhow::bail!("a job was lost"),
                Ok(output) => break output.context("cannot wait for a job")?,
            }
        };
        self.told_to_end.fetch_or(handed_on, Ordering::Relaxed);
        Ok(output)
    }

    /// Runs the file's command with what the job printed as its input. That it fails is told, and changes nothing.
    fn on_failure(&self, code: exit::Code, printed: &[u8], report: Option<&Path>) {
        let Some(shell) = &self.file.on_failure else { return };
        let mut command = Command::new("/bin/sh");
        command.args(["-c", shell]).stdin(Stdio::piped());
        command.env("MIRRORTOOL_JOB", &self.job.name).env("MIRRORTOOL_EXIT", code.number().to_string());
        command.env("MIRRORTOOL_REPORT", report.unwrap_or(Path::new("")));
        let ended = command.spawn().and_then(|mut child| {
            if let Some(mut stdin) = child.stdin.take() {
                // A command that does not read its input is welcome.
                let _ = stdin.write_all(printed);
            }
            child.wait()
        });
        match ended {
            Ok(status) if status.success() => {}
            Ok(status) => output::warn(&format!("{}: on_failure ended with {status}", self.job.name)),
            Err(error) => output::warn(&format!("{}: on_failure cannot be run: {error}", self.job.name)),
        }
    }
}

fn report_path(reports: &Reports, job: &str, utc_offset: UtcOffset) -> PathBuf {
    let format = format_description!("[year][month][day]T[hour][minute][second]");
    let date = OffsetDateTime::now_utc().to_offset(utc_offset).format(format).unwrap_or_default();
    reports.directory.join(format!("{job}-{date}.json"))
}

/// Removes all but the newest reports of a job. The names sort by date.
fn rotate(reports: &Reports, job: &str) -> anyhow::Result<()> {
    let folder = &reports.directory;
    let entries = fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut of_job: Vec<_> = names.filter(|name| is_report_of(name, job)).collect();
    of_job.sort();
    let surplus = of_job.len().saturating_sub(reports.keep);
    for name in of_job.iter().take(surplus) {
        let path = folder.join(name);
        fs::remove_file(&path).with_context(|| format!("cannot remove the old report {}", path.display()))?;
    }
    Ok(())
}

/// `JOB-YYYYMMDDTHHMMSS.json` and nothing else.
fn is_report_of(name: &str, job: &str) -> bool {
    let date = name.strip_prefix(job).and_then(|n| n.strip_prefix('-')).and_then(|n| n.strip_suffix(".json"));
    date.is_some_and(|date| {
        date.len() == 15 && date.bytes().enumerate().all(|(i, b)| if i == 8 { b == b'T' } else { b.is_ascii_digit() })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rotation_removes_the_oldest_of_this_job_only() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let names = [
            "pool-20260101T000000.json",
            "pool-20260102T000000.json",
            "pool-20260103T000000.json",
            "pool-2-20250101T000000.json",
            "pool-notes.json",
        ];
        for name in names {
            fs::write(dir.path().join(name), "").expect("writable");
        }
        rotate(&Reports { directory: dir.path().to_owned(), keep: 2 }, "pool").expect("rotated");
        let left: Vec<_> = names.iter().filter(|name| dir.path().join(name).exists()).collect();
        assert_eq!(left.len(), 4);
        assert!(!dir.path().join(names[0]).exists());
    }

    #[test]
    fn the_last_line_names_the_jobs_that_did_not_go_well() {
        let jobs = [("a", exit::GOOD), ("b", exit::FAILED), ("c", exit::INTERRUPTED)];
        let line = "1 of 3 jobs went well, not b (exit status 1), c (exit status 5)\n";
        assert_eq!(sum(&jobs).as_deref(), Some(line));
        assert_eq!(sum(&[("a", exit::GOOD), ("b", exit::GOOD)]), None);
        assert_eq!(sum(&[("b", exit::FAILED)]), None, "it is told above");
    }
}
