//! Keeps the memory of a file system in a file: read before a scrub, written while it runs and when it ends.
//!
//! A killed run loses what was done in the last [`CHECKPOINT_INTERVAL`], and the sections (64 MiB of each stripe of a
//! block group) that were being read.

use crate::output::{self, PendingFile};
use crate::outputs::Named;
use crate::text_file;
use anyhow::Context as _;
use mirrortool::filesystem::Filesystem;
use mirrortool::report::{read_state, write_state};
use mirrortool::scrub::commit::{Break, Commit};
use mirrortool::scrub::earlier::{Earlier, Observer, PartDone};
use mirrortool::scrub::history::{History, Look, PastRun};
use mirrortool::scrub::outcome::ScrubOutcome;
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};
use std::{env, fs, io};
use uuid::Uuid;

/// The file is written this often while there is something new to write.
pub(crate) const CHECKPOINT_INTERVAL: Duration = Duration::from_secs(5);

/// Where the memory is kept.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Window")]
pub(crate) struct StateOptions {
    /// Remember in FILE what was looked at [default: /var/lib/mirrortool/FSID.json for root, else under XDG_STATE_HOME]
    #[arg(long, value_name = "FILE", conflicts_with = "no_state")]
    state: Option<PathBuf>,

    /// Remember nothing
    #[arg(long, conflicts_with_all = ["resume", "go_on", "since_last", "sample"])]
    no_state: bool,

    /// Go on with a scrub that was ended early; exit 2 where there is none
    #[arg(long)]
    pub(crate) resume: bool,

    /// Go on with a scrub that was ended early; begin one where there is none
    #[arg(long = "continue", conflicts_with = "resume")]
    pub(crate) go_on: bool,
}

/// The memory, and the file it is written to.
pub(crate) struct Keeper {
    path: Option<PathBuf>,
    memory: Mutex<Memory>,
    clock: Instant,
    look: Look,
    commit: Commit,
    /// Held as long as this run may write the file.
    _lock: Option<File>,
}

struct Memory {
    history: History,
    /// Has the history grown since it was written?
    has_news: bool,
    /// How long the sittings before this one took.
    before: Duration,
}

/// What is there to go on with.
pub(crate) enum Resumed {
    /// No scrub was ended early.
    Nothing,
    /// What its sittings have seen.
    Earlier(Box<Earlier>),
    /// There was one, and nothing can be built on it.
    Broken(Break),
}

impl StateOptions {
    /// The file that was named for it.
    pub(crate) fn output(&self) -> Option<Named<'_>> {
        self.state.as_deref().map(|path| Named { what: "the state file", path })
    }

    /// Opens the memory of a file system, for a run that looks so closely.
    pub(crate) fn open(&self, filesystem: &Filesystem, look: Look) -> anyhow::Result<Keeper> {
        let fsid = filesystem.superblock().fsid();
        let path = if self.no_state { None } else { self.state.clone().or_else(|| default_path(fsid)) };
        let mut path = path.filter(|path| self.state.is_some() || can_keep(path));
        let lock = match path.as_deref().map(lock) {
            Some(Err(error)) if self.state.is_none() && !error.is::<StateInUse>() => {
                output::warn(&format!("{error:#}; this scrub is not remembered"));
                path = None;
                None
            }
            lock => lock.transpose()?,
        };
        let history = match path.as_deref().map(|path| load(path, fsid)) {
            None => History::new(fsid),
            Some(Ok(history)) => history,
            // Nobody asked for the file in the default place: a scrub does without what it says.
            Some(Err(error)) if self.state.is_none() && !self.resume => {
                output::warn(&format!("{error:#}; it will be replaced"));
                History::new(fsid)
            }
            Some(Err(error)) => return Err(error),
        };
        let now = Instant::now();
        let memory = Memory { history, has_news: false, before: Duration::ZERO };
        let commit = Commit::of(filesystem);
        Ok(Keeper { path, memory: Mutex::new(memory), clock: now, look, commit, _lock: lock })
    }
}

impl Keeper {
    /// What is remembered so far.
    pub(crate) fn history(&self) -> History {
        self.lock().history.clone()
    }

    /// Begins a scrub of `parts` anew. Returns when the one began that was ended early and is forgotten now.
    pub(crate) fn begin(&self, parts: String) -> Option<SystemTime> {
        let mut memory = self.lock();
        let forgotten = memory.history.sitting.as_ref().map(|sitting| sitting.started);
        memory.history.begin(parts, self.commit.clone(), SystemTime::now());
        forgotten
    }

    /// Goes on with the scrub that was ended early, if there is one, which must be one of the same `parts`, and of the
    /// same file system as it was or as it has become since.
    pub(crate) fn resume(&self, parts: &str, filesystem: &Filesystem) -> anyhow::Result<Resumed> {
        let mut memory = self.lock();
        let Some(earlier) = memory.history.sitting.clone() else { return Ok(Resumed::Nothing) };
        let said = |parts: &str| if parts.is_empty() { "all".to_owned() } else { parts.to_owned() };
        anyhow::ensure!(
            earlier.parts == parts,
            "the scrub that was ended early looks at {}, not at {}",
            said(&earlier.parts),
            said(parts)
        );
        if let Err(why) = earlier.commit.goes_on_in(filesystem) {
            return Ok(Resumed::Broken(why));
        }
        memory.before = earlier.duration;
        if let Some(sitting) = &mut memory.history.sitting {
            sitting.commit.go_on(self.commit.clone());
        }
        Ok(Resumed::Earlier(Box::new(earlier)))
    }

