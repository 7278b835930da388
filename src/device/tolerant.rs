//! A read that never gives up on a whole range: one bad sector costs one sector.
//!
//! A failed range is halved until what fails is one sector, so `n` bad sectors of a range of `s` cost about
//! `2 n log2(s)` reads, and never more than `2 s`. A device that is gone is asked once.

use super::ReadDevice;
use crate::units::Physical;
use std::io;

/// A sector that could not be read; its bytes in the buffer are zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailedSector {
    /// Which sector of the buffer, from 0.
    pub index: usize,
    /// What the kernel said; `None` for a sector that lies (partly) past the end of the member.
    pub errno: Option<i32>,
}

/// Fills `buf` from `at`; sectors that cannot be read become zeros and are appended to `failed` in ascending order.
/// The last sector may be short where `buf` is no multiple of `sector_bytes`.
pub fn read_tolerant<D: ReadDevice + ?Sized>(
    device: &D,
    at: Physical,
    buf: &mut [u8],
    sector_bytes: usize,
    failed: &mut Vec<FailedSector>,
) {
    let sector_bytes = sector_bytes.max(1);
    let present_bytes = (device.len().saturating_sub(at.raw())).min(buf.len() as u64) as usize;
    // A sector that the end of the member cuts is of no use to anybody.
    let readable_bytes =
        if present_bytes == buf.len() { present_bytes } else { present_bytes - present_bytes % sector_bytes };
    let (readable, missing) = buf.split_at_mut(readable_bytes);
    Attempt { device, sector_bytes, failed }.read(at, 0, readable);
    give_up(missing, readable_bytes / sector_bytes, sector_bytes, None, failed);
}

struct Attempt<'a, D: ?Sized> {
    device: &'a D,
    sector_bytes: usize,
    failed: &'a mut Vec<FailedSector>,
}

impl<D: ReadDevice + ?Sized> Attempt<'_, D> {
    /// Reads what starts at sector `first`; the depth is the logarithm of the number of sectors.
    fn read(&mut self, at: Physical, first: usize, buf: &mut [u8]) {
        let Err(error) = (if buf.is_empty() { Ok(()) } else { self.device.read_at(at, buf) }) else { return };
        let sectors = buf.len().div_ceil(self.sector_bytes);
        if sectors == 1 || is_gone(&error) {
            give_up(buf, first, self.sector_bytes, error.raw_os_error(), self.failed);
            return;
        }
        let half = sectors / 2;
        let half_bytes = half * self.sector_bytes;
        let (left, right) = buf.split_at_mut(half_bytes);
        self.read(at, first, left);
        self.read(at + half_bytes as u64, first + half, right);
    }
}

fn give_up(buf: &mut [u8], first: usize, sector_bytes: usize, errno: Option<i32>, failed: &mut Vec<FailedSector>) {
    buf.fill(0);
    let sectors = buf.len().div_ceil(sector_bytes);
    failed.extend((first..first + sectors).map(|index| FailedSector { index, errno }));
}

/// The device has left; asking again for each sector would only take time.
fn is_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENODEV | libc::ENXIO | libc::ENOMEDIUM))
}

#[cfg(test)]
mod tests {
    use super::{FailedSector, read_tolerant};
    use crate::device::{CountingDevice, Fault, FaultyDevice, MemoryDevice, ReadDevice};
    use crate::units::Physical;

    const SECTOR: usize = 4096;

    fn device(bad_sectors: &[u64]) -> CountingDevice<FaultyDevice<MemoryDevice>> {
        let mut device = FaultyDevice::new(MemoryDevice::new(vec![1; 256 * SECTOR]));
        for sector in bad_sectors {
            let at = Physical::new(sector * SECTOR as u64 + 100);
            device = device.with_fault(at..at + 1, Fault::Read(5));
        }
        CountingDevice::new(device)
    }

    fn read(device: &impl ReadDevice, at: u64, bytes: usize) -> (Vec<u8>, Vec<(usize, Option<i32>)>) {
        let mut buf = vec![0xaa; bytes];
        let mut failed = Vec::new();
        read_tolerant(device, Physical::new(at), &mut buf, SECTOR, &mut failed);
        (buf, failed.into_iter().map(|FailedSector { index, errno }| (index, errno)).collect())
    }

    #[test]
    fn a_good_range_is_one_read() {
        let device = device(&[]);
        assert_eq!(read(&device, 0, 256 * SECTOR), (vec![1; 256 * SECTOR], vec![]));
        assert_eq!(device.reads(), 1);
    }

    #[test]
    fn one_bad_sector_costs_one_sector_and_few_reads() {
        let device = device(&[77]);
        let (buf, failed) = read(&device, 0, 256 * SECTOR);
        assert_eq!(failed, [(77, Some(5))]);
        assert!(buf[..77 * SECTOR].iter().chain(&buf[78 * SECTOR..]).all(|byte| *byte == 1));
        assert!(buf[77 * SECTOR..78 * SECTOR].iter().all(|byte| *byte == 0));
        assert_eq!(device.reads(), 17);
    }

    #[test]
    fn a_range_that_is_all_bad_costs_two_reads_a_sector_at_most() {
        let device = device(&(0..256).collect::<Vec<_>>());
        let (_, failed) = read(&device, 0, 256 * SECTOR);
        assert_eq!(failed, (0..256).map(|index| (index, Some(5))).collect::<Vec<_>>());
        assert_eq!(device.reads(), 511);
    }

    #[test]
    fn a_device_that_is_gone_is_asked_once() {
        let gone = CountingDevice::new(FaultyDevice::new(MemoryDevice::new(vec![1; 64 * SECTOR])).dying_after(0, 19));
        let (buf, failed) = read(&gone, 0, 64 * SECTOR);
        assert_eq!((gone.reads(), failed.len(), failed[63]), (1, 64, (63, Some(19))));
        assert!(buf.iter().all(|byte| *byte == 0));
    }

    #[test]
    fn sectors_past_the_end_are_told_apart_from_unreadable_ones() {
        let device = CountingDevice::new(MemoryDevice::new(vec![1; 10 * SECTOR + 100]));
        let (buf, failed) = read(&device, 8 * SECTOR as u64, 4 * SECTOR);
        assert_eq!(failed, [(2, None), (3, None)]);
        assert!(buf[..2 * SECTOR].iter().all(|byte| *byte == 1) && buf[2 * SECTOR..].iter().all(|byte| *byte == 0));
        assert_eq!(device.reads(), 1);
        assert_eq!(read(&device, u64::MAX, 2 * SECTOR).1, [(0, None), (1, None)]);
    }

    #[test]
    fn a_short_last_sector_is_read_like_the_others() {
        let device = device(&[2]);
        assert_eq!(read(&device, 0, 2 * SECTOR + 200).1, [(2, Some(5))]);
        assert_eq!(read(&device, 0, 2 * SECTOR + 50), (vec![1; 2 * SECTOR + 50], vec![]));
    }
}
