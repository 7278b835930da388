//! The one way to write to a member: exclusively, around the page cache, and only with the user's consent.
//!
//! Writes go straight to the device (`O_DIRECT`): an error belongs to the write it comes from, and reading back tests
//! the medium. Where a file has no direct I/O, and for the last bytes of a file whose size is no multiple of the
//! device's block, they go through the page cache, and `sync` drops them from it.

use super::direct::{DirectDevice, is_refusal};
use super::lock::lock_whole;
use super::open::{Identity, checked_len, look, open_quietly};
use super::{DeviceError, ReadDevice, WriteDevice, check_read, check_write};
use crate::units::Physical;
use rustix::fs::{Advice, fadvise};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

/// Proof that the user has agreed to writing. Only the command line may make one.
#[derive(Debug)]
pub struct Consent {
    _private: (),
}

impl Consent {
    /// To be called where the user has said so, and nowhere else.
    pub fn given_by_user() -> Self {
        Self { _private: () }
    }
}

/// How often a block device is tried that somebody else has locked, and how long to wait between: udev locks it for a
/// moment whenever somebody who could write has closed it.
const LOCK_TRIES: u32 = 40;
const LOCK_PAUSE: Duration = Duration::from_millis(25);

/// A file or a block device that is open for writing, and that nobody else has: a block device that is mounted or held
/// otherwise, and a file of which another process has locked anything, are [`DeviceError::Busy`]. The locks end with the
/// value. Opening it writes nothing.
pub struct HeldDevice {
    path: PathBuf,
    identity: Identity,
    device: Arc<WritableDevice>,
}

impl HeldDevice {
    /// Opens it: `O_EXCL` for a block device, `flock`, and a lock on all its bytes.
    pub fn open(path: &Path) -> Result<Self, DeviceError> {
        let failed = |error| DeviceError::from_io(path, "open it for writing", error);
        let identity = look(path)?;
        if is_read_only_device(identity) {
            return Err(DeviceError::ReadOnly { path: path.to_path_buf() });
        }
        let open = |flags| open_quietly(path, OpenOptions::new().read(true).write(true), flags);
        let is_block = matches!(identity, Identity::Block(_));
        let file = open(if is_block { libc::O_EXCL } else { 0 }).map_err(failed)?;
        let len = checked_len(path, identity, &file)?;
        let tries = if is_block { LOCK_TRIES } else { 1 };
        if !(lock_file(&file, tries).map_err(failed)? && lock_whole(&file).map_err(failed)?) {
            return Err(DeviceError::Busy { path: path.to_path_buf() });
        }
        let same = |file: File| checked_len(path, identity, &file).map(|_| file).map_err(io::Error::other);
        let again = |flags| open(flags).and_then(same);
        let direct = match again(libc::O_DIRECT).and_then(|direct| DirectDevice::new(direct, len, || again(0))) {
            Ok(direct) => Some(direct),
            Err(error) if is_refusal(&error) => None,
            Err(error) => return Err(failed(error)),
        };
        let (writing, is_cached) = (RwLock::new(()), AtomicBool::new(false));
        let device = Arc::new(WritableDevice { direct, file, len, writing, is_cached });
        Ok(Self { path: path.to_path_buf(), identity, device })
    }

    /// As given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the path led to.
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// Its bytes, to be read.
    pub fn reader(&self) -> Arc<dyn ReadDevice> {
        Arc::clone(&self.device) as Arc<dyn ReadDevice>
    }

    /// Its bytes, to be written.
    ///
    /// A write that is not aligned rewrites the device's logical blocks (512 or 4096 bytes) at its two ends with the
    /// bytes they hold; writes of whole 4 KiB blocks touch nothing else.
    pub fn writer(&self, _consent: &Consent) -> Arc<dyn WriteDevice> {
        self.unguarded()
    }

    /// For the lease, which gives it to nobody without consent.
    pub(crate) fn unguarded(&self) -> Arc<dyn WriteDevice> {
        Arc::clone(&self.device) as Arc<dyn WriteDevice>
    }

    /// Whether its path still leads to it, and it is as long as it was.
    pub fn check(&self) -> Result<(), DeviceError> {
        let path = || self.path.clone();
        if look(&self.path)? != self.identity {
            return Err(DeviceError::Replaced { path: path() });
        }
        let (have_bytes, expect_bytes) = (checked_len(&self.path, self.identity, &self.device.file)?, self.device.len);
        if have_bytes != expect_bytes {
            return Err(DeviceError::Resized { path: path(), have_bytes, expect_bytes });
        }
        Ok(())
    }
}

/// Whether the lock was had.
fn lock_file(file: &File, tries: u32) -> io::Result<bool> {
    for nth in 1..=tries {
        match file.try_lock() {
            Ok(()) => return Ok(true),
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) if nth < tries => std::thread::sleep(LOCK_PAUSE),
            Err(TryLockError::WouldBlock) => {}
        }
    }
    Ok(false)
}

/// Linux opens a read-only block device for writing and refuses each write; better to know before the first.
fn is_read_only_device(identity: Identity) -> bool {
    let Identity::Block(number) = identity else { return false };
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    fs::read(format!("/sys/dev/block/{major}:{minor}/ro")).is_ok_and(|flag| flag.trim_ascii() == b"1")
}

struct WritableDevice {
    direct: Option<DirectDevice>,
    /// The same member through the page cache; holds the lock.
    file: File,
    len: u64,
    /// A write that is not aligned has the device for itself: two of them might rewrite one block.
    writing: RwLock<()>,
    /// Something went through the page cache since the last sync.
    is_cached: AtomicBool,
}

impl WritableDevice {
    fn write_through(&self, at: u64, data: &[u8]) -> io::Result<()> {
        self.is_cached.store(true, Ordering::Release);
        self.file.write_all_at(data, at)
    }
}

impl ReadDevice for WritableDevice {
    fn len(&self) -> u64 {
        self.len
    }

    fn alignment(&self) -> usize {
        self.direct.as_ref().map_or(1, DirectDevice::alignment)
    }

    fn read_at(&self, at: Physical, buf: &mut [u8]) -> io::Result<()> {
        if let Some(direct) = &self.direct {
            return direct.read_at(at, buf);
        }
        check_read(at, buf.len(), self.len)?;
        self.file.read_exact_at(buf, at.raw())
    }
}

impl WriteDevice for WritableDevice {
    fn write_at(&self, at: Physical, data: &[u8]) -> io::Result<()> {
        check_write(at, data.len(), self.len)?;
        let Some(direct) = &self.direct else { return self.write_through(at.raw(), data) };
        if direct.takes_as_it_is(at.raw(), data) {
            let _with_others = self.writing.read().unwrap_or_else(PoisonError::into_inner);
            return direct.write_direct(at.raw(), data);
        }
        let _alone = self.writing.write().unwrap_or_else(PoisonError::into_inner);
        let reach = direct.direct_end().saturating_sub(at.raw()).min(data.len() as u64);
        let (around, through) = data.split_at(reach as usize);
        direct.write_direct(at.raw(), around)?;
        if through.is_empty() { Ok(()) } else { self.write_through(at.raw() + reach, through) }
    }

    fn sync(&self) -> io::Result<()> {
        // Direct writes are of the same inode, and the device's own cache is flushed with it.
        self.file.sync_data()?;
        if self.is_cached.swap(false, Ordering::AcqRel) {
            // Clean now: dropped, so that reads reach the medium.
            fadvise(&self.file, 0, None, Advice::DontNeed)?;
        }
        Ok(())
    }
}
