//! The walk: folder by folder from the top of what was asked for, into subvolumes too. Files are gathered and taken out in
//! batches, in the order in which they lie on the devices; folders get their attributes when all in them is done.

use super::batch::{Done, Job, LARGE_BYTES, Shared, kind_of};
use super::content::Segments;
use super::entry::{Counts, Entry, EntryKind, EntryState, ExtractOutcome, FileVersion, Trouble};
use super::folder::{self, Folder};
use super::selection::Match;
use super::tree::{Listing, Name, Subvolume, is_possible_name};
use super::{ExtractError, ExtractOptions, Observer, attributes};
use crate::filesystem::{Filesystem, LiveSubvolume};
use crate::format::items::InodeItem;
use crate::format::types::{key_type, object};
use crate::owners::printable;
use crate::scrub::outcome::Status;
use crate::scrub::{Progress, describe};
use crate::units::ObjectId;
use crate::volume::Chunk;
use rayon::prelude::*;
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::fs::{self, AtFlags, FileType, Mode};
use rustix::io::Errno;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};

/// Folders above one another; each keeps a descriptor open.
const MAX_DEPTH: usize = 512;
/// Files and folders that are gathered before they are worked on; each folder keeps a descriptor open.
const MAX_GATHERED: usize = 512;
/// Lines of the manifest that are held back until what they are about is on stable storage.
const MAX_UNSYNCED: usize = 1 << 16;
/// The longest that they are.
const SYNC_INTERVAL: Duration = Duration::from_secs(60);
/// Paths with trouble that are listed beside the manifest.
const MAX_TROUBLED: usize = 1000;

/// Takes out of `fs` what the options say, into `folder`.
pub fn extract(
    fs: &Filesystem,
    folder: &Folder,
    options: &ExtractOptions,
    progress: &Progress,
    observer: &dyn Observer,
) -> Result<ExtractOutcome, ExtractError> {
    let (started, clock) = (SystemTime::now(), Instant::now());
    let threads = std::thread::available_parallelism().map_or(1, usize::from).saturating_mul(2).max(4);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().map_err(ExtractError::Threads)?;
    let subvolumes: HashMap<ObjectId, LiveSubvolume> =
        fs.live_subvolumes().into_iter().map(|live| (live.root.id, live)).collect();
    let used = fs.block_groups().into_iter().filter(|g| fs.chunks().lookup(g.start).is_ok_and(Chunk::holds_data));
    let used = used.filter_map(|group| group.used_bytes).fold(0, u64::saturating_add);
    progress.bytes_total.store(used, Ordering::Relaxed);
    let mut walk = Walk {
        shared: Shared { fs, options, progress, is_old: !fs.lost_roots().is_empty() },
        folder,
        observer,
        pool,
        subvolumes,
        stack: Vec::new(),
        gathered: Gathered::default(),
        links: HashMap::new(),
        unsynced: Vec::new(),
        synced: Instant::now(),
        counts: Counts::default(),
        troubled: Vec::new(),
        is_matched: vec![false; options.patterns.len()],
        skipped_snapshots: 0,
    };
    let done = walk.top().and_then(|()| walk.run());
    // What is complete is told whatever happened.
    walk.sync()?;
    done?;
    let status = if progress.is_cancelled() { Status::Interrupted } else { Status::Finished };
    if status == Status::Finished {
        walk.counts.unmatched_patterns = walk.is_matched.iter().filter(|is_matched| !**is_matched).count() as u64;
    }
    Ok(ExtractOutcome {
        filesystem: describe(fs),
        status,
        folder: folder.path().to_owned(),
        started,
        duration: clock.elapsed(),
        notes: walk.notes(),
        counts: walk.counts,
        is_old: walk.shared.is_old,
        troubled: walk.troubled,
    })
}

