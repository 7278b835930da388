//! Opening members: what kind of thing a path is, and which engine reads it.
//!
//! The kind is looked at before anything is opened (opening a fifo waits, opening a tape rewinds it) and once more on
//! the open file. The engines are a choice for image files; a block device is always read directly, because a scrub
//! tests the medium and not the cache.

use super::auto::AutoDevice;
use super::buffered::BufferedDevice;
use super::direct::{DirectDevice, is_refusal};
use super::mapped::MappedDevice;
use super::{DeviceError, ReadDevice};
use std::fmt;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

/// How image files are read. All engines give the same bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum IoEngine {
    /// Through the page cache where the file is cached, around it where not.
    #[default]
    Auto,
    /// Around the page cache.
    Direct,
    /// Through the page cache.
    Buffered,
    /// By a mapping of the file.
    Mmap,
}

impl IoEngine {
    /// All of them, in the order of the help text.
    pub const ALL: [Self; 4] = [Self::Auto, Self::Direct, Self::Buffered, Self::Mmap];

    /// The word on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Direct => "direct",
            Self::Buffered => "buffered",
            Self::Mmap => "mmap",
        }
    }
}

impl fmt::Display for IoEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A word that names no engine.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown I/O engine {0:?}, expected auto, direct, buffered or mmap")]
pub struct UnknownEngine(String);

impl FromStr for IoEngine {
    type Err = UnknownEngine;

    fn from_str(word: &str) -> Result<Self, UnknownEngine> {
        Self::ALL.into_iter().find(|engine| engine.name() == word).ok_or_else(|| UnknownEngine(word.to_owned()))
    }
}

/// What a path leads to, whatever its name: two names of one member are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Identity {
    /// A regular file: device and inode number.
    File(u64, u64),
    /// A block device: its number.
    Block(u64),
    /// Something that is put together from files below it: its number among those of one set.
    Layered(u64),
}

/// The identity of the member at `path`; the same errors as opening it, except that its size is not looked at.
pub fn identity(path: &Path) -> Result<Identity, DeviceError> {
    look(path)
}

/// Opens a member for reading. Never waits, never writes (not even the access time, where the kernel lets us), takes
/// no lock.
pub fn open_read(path: &Path, engine: IoEngine) -> Result<Arc<dyn ReadDevice>, DeviceError> {
    let target = Target::new(path)?;
    if matches!(target.identity, Identity::Block(_)) {
        return Ok(Arc::new(target.direct().map_err(|error| target.refused(IoEngine::Direct, error))?));
    }
    match engine {
        IoEngine::Auto => match target.direct() {
            Ok(direct) => Ok(Arc::new(AutoDevice::new(direct, target.buffered()?))),
            Err(error) if is_refusal(&error) => Ok(Arc::new(target.buffered()?)),
            Err(error) => Err(target.failed(error)),
        },
        IoEngine::Direct => Ok(Arc::new(target.direct().map_err(|error| target.refused(engine, error))?)),
        IoEngine::Buffered => Ok(Arc::new(target.buffered()?)),
        IoEngine::Mmap => {
            let file = target.open(0).map_err(|error| target.failed(error))?;
            Ok(Arc::new(MappedDevice::new(file, target.len).map_err(|error| target.refused(engine, error))?))
        }
    }
}

/// A path that has been looked at and whose size is known.
struct Target<'a> {
    path: &'a Path,
    identity: Identity,
    len: u64,
}

impl<'a> Target<'a> {
    fn new(path: &'a Path) -> Result<Self, DeviceError> {
        let mut target = Self { path, identity: look(path)?, len: 0 };
        let file = target.open(0).map_err(|error| target.failed(error))?;
        target.len = checked_len(path, target.identity, &file)?;
        Ok(target)
    }

    fn open(&self, flags: i32) -> io::Result<File> {
        open_quietly(self.path, OpenOptions::new().read(true), flags)
    }

    fn direct(&self) -> io::Result<DirectDevice> {
        DirectDevice::new(self.open(libc::O_DIRECT)?, self.len, || self.open(0))
    }

    fn buffered(&self) -> Result<BufferedDevice, DeviceError> {
        self.open(0).map(|file| BufferedDevice::new(file, self.len)).map_err(|error| self.failed(error))
    }

    fn failed(&self, error: io::Error) -> DeviceError {
        DeviceError::from_io(self.path, "open it", error)
    }

    fn refused(&self, engine: IoEngine, source: io::Error) -> DeviceError {
        if is_refusal(&source) || engine == IoEngine::Mmap {
            DeviceError::EngineRefused { path: self.path.to_path_buf(), engine, source }
        } else {
            self.failed(source)
        }
    }
}

/// Looks at what is there without opening it.
pub(super) fn look(path: &Path) -> Result<Identity, DeviceError> {
    let metadata = std::fs::metadata(path).map_err(|error| DeviceError::from_io(path, "look at it", error))?;
    identity_of(&metadata).map_err(|what| DeviceError::WrongKind { path: path.to_path_buf(), what })
}

/// The identity, or the word for what cannot be a member.
fn identity_of(metadata: &Metadata) -> Result<Identity, &'static str> {
    let kind = metadata.file_type();
    if kind.is_file() {
        Ok(Identity::File(metadata.dev(), metadata.ino()))
    } else if kind.is_block_device() {
        Ok(Identity::Block(metadata.rdev()))
    } else if kind.is_dir() {
        Err("directory")
    } else if kind.is_fifo() {
        Err("fifo")
    } else if kind.is_socket() {
        Err("socket")
    } else {
        Err("character device")
    }
}

/// Opens without waiting and, where the file is ours, without touching its access time.
pub(super) fn open_quietly(path: &Path, options: &mut OpenOptions, flags: i32) -> io::Result<File> {
    let flags = flags | libc::O_NONBLOCK | libc::O_NOCTTY;
    match options.custom_flags(flags | libc::O_NOATIME).open(path) {
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => options.custom_flags(flags).open(path),
        result => result,
    }
}

/// The size of an open member in bytes, which is not 0, once it is certain that it is the one that was looked at.
pub(super) fn checked_len(path: &Path, expected: Identity, mut file: &File) -> Result<u64, DeviceError> {
    let mut ask = || {
        let metadata = file.metadata()?;
        let len = if metadata.is_file() { metadata.len() } else { file.seek(SeekFrom::End(0))? };
        Ok((identity_of(&metadata), len))
    };
    match ask().map_err(|error| DeviceError::from_io(path, "ask for its size", error))? {
        (identity, _) if identity != Ok(expected) => Err(DeviceError::Replaced { path: path.to_path_buf() }),
        (_, 0) => Err(DeviceError::Empty { path: path.to_path_buf() }),
        (_, len) => Ok(len),
    }
}
