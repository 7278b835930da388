//! Files on their way: one is read, hashed and written, or held against what is there already.

use super::attributes;
use super::content::{Prepared, Segment, Segments, prepare};
use super::entry::{Entry, EntryKind, EntryState, Trouble};
use super::folder::{self, Pending};
use super::tree::Subvolume;
use super::{ExtractError, ExtractOptions};
use crate::filesystem::Filesystem;
use crate::format::items::InodeItem;
use crate::scrub::Progress;
use crate::units::{Logical, ObjectId};
use rayon::prelude::*;
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::fs::{self, FileType};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Files above this are read by all threads together, one file at a time; smaller ones by one thread each.
pub(super) const LARGE_BYTES: u64 = 8 << 20;
/// Segments of a large file that are read at once, while as many are hashed and written: 2 x 8 x 1 MiB.
const WINDOW: usize = 8;
const ZEROS: &[u8] = &[0; 1 << 16];

/// One file to take out.
pub(super) struct Job<'f> {
    pub(super) subvolume: Subvolume<'f>,
    pub(super) folder: Arc<OwnedFd>,
    pub(super) name: Box<[u8]>,
    pub(super) entry: Entry,
    pub(super) inode: ObjectId,
    pub(super) item: InodeItem,
    /// Where its data starts, for the order of reading.
    pub(super) first: Logical,
}

/// What became of a file.
pub(super) struct Done {
    pub(super) entry: Entry,
    /// The name that it has now; `None` where nothing was written and nothing is there.
    pub(super) name: Option<Vec<u8>>,
    pub(super) was_there: bool,
    pub(super) bytes_written: u64,
    pub(super) refused: u64,
}

/// What all files share.
#[derive(Clone, Copy)]
pub(super) struct Shared<'a> {
    pub(super) fs: &'a Filesystem,
    pub(super) options: &'a ExtractOptions,
    pub(super) progress: &'a Progress,
    /// The trees are those of an older generation: nothing can be called whole.
    pub(super) is_old: bool,
}

enum Stop {
    Cancelled,
    Io(Errno),
}

