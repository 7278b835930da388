//! `latency`: the device whose reads have taken least time on average.
//!
//! A moving average per device, updated by each completion and by nothing else: a device that is not read keeps the
//! figure it had. That is the policy of the mailing list, with its faults: all readers turn to one device at once until
//! its queue makes it the slower one, and a device that was slow once is not tried again while another stays better.
//! The longer the memory of the average beside the queue, the longer a herd stays together.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::device_table::DeviceTable;
use super::{Completion, ReadPolicy, Request, Ticket};
use crate::units::DeviceId;

/// Samples that the average spans unless told otherwise.
pub(super) const DEFAULT_SAMPLES: u32 = 64;

pub(super) struct Latency {
    samples: u64,
    average_ns: DeviceTable<AtomicU64>,
}

impl Latency {
    /// A new sample counts for one of `samples`.
    pub(super) fn new(devids: &[DeviceId], samples: u32) -> Self {
        Self { samples: u64::from(samples.max(1)), average_ns: DeviceTable::new(devids) }
    }
}

impl ReadPolicy for Latency {
    fn choose(&self, candidates: &[DeviceId], _request: &Request, _now_ns: u64) -> (usize, Ticket) {
        let average = |devid: DeviceId| self.average_ns.of(devid).map_or(0, |ns| ns.load(Relaxed));
        let best = (0..candidates.len()).min_by_key(|&index| average(candidates[index]));
        (best.unwrap_or(0), Ticket::default())
    }

    fn observe(&self, devid: DeviceId, _ticket: Ticket, done: &Completion) {
        // A failure is often quick; it must not make a device attractive.
        if let (true, Some(average)) = (done.ok, self.average_ns.of(devid)) {
            let old_ns = average.load(Relaxed);
            let new_ns = match old_ns {
                0 => done.latency_ns,
                _ => old_ns - old_ns / self.samples + done.latency_ns / self.samples,
            };
            average.store(new_ns.max(1), Relaxed);
        }
    }
}