/// A folder that is being walked.
struct Level<'f> {
    subvolume: Subvolume<'f>,
    inode: ObjectId,
    entry: Entry,
    item: Option<InodeItem>,
    /// Made when something is to be put into it.
    fd: Option<Arc<OwnedFd>>,
    listing: Listing,
    /// It, and so all below, is asked for.
    is_selected: bool,
}

/// The other names of a file, and what became of it.
struct Link {
    left: u32,
    done: Option<(Entry, Option<Vec<u8>>)>,
}

/// A name of a file that has another one already.
struct OtherName<'f> {
    key: (ObjectId, ObjectId),
    job: Job<'f>,
}

/// Work that waits.
#[derive(Default)]
struct Gathered<'f> {
    jobs: Vec<Job<'f>>,
    names: Vec<OtherName<'f>>,
    /// Folders of which all names are gathered.
    folders: Vec<Level<'f>>,
    /// Descriptors that are kept open.
    open: usize,
}

struct Walk<'a> {
    shared: Shared<'a>,
    folder: &'a Folder,
    observer: &'a dyn Observer,
    pool: rayon::ThreadPool,
    subvolumes: HashMap<ObjectId, LiveSubvolume>,
    stack: Vec<Level<'a>>,
    gathered: Gathered<'a>,
    links: HashMap<(ObjectId, ObjectId), Link>,
    unsynced: Vec<Entry>,
    synced: Instant,
    counts: Counts,
    troubled: Vec<(Vec<u8>, Trouble)>,
    is_matched: Vec<bool>,
    skipped_snapshots: u64,
}

impl<'a> Walk<'a> {
    /// Finds where to start.
    fn top(&mut self) -> Result<(), ExtractError> {
        let missing = || ExtractError::NoTop;
        let mut live = *self.subvolumes.get(&object::FS_TREE).ok_or_else(missing)?;
        if let Some(path) = &self.shared.options.subvolume {
            live = self.subvolume_at(live, path).ok_or_else(|| ExtractError::NoSubvolume(printable(path)))?;
        }
        let subvolume = Subvolume { fs: self.shared.fs, live };
        let inode = live.item.root_dirid;
        let item = subvolume.inode(inode).map_err(|_| missing())?;
        let entry = self.entry(&subvolume, inode, b".".to_vec(), Some(&item));
        let top = self.folder.top().map_err(|source| self.folder_error(source))?;
        let is_selected = self.shared.options.patterns.len() == 0;
        let listing = subvolume.listing(inode, 0);
        self.stack.push(Level { subvolume, inode, entry, item: None, fd: Some(Arc::new(top)), listing, is_selected });
        Ok(())
    }

    fn folder_error(&self, source: io::Error) -> ExtractError {
        ExtractError::Folder { path: self.folder.path().display().to_string(), source }
    }

    fn subvolume_at(&self, top: LiveSubvolume, path: &[u8]) -> Option<LiveSubvolume> {
        let (mut live, mut inode) = (top, top.item.root_dirid);
        for name in path.split(|byte| *byte == b'/').filter(|name| !name.is_empty() && *name != b".") {
            let subvolume = Subvolume { fs: self.shared.fs, live };
            let location = subvolume.look_up(inode, name)?;
            if location.item_type == key_type::ROOT_ITEM {
                live = *self.subvolumes.get(&location.objectid)?;
                inode = live.item.root_dirid;
            } else {
                inode = location.objectid;
            }
        }
        (inode == live.item.root_dirid).then_some(live)
    }

    fn run(&mut self) -> Result<(), ExtractError> {
        while let Some(level) = self.stack.last_mut() {
            if self.shared.progress.is_cancelled() {
                return Ok(());
            }
            if let Some(name) = level.listing.names.pop_front() {
                self.name(&name)?;
            } else if let Some(next) = level.listing.next {
                let is_lossy = level.listing.is_lossy;
                level.listing = level.subvolume.listing(level.inode, next);
                level.listing.is_lossy |= is_lossy;
            } else if let Some(level) = self.stack.pop() {
                self.gathered.open += 1;
                self.gathered.folders.push(level);
            }
            if self.gathered.jobs.len() + self.gathered.names.len() + self.gathered.open >= MAX_GATHERED {
                self.flush()?;
            }
        }
        self.flush()
    }