/// Where content goes.
enum Sink<'a> {
    Write(&'a File),
    /// Whether it is the same so far.
    Compare(&'a File, bool),
}

#[derive(Default)]
struct Streamed {
    trouble: Option<Trouble>,
    is_unproved: bool,
    bytes: u64,
    hash: Sha256,
}

impl Shared<'_> {
    /// Takes out one file; `None` where the run is to end.
    pub(super) fn take_out(self, job: &Job<'_>) -> Result<Option<Done>, ExtractError> {
        let there = match folder::stat(job.folder.as_fd(), &job.name) {
            Ok(there) => there,
            Err(error) => return failed(job, error),
        };
        match there {
            None => self.write(job),
            Some(stat) => {
                let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
                let is_like_it = is_file && u64::try_from(stat.st_size) == Ok(job.item.size);
                if is_like_it && !self.is_old && self.options.known.contains(&job.entry.fingerprint()) {
                    let entry = Entry { state: EntryState::Whole, ..job.entry.clone() };
                    return Ok(Some(self.there(job, entry)));
                }
                match folder::open_file(job.folder.as_fd(), &job.name).filter(|_| is_like_it) {
                    Some(file) => Ok(self.compare(job, &file)),
                    None => Ok(Some(not_written(job, Trouble::InTheWay))),
                }
            }
        }
    }

    fn there(self, job: &Job<'_>, entry: Entry) -> Done {
        self.progress.bytes_done.fetch_add(entry.size, Ordering::Relaxed);
        Done { entry, name: Some(job.name.to_vec()), was_there: true, bytes_written: 0, refused: 0 }
    }

    /// A file of this name and size is there and no manifest knows it: an earlier run may have been killed.
    fn compare(self, job: &Job<'_>, file: &File) -> Option<Done> {
        let mut sink = Sink::Compare(file, true);
        let streamed = match self.stream(job, &mut sink) {
            Ok(streamed) => streamed,
            Err(Stop::Cancelled) => return None,
            Err(Stop::Io(_)) => return Some(not_written(job, Trouble::InTheWay)),
        };
        let is_same = matches!(sink, Sink::Compare(_, true));
        let entry = self.judged(job, streamed, false);
        Some(match entry.state {
            EntryState::Damaged => Done { entry, name: None, was_there: true, bytes_written: 0, refused: 0 },
            _ if is_same => self.there(job, entry),
            _ => not_written(job, Trouble::InTheWay),
        })
    }

    fn write(self, job: &Job<'_>) -> Result<Option<Done>, ExtractError> {
        let pending = match Pending::create(job.folder.as_fd()) {
            Ok(pending) => pending,
            Err(error) => return failed(job, error),
        };
        let streamed = match self.stream(job, &mut Sink::Write(pending.file())) {
            Ok(streamed) => streamed,
            Err(Stop::Cancelled) => return Ok(None),
            Err(Stop::Io(error)) => return failed(job, error),
        };
        let bytes_written = streamed.bytes;
        let (attributes, is_lossy) = job.subvolume.attributes(job.inode);
        let entry = self.judged(job, streamed, is_lossy);
        let is_damaged = entry.state == EntryState::Damaged;
        if is_damaged && !self.options.with_damaged {
            return Ok(Some(Done { entry, name: None, was_there: false, bytes_written: 0, refused: 0 }));
        }
        if let Err(error) = fs::ftruncate(pending.file(), job.item.size) {
            return failed(job, error);
        }
        let refused = attributes::set(pending.file().as_fd(), &job.item, &attributes);
        let name = if is_damaged { [&job.name, &b".damaged"[..]].concat() } else { job.name.to_vec() };
        match pending.publish(&name) {
            Ok(()) => Ok(Some(Done { entry, name: Some(name), was_there: false, bytes_written, refused })),
            // One of an earlier run.
            Err(Errno::EXIST) if is_damaged => {
                Ok(Some(Done { entry, name: Some(name), was_there: true, bytes_written: 0, refused: 0 }))
            }
            Err(error) => failed(job, error),
        }
    }

    fn judged(self, job: &Job<'_>, streamed: Streamed, is_lossy: bool) -> Entry {
        let trouble = streamed.trouble.or(is_lossy.then_some(Trouble::AttributesLost));
        let state = match trouble {
            Some(_) => EntryState::Damaged,
            None if streamed.is_unproved || self.is_old => EntryState::Unproved,
            None => EntryState::Whole,
        };
        let sha256 = trouble.is_none().then(|| streamed.hash.finalize().into());
        Entry { sha256, state, trouble, ..job.entry.clone() }
    }

    /// Reads a file from its start to its end, or to the first damage where nobody wants what follows.
    fn stream(self, job: &Job<'_>, sink: &mut Sink<'_>) -> Result<Streamed, Stop> {
        let mut streamed = Streamed::default();
        let goes_on = self.options.with_damaged && matches!(sink, Sink::Write(_));
        let mut segments = Segments::new(&job.subvolume, job.inode, job.item.size);
        let (mut read, window) = (Vec::new(), if job.item.size > LARGE_BYTES { WINDOW } else { 1 });
        loop {
            if self.progress.is_cancelled() {
                return Err(Stop::Cancelled);
            }
            let next: Vec<Segment> = segments.by_ref().take(window).collect();
            if next.is_empty() && read.is_empty() {
                break;
            }
            let prepared = |segment| prepare(self.fs, &job.item, segment);
            let (ahead, consumed) = if window > 1 {
                let ahead = || next.into_par_iter().map(prepared).collect::<Vec<_>>();
                rayon::join(ahead, || self.consume(&read, &mut streamed, sink))
            } else {
                (next.into_iter().map(prepared).collect(), self.consume(&read, &mut streamed, sink))
            };
            consumed?;
            if streamed.trouble.is_some() && !goes_on {
                break;
            }
            read = ahead;
        }
        streamed.trouble = streamed.trouble.or(segments.trouble);
        Ok(streamed)
    }

    fn consume(self, read: &[Prepared], streamed: &mut Streamed, sink: &mut Sink<'_>) -> Result<(), Stop> {
        for prepared in read {
            streamed.is_unproved |= prepared.is_unproved;
            streamed.trouble = worse(streamed.trouble, prepared.trouble);
        }
        let Streamed { hash, bytes, .. } = streamed;
        let mut hashed = || read.iter().try_for_each(|prepared| self.hash(prepared, hash));
        let mut handed_on = || read.iter().try_for_each(|prepared| hand_on(prepared, sink).map_err(Stop::Io));
        let (hashed, handed_on) = if read.len() > 1 { rayon::join(hashed, handed_on) } else { (hashed(), handed_on()) };
        hashed.and(handed_on)?;
        let sum: u64 = read.iter().map(|prepared| prepared.len_bytes).sum();
        *bytes +=
            read.iter().filter_map(|prepared| prepared.bytes.as_ref()).map(|bytes| bytes.len() as u64).sum::<u64>();
        self.progress.bytes_done.fetch_add(sum, Ordering::Relaxed);
        Ok(())
    }

    fn hash(self, prepared: &Prepared, hash: &mut Sha256) -> Result<(), Stop> {
        if let Some(bytes) = &prepared.bytes {
            hash.update(bytes);
            return Ok(());
        }
        let mut left = prepared.len_bytes;
        while left > 0 {
            if self.progress.is_cancelled() {
                return Err(Stop::Cancelled);
            }
            let now = left.min(ZEROS.len() as u64);
            hash.update(ZEROS.get(..now as usize).unwrap_or(ZEROS));
            left -= now;
        }
        Ok(())
    }
}

