//! Which block group is planned next: one at a time on each device. Decides nothing but the order.

use super::group::devices_of;
use crate::units::DeviceId;
use crate::volume::Chunk;
use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// Which block groups are waiting, and which devices are being planned for.
pub(super) struct Schedule {
    state: Mutex<Waiting>,
    released: Condvar,
}

struct Waiting {
    chunks: VecDeque<Arc<Chunk>>,
    busy: BTreeSet<DeviceId>,
}

impl Schedule {
    /// All of them wait.
    pub(super) fn new(chunks: Vec<Arc<Chunk>>) -> Self {
        Self { state: Mutex::new(Waiting { chunks: chunks.into(), busy: BTreeSet::new() }), released: Condvar::new() }
    }

    /// The first waiting chunk whose devices are all free; waits while there are chunks but none of these.
    pub(super) fn take(&self) -> Option<Arc<Chunk>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if state.chunks.is_empty() {
                return None;
            }
            let busy = &state.busy;
            let free = state.chunks.iter().position(|chunk| devices_of(chunk).is_disjoint(busy));
            if let Some(chunk) = free.and_then(|number| state.chunks.remove(number)) {
                state.busy.extend(devices_of(&chunk));
                return Some(chunk);
            }
            state = self.released.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The first waiting chunk that shares a device with this one.
    pub(super) fn following(&self, chunk: &Chunk) -> Option<Arc<Chunk>> {
        let devices = devices_of(chunk);
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.chunks.iter().find(|waiting| !devices_of(waiting).is_disjoint(&devices)).map(Arc::clone)
    }

    /// The devices of the chunk are free again.
    pub(super) fn release(&self, chunk: &Chunk) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        for devid in devices_of(chunk) {
            state.busy.remove(&devid);
        }
        self.released.notify_all();
    }
}
