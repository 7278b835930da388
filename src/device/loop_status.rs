//! What a loop device stands on, by number and not by name: the name that sysfs has for it may be one of another mount
//! namespace, or one that was removed. See `LOOP_GET_STATUS64` in loop(4), `struct loop_info64` in `linux/loop.h`.
#![allow(unsafe_code, reason = "no wrapper has this request")]

use super::Identity;
use super::open::open_quietly;
use std::fs::OpenOptions;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

const LOOP_GET_STATUS64: libc::Ioctl = 0x4C05;

/// The start of `struct loop_info64`, and the rest of it.
#[repr(C)]
struct RawStatus {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    size_limit: u64,
    rest: [u64; 24],
}

/// A loop device as the kernel knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LoopStatus {
    /// The file or device below.
    pub(super) backing: Identity,
    /// Its first byte there.
    pub(super) offset: u64,
    /// Its length there; 0 is up to the end.
    pub(super) size_limit: u64,
}

impl LoopStatus {
    /// Whether the two have bytes in common.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        let end = |of: &Self| if of.size_limit == 0 { u64::MAX } else { of.offset.saturating_add(of.size_limit) };
        self.backing == other.backing && self.offset < end(other) && other.offset < end(self)
    }
}

/// Asks the loop device at `/dev/NODE`; `None` where there is none, or nothing below it.
pub(super) fn loop_status(node: &str) -> Option<LoopStatus> {
    let file = open_quietly(&Path::new("/dev").join(node), OpenOptions::new().read(true), 0).ok()?;
    if !file.metadata().ok()?.file_type().is_block_device() {
        return None;
    }
    let mut raw = RawStatus { device: 0, inode: 0, rdevice: 0, offset: 0, size_limit: 0, rest: [0; 24] };
    // SAFETY: the request fills at most the 232 bytes of the struct, which has them.
    let answer = unsafe { libc::ioctl(file.as_raw_fd(), LOOP_GET_STATUS64, &raw mut raw) };
    let backing = if raw.rdevice == 0 { Identity::File(raw.device, raw.inode) } else { Identity::Block(raw.rdevice) };
    (answer == 0).then_some(LoopStatus { backing, offset: raw.offset, size_limit: raw.size_limit })
}

#[cfg(test)]
mod tests {
    use super::{LoopStatus, RawStatus};
    use crate::device::Identity;

    #[test]
    fn the_struct_is_as_long_as_the_kernels() {
        assert_eq!(size_of::<RawStatus>(), 232);
    }

    #[test]
    fn two_loop_devices_share_bytes_where_their_ranges_meet() {
        let at = |offset, size_limit| LoopStatus { backing: Identity::File(1, 2), offset, size_limit };
        assert!(at(0, 0).overlaps(&at(4096, 4096)));
        assert!(!at(0, 4096).overlaps(&at(4096, 0)));
        assert!(!at(0, 0).overlaps(&LoopStatus { backing: Identity::File(1, 3), ..at(0, 0) }));
    }
}
