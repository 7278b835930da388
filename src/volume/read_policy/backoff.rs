//! Passing over a device whose reads fail, for a time that grows: fault handling, apart from balancing.
//!
//! A failure blocks the device. When the time is up, exactly one read is sent to it as a trial: success lifts the block,
//! failure lengthens it. A level decides how long: four steps up for a failure, one down for a success, four steps double
//! the time. So a device that fails more than one read in five drifts out of use, and one bad sector is soon forgotten.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use super::device_table::DeviceTable;
use crate::units::DeviceId;

/// Steps by which a failure raises the level; so many steps double the time.
const STEPS_PER_FAILURE: u32 = 4;
/// 10 ms << 13 = 82 s: a device is never given up.
const LEVEL_MAX: u32 = 13 * STEPS_PER_FAILURE;
/// How long the first failure blocks.
const BASE_NS: u64 = 10_000_000;

#[derive(Default)]
struct Health {
    level: AtomicU32,
    /// 0: not blocked.
    blocked_until_ns: AtomicU64,
}

/// What the filter says about a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admission {
    /// Nothing against it.
    Free,
    /// The time is up; the caller holds the one trial and must send it there.
    Trial,
    /// Not now.
    Blocked,
}

pub(super) struct Backoff {
    health: DeviceTable<Health>,
}

impl Backoff {
    pub(super) fn new(devids: &[DeviceId]) -> Self {
        Self { health: DeviceTable::new(devids) }
    }

    /// Whether `devid` may be read now. `Trial` is answered to one caller, then not before another full block.
    pub(super) fn admit(&self, devid: DeviceId, now_ns: u64) -> Admission {
        let Some(health) = self.health.of(devid) else { return Admission::Free };
        let until_ns = health.blocked_until_ns.load(Relaxed);
        if until_ns == 0 {
            return Admission::Free;
        }
        if now_ns < until_ns {
            return Admission::Blocked;
        }
        let again_ns = now_ns.saturating_add(block_ns(health.level.load(Relaxed)));
        match health.blocked_until_ns.compare_exchange(until_ns, again_ns, Relaxed, Relaxed) {
            Ok(_) => Admission::Trial,
            Err(_) => Admission::Blocked,
        }
    }

    /// Learns how a read ended that was submitted at `submitted_ns`.
    pub(super) fn observe(&self, devid: DeviceId, ok: bool, submitted_ns: u64, now_ns: u64) {
        let Some(health) = self.health.of(devid) else { return };
        let level = health.level.load(Relaxed);
        let until_ns = health.blocked_until_ns.load(Relaxed);
        // Reads sent before the block say nothing about its end: a queue of 256 that fails at once is one failure.
        let sent_before_block = until_ns != 0 && submitted_ns.saturating_add(block_ns(level)) < until_ns;
        if sent_before_block || (ok && level == 0) {
            return;
        }
        let (level, until_ns) = if ok {
            (level - 1, 0)
        } else {
            let raised = (level + STEPS_PER_FAILURE).min(LEVEL_MAX);
            (raised, now_ns.saturating_add(block_ns(raised)))
        };
        health.level.store(level, Relaxed);
        health.blocked_until_ns.store(until_ns, Relaxed);
    }
}

fn block_ns(level: u32) -> u64 {
    BASE_NS << (level / STEPS_PER_FAILURE).saturating_sub(1)
}
