//! Owners, modes, times and extended attributes, as far as the user may set them and the folder can hold them. What is
//! refused is counted, and is no error.

use super::tree::Attribute;
use crate::format::items::{InodeItem, InodeTime};
use rustix::fd::BorrowedFd;
use rustix::fs::{self, AtFlags, Gid, Mode, Timespec, Timestamps, Uid, XattrFlags};
use rustix::io::Errno;
use std::os::fd::AsRawFd as _;

/// Bits of a mode that let others act as the owner.
const SET_ID: u32 = 0o6000;

/// Sets all of an open file or folder; the number of refusals.
pub(super) fn set(fd: BorrowedFd<'_>, item: &InodeItem, attributes: &[Attribute]) -> u64 {
    let (owner, group) = owners(item);
    let is_owned = fs::fchown(fd, owner, group).is_ok();
    // Where it stays with the user, it must not act as them.
    let mode = item.mode & if is_owned { 0o7777 } else { 0o7777 & !SET_ID };
    let mut refused = u64::from(!is_owned);
    refused += u64::from(fs::fchmod(fd, Mode::from_raw_mode(mode)).is_err());
    for attribute in attributes {
        let set = fs::fsetxattr(fd, &attribute.name[..], &attribute.value, XattrFlags::empty());
        refused += u64::from(is_refused(set, attribute));
    }
    refused + u64::from(fs::futimens(fd, &times(item)).is_err())
}

/// The same of a symbolic link or special file, which is not opened.
pub(super) fn set_named(folder: BorrowedFd<'_>, name: &[u8], item: &InodeItem, attributes: &[Attribute]) -> u64 {
    let (owner, group) = owners(item);
    let is_owned = fs::chownat(folder, name, owner, group, AtFlags::SYMLINK_NOFOLLOW).is_ok();
    let mut refused = u64::from(!is_owned);
    let mut path = format!("/proc/self/fd/{}/", folder.as_raw_fd()).into_bytes();
    path.extend(name);
    for attribute in attributes {
        let set = fs::lsetxattr(&path[..], &attribute.name[..], &attribute.value, XattrFlags::empty());
        refused += u64::from(is_refused(set, attribute));
    }
    refused + u64::from(fs::utimensat(folder, name, &times(item), AtFlags::SYMLINK_NOFOLLOW).is_err())
}

/// Properties of btrfs itself mean nothing elsewhere.
fn is_refused(set: Result<(), Errno>, attribute: &Attribute) -> bool {
    set.is_err() && !attribute.name.starts_with(b"btrfs.")
}

fn owners(item: &InodeItem) -> (Option<Uid>, Option<Gid>) {
    // All ones mean "leave it" to the kernel, and are nobody's number.
    let known = |raw: u32| (raw != u32::MAX).then_some(raw);
    (known(item.uid).map(Uid::from_raw), known(item.gid).map(Gid::from_raw))
}

fn times(item: &InodeItem) -> Timestamps {
    let time = |InodeTime { seconds, nanoseconds }: InodeTime| Timespec {
        tv_sec: seconds,
        tv_nsec: i64::from(nanoseconds.min(999_999_999)),
    };
    Timestamps { last_access: time(item.atime), last_modification: time(item.mtime) }
}
