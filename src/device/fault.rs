//! A decorator that fails on purpose, in the ways that disks do: the same ranges each time, or from some read on.

use super::{ReadDevice, WriteDevice};
use crate::units::Physical;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// What goes wrong with a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A read that touches the range fails with this errno.
    Read(i32),
    /// A write that touches the range fails with this errno, and nothing is written.
    Write(i32),
    /// A write that touches the range reports success, and nothing is written.
    LostWrite,
}

/// Fails as told; otherwise `inner`.
pub struct FaultyDevice<D> {
    inner: D,
    faults: Vec<(Range<Physical>, Fault)>,
    dies: Option<(u64, i32)>,
    reads: AtomicU64,
}

impl<D> FaultyDevice<D> {
    /// No faults yet.
    pub fn new(inner: D) -> Self {
        Self { inner, faults: Vec::new(), dies: None, reads: AtomicU64::new(0) }
    }

    /// Adds a fault for a range; the first that fits a request decides.
    #[must_use]
    pub fn with_fault(mut self, range: Range<Physical>, fault: Fault) -> Self {
        self.faults.push((range, fault));
        self
    }

    /// After `reads` reads each further one fails with `errno`: a disk that dies.
    #[must_use]
    pub fn dying_after(mut self, reads: u64, errno: i32) -> Self {
        self.dies = Some((reads, errno));
        self
    }

    fn faults_of(&self, at: Physical, bytes: usize) -> impl Iterator<Item = Fault> {
        let end = at + bytes as u64;
        self.faults.iter().filter(move |(range, _)| range.start < end && at < range.end).map(|(_, fault)| *fault)
    }
}

impl<D: ReadDevice> ReadDevice for FaultyDevice<D> {
    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn alignment(&self) -> usize {
        self.inner.alignment()
    }

    fn read_at(&self, at: Physical, buf: &mut [u8]) -> io::Result<()> {
        let before = self.reads.fetch_add(1, Ordering::Relaxed);
        if let Some((_, errno)) = self.dies.filter(|(reads, _)| before >= *reads) {
            return Err(io::Error::from_raw_os_error(errno));
        }
        for fault in self.faults_of(at, buf.len()) {
            if let Fault::Read(errno) = fault {
                return Err(io::Error::from_raw_os_error(errno));
            }
        }
        self.inner.read_at(at, buf)
    }
}

impl<D: WriteDevice> WriteDevice for FaultyDevice<D> {
    fn write_at(&self, at: Physical, data: &[u8]) -> io::Result<()> {
        for fault in self.faults_of(at, data.len()) {
            match fault {
                Fault::Write(errno) => return Err(io::Error::from_raw_os_error(errno)),
                Fault::LostWrite => return Ok(()),
                Fault::Read(_) => {}
            }
        }
        self.inner.write_at(at, data)
    }

    fn sync(&self) -> io::Result<()> {
        self.inner.sync()
    }
}

#[cfg(test)]
mod tests {
    use super::{Fault, FaultyDevice};
    use crate::device::{MemoryDevice, ReadDevice, WriteDevice};
    use crate::units::Physical;

    fn range(start: u64, end: u64) -> std::ops::Range<Physical> {
        Physical::new(start)..Physical::new(end)
    }

    #[test]
    fn a_range_fails_where_it_is_touched_and_nowhere_else() {
        let device = FaultyDevice::new(MemoryDevice::new(vec![1; 100])).with_fault(range(10, 20), Fault::Read(5));
        let read = |at, bytes| device.read_at(Physical::new(at), &mut vec![0; bytes]).map_err(|e| e.raw_os_error());
        assert_eq!(read(0, 10), Ok(()));
        assert_eq!(read(0, 11), Err(Some(5)));
        assert_eq!(read(19, 1), Err(Some(5)));
        assert_eq!(read(20, 80), Ok(()));
    }

    #[test]
    fn a_dying_disk_answers_so_many_reads() {
        let device = FaultyDevice::new(MemoryDevice::new(vec![1; 100])).dying_after(2, 19);
        let read = || device.read_at(Physical::new(0), &mut [0]).map_err(|e| e.raw_os_error());
        assert_eq!([read(), read(), read(), read()], [Ok(()), Ok(()), Err(Some(19)), Err(Some(19))]);
    }

    #[test]
    fn a_lost_write_reports_success_and_a_failed_one_its_errno() {
        let device = FaultyDevice::new(MemoryDevice::new(vec![1; 100]))
            .with_fault(range(10, 20), Fault::LostWrite)
            .with_fault(range(30, 40), Fault::Write(28));
        device.write_at(Physical::new(10), &[9; 10]).unwrap();
        assert_eq!(device.write_at(Physical::new(39), &[9; 2]).unwrap_err().raw_os_error(), Some(28));
        device.write_at(Physical::new(50), &[9]).unwrap();
        let changed: Vec<_> =
            device.inner.to_bytes().iter().enumerate().filter(|(_, b)| **b != 1).map(|(i, _)| i).collect();
        assert_eq!(changed, [50]);
    }
}
