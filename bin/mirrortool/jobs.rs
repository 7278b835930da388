//! The file of `mirrortool run`: which sets to check, with which options, and what to do when something is wrong.
//! A mistake is told with its line and column before anything runs.

use crate::args::Cli;
use crate::text_file;
use crate::yaml_place::{Step, mistake_at};
use anyhow::Context as _;
use clap::Parser as _;
use clap::error::ContextKind;
use serde::Deserialize;
use std::ffi::OsString;
use std::path::PathBuf;
use uuid::Uuid;

/// The commands that can be a job: those that end with an outcome and write a report.
const COMMANDS: [&str; 3] = ["scrub", "repair", "rebuild"];

/// A whole file.
#[derive(Debug)]
pub(crate) struct JobFile {
    /// Where reports are kept.
    pub(crate) reports: Option<Reports>,
    /// A shell command that is run for each job that did not end with exit status 0.
    pub(crate) on_failure: Option<String>,
    /// In the order they are run.
    pub(crate) jobs: Vec<Job>,
}

/// A file as it was typed.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TypedFile {
    reports: Option<Reports>,
    on_failure: Option<String>,
    jobs: Vec<TypedJob>,
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

/// What is wrong in a file that reads well as YAML, and at which value of its job.
#[derive(Debug)]
struct Mistake {
    steps: Vec<Step>,
    message: String,
}

impl Mistake {
    fn at(steps: &[Step], message: impl Into<String>) -> Self {
        Self { steps: steps.to_vec(), message: message.into() }
    }
}

impl TryFrom<TypedJob> for Job {
    type Error = Mistake;

