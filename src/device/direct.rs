//! The engine that goes around the page cache (`O_DIRECT`): the speed of the disk, and the medium itself is tested.
//!
//! Any request is accepted. One that is not aligned as the device wants goes through an aligned bounce buffer; the last
//! bytes of a file whose size is no multiple of the alignment are read through the page cache.

use super::{AlignedVec, ReadDevice, check_read};
use crate::units::Physical;
use rustix::fs::{AtFlags, StatxFlags, ioctl_blksszget, statx};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// The bounce buffer of one unaligned request (one per reading thread at most).
const BOUNCE_BYTES: usize = 256 << 10;
/// What direct I/O wants where the kernel does not say: no file system asks for more.
const USUAL_ALIGNMENT: Alignment = Alignment { memory: 4096, offset: 4096 };

/// What direct I/O on one file asks for, in bytes; powers of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Alignment {
    memory: usize,
    offset: usize,
}

impl Alignment {
    /// Asks the kernel; `None` where it says that this file has no direct I/O.
    fn of(file: &File) -> Option<Self> {
        let stat = statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN).ok();
        match stat {
            Some(stat) if StatxFlags::from_bits_retain(stat.stx_mask).contains(StatxFlags::DIOALIGN) => {
                Self::from_kernel(stat.stx_dio_mem_align, stat.stx_dio_offset_align)
            }
            // Before Linux 6.1, or a file system that does not tell.
            _ => Some(
                ioctl_blksszget(file)
                    .map_or(USUAL_ALIGNMENT, |sector| Self::from_kernel(sector, sector).unwrap_or(USUAL_ALIGNMENT)),
            ),
        }
    }

    fn from_kernel(memory: u32, offset: u32) -> Option<Self> {
        let usable = |value: u32| value.is_power_of_two() && value as usize <= BOUNCE_BYTES;
        (usable(memory) && usable(offset)).then_some(Self { memory: memory as usize, offset: offset as usize })
    }

    fn fits(self, at: u64, buffer: *const u8, bytes: usize) -> bool {
        at.is_multiple_of(self.offset as u64)
            && bytes.is_multiple_of(self.offset)
            && buffer.addr().is_multiple_of(self.memory)
    }
}

pub(super) struct DirectDevice {
    file: File,
    alignment: Alignment,
    len: u64,
    /// The same file through the page cache; only where the size is no multiple of the alignment.
    tail: Option<File>,
}

impl DirectDevice {
    /// Wraps a file opened with `O_DIRECT`. `open_tail` opens it again without, and is called only where the size
    /// needs it. `Unsupported` where the file has no direct I/O, found out by trying.
    pub(super) fn new(file: File, len: u64, open_tail: impl FnOnce() -> io::Result<File>) -> io::Result<Self> {
        let alignment = Alignment::of(&file).ok_or(io::ErrorKind::Unsupported)?;
        let tail = if len.is_multiple_of(alignment.offset as u64) { None } else { Some(open_tail()?) };
        let device = Self { file, alignment, len, tail };
        device.probe()?;
        Ok(device)
    }

    /// Some file systems accept the flag and refuse the first read. An unreadable sector is no refusal.
    fn probe(&self) -> io::Result<()> {
        if self.direct_end() == 0 {
            return Ok(());
        }
        let mut block = AlignedVec::new(self.alignment.offset, self.alignment.memory);
        match self.read_aligned(0, &mut block) {
            Err(error) if is_refusal(&error) => Err(io::ErrorKind::Unsupported.into()),
            _ => Ok(()),
        }
    }

    /// Where the part ends that direct I/O can reach.
    pub(super) fn direct_end(&self) -> u64 {
        self.len - self.len % self.alignment.offset as u64
    }

