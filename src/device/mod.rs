//! The bytes of one member: a regular file or a block device behind `ReadDevice`.
//!
//! Nothing here knows what the bytes mean. Reads are exact: all bytes or an error that keeps its errno.

use crate::units::Physical;
use std::io;
use std::ops::Range;

/// Exact, positioned, concurrent reads of one member.
pub trait ReadDevice: Send + Sync {
    /// The size in bytes (for block devices asked of the kernel, never `metadata().len()`).
    fn len(&self) -> u64;

    /// True for a device of no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The alignment in bytes that offset, length and buffer address must have for the fast path (1 where none is
    /// needed). Engines accept any request; an unaligned one costs a copy.
    fn alignment(&self) -> usize {
        1
    }

    /// Fills `buf` from `at`. A read that reaches past the end is `UnexpectedEof`; nothing is ever padded with zeros.
    fn read_at(&self, at: Physical, buf: &mut [u8]) -> io::Result<()>;

    /// The bytes in place, for engines that map the file. `None` for all others.
    fn mapped(&self, range: Range<Physical>) -> Option<&[u8]> {
        let _ = range;
        None
    }
}

/// A member that may be written: made only by [`crate::device`]'s exclusive open, which asks for consent.
pub trait WriteDevice: ReadDevice {
    /// Writes all of `data` at `at`.
    fn write_at(&self, at: Physical, data: &[u8]) -> io::Result<()>;

    /// Returns when all that was written is on stable storage.
    fn sync(&self) -> io::Result<()>;
}
