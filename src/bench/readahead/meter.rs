//! A decorator that measures what passes: reads, bytes, how long they were on their way, and how often a read did not
//! start where the one before it on the same device ended.

use crate::device::ReadDevice;
use crate::units::Physical;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

/// What devices were asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Requests.
    pub reads: u64,
    /// Bytes of all requests.
    pub bytes: u64,
    /// The sum of the times that all requests took, in ns.
    pub busy_ns: u64,
    /// Requests that did not continue the one before; in a simulation, movements of the head.
    pub seeks: u64,
}

/// Counters that several devices share.
#[derive(Debug, Default)]
pub struct Meter {
    reads: AtomicU64,
    bytes: AtomicU64,
    busy_ns: AtomicU64,
    seeks: AtomicU64,
}

impl Meter {
    /// What was counted so far.
    pub fn traffic(&self) -> Traffic {
        Traffic {
            reads: self.reads.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
            busy_ns: self.busy_ns.load(Relaxed),
            seeks: self.seeks.load(Relaxed),
        }
    }

    /// Starts anew.
    pub fn reset(&self) {
        for counter in [&self.reads, &self.bytes, &self.busy_ns, &self.seeks] {
            counter.store(0, Relaxed);
        }
    }
}

/// A device whose reads are counted.
pub struct MeteredDevice {
    inner: Arc<dyn ReadDevice>,
    meter: Arc<Meter>,
    end: AtomicU64,
}

impl MeteredDevice {
    /// Counts the reads of `inner` in `meter`.
    pub fn new(inner: Arc<dyn ReadDevice>, meter: Arc<Meter>) -> Self {
        Self { inner, meter, end: AtomicU64::new(0) }
    }
}

impl ReadDevice for MeteredDevice {
    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn alignment(&self) -> usize {
        self.inner.alignment()
    }

    fn read_at(&self, at: Physical, buf: &mut [u8]) -> io::Result<()> {
        let end = at + buf.len() as u64;
        let continues = self.end.swap(end.raw(), Relaxed) == at.raw();
        let started = Instant::now();
        let result = self.inner.read_at(at, buf);
        let took_ns = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.meter.reads.fetch_add(1, Relaxed);
        self.meter.bytes.fetch_add(buf.len() as u64, Relaxed);
        self.meter.busy_ns.fetch_add(took_ns, Relaxed);
        self.meter.seeks.fetch_add(u64::from(!continues), Relaxed);
        result
    }
}
