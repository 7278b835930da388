//! The two policies that learn nothing: `pid` and `devid:N`.

use super::{ReadPolicy, Request, Ticket};
use crate::units::DeviceId;

/// Stream number modulo copies, as `btrfs_read_policy == BTRFS_READ_POLICY_PID` does with the process id.
pub(super) struct Pid;

impl ReadPolicy for Pid {
    fn choose(&self, candidates: &[DeviceId], request: &Request, _now_ns: u64) -> (usize, Ticket) {
        ((request.stream % candidates.len().max(1) as u64) as usize, Ticket::default())
    }
}

/// One device wherever it holds a copy, else the first copy (`btrfs_read_preferred()`).
pub(super) struct Preferred {
    devid: DeviceId,
}

impl Preferred {
    pub(super) fn new(devid: DeviceId) -> Self {
        Self { devid }
    }
}

impl ReadPolicy for Preferred {
    fn choose(&self, candidates: &[DeviceId], _request: &Request, _now_ns: u64) -> (usize, Ticket) {
        (candidates.iter().position(|&devid| devid == self.devid).unwrap_or(0), Ticket::default())
    }
}
