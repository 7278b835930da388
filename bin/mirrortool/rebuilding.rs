//! What a rebuild needs around the library: the new device, the file that says how far it has come, and words.

use crate::output::{self, PendingFile};
use crate::sittings::{self, CHECKPOINT_INTERVAL};
use crate::text_file;
use anyhow::Context as _;
use mirrortool::filesystem::Filesystem;
use mirrortool::format::BlockGroupFlags;
use mirrortool::rebuild::{OneCopy, RebuildState, StateStore, one_copy_only};
use mirrortool::report::{human_size, read_rebuild_state, write_rebuild_state};
use mirrortool::units::DeviceId;
use mirrortool::volume::{LostMember, NotBtrfs, SetWarning};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use uuid::Uuid;

/// The file that says how far a rebuild has come.
pub(crate) struct StateFile {
    path: Option<PathBuf>,
    news: Mutex<News>,
    /// Held as long as this run may write the file.
    _lock: Option<File>,
}

#[derive(Default)]
struct News {
    /// Not written yet.
    state: Option<RebuildState>,
    written: Option<Instant>,
}

impl StateFile {
    /// The one for this member: `path`, or the default place. Without a place that can be written nothing is remembered.
    pub(crate) fn open(path: Option<&Path>, fsid: Uuid, devid: DeviceId) -> anyhow::Result<Self> {
        let is_asked_for = path.is_some();
        let default = || sittings::default_path(&format!("{fsid}-rebuild-{devid}.json"));
        let path = path.map(Path::to_owned).or_else(default);
        let path = path.filter(|path| is_asked_for || sittings::can_keep(path));
        let lock = path.as_deref().map(sittings::lock).transpose()?;
        Ok(Self { path, news: Mutex::default(), _lock: lock })
    }

    /// What an earlier run has left; `None` where there is nothing.
    pub(crate) fn read(&self) -> anyhow::Result<Option<RebuildState>> {
        let Some(path) = &self.path else { return Ok(None) };
        let cannot = || format!("cannot use state file {}", path.display());
        match text_file::read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            read => read_rebuild_state(&read.with_context(cannot)?).map(Some).with_context(cannot),
        }
    }

    /// Writes what is not written yet.
    pub(crate) fn flush(&self) {
        let mut news = self.news();
        let Some(state) = news.state.take() else { return };
        news.written = Some(Instant::now());
        if let Err(error) = self.write(&state) {
            output::warn(&format!("{error:#}"));
        }
    }

    /// There is nothing to go on with any more.
    pub(crate) fn remove(&self) {
        self.news().state = None;
        if let Some(path) = &self.path {
            // Where it cannot be removed the next run finds that it is about a member that is there.
            let _ = fs::remove_file(path);
        }
    }

    fn write(&self, state: &RebuildState) -> anyhow::Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        PendingFile::create(path)?.publish(&write_rebuild_state(state)?)
    }

    fn news(&self) -> MutexGuard<'_, News> {
        self.news.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StateStore for StateFile {
    fn keep(&self, state: &RebuildState) {
        let mut news = self.news();
        news.state = Some(state.clone());
        let is_due = news.written.is_none_or(|written| written.elapsed() >= CHECKPOINT_INTERVAL);
        drop(news);
        if is_due {
            self.flush();
        }
    }
}

/// A number that no other run has.
pub(crate) fn run_number() -> anyhow::Result<Uuid> {
    let mut bytes = [0; 16];
    io::Read::read_exact(&mut File::open("/dev/urandom").context("cannot draw a number")?, &mut bytes)?;
    Ok(uuid::Builder::from_random_bytes(bytes).into_uuid())
}

/// Makes a sparse file of the member's length where nothing has that name yet.
pub(crate) fn make_file(path: &Path, lost: &LostMember) -> anyhow::Result<()> {
    let cannot = || format!("cannot make {}", path.display());
    let len_bytes = lost.item().total_bytes;
    let file = File::create_new(path).with_context(cannot)?;
    let made = file.set_len(len_bytes).and_then(|()| file.sync_all()).and_then(|()| sync_folder(path));
    made.inspect_err(|_| drop(fs::remove_file(path)))
        .with_context(|| format!("cannot make {} {len_bytes} bytes long", path.display()))
}

fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}

/// Bytes that the file system of a file to be has left.
pub(crate) fn room_for(path: &Path) -> Option<u64> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let stat = rustix::fs::statvfs(folder).ok()?;
    stat.f_bavail.checked_mul(stat.f_frsize)
}

/// What has to be known after a rebuild, one lowercase line each.
pub(crate) fn notes_after(fs: &Filesystem, lost: &LostMember) -> Vec<String> {
    let (devid, uuid) = (lost.devid(), lost.item().uuid);
    let mut notes = vec![
        format!(
            "the lost disk must never return beside the new one: both are devid {devid} with uuid {uuid}, and the kernel \
             takes them for one device; wipe it (wipefs -a) before it is connected again"
        ),
        format!(
            "the error counters of devid {devid} (btrfs device stats) are still those of the lost disk; -z resets them"
        ),
    ];
    notes.extend(one_copy_only(fs).iter().map(one_copy_note));
    notes
}

fn one_copy_note(found: &OneCopy) -> String {
    let (kind, option) = match found.kind {
        BlockGroupFlags::DATA => ("data", "dconvert"),
        BlockGroupFlags::SYSTEM => ("system chunks", "mconvert"),
        _ => ("metadata", "mconvert"),
    };
    let (size, profile) = (human_size(found.bytes), found.others.row().name.to_lowercase());
    format!(
        "{size} ({} bytes) of {kind} have no second copy on another device, as after a mount with a device missing; after \
         mounting: btrfs balance start -{option}={profile},soft MOUNTPOINT",
        found.bytes
    )
}

/// How a missing member is made again; `None` where none is missing.
pub(crate) fn hint(fs: &Filesystem) -> Option<String> {
    let missing = fs.set().missing();
    let first = missing.first()?;
    let blank = fs.set().warnings().iter().find_map(|warning| match warning {
        SetWarning::NotBtrfs { path, why: NotBtrfs::Blank { .. } } => Some(path.display().to_string()),
        _ => None,
    });
    let new = blank.as_deref().unwrap_or("NEW");
    let which = if missing.len() > 1 { format!(" --devid {}", first.devid) } else { String::new() };
    let survivors: Vec<String> = fs.members().map(|member| member.path().display().to_string()).collect();
    let survivors = survivors.join(" ");
    Some(format!(
        "devid {} is missing: mirrortool rebuild{which} --onto {new} {survivors} makes it again on a new device",
        first.devid
    ))
}