    fn entry(&self, subvolume: &Subvolume<'_>, inode: ObjectId, path: Vec<u8>, item: Option<&InodeItem>) -> Entry {
        let version = FileVersion {
            fsid: self.shared.fs.superblock().fsid(),
            subvolume: subvolume.id(),
            inode,
            generation: item.map(|item| item.transid).unwrap_or_default(),
        };
        let kind = item.map_or(EntryKind::Unknown, kind_of);
        let size = item.map_or(0, |item| item.size);
        let state = if self.shared.is_old { EntryState::Unproved } else { EntryState::Whole };
        Entry { path, kind, size, sha256: None, state, trouble: None, version }
    }

    /// One name of the folder on top of the stack.
    fn name(&mut self, name: &Name) -> Result<(), ExtractError> {
        let Some(level) = self.stack.last() else { return Ok(()) };
        let (subvolume, parent, is_selected) = (level.subvolume, level.inode, level.is_selected);
        let mut path = if self.stack.len() > 1 { [&level.entry.path[..], b"/"].concat() } else { Vec::new() };
        path.extend(&name.name);
        let mut is_wanted = is_selected;
        if !is_selected {
            match self.shared.options.patterns.of(&path) {
                Match::No => return Ok(()),
                Match::Below => {}
                Match::All(nth) => {
                    is_wanted = true;
                    if let Some(is_matched) = nth.and_then(|nth| self.is_matched.get_mut(nth)) {
                        *is_matched = true;
                    }
                }
            }
        }
        let (subvolume, inode) = match name.location.item_type {
            key_type::ROOT_ITEM => match self.enter(&subvolume, parent, name) {
                Some(Ok(live)) => (Subvolume { fs: self.shared.fs, live }, live.item.root_dirid),
                Some(Err(why)) => {
                    let entry = self.entry(&subvolume, name.location.objectid, path, None);
                    self.tell_if(is_wanted, Entry { kind: EntryKind::Directory, ..entry }, why);
                    return Ok(());
                }
                None => return self.empty_folder(&subvolume, path, &name.name, is_wanted),
            },
            _ => (subvolume, name.location.objectid),
        };
        let item = match subvolume.inode(inode) {
            Ok(item) => item,
            Err(why) => {
                let entry = self.entry(&subvolume, inode, path, None);
                self.tell_if(is_wanted, entry, why);
                return Ok(());
            }
        };
        let entry = self.entry(&subvolume, inode, path, Some(&item));
        if !is_possible_name(&name.name) {
            self.tell_if(is_wanted, entry, Trouble::NameRefused);
            return Ok(());
        }
        if entry.kind == EntryKind::Directory {
            let is_subvolume = name.location.item_type == key_type::ROOT_ITEM;
            if !is_subvolume && !subvolume.is_folder_here(inode, parent, &name.name) {
                self.tell_if(is_wanted, entry, Trouble::NameContradicts);
            } else if self.stack.len() >= MAX_DEPTH {
                self.tell_if(is_wanted, entry, Trouble::TooDeep);
            } else {
                let listing = subvolume.listing(inode, 0);
                let item = Some(item);
                self.stack.push(Level { subvolume, inode, entry, item, fd: None, listing, is_selected: is_wanted });
                if is_wanted {
                    self.make_folders()?;
                }
            }
            return Ok(());
        }
        if !is_wanted {
            return Ok(());
        }
        let Some(folder) = self.make_folders()? else { return Ok(()) };
        self.leaf(subvolume, folder, name, inode, item, entry)
    }

