//! The file of `mirrortool run`: which sets to check, with which options, and what to do when something is wrong.
//! A mistake is told with its line and column before anything runs.

use crate::args::Cli;
use crate::text_file;
use anyhow::Context as _;
use clap::Parser as _;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use uuid::Uuid;

/// The commands that can be a job: those that end with an outcome and write a report.
const COMMANDS: [&str; 2] = ["scrub", "repair"];

/// A whole file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct JobFile {
    /// Where reports are kept.
    pub(crate) reports: Option<Reports>,
    /// A shell command that is run for each job that did not end with exit status 0.
    pub(crate) on_failure: Option<String>,
    /// In the order they are run.
    pub(crate) jobs: Vec<Job>,
}

/// Where reports are kept, and how many.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Reports {
    /// A folder, which is made where only its last part is missing.
    pub(crate) directory: PathBuf,
    /// The newest so many of each job stay.
    #[serde(default = "keep_by_default")]
    pub(crate) keep: usize,
}

fn keep_by_default() -> usize {
    30
}

impl Reports {
    fn can_be_there(&self) -> bool {
        let in_folder = || self.directory.parent().is_some_and(std::path::Path::is_dir);
        self.directory.is_dir() || !self.directory.exists() && in_folder()
    }

    pub(crate) fn make_directory(&self) -> anyhow::Result<()> {
        let cannot = || format!("cannot make the folder {}", self.directory.display());
        if self.directory.is_dir() { Ok(()) } else { std::fs::create_dir(&self.directory).with_context(cannot) }
    }
}

/// One command on one file system.
#[derive(Debug)]
pub(crate) struct Job {
    /// Stands in file names.
    pub(crate) name: String,
    /// A command of mirrortool.
    pub(crate) command: String,
    /// Its options, as typed in a shell.
    pub(crate) options: Vec<String>,
    /// Paths and globs of the members; all block devices where empty.
    pub(crate) members: Vec<String>,
    /// Only members of this file system.
    pub(crate) uuid: Option<Uuid>,
    /// Exit statuses that are as good as 0.
    pub(crate) accept: Vec<u8>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TypedJob {
    name: String,
    #[serde(default = "scrub")]
    command: String,
    #[serde(default)]
    options: Vec<String>,
    #[serde(default)]
    members: Vec<String>,
    uuid: Option<String>,
    #[serde(default)]
    accept: Vec<u8>,
}

fn scrub() -> String {
    "scrub".to_owned()
}

/// What is wrong with a job that reads well as YAML.
#[derive(Debug, thiserror::Error)]
enum JobMistake {
    #[error("job name {0:?}: only letters, digits, '.', '_' and '-' may stand in it, and no '.' first")]
    Name(String),
    #[error("job {0}: needs members, or a uuid")]
    Members(String),
    #[error("job {name}: uuid {uuid:?} is not a uuid")]
    Uuid { name: String, uuid: String },
    #[error("job {name}: pattern {pattern:?}: {source}")]
    Pattern { name: String, pattern: String, source: glob::PatternError },
    #[error("job {name}: command {command:?} cannot be a job, expect scrub or repair")]
    Command { name: String, command: String },
    #[error("job {name}: {message}")]
    Options { name: String, message: String },
    #[error("job {name}: {option} cannot be an option of a job")]
    OptionOfOurs { name: String, option: String },
}

impl<'de> Deserialize<'de> for Job {
    /// Checks a job while its mapping is read, so that a mistake is told with the line of that job.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct JobVisitor;
        impl<'de> Visitor<'de> for JobVisitor {
            type Value = Job;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a job: name, members, options")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Job, A::Error> {
                TypedJob::deserialize(MapAccessDeserializer::new(map))?.try_into().map_err(A::Error::custom)
            }
        }
        deserializer.deserialize_map(JobVisitor)
    }
}

impl TryFrom<TypedJob> for Job {
    type Error = JobMistake;

    fn try_from(typed: TypedJob) -> Result<Self, JobMistake> {
        let TypedJob { name, command, options, members, uuid, accept } = typed;
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        if name.is_empty() || name.starts_with('.') || !name.chars().all(fits) {
            return Err(JobMistake::Name(name));
        }
        if members.is_empty() && uuid.is_none() {
            return Err(JobMistake::Members(name));
        }
        let uuid = match uuid.map(|uuid| Uuid::parse_str(&uuid).map_err(|_| uuid)) {
            Some(Err(uuid)) => return Err(JobMistake::Uuid { name, uuid }),
            Some(Ok(uuid)) => Some(uuid),
            None => None,
        };
        if let Some((pattern, source)) = members.iter().find_map(|m| glob::Pattern::new(m).err().map(|e| (m, e))) {
            return Err(JobMistake::Pattern { pattern: pattern.clone(), name, source });
        }
        let job = Self { name, command, options, members, uuid, accept };
        job.check_options()?;
        Ok(job)
    }
}