    fn try_from(typed: TypedJob) -> Result<Self, Mistake> {
        let TypedJob { name, command, options, members, uuid, accept } = typed;
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        if name.is_empty() || name.starts_with('.') || !name.chars().all(fits) {
            let rule = "only letters, digits, '.', '_' and '-' may stand in it, and no '.' first";
            return Err(Mistake::at(&[Step::Key("name")], format!("job name {name:?}: {rule}")));
        }
        if members.is_empty() && uuid.is_none() {
            return Err(Mistake::at(&[], format!("job {name}: needs members, or a uuid")));
        }
        let uuid = match uuid.map(|uuid| Uuid::parse_str(&uuid).map_err(|_| uuid)) {
            Some(Err(uuid)) => {
                return Err(Mistake::at(&[Step::Key("uuid")], format!("job {name}: uuid {uuid:?} is not a uuid")));
            }
            Some(Ok(uuid)) => Some(uuid),
            None => None,
        };
        for (index, pattern) in members.iter().enumerate() {
            glob::Pattern::new(pattern).map_err(|error| {
                let message = format!("job {name}: pattern {pattern:?}: {error}");
                Mistake::at(&[Step::Key("members"), Step::Entry(index)], message)
            })?;
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

    fn check_options(&self) -> Result<(), Mistake> {
        let name = &self.name;
        if !COMMANDS.contains(&self.command.as_str()) {
            let message =
                format!("job {name}: command {:?} cannot be a job, expect scrub, repair or rebuild", self.command);
            return Err(Mistake::at(&[Step::Key("command")], message));
        }
        let ours = |option: &String| option.starts_with("--report") || *option == "--fsck-exit";
        if let Some(index) = self.options.iter().position(ours) {
            let option = self.options.get(index).map_or("", String::as_str);
            return Err(self.mistake_in_option(index, format!("{option} cannot be an option of a job")));
        }
        let position = |words: &[&str]| self.options.iter().position(|option| words.contains(&option.as_str()));
        let writes = (self.command != "scrub").then_some(None).or_else(|| position(&["--repair"]).map(Some));
        if let (Some(word), None) = (writes, position(&["--yes", "-y", "--dry-run"])) {
            let message = "nobody is there to be asked: pass --yes, or --dry-run".to_owned();
            return Err(match word {
                Some(index) => self.mistake_in_option(index, message),
                None => Mistake::at(&[Step::Key("command")], format!("job {name}: {message}")),
            });
        }
        let typed = ["mirrortool".into()].into_iter().chain(self.command_line(&["member".into()]));
        Cli::try_parse_from(typed).map(drop).map_err(|error| {
            let first_line = error.to_string().lines().next().unwrap_or_default().to_owned();
            match self.word_of(&error) {
                Some(index) => self.mistake_in_option(index, first_line),
                None => Mistake::at(&[Step::Key("options")], format!("job {name}: {first_line}")),
            }
        })
    }

    fn mistake_in_option(&self, index: usize, message: impl std::fmt::Display) -> Mistake {
        Mistake::at(&[Step::Key("options"), Step::Entry(index)], format!("job {}: {message}", self.name))
    }

    /// Which of the options the parser does not like, where it names one: its value, where that stands by itself.
    fn word_of(&self, error: &clap::Error) -> Option<usize> {
        let named = |kind| error.get(kind).map(ToString::to_string);
        let find = |word: String| self.options.iter().rposition(|option| *option == word);
        let value = named(ContextKind::InvalidValue).and_then(find);
        value.or_else(|| {
            let shown = named(ContextKind::InvalidArg)?;
            let name = shown.split([' ', '=']).next()?;
            self.options.iter().rposition(|option| option.split('=').next() == Some(name))
        })
    }
}

impl JobFile {
    /// Reads a file; the error names the line and column of the first mistake.
    pub(crate) fn parse(text: &str) -> anyhow::Result<Self> {
        let TypedFile { reports, on_failure, jobs } = serde_yaml::from_str(text)?;
        let told = |mistake: Mistake| mistake_at(text, &mistake.steps, mistake.message);
        let of_job = |index: usize, mistake: Mistake| {
            let steps = [Step::Key("jobs"), Step::Entry(index)].into_iter().chain(mistake.steps).collect();
            told(Mistake { steps, ..mistake })
        };
        let mut good: Vec<Job> = Vec::with_capacity(jobs.len());
        for (index, job) in jobs.into_iter().enumerate() {
            let job = Job::try_from(job).map_err(|mistake| of_job(index, mistake))?;
            if good.iter().any(|earlier| earlier.name == job.name) {
                let message = format!("two jobs are called {}", job.name);
                return Err(of_job(index, Mistake::at(&[Step::Key("name")], message)));
            }
            good.push(job);
        }
        if good.is_empty() {
            return Err(told(Mistake::at(&[Step::Key("jobs")], "there is no job in it")));
        }
        if let Some(reports) = &reports {
            let place = |key| [Step::Key("reports"), Step::Key(key)];
            if !reports.can_be_there() {
                let message = format!("reports: {} is not a folder", reports.directory.display());
                return Err(told(Mistake::at(&place("directory"), message)));
            }
            if reports.keep == 0 {
                return Err(told(Mistake::at(&place("keep"), "reports: keep must be 1 or more")));
            }
        }
        Ok(Self { reports, on_failure, jobs: good })
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
    fn a_rebuild_can_be_a_job_where_nobody_has_to_be_asked() {
        let job = |more: &str| {
            format!("jobs:\n- name: a\n  command: rebuild\n  members: [/dev/a]\n  options: [--onto, /dev/b{more}]\n")
        };
        assert!(mistake(&job("")).contains("nobody is there to be asked"));
        let file = JobFile::parse(&job(", --yes")).expect("good");
        let words = file.jobs[0].command_line(&["/dev/a".into()]);
        assert_eq!(words, ["rebuild", "--onto", "/dev/b", "--yes", "--", "/dev/a"]);
    }

    #[test]
    fn mistakes_are_told_with_line_and_column() {
        for (text, part) in [
            ("jobs:\n- name: a\n  member: [x]\n", "unknown field `member`, expected one of"),
            ("jobs:\n- name: a\n  member: [x]\n", "at line 3 column 3"),
            ("jobs:\n- name: a\n  members: [x]\n- name: a b\n  members: [x]\n", "job name \"a b\""),
            ("jobs:\n- name: a\n  members: [x]\n- name: a b\n  members: [x]\n", "at line 4 column 9"),
            ("jobs:\n- name: a\n", "job a: needs members, or a uuid"),
            ("jobs:\n- name: a\n  uuid: 1-2\n", "uuid \"1-2\" is not a uuid"),
            ("jobs:\n- name: a\n  members: ['x[']\n", "pattern \"x[\""),
            ("jobs:\n- name: a\n  command: man\n  members: [x]\n", "command \"man\" cannot be a job"),
            ("jobs:\n- name: a\n  members: [x]\n  options: [--fast]\n", "job a: error: unexpected argument '--fast'"),
            ("jobs:\n- name: a\n  members: [x]\n  options: [--report=r]\n", "--report=r cannot be an option of a job"),
            ("jobs:\n- {name: a, members: [x]}\n- {name: a, members: [x]}\n", "two jobs are called a"),
            ("jobs:\n- name: a\n  members: [x, 'x[']\n", "at line 3 column 16"),
            ("jobs:\n- name: a\n  members: [x]\n  options: [-d, --fast]\n", "at line 4 column 17"),
            ("jobs:\n- name: a\n  members: [x]\n  options:\n  - --limit\n  - fast\n", "at line 6 column 5"),
            ("jobs:\n- name: a\n  members: [x]\n  options: [-d, --limit=fast]\n", "at line 4 column 17"),
            ("jobs:\n- name: a\n  members: [x]\n  options:\n  - -d\n  - --repair\n", "at line 6 column 5"),
            ("jobs:\n- name: a\n  members: [x]\n  command: repair\n", "at line 4 column 12"),
            ("jobs:\n- {name: a, members: [x]}\n- {name: a, members: [x]}\n", "at line 3 column 10"),
            ("jobs: []\n", "there is no job in it"),
            ("reports: {directory: /no/such}\njobs:\n- {name: a, members: [x]}\n", "/no/such is not a folder"),
        ] {
            assert!(mistake(text).contains(part), "{part:?} is not in {:?}", mistake(text));
        }
    }
}
