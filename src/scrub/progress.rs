//! What a run tells while it goes on, and how it is told to stop. The engine bumps numbers; somebody else polls them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Shared counters of a run.
#[derive(Debug, Default)]
pub struct Progress {
    bytes_done: AtomicU64,
    bytes_total: AtomicU64,
    errors: AtomicU64,
    cancelled: AtomicBool,
}

impl Progress {
    /// Bytes of allocated blocks read so far, over all copies.
    pub fn bytes_done(&self) -> u64 {
        self.bytes_done.load(Ordering::Relaxed)
    }

    /// Bytes of allocated blocks to read, over all copies; an estimate from the block group items.
    pub fn bytes_total(&self) -> u64 {
        self.bytes_total.load(Ordering::Relaxed)
    }

    /// Bad copies seen so far.
    pub fn errors(&self) -> u64 {
        self.errors.load(Ordering::Relaxed)
    }

    /// Ends the run soon: what is on its way is still read, nothing new is started.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// Was it told to stop?
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    pub(super) fn advance(&self, bytes: u64, errors: u64) {
        self.bytes_done.fetch_add(bytes, Ordering::Relaxed);
        self.errors.fetch_add(errors, Ordering::Relaxed);
    }

    pub(super) fn expect(&self, bytes_total: u64) {
        self.bytes_total.store(bytes_total, Ordering::Relaxed);
    }

    /// Asks the run to end early.
    pub fn cancel(&self) {
        self.cancel.store(true, Ordering::Relaxed);
    }

    pub(super) fn advance(&self, bytes: u64, errors: u64) {
        self.bytes_done.fetch_add(bytes, Ordering::Relaxed);
        self.errors.fetch_add(errors, Ordering::Relaxed);
    }
}