fn hand_on(prepared: &Prepared, sink: &mut Sink<'_>) -> Result<(), Errno> {
    let errno = |error: io::Error| Errno::from_io_error(&error).unwrap_or(Errno::IO);
    match (sink, &prepared.bytes) {
        (Sink::Write(file), Some(bytes)) => file.write_all_at(bytes, prepared.at).map_err(errno),
        (Sink::Write(_), None) | (Sink::Compare(_, false), _) => Ok(()),
        (Sink::Compare(file, is_same), Some(bytes)) => {
            let mut there = vec![0; bytes.len()];
            *is_same = file.read_exact_at(&mut there, prepared.at).is_ok() && there == *bytes;
            Ok(())
        }
        (Sink::Compare(file, is_same), None) => {
            let mut there = vec![0; ZEROS.len()];
            let (mut at, end) = (prepared.at, prepared.at + prepared.len_bytes);
            while at < end && *is_same {
                let len = (end - at).min(ZEROS.len() as u64) as usize;
                let part = there.get_mut(..len).unwrap_or_default();
                *is_same = file.read_exact_at(part, at).is_ok() && part.iter().all(|byte| *byte == 0);
                at += len as u64;
            }
            Ok(())
        }
    }
}

/// Sectors are summed; of other troubles the first counts.
fn worse(one: Option<Trouble>, other: Option<Trouble>) -> Option<Trouble> {
    match (one, other) {
        (Some(Trouble::Sectors(a)), Some(Trouble::Sectors(b))) => Some(Trouble::Sectors(a + b)),
        (Some(Trouble::Sectors(_)), Some(other)) => Some(other),
        (one, other) => one.or(other),
    }
}

fn failed(job: &Job<'_>, error: Errno) -> Result<Option<Done>, ExtractError> {
    if folder::is_fatal(error) {
        let path = crate::owners::printable(&job.entry.path);
        return Err(ExtractError::Write { path, source: io::Error::from(error) });
    }
    Ok(Some(not_written(job, folder::trouble(error))))
}

fn not_written(job: &Job<'_>, why: Trouble) -> Done {
    let entry = Entry { trouble: Some(why), ..job.entry.clone() };
    Done { entry, name: None, was_there: false, bytes_written: 0, refused: 0 }
}

/// The kind of an inode.
pub(super) fn kind_of(item: &InodeItem) -> EntryKind {
    match FileType::from_raw_mode(item.mode) {
        FileType::RegularFile => EntryKind::File,
        FileType::Directory => EntryKind::Directory,
        FileType::Symlink => EntryKind::Symlink,
        FileType::Fifo => EntryKind::Fifo,
        FileType::Socket => EntryKind::Socket,
        FileType::CharacterDevice => EntryKind::CharDevice,
        FileType::BlockDevice => EntryKind::BlockDevice,
        FileType::Unknown => EntryKind::Unknown,
    }
}