    /// Anything but a folder.
    fn leaf(
        &mut self,
        subvolume: Subvolume<'a>,
        folder: Arc<OwnedFd>,
        name: &Name,
        inode: ObjectId,
        item: InodeItem,
        entry: Entry,
    ) -> Result<(), ExtractError> {
        match entry.kind {
            EntryKind::File => {
                let first = Segments::new(&subvolume, inode, item.size).first_address();
                let name = name.name.clone();
                self.file(Job { subvolume, folder, name, entry, inode, item, first });
                Ok(())
            }
            EntryKind::Symlink => self.symlink(&subvolume, &folder, &name.name, inode, &item, entry),
            EntryKind::Directory | EntryKind::Unknown => {
                self.tell(entry, Trouble::InodeLost);
                Ok(())
            }
            _ => self.special(&subvolume, &folder, &name.name, inode, &item, entry),
        }
    }

    /// The subvolume behind a name: `None` where the name is what a snapshot keeps of one.
    fn enter(
        &mut self,
        subvolume: &Subvolume<'a>,
        parent: ObjectId,
        name: &Name,
    ) -> Option<Result<LiveSubvolume, Trouble>> {
        let id = name.location.objectid;
        match subvolume.holds_subvolume(id, parent, &name.name) {
            Ok(true) => {}
            Ok(false) => return None,
            Err(why) => return Some(Err(why)),
        }
        if self.stack.iter().any(|level| level.subvolume.id() == id) {
            return Some(Err(Trouble::NameContradicts));
        }
        let live = self.subvolumes.get(&id).copied();
        if live.is_some_and(|live| self.shared.options.skip_snapshots && !live.item.parent_uuid.is_nil()) {
            self.skipped_snapshots += 1;
            return None;
        }
        Some(live.ok_or(Trouble::InodeLost))
    }

    /// As the kernel shows the place of a subvolume in a snapshot of its parent.
    fn empty_folder(
        &mut self,
        subvolume: &Subvolume<'a>,
        path: Vec<u8>,
        name: &[u8],
        is_wanted: bool,
    ) -> Result<(), ExtractError> {
        if !is_wanted {
            return Ok(());
        }
        let mut entry = self.entry(subvolume, ObjectId::default(), path, None);
        entry.kind = EntryKind::Directory;
        if !is_possible_name(name) {
            self.tell(entry, Trouble::NameRefused);
            return Ok(());
        }
        let Some(parent) = self.make_folders()? else { return Ok(()) };
        match folder::make_folder(parent.as_fd(), name) {
            Ok(fd) => {
                let mode = Mode::from_raw_mode(0o755);
                self.counts.attributes_refused += u64::from(fs::fchmod(&fd, mode).is_err());
                self.counts.directories += 1;
                self.unsynced.push(entry);
                Ok(())
            }
            Err(error) => self.not_made(&entry, error),
        }
    }

    /// Makes the folders of the stack that are not there yet; the last of them, or `None` where one cannot be made: then
    /// nothing below it is walked.
    fn make_folders(&mut self) -> Result<Option<Arc<OwnedFd>>, ExtractError> {
        let mut parent: Option<Arc<OwnedFd>> = None;
        for nth in 0..self.stack.len() {
            let Some(level) = self.stack.get_mut(nth) else { break };
            if level.fd.is_none() {
                let name = level.entry.path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
                let made = parent.as_ref().map(|parent| folder::make_folder(parent.as_fd(), name));
                match made {
                    Some(Ok(fd)) => level.fd = Some(Arc::new(fd)),
                    failed => {
                        let entry = level.entry.clone();
                        self.stack.truncate(nth);
                        let error = failed.and_then(Result::err).unwrap_or(Errno::NOENT);
                        return self.not_made(&entry, error).map(|()| None);
                    }
                }
            }
            parent = self.stack.get(nth).and_then(|level| level.fd.clone());
        }
        Ok(parent)
    }

