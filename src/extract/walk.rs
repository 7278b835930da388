//! The walk: folder by folder from the top of what was asked for, into subvolumes too. Files are gathered and taken out in
//! batches, in the order in which they lie on the devices; folders get their attributes when all in them is done.

mod finish;
mod place;

use super::batch::{Job, Shared, kind_of};
use super::content::Segments;
use super::entry::{Counts, Entry, EntryKind, EntryState, ExtractOutcome, FileVersion, Trouble};
use super::folder::Folder;
use super::selection::Match;
use super::tree::{Listing, Name, Subvolume, is_possible_name};
use super::{ExtractError, ExtractOptions, Observer};
use crate::filesystem::{Filesystem, LiveSubvolume};
use crate::format::items::InodeItem;
use crate::format::types::{key_type, object};
use crate::owners::printable;
use crate::scrub::outcome::Status;
use crate::scrub::{Progress, describe};
use crate::units::ObjectId;
use crate::volume::Chunk;
use rustix::fd::OwnedFd;
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
        shared: Shared { fs, options, progress, is_old: fs.knowledge().is_older() || !fs.lost_roots().is_empty() },
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
        notes.extend(fs.knowledge().contradictions().iter().map(|told| told.conflict.to_string()));
        if self.shared.is_old {
            notes.push("the trees are those of an older generation: nothing is called whole".to_owned());
        }
        if !fs.log().is_none() {
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
