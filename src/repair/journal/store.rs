//! Where a log is kept: something that grows and can be synced.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// An append-only store.
pub trait LogStore: Send {
    /// Adds bytes at the end.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Returns when all that was added is on stable storage.
    fn sync(&mut self) -> io::Result<()>;
}

/// A file of its own.
pub struct FileLog {
    file: File,
}

impl FileLog {
    /// A new file, which must not exist; its name is on stable storage when this returns.
    pub fn create(path: &Path) -> io::Result<Self> {
        // It holds what was on a device that only root can read.
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        File::open(Self::folder(path))?.sync_all()?;
        Ok(Self { file })
    }

    /// The folder that the file's name goes into.
    pub fn folder(path: &Path) -> &Path {
        path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
    }
}

impl LogStore for FileLog {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()
    }
}