    fn not_made(&mut self, entry: &Entry, error: Errno) -> Result<(), ExtractError> {
        if folder::is_fatal(error) {
            let path = printable(&entry.path);
            return Err(ExtractError::Write { path, source: io::Error::from(error) });
        }
        self.not_written(entry, folder::trouble(error));
        Ok(())
    }

    fn symlink(
        &mut self,
        subvolume: &Subvolume<'a>,
        folder: &Arc<OwnedFd>,
        name: &[u8],
        inode: ObjectId,
        item: &InodeItem,
        entry: Entry,
    ) -> Result<(), ExtractError> {
        let target = match subvolume.target(inode, item.size) {
            Ok(target) => target,
            Err(why) => {
                self.tell(entry, why);
                return Ok(());
            }
        };
        match fs::symlinkat(&target[..], folder, name) {
            Ok(()) => self.set_attributes(subvolume, folder, name, inode, item),
            Err(Errno::EXIST) => {
                let there = fs::readlinkat(folder, name, Vec::new());
                if !there.is_ok_and(|there| there.as_bytes() == target) {
                    self.not_written(&entry, Trouble::InTheWay);
                    return Ok(());
                }
            }
            Err(error) => return self.not_made(&entry, error),
        }
        self.counts.symlinks += 1;
        self.unsynced.push(entry);
        Ok(())
    }

