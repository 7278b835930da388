//! A decorator that counts what passes: how a test shows that each byte is read once.

use super::{ReadDevice, WriteDevice};
use crate::units::Physical;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts the calls that reach `inner`. Share it in an `Arc` to read the counts while others use it.
pub struct CountingDevice<D> {
    inner: D,
    reads: AtomicU64,
    bytes_read: AtomicU64,
    read_errors: AtomicU64,
    writes: AtomicU64,
    syncs: AtomicU64,
}

impl<D> CountingDevice<D> {
    /// All counts at zero.
    pub fn new(inner: D) -> Self {
        let zero = || AtomicU64::new(0);
        Self { inner, reads: zero(), bytes_read: zero(), read_errors: zero(), writes: zero(), syncs: zero() }
    }

    /// Reads asked for, failed ones too.
    pub fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }

    /// Bytes of the reads that succeeded.
    pub fn bytes_read(&self) -> u64 {
        self.bytes_read.load(Ordering::Relaxed)
    }

    /// Reads that failed.
    pub fn read_errors(&self) -> u64 {
        self.read_errors.load(Ordering::Relaxed)
    }

    /// Writes asked for, failed ones too.
    pub fn writes(&self) -> u64 {
        self.writes.load(Ordering::Relaxed)
    }

    /// Syncs asked for, failed ones too.
    pub fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::Relaxed)
    }
}

impl<D: ReadDevice> ReadDevice for CountingDevice<D> {
    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn alignment(&self) -> usize {
        self.inner.alignment()
    }

    fn read_at(&self, at: Physical, buf: &mut [u8]) -> io::Result<()> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        let result = self.inner.read_at(at, buf);
        match result {
            Ok(()) => self.bytes_read.fetch_add(buf.len() as u64, Ordering::Relaxed),
            Err(_) => self.read_errors.fetch_add(1, Ordering::Relaxed),
        };
        result
    }
}

impl<D: WriteDevice> WriteDevice for CountingDevice<D> {
    fn write_at(&self, at: Physical, data: &[u8]) -> io::Result<()> {
        self.writes.fetch_add(1, Ordering::Relaxed);
        self.inner.write_at(at, data)
    }

    fn sync(&self) -> io::Result<()> {
        self.syncs.fetch_add(1, Ordering::Relaxed);
        self.inner.sync()
    }
}
