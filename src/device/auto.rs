//! The engine for image files: through the page cache where the file is cached, around it where not.
//!
//! The cache is asked once per window. An answer stays true: a window read through the cache stays in it, and direct
//! reads put nothing there. Which way was taken changes the speed, never the bytes: the kernel writes dirty pages back
//! before it reads around them.

use super::buffered::BufferedDevice;
use super::cache::cached_bytes;
use super::direct::DirectDevice;
use super::{ReadDevice, check_read};
use crate::units::Physical;
use std::io;
use std::sync::atomic::{AtomicU8, Ordering};

/// The piece of file that is asked about in one call; one byte of memory each (64 KiB per TiB).
const WINDOW_BYTES: u64 = 16 << 20;

const UNKNOWN: u8 = 0;
const COLD: u8 = 1;
const CACHED: u8 = 2;

pub(super) struct AutoDevice {
    direct: DirectDevice,
    buffered: BufferedDevice,
    windows: Box<[AtomicU8]>,
}

impl AutoDevice {
    pub(super) fn new(direct: DirectDevice, buffered: BufferedDevice) -> Self {
        let windows = direct.len().div_ceil(WINDOW_BYTES);
        Self { direct, buffered, windows: (0..windows).map(|_| AtomicU8::new(UNKNOWN)).collect() }
    }

    /// Whether the window with `at` in it is in the page cache. A request that crosses into the next window follows
    /// the one it starts in.
    fn is_cached(&self, at: Physical) -> bool {
        let index = at.raw() / WINDOW_BYTES;
        let Some(window) = self.windows.get(index as usize) else { return false };
        match window.load(Ordering::Relaxed) {
            UNKNOWN => {
                let start = index * WINDOW_BYTES;
                let bytes = WINDOW_BYTES.min(self.len() - start);
                let cached = cached_bytes(self.buffered.file(), start, bytes).is_ok_and(|have| mostly(have, bytes));
                window.store(if cached { CACHED } else { COLD }, Ordering::Relaxed);
                cached
            }
            state => state == CACHED,
        }
    }
}

/// More than three quarters.
fn mostly(have_bytes: u64, of_bytes: u64) -> bool {
    have_bytes > of_bytes / 4 * 3
}

impl ReadDevice for AutoDevice {
    fn len(&self) -> u64 {
        self.direct.len()
    }

    fn alignment(&self) -> usize {
        self.direct.alignment()
    }

    fn read_at(&self, at: Physical, buf: &mut [u8]) -> io::Result<()> {
        check_read(at, buf.len(), self.len())?;
        if self.is_cached(at) { self.buffered.read_at(at, buf) } else { self.direct.read_at(at, buf) }
    }
}

#[cfg(test)]
mod tests {
    use super::mostly;

    #[test]
    fn a_window_counts_as_cached_above_three_quarters() {
        assert!(!mostly(0, 16 << 20));
        assert!(!mostly(12 << 20, 16 << 20));
        assert!(mostly((12 << 20) + 4096, 16 << 20));
    }
}