    fn special(
        &mut self,
        subvolume: &Subvolume<'a>,
        folder: &Arc<OwnedFd>,
        name: &[u8],
        inode: ObjectId,
        item: &InodeItem,
        entry: Entry,
    ) -> Result<(), ExtractError> {
        let file_type = FileType::from_raw_mode(item.mode);
        let device = fs::makedev((item.rdev >> 20) as u32, (item.rdev & 0xF_FFFF) as u32);
        match fs::mknodat(folder, name, file_type, Mode::RUSR | Mode::WUSR, device) {
            Ok(()) => {
                // Through its name: opening a device would wake it.
                let mode = Mode::from_raw_mode(item.mode & 0o777);
                self.counts.attributes_refused += u64::from(fs::chmodat(folder, name, mode, AtFlags::empty()).is_err());
                self.set_attributes(subvolume, folder, name, inode, item);
            }
            Err(Errno::EXIST) => {
                let there = fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW);
                let is_same = |stat: fs::Stat| {
                    let is_device = matches!(file_type, FileType::CharacterDevice | FileType::BlockDevice);
                    FileType::from_raw_mode(stat.st_mode) == file_type && (!is_device || stat.st_rdev == device)
                };
                if !there.is_ok_and(is_same) {
                    self.not_written(&entry, Trouble::InTheWay);
                    return Ok(());
                }
            }
            Err(Errno::PERM | Errno::ACCESS) => {
                self.counts.special_refused += 1;
                return Ok(());
            }
            Err(error) => return self.not_made(&entry, error),
        }
        self.counts.special += 1;
        self.unsynced.push(entry);
        Ok(())
    }

    fn set_attributes(
        &mut self,
        subvolume: &Subvolume<'a>,
        folder: &Arc<OwnedFd>,
        name: &[u8],
        inode: ObjectId,
        item: &InodeItem,
    ) {
        let (found, _) = subvolume.attributes(inode);
        self.counts.attributes_refused += attributes::set_named(folder.as_fd(), name, item, &found);
    }

    fn file(&mut self, job: Job<'a>) {
        if job.item.nlink > 1 {
            let key = (job.subvolume.id(), job.inode);
            if let Some(link) = self.links.get_mut(&key) {
                link.left = link.left.saturating_sub(1);
                self.gathered.names.push(OtherName { key, job });
                return;
            }
            self.links.insert(key, Link { left: job.item.nlink - 1, done: None });
        }
        self.gathered.jobs.push(job);
    }

    /// Works on all that is gathered.
    fn flush(&mut self) -> Result<(), ExtractError> {
        let Gathered { mut jobs, names, folders, .. } = std::mem::take(&mut self.gathered);
        jobs.sort_by_key(|job| job.first);
        let (large, small): (Vec<_>, Vec<_>) = jobs.into_iter().partition(|job| job.item.size > LARGE_BYTES);
        let shared = self.shared;
        let done: Vec<_> =
            self.pool.install(|| small.par_iter().with_max_len(1).map(|job| shared.take_out(job)).collect());
        let mut failed = None;
        for (job, done) in small.iter().zip(done) {
            match done {
                Ok(done) => self.record(job, done),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        if let Some(error) = failed {
            return Err(error);
        }
        for job in &large {
            let done = self.pool.install(|| shared.take_out(job))?;
            self.record(job, done);
        }
        for name in names {
            self.other_name(name)?;
        }
        if !self.shared.progress.is_cancelled() {
            for level in folders {
                self.finish(level);
            }
        }
        if self.unsynced.len() >= MAX_UNSYNCED || self.synced.elapsed() >= SYNC_INTERVAL {
            self.sync()?;
        }
        Ok(())
    }

    fn record(&mut self, job: &Job<'_>, done: Option<Done>) {
        let Some(done) = done else { return };
        let key = (job.subvolume.id(), job.inode);
        if job.item.nlink > 1
            && let Some(link) = self.links.get_mut(&key)
        {
            let path = done.name.as_ref().map(|name| path_beside(&done.entry.path, name));
            link.done = Some((done.entry.clone(), path));
        }
        self.counts.bytes_written += done.bytes_written;
        self.counts.attributes_refused += done.refused;
        if done.entry.state != EntryState::Damaged && done.entry.trouble.is_some() {
            return self.not_written(&done.entry, done.entry.trouble.unwrap_or(Trouble::InTheWay));
        }
        if done.was_there && done.entry.state != EntryState::Damaged {
            self.counts.already_there += 1;
        }
        self.add_file(done.entry);
    }

    /// Counts a file and puts it into the manifest; what is there and was in it before is in it already.
    fn add_file(&mut self, entry: Entry) {
        match entry.state {
            EntryState::Whole => self.counts.whole += 1,
            EntryState::Unproved => self.counts.unproved += 1,
            EntryState::Damaged => return self.tell_damaged(entry),
        }
        if entry.sha256.is_some() {
            self.unsynced.push(entry);
        }
    }

    /// Links a further name to the file that was taken out under its first.
    fn other_name(&mut self, other: OtherName<'a>) -> Result<(), ExtractError> {
        let OtherName { key, job } = other;
        let Some(link) = self.links.get(&key) else { return Ok(()) };
        let Some((first, place)) = link.done.clone() else { return Ok(()) };
        if link.left == 0 {
            self.links.remove(&key);
        }
        let state = first.state;
        let entry = Entry { path: job.entry.path.clone(), ..first };
        let Some(place) = place else {
            if state == EntryState::Damaged {
                self.add_file(entry);
                return Ok(());
            }
            return self.again(&job);
        };
        let name =
            if state == EntryState::Damaged { [&job.name, &b".damaged"[..]].concat() } else { job.name.to_vec() };
        let linked = self.folder.reach(&place).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO));
        let linked =
            linked.and_then(|(from, of)| match fs::linkat(&from, of, &job.folder, &name[..], AtFlags::empty()) {
                Err(Errno::EXIST) => {
                    let ours = fs::statat(&from, of, AtFlags::SYMLINK_NOFOLLOW)?;
                    let there = fs::statat(&job.folder, &name[..], AtFlags::SYMLINK_NOFOLLOW)?;
                    let is_same = (ours.st_dev, ours.st_ino) == (there.st_dev, there.st_ino);
                    if is_same { Ok(()) } else { Err(Errno::EXIST) }
                }
                other => other,
            });
        match linked {
            Ok(()) => {
                self.counts.hard_links += 1;
                self.add_file(entry);
                Ok(())
            }
            Err(error) if folder::is_fatal(error) => self.not_made(&entry, error),
            // Where it cannot be linked it is taken out once more.
            Err(_) => self.again(&job),
        }
    }

    fn again(&mut self, job: &Job<'a>) -> Result<(), ExtractError> {
        let shared = self.shared;
        let done = self.pool.install(|| shared.take_out(job))?;
        self.record(job, done);
        Ok(())
    }

    /// A folder in which everything is done.
    fn finish(&mut self, level: Level<'a>) {
        let Level { subvolume, inode, entry, item, fd, listing, is_selected } = level;
        let (found, is_lossy) = subvolume.attributes(inode);
        if let (Some(fd), Some(item)) = (&fd, &item) {
            self.counts.attributes_refused += attributes::set(fd.as_fd(), item, &found);
        }
        if listing.is_lossy {
            return self.tell(entry, Trouble::NamesLost);
        }
        if fd.is_none() || item.is_none() || !is_selected {
            return;
        }
        if is_lossy {
            return self.tell(entry, Trouble::AttributesLost);
        }
        self.counts.directories += 1;
        self.unsynced.push(entry);
    }

    fn tell_if(&mut self, is_wanted: bool, entry: Entry, why: Trouble) {
        // Below a name that cannot be followed may be what was asked for.
        if is_wanted || matches!(entry.kind, EntryKind::Directory | EntryKind::Unknown) {
            self.tell(entry, why);
        }
    }

    fn tell(&mut self, entry: Entry, why: Trouble) {
        self.tell_damaged(Entry { state: EntryState::Damaged, trouble: Some(why), ..entry });
    }

    fn tell_damaged(&mut self, entry: Entry) {
        self.counts.damaged += 1;
        self.shared.progress.errors.fetch_add(1, Ordering::Relaxed);
        self.note_trouble(&entry.path, entry.trouble);
        self.unsynced.push(entry);
    }

    fn not_written(&mut self, entry: &Entry, why: Trouble) {
        self.counts.not_written += 1;
        self.note_trouble(&entry.path, Some(why));
    }

    fn note_trouble(&mut self, path: &[u8], why: Option<Trouble>) {
        if let Some(why) = why.filter(|_| self.troubled.len() < MAX_TROUBLED) {
            self.troubled.push((path.to_vec(), why));
        }
    }

    /// Gets what was written to stable storage, then the lines about it into the manifest.
    fn sync(&mut self) -> Result<(), ExtractError> {
        if !self.unsynced.is_empty() {
            self.folder.sync().map_err(|source| self.folder_error(source))?;
            self.observer.entries_done(&self.unsynced).map_err(ExtractError::Manifest)?;
            self.unsynced.clear();
        }
        self.synced = Instant::now();
        Ok(())
    }

    fn notes(&self) -> Vec<String> {
        let fs = self.shared.fs;
        let mut notes: Vec<String> = fs.set().warnings().iter().map(ToString::to_string).collect();
        notes.extend(fs.notes().iter().cloned());
        if self.shared.is_old {
            notes.push("the trees are those of an older generation: nothing is called whole".to_owned());
        }
        if fs.superblock().log_root().is_some() {
            notes.push("a log tree is present: what was fsynced last is not in what was taken out".to_owned());
        }
        let Counts { attributes_refused, special_refused, .. } = self.counts;
        if attributes_refused > 0 {
            notes.push(format!("{attributes_refused} owners, modes, times or extended attributes could not be set"));
        }
        if special_refused > 0 {
            notes.push(format!("{special_refused} device files or pipes could not be made: that takes more rights"));
        }
        if self.skipped_snapshots > 0 {
            notes.push(format!("{} snapshots were left out, as asked", self.skipped_snapshots));
        }
        notes
    }
}

/// The path of another name in the same folder.
fn path_beside(path: &[u8], name: &[u8]) -> Vec<u8> {
    let folder = path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    [path.get(..folder).unwrap_or_default(), name].concat()
}
