//! What was gathered is done: files in the order in which they lie on the devices, then their other names, then the
//! attributes of the folders that hold them.

use super::{Gathered, Level, MAX_UNSYNCED, OtherName, SYNC_INTERVAL, Walk};
use crate::extract::batch::{Done, Job, LARGE_BYTES};
use crate::extract::entry::{Entry, EntryState, Trouble};
use crate::extract::{ExtractError, attributes, folder};
use rayon::prelude::*;
use rustix::fd::AsFd as _;
use rustix::fs::{self, AtFlags};
use rustix::io::Errno;

impl<'a> Walk<'a> {
    /// Works on all that is gathered.
    pub(super) fn flush(&mut self) -> Result<(), ExtractError> {
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

    pub(super) fn record(&mut self, job: &Job<'_>, done: Option<Done>) {
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
    pub(super) fn add_file(&mut self, entry: Entry) {
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
    pub(super) fn other_name(&mut self, other: OtherName<'a>) -> Result<(), ExtractError> {
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

    pub(super) fn again(&mut self, job: &Job<'a>) -> Result<(), ExtractError> {
        let shared = self.shared;
        let done = self.pool.install(|| shared.take_out(job))?;
        self.record(job, done);
        Ok(())
    }

    /// A folder in which everything is done.
    pub(super) fn finish(&mut self, level: Level<'a>) {
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
}

/// The path of another name in the same folder.
fn path_beside(path: &[u8], name: &[u8]) -> Vec<u8> {
    let folder = path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    [path.get(..folder).unwrap_or_default(), name].concat()
}
