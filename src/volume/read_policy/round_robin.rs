//! `round-robin[:MIN_CONTIG]`: the copies in turn, after the kernel's `btrfs_read_rr()`.
//!
//! Two things differ from it. The kernel has one counter for the file system; over RAID10 that can move in step with
//! the striping, so that half of the devices never read. Here every group of copies has its own (by its lowest devid).
//! And the counter counts bytes in 64 bits: it wraps after 16 EiB, which costs one shortened run and no skew.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::{ReadPolicy, Request, Ticket};
use crate::units::DeviceId;

/// Groups of copies with a counter of their own; more groups share.
const COUNTERS: usize = 64;

pub(super) struct RoundRobin {
    run_bytes: u64,
    read_bytes: [AtomicU64; COUNTERS],
}

impl RoundRobin {
    /// Turns to the next device after `run_bytes`.
    pub(super) fn new(run_bytes: u64) -> Self {
        Self::starting_at(run_bytes, 0)
    }

    /// As if `read_bytes` had been read already.
    pub(super) fn starting_at(run_bytes: u64, read_bytes: u64) -> Self {
        Self { run_bytes: run_bytes.max(1), read_bytes: std::array::from_fn(|_| AtomicU64::new(read_bytes)) }
    }
}

impl ReadPolicy for RoundRobin {
    fn choose(&self, candidates: &[DeviceId], request: &Request, _now_ns: u64) -> (usize, Ticket) {
        let lowest = candidates.iter().min().map_or(0, |devid| devid.raw());
        let counter = &self.read_bytes[(lowest % COUNTERS as u64) as usize];
        // A request that crosses the end of a run belongs to it and ends it: else requests of 128 KiB in runs of
        // 192 KiB would go two to one.
        let past = |before: u64| {
            let end = (before / self.run_bytes).wrapping_add(1).wrapping_mul(self.run_bytes);
            let after = before.wrapping_add(request.len_bytes.max(1));
            Some(if end.wrapping_sub(before) < request.len_bytes { end } else { after })
        };
        let before = counter.fetch_update(Relaxed, Relaxed, past).unwrap_or_else(|same| same);
        let rank = (before / self.run_bytes) % candidates.len().max(1) as u64;
        (index_of_rank(candidates, rank as usize), Ticket::default())
    }
}

/// The index of the `rank`-th smallest devid: chunks list their stripes in any order, the turn goes by device.
fn index_of_rank(candidates: &[DeviceId], rank: usize) -> usize {
    let below = |index: usize, devid: DeviceId| {
        candidates.iter().enumerate().filter(|&(other, &its)| (its, other) < (devid, index)).count()
    };
    candidates.iter().enumerate().position(|(index, &devid)| below(index, devid) == rank).unwrap_or(0)
}
