//! The folder that everything goes into. Every step is taken from an open folder by one name, which is never followed
//! where it is a symbolic link, so that no name and no link leads out; a file gets its name when it is complete, and never
//! takes the place of another.

use super::entry::Trouble;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{self, AtFlags, CWD, FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

const FOLDER: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Makes the names of files that are not complete different.
static NEXT_PARTIAL: AtomicU64 = AtomicU64::new(0);

/// A folder of the user's.
#[derive(Debug)]
pub struct Folder {
    fd: OwnedFd,
    path: PathBuf,
}

impl Folder {
    /// Opens the folder, and makes it where it is not there.
    pub fn open(path: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(path)?;
        let fd = fs::openat(CWD, path, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        // A deep tree needs a descriptor for each of its folders.
        let limit = getrlimit(Resource::Nofile);
        let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
        Ok(Self { fd, path: path.to_owned() })
    }

    /// As it was given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn top(&self) -> io::Result<OwnedFd> {
        self.fd.try_clone()
    }

    /// Asks that all that was written gets to stable storage.
    pub(super) fn sync(&self) -> io::Result<()> {
        Ok(fs::syncfs(&self.fd)?)
    }

    /// The folder that holds `path`, and the last part of it.
    pub(super) fn reach<'p>(&self, path: &'p [u8]) -> io::Result<(OwnedFd, &'p [u8])> {
        let mut at = self.top()?;
        let mut parts = path.split(|byte| *byte == b'/').peekable();
        while let Some(part) = parts.next() {
            if parts.peek().is_none() {
                return Ok((at, part));
            }
            at = fs::openat(&at, part, FOLDER, Mode::empty())?;
        }
        Err(io::ErrorKind::NotFound.into())
    }
}

/// Opens folder `name` in `parent`, and makes it where it is not there.
pub(super) fn make_folder(parent: BorrowedFd<'_>, name: &[u8]) -> Result<OwnedFd, Errno> {
    match fs::mkdirat(parent, name, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(error),
    }
    let fd = fs::openat(parent, name, FOLDER, Mode::empty())?;
    let stat = fs::fstat(&fd)?;
    // One that an earlier run left read-only takes nothing more.
    if stat.st_mode & 0o700 != 0o700 {
        let _ = fs::fchmod(&fd, Mode::from_raw_mode((stat.st_mode & 0o7777) | 0o700));
    }
    Ok(fd)
}

/// What is there under a name, if anything.
pub(super) fn stat(folder: BorrowedFd<'_>, name: &[u8]) -> Result<Option<fs::Stat>, Errno> {
    match fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(stat)),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Opens a regular file that is there, to look at it.
pub(super) fn open_file(folder: BorrowedFd<'_>, name: &[u8]) -> Option<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let fd = fs::openat(folder, name, flags, Mode::empty()).ok()?;
    let is_file = fs::fstat(&fd).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile);
    is_file.then(|| File::from(fd))
}

/// A file that has no name yet, or one that says that it is not complete.
pub(super) struct Pending<'a> {
    folder: BorrowedFd<'a>,
    file: File,
    /// Where the file system cannot do without a name.
    name: Option<Vec<u8>>,
}

impl<'a> Pending<'a> {
    pub(super) fn create(folder: BorrowedFd<'a>) -> Result<Self, Errno> {
        let mode = Mode::RUSR | Mode::WUSR;
        match fs::openat(folder, ".", OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC, mode) {
            Ok(fd) => return Ok(Self { folder, file: File::from(fd), name: None }),
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOENT | Errno::NOSYS) => {}
            Err(error) => return Err(error),
        }
        let number = NEXT_PARTIAL.fetch_add(1, Ordering::Relaxed);
        let name = format!(".mirrortool-partial-{}-{number}", std::process::id()).into_bytes();
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = fs::openat(folder, &name[..], flags, mode)?;
        Ok(Self { folder, file: File::from(fd), name: Some(name) })
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Gives the file its name; fails where there is something of that name.
    pub(super) fn publish(mut self, name: &[u8]) -> Result<(), Errno> {
        let Some(temporary) = self.name.take() else { return self.link(name) };
        let renamed = match fs::renameat_with(self.folder, &temporary[..], self.folder, name, RenameFlags::NOREPLACE) {
            Err(Errno::INVAL | Errno::NOSYS) => {
                fs::linkat(self.folder, &temporary[..], self.folder, name, AtFlags::empty())
                    .map(|()| fs::unlinkat(self.folder, &temporary[..], AtFlags::empty()).unwrap_or_default())
            }
            other => other,
        };
        if renamed.is_err() {
            self.name = Some(temporary);
        }
        renamed
    }

    fn link(&self, name: &[u8]) -> Result<(), Errno> {
        use std::os::fd::AsRawFd as _;
        match fs::linkat(self.file.as_fd(), "", self.folder, name, AtFlags::EMPTY_PATH) {
            Err(Errno::NOENT | Errno::PERM | Errno::INVAL) => {
                let own = format!("/proc/self/fd/{}", self.file.as_raw_fd());
                fs::linkat(CWD, own, self.folder, name, AtFlags::SYMLINK_FOLLOW)
            }
            other => other,
        }
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        if let Some(name) = self.name.take() {
            let _ = fs::unlinkat(self.folder, &name[..], AtFlags::empty());
        }
    }
}

/// Errors after which nothing more can be written.
pub(super) fn is_fatal(error: Errno) -> bool {
    matches!(error, Errno::NOSPC | Errno::DQUOT | Errno::IO | Errno::ROFS | Errno::MFILE | Errno::NFILE | Errno::NOMEM)
}

/// What an error that concerns one name alone means.
pub(super) fn trouble(error: Errno) -> Trouble {
    match error {
        Errno::EXIST | Errno::NOTDIR | Errno::LOOP => Trouble::InTheWay,
        other => Trouble::Refused(other.raw_os_error()),
    }
}