    fn read_aligned(&self, mut at: u64, mut buf: &mut [u8]) -> io::Result<()> {
        while !buf.is_empty() {
            match self.file.read_at(buf, at) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => {
                    at += count as u64;
                    buf = buf.get_mut(count..).unwrap_or_default();
                    // A count that is not aligned is the end of a file that has shrunk.
                    if !buf.is_empty() && !count.is_multiple_of(self.alignment.offset) {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn write_aligned(&self, mut at: u64, mut data: &[u8]) -> io::Result<()> {
        while !data.is_empty() {
            match self.file.write_at(data, at) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    at += count as u64;
                    data = data.get(count..).unwrap_or_default();
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The part of an unaligned request that starts at `at` and fits the bounce buffer: the aligned window around it,
    /// how far into the window it starts, and how many bytes of the request it covers.
    fn window(&self, at: u64, bytes: usize) -> (u64, AlignedVec, usize, usize) {
        let skip = (at % self.alignment.offset as u64) as usize;
        let count = bytes.min(BOUNCE_BYTES - skip);
        let bounce = AlignedVec::new((skip + count).next_multiple_of(self.alignment.offset), self.alignment.memory);
        (at - skip as u64, bounce, skip, count)
    }

    fn read_bounced(&self, mut at: u64, mut buf: &mut [u8]) -> io::Result<()> {
        while !buf.is_empty() {
            let (start, mut bounce, skip, count) = self.window(at, buf.len());
            self.read_aligned(start, &mut bounce)?;
            let (now, later) = buf.split_at_mut(count);
            now.copy_from_slice(&bounce[skip..skip + count]);
            at += count as u64;
            buf = later;
        }
        Ok(())
    }

    /// Whether these bytes can be written in one piece, with nothing around them.
    pub(super) fn takes_as_it_is(&self, at: u64, data: &[u8]) -> bool {
        let is_within = at.checked_add(data.len() as u64).is_some_and(|end| end <= self.direct_end());
        is_within && self.alignment.fits(at, data.as_ptr(), data.len())
    }

    /// Writes `data` within the part that direct I/O reaches. An unaligned one rewrites the device's logical blocks at
    /// its two ends (512 or 4096 bytes) with the bytes they hold; the caller lets no two writes run at once.
    pub(super) fn write_direct(&self, mut at: u64, mut data: &[u8]) -> io::Result<()> {
        if self.alignment.fits(at, data.as_ptr(), data.len()) {
            return self.write_aligned(at, data);
        }
        while !data.is_empty() {
            let (start, mut bounce, skip, count) = self.window(at, data.len());
            if skip != 0 || count != bounce.len() {
                self.read_aligned(start, &mut bounce)?;
            }
            let (now, later) = data.split_at(count);
            bounce[skip..skip + count].copy_from_slice(now);
            self.write_aligned(start, &bounce)?;
            at += count as u64;
            data = later;
        }
        Ok(())
    }
}

impl ReadDevice for DirectDevice {
    fn len(&self) -> u64 {
        self.len
    }

    fn alignment(&self) -> usize {
        self.alignment.memory.max(self.alignment.offset)
    }

    fn read_at(&self, at: Physical, buf: &mut [u8]) -> io::Result<()> {
        check_read(at, buf.len(), self.len)?;
        let at = at.raw();
        let direct_bytes = self.direct_end().saturating_sub(at).min(buf.len() as u64) as usize;
        let (direct, tail) = buf.split_at_mut(direct_bytes);
        if self.alignment.fits(at, direct.as_ptr(), direct.len()) {
            self.read_aligned(at, direct)?;
        } else {
            self.read_bounced(at, direct)?;
        }
        match &self.tail {
            Some(file) if !tail.is_empty() => file.read_exact_at(tail, at + direct_bytes as u64),
            _ => Ok(()),
        }
    }
}

/// Whether the kernel says that this file has no direct I/O, at open or at the first read.
pub(super) fn is_refusal(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EOPNOTSUPP)) || error.kind() == io::ErrorKind::Unsupported
}

#[cfg(test)]
mod tests {
    use super::Alignment;

    #[test]
    fn an_alignment_that_cannot_be_is_not_believed() {
        assert_eq!(Alignment::from_kernel(4, 512), Some(Alignment { memory: 4, offset: 512 }));
        assert_eq!(Alignment::from_kernel(0, 0), None);
        assert_eq!(Alignment::from_kernel(512, 3000), None);
        assert_eq!(Alignment::from_kernel(512, 1 << 30), None);
    }

    #[test]
    fn a_request_fits_when_offset_length_and_address_do() {
        let alignment = Alignment { memory: 512, offset: 4096 };
        let at = |address: usize| std::ptr::without_provenance::<u8>(address);
        assert!(alignment.fits(8192, at(512), 4096));
        assert!(!alignment.fits(8193, at(512), 4096));
        assert!(!alignment.fits(8192, at(513), 4096));
        assert!(!alignment.fits(8192, at(512), 4095));
    }
}
