//! Everything but files gets to its place: folders, symbolic links, pipes, sockets and devices.

use super::Walk;
use crate::extract::entry::{Entry, EntryKind, Trouble};
use crate::extract::tree::{Subvolume, is_possible_name};
use crate::extract::{ExtractError, attributes, folder};
use crate::format::items::InodeItem;
use crate::owners::printable;
use crate::units::ObjectId;
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::fs::{self, AtFlags, FileType, Mode};
use rustix::io::Errno;
use std::io;
use std::sync::Arc;

impl<'a> Walk<'a> {
    /// As the kernel shows the place of a subvolume in a snapshot of its parent.
    pub(super) fn empty_folder(
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
    pub(super) fn make_folders(&mut self) -> Result<Option<Arc<OwnedFd>>, ExtractError> {
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

    pub(super) fn not_made(&mut self, entry: &Entry, error: Errno) -> Result<(), ExtractError> {
        if folder::is_fatal(error) {
            let path = printable(&entry.path);
            return Err(ExtractError::Write { path, source: io::Error::from(error) });
        }
        self.not_written(entry, folder::trouble(error));
        Ok(())
    }

    pub(super) fn symlink(
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

    pub(super) fn special(
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

    pub(super) fn set_attributes(
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
}
