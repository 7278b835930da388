//! How far a run is and whether it should stop: atomics that the run bumps and somebody else polls.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Shared between a run and whoever watches it. All counters only grow.
#[derive(Debug, Default)]
pub struct Progress {
    /// Bytes read and judged so far, over all devices.
    pub bytes_done: AtomicU64,
    /// Bytes to read; 0 until the run knows.
    pub bytes_total: AtomicU64,
    /// Findings so far.
    pub errors: AtomicU64,
    /// Set to ask the run to end early and to report what it has.
    pub cancel: Arc<AtomicBool>,
}

impl Progress {
    /// Whether the run was asked to end.
    pub fn is_cancelled(&self) -> bool {
        self.cancel.load(Ordering::Relaxed)
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
