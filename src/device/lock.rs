//! Locks on the bytes of a file that belong to one opening of it (`F_OFD_SETLK`): what qemu and others hold on an image
//! while a virtual machine runs from it. They see the POSIX locks of other processes too. See `F_OFD_SETLK` in
//! fcntl(2).
#![allow(unsafe_code, reason = "rustix has the locks of processes only, which end with any closing of the file")]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;

/// Locks the whole file, whatever its length will be; false where somebody else has a lock on some of it. True too where
/// the file system knows no locks.
pub(super) fn lock_whole(file: &File) -> io::Result<bool> {
    let mut wish = whole();
    match fcntl(file, libc::F_OFD_SETLK, &mut wish) {
        Ok(()) => Ok(true),
        Err(error) => match error.raw_os_error() {
            Some(libc::EAGAIN | libc::EACCES) => Ok(false),
            Some(libc::EINVAL | libc::ENOLCK | libc::EOPNOTSUPP | libc::ENOSYS) => Ok(true),
            _ => Err(error),
        },
    }
}

/// A lock that another opening of a file has.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Lock {
    /// Known where the lock is a process's.
    pub(super) pid: Option<u32>,
}

/// The lock that another opening of the file has on some of it.
pub(super) fn lock_on(file: &File) -> Option<Lock> {
    let mut wish = whole();
    fcntl(file, libc::F_OFD_GETLK, &mut wish).ok()?;
    let pid = u32::try_from(wish.l_pid).ok().filter(|pid| *pid != 0);
    (i32::from(wish.l_type) != libc::F_UNLCK).then_some(Lock { pid })
}

/// A wish to write anywhere.
fn whole() -> libc::flock {
    // SAFETY: a plain struct of integers.
    let mut wish: libc::flock = unsafe { std::mem::zeroed() };
    wish.l_type = libc::F_WRLCK as i16;
    wish.l_whence = libc::SEEK_SET as i16;
    wish
}

fn fcntl(file: &File, command: i32, wish: &mut libc::flock) -> io::Result<()> {
    // SAFETY: the file is open, and the struct is the one that these commands read and write.
    let answer = unsafe { libc::fcntl(file.as_raw_fd(), command, std::ptr::from_mut(wish)) };
    if answer == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::{Lock, lock_on, lock_whole};
    use std::fs::File;

    #[test]
    fn a_lock_is_seen_from_another_opening_and_ends_with_its_own() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let open = || File::options().read(true).write(true).open(file.path()).unwrap();
        let (one, other) = (open(), open());
        assert_eq!(lock_on(&other), None);
        assert!(lock_whole(&one).unwrap());
        assert_eq!((lock_on(&one), lock_on(&other)), (None, Some(Lock { pid: None })));
        assert!(!lock_whole(&other).unwrap());
        drop(one);
        assert!(lock_whole(&other).unwrap());
    }
}