impl Job {
    /// The command line of this job, without the report file.
    pub(crate) fn command_line(&self, members: &[PathBuf]) -> Vec<OsString> {
        let words = [&self.command].into_iter().chain(&self.options).map(OsString::from);
        words.chain(["--".into()]).chain(members.iter().map(OsString::from)).collect()
    }

    fn check_options(&self) -> Result<(), JobMistake> {
        let name = || self.name.clone();
        if !COMMANDS.contains(&self.command.as_str()) {
            return Err(JobMistake::Command { name: name(), command: self.command.clone() });
        }
        let ours = |option: &&String| option.starts_with("--report") || *option == "--fsck-exit";
        if let Some(option) = self.options.iter().find(ours) {
            return Err(JobMistake::OptionOfOurs { name: name(), option: option.clone() });
        }
        let says = |words: &[&str]| self.options.iter().any(|option| words.contains(&option.as_str()));
        if (self.command == "repair" || says(&["--repair"])) && !says(&["--yes", "-y", "--dry-run"]) {
            let message = "nobody is there to be asked: pass --yes, or --dry-run".to_owned();
            return Err(JobMistake::Options { name: name(), message });
        }
        let typed = ["mirrortool".into()].into_iter().chain(self.command_line(&["member".into()]));
        Cli::try_parse_from(typed).map(drop).map_err(|error| {
            let first_line = error.to_string().lines().next().unwrap_or_default().to_owned();
            JobMistake::Options { name: name(), message: first_line }
        })
    }
}

impl JobFile {
    /// Reads a file; the error names the line and column of the first mistake.
    pub(crate) fn parse(text: &str) -> anyhow::Result<Self> {
        let file: Self = serde_yaml::from_str(text)?;
        for (index, job) in file.jobs.iter().enumerate() {
            let earlier = file.jobs.iter().take(index).any(|other| other.name == job.name);
            anyhow::ensure!(!earlier, "two jobs are called {}", job.name);
        }
        anyhow::ensure!(!file.jobs.is_empty(), "there is no job in it");
        if let Some(reports) = &file.reports {
            anyhow::ensure!(reports.can_be_there(), "reports: {} is not a folder", reports.directory.display());
            anyhow::ensure!(reports.keep > 0, "reports: keep must be 1 or more");
        }
        Ok(file)
    }

    pub(crate) fn read(path: &std::path::Path) -> anyhow::Result<Self> {
        let text = text_file::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        Self::parse(&text).with_context(|| path.display().to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mistake(text: &str) -> String {
        format!("{:#}", JobFile::parse(text).expect_err("a mistake"))
    }

    #[test]
    fn a_job_is_a_command_line() {
        let file =
            JobFile::parse("jobs:\n- name: pool\n  members: [/dev/a]\n  options: [--degraded, -d]\n").expect("good");
        let words = file.jobs[0].command_line(&["/dev/a".into(), "/dev/b".into()]);
        assert_eq!(words, ["scrub", "--degraded", "-d", "--", "/dev/a", "/dev/b"]);
    }

    #[test]
    fn mistakes_are_told_with_line_and_column() {
        for (text, part) in [
            ("jobs:\n- name: a\n  member: [x]\n", "unknown field `member`, expected one of"),
            ("jobs:\n- name: a\n  member: [x]\n", "at line 3 column 3"),
            ("jobs:\n- name: a\n  members: [x]\n- name: a b\n  members: [x]\n", "job name \"a b\""),
            ("jobs:\n- name: a\n  members: [x]\n- name: a b\n  members: [x]\n", "at line 4 column 3"),
            ("jobs:\n- name: a\n", "job a: needs members, or a uuid"),
            ("jobs:\n- name: a\n  uuid: 1-2\n", "uuid \"1-2\" is not a uuid"),
            ("jobs:\n- name: a\n  members: ['x[']\n", "pattern \"x[\""),
            ("jobs:\n- name: a\n  command: man\n  members: [x]\n", "command \"man\" cannot be a job"),
            ("jobs:\n- name: a\n  members: [x]\n  options: [--fast]\n", "job a: error: unexpected argument '--fast'"),
            ("jobs:\n- name: a\n  members: [x]\n  options: [--report=r]\n", "--report=r cannot be an option of a job"),
            ("jobs:\n- {name: a, members: [x]}\n- {name: a, members: [x]}\n", "two jobs are called a"),
            ("jobs: []\n", "there is no job in it"),
            ("reports: {directory: /no/such}\njobs:\n- {name: a, members: [x]}\n", "/no/such is not a folder"),
        ] {
            assert!(mistake(text).contains(part), "{part:?} is not in {:?}", mistake(text));
        }
    }
}