    /// The file system has another past: nothing is built on the last finished scrub any more, nor on the sittings so far.
    pub(crate) fn distrust(&self) {
        let mut memory = self.lock();
        memory.before = Duration::ZERO;
        if let Some(finished) = &mut memory.history.finished {
            finished.commit.roots.clear();
        }
        if let Some(sitting) = &mut memory.history.sitting {
            sitting.commit.roots.clear();
        }
    }

    /// Runs a scrub, and writes down that it is under way and how far it has come, so that it can be gone on with from
    /// whenever it is killed.
    pub(crate) fn during<T>(&self, scrub: impl FnOnce() -> T) -> anyhow::Result<T> {
        self.write(&self.lock().history)?;
        let (ended, end) = mpsc::channel::<()>();
        let keep = move || {
            while end.recv_timeout(CHECKPOINT_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                self.checkpoint();
            }
        };
        Ok(thread::scope(|scope| {
            scope.spawn(keep);
            let result = scrub();
            drop(ended);
            result
        }))
    }

    fn checkpoint(&self) {
        let mut memory = self.lock();
        if !std::mem::take(&mut memory.has_news) {
            return;
        }
        if let Err(error) = self.write(&memory.history) {
            output::warn(&format!("{error:#}"));
        }
    }

    /// The scrub has ended: `finished` where it got to its end; `since_last` where it built on the last one.
    pub(crate) fn end(&self, finished: bool, everything: bool, since_last: bool) -> anyhow::Result<()> {
        let mut memory = self.lock();
        let duration = memory.before + self.clock.elapsed();
        if finished {
            memory.history.finish(SystemTime::now(), everything, since_last);
        } else if let Some(sitting) = &mut memory.history.sitting {
            sitting.duration = duration;
        }
        self.write(&memory.history)
    }

    /// Remembers what this run came to.
    pub(crate) fn remember(&self, outcome: &ScrubOutcome, parts: String) -> anyhow::Result<()> {
        let mut memory = self.lock();
        memory.history.add_run(PastRun {
            at: SystemTime::now(),
            duration: outcome.duration,
            parts,
            status: outcome.status,
            verdict: outcome.verdict,
            generation: outcome.filesystem.generation,
            bytes: outcome.bytes_scrubbed,
            findings: (outcome.findings.len() as u64).saturating_add(outcome.findings_omitted),
            missing: outcome.filesystem.missing_devids.clone(),
        });
        self.write(&memory.history)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, history: &History) -> anyhow::Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        PendingFile::create(path)?.publish(&write_state(history)?)
    }
}

impl Observer for Keeper {
    fn part_done(&self, done: PartDone) {
        let mut memory = self.lock();
        let duration = memory.before + self.clock.elapsed();
        memory.history.add(&done, self.look, SystemTime::now(), duration);
        memory.has_news = true;
    }
}

fn load(path: &Path, fsid: Uuid) -> anyhow::Result<History> {
    let cannot = || format!("cannot use state file {}", path.display());
    let bytes = match text_file::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(History::new(fsid)),
        read => read.with_context(cannot)?,
    };
    let history = read_state(&bytes).with_context(cannot)?;
    anyhow::ensure!(history.fsid == fsid, "{}: it is about file system {}, not {fsid}", cannot(), history.fsid);
    Ok(history)
}

fn default_path(fsid: Uuid) -> Option<PathBuf> {
    let dir = if rustix::process::geteuid().is_root() && env::var_os("XDG_STATE_HOME").is_none() {
        PathBuf::from("/var/lib")
    } else {
        let home = || Some(PathBuf::from(env::var_os("HOME")?).join(".local/state"));
        env::var_os("XDG_STATE_HOME").map(PathBuf::from).filter(|dir| dir.is_absolute()).or_else(home)?
    };
    Some(dir.join("mirrortool").join(format!("{fsid}.json")))
}

/// Another scrub, perhaps of last night, is not through.
#[derive(Debug, thiserror::Error)]
#[error("{}: another scrub keeps it at this moment", .0.display())]
pub(crate) struct StateInUse(pub(crate) PathBuf);

/// Keeps another scrub from writing the file meanwhile. The lock is on a file beside it, for it is replaced each time it is
/// written, and ends with this process however it ends.
fn lock(path: &Path) -> anyhow::Result<File> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".lock");
    let beside = PathBuf::from(beside);
    let cannot = || format!("cannot lock {}", beside.display());
    let file = File::options().write(true).create(true).truncate(false).open(&beside).with_context(cannot)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(StateInUse(path.to_path_buf()).into()),
        Err(TryLockError::Error(error)) => Err(error).with_context(cannot),
    }
}

/// Makes the folder of the default place. Where that does not work nothing is remembered, and a scrub is a scrub all the
/// same.
fn can_keep(path: &Path) -> bool {
    let made = path.parent().map_or(Ok(()), fs::create_dir_all);
    if let Err(error) = &made {
        output::warn(&format!("cannot remember this scrub in {}: {error}", path.display()));
    }
    made.is_ok()
}
