//! What the page cache holds of a file: asking, and dropping it.

use super::DeviceError;
use rustix::fs::{Advice, fadvise};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

/// `cachestat(2)`, since Linux 6.5: the same number on every architecture.
const SYS_CACHESTAT: libc::c_long = 451;

/// `struct cachestat_range`.
#[repr(C)]
struct Range {
    offset_bytes: u64,
    length_bytes: u64,
}

/// `struct cachestat`, in pages.
#[repr(C)]
#[derive(Default)]
struct Stat {
    cached: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// How many bytes of `[at, at + bytes)` the page cache holds. An error (`ENOSYS` before Linux 6.5, `EPERM` for a file
/// of somebody else) means that the kernel does not tell.
#[expect(unsafe_code, reason = "no wrapper has this system call yet")]
pub(super) fn cached_bytes(file: &File, at: u64, bytes: u64) -> io::Result<u64> {
    let range = Range { offset_bytes: at, length_bytes: bytes };
    let mut stat = Stat::default();
    // SAFETY: both pointers are to live structs laid out as the kernel declares them; it reads the first, writes the
    // second, and keeps neither.
    let status =
        unsafe { libc::syscall(SYS_CACHESTAT, file.as_raw_fd(), &raw const range, &raw mut stat, 0 as libc::c_uint) };
    if status != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(stat.cached.saturating_mul(rustix::param::page_size() as u64))
}

/// Writes back and drops what the page cache holds of a file, for measurements that must start cold.
pub fn cache_drop(path: &Path) -> Result<(), DeviceError> {
    let drop = || {
        let file = File::open(path)?;
        file.sync_data()?;
        fadvise(&file, 0, None, Advice::DontNeed)?;
        Ok(())
    };
    drop().map_err(|error| DeviceError::from_io(path, "drop the page cache of it", error))
}
