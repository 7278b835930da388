//! The engine for image files: through the page cache where the file is cached, around it where not.
//!
//! The cache is asked once per window, or a little more often where a file has very many of them. An answer stays true: a window read through the cache stays in it, and direct
//! reads put nothing there. Which way was taken changes the speed, never the bytes: the kernel writes dirty pages back
//! before it reads around them.

use super::buffered::BufferedDevice;
use super::cache::cached_bytes;
use super::direct::DirectDevice;
use super::{ReadDevice, check_read};
use crate::units::Physical;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

/// The piece of file that is asked about in one call.
const WINDOW_BYTES: u64 = 16 << 20;
/// Answers that are remembered: those of 1 TiB, 512 KiB of memory. Beyond, windows share a place, whatever length a
/// sparse file claims.
const MAX_ANSWERS: u64 = 64 << 10;

const UNKNOWN: u64 = 0;
const COLD: u64 = 1;
const CACHED: u64 = 2;
/// An answer is one of the above below the number of the window that it is about.
const ANSWER_BITS: u32 = 2;

pub(super) struct AutoDevice {
    direct: DirectDevice,
    buffered: BufferedDevice,
    answers: Box<[AtomicU64]>,
}

impl AutoDevice {
    pub(super) fn new(direct: DirectDevice, buffered: BufferedDevice) -> Self {
        let answers = direct.len().div_ceil(WINDOW_BYTES).min(MAX_ANSWERS);
        Self { direct, buffered, answers: (0..answers).map(|_| AtomicU64::new(UNKNOWN)).collect() }
    }

    /// Whether the window with `at` in it is in the page cache. A request that crosses into the next window follows
    /// the one it starts in.
    fn is_cached(&self, at: Physical) -> bool {
        let index = at.raw() / WINDOW_BYTES;
        let Some(answer) = self.answers.get((index % MAX_ANSWERS) as usize) else { return false };
        let about = |state| index << ANSWER_BITS | state;
        let known = answer.load(Ordering::Relaxed);
        if known == about(CACHED) || known == about(COLD) {
            return known == about(CACHED);
        }
        let start = index * WINDOW_BYTES;
        let bytes = WINDOW_BYTES.min(self.len() - start);
        let cached = cached_bytes(self.buffered.file(), start, bytes).is_ok_and(|have| mostly(have, bytes));
        answer.store(about(if cached { CACHED } else { COLD }), Ordering::Relaxed);
        cached
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
