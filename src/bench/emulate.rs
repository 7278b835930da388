//! A real device that answers no faster than its model would: reads wait in real time for a modelled disk or flash.

use super::model::{DeviceModel, Direction, DiskModel, FlashModel, Head, Medium};
use crate::device::ReadDevice;
use crate::units::Physical;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A device behind a model.
pub struct EmulatedDevice {
    inner: Arc<dyn ReadDevice>,
    medium: Medium,
    started: Instant,
    state: Mutex<State>,
    freed: Condvar,
}

#[derive(Default)]
struct State {
    head: Head,
    /// Requests that wait for the head.
    waiting: Vec<Waiting>,
    last_id: u64,
    /// The one that goes next.
    chosen: Option<u64>,
    busy: bool,
    busy_channels: u32,
    link_free_ns: u64,
}

struct Waiting {
    id: u64,
    at: u64,
    len_bytes: u64,
}

impl EmulatedDevice {
    /// Delays the reads of `inner`.
    pub fn new(inner: Arc<dyn ReadDevice>, model: &DeviceModel) -> Self {
        Self {
            inner,
            medium: model.medium.clone(),
            started: Instant::now(),
            state: Mutex::default(),
            freed: Condvar::new(),
        }
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sleep_until(&self, at_ns: u64) {
        std::thread::sleep(Duration::from_nanos(at_ns.saturating_sub(self.now_ns())));
    }

    /// Waits until the head is free and this request chosen, then for as long as the disk takes.
    fn wait_for_disk(&self, disk: &DiskModel, at: u64, len_bytes: u64) {
        let mut state = self.lock();
        state.last_id += 1;
        let id = state.last_id;
        state.waiting.push(Waiting { id, at, len_bytes });
        if !state.busy && state.chosen.is_none() {
            state.chosen = Some(id);
        }
        while state.busy || state.chosen != Some(id) {
            state = self.freed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.waiting.retain(|waiting| waiting.id != id);
        let access = disk.access(&state.head, Direction::Read, at, len_bytes, self.now_ns());
        (state.head, state.busy) = (access.head, true);
        drop(state);
        self.sleep_until(access.done_ns);
        let mut state = self.lock();
        state.busy = false;
        state.chosen = nearest(disk, &state, self.now_ns());
        self.freed.notify_all();
    }

    fn wait_for_flash(&self, flash: &FlashModel, len_bytes: u64) {
        let mut state = self.lock();
        while state.busy_channels >= flash.channels.max(1) {
            state = self.freed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.busy_channels += 1;
        drop(state);
        let (channel_ns, _) = flash.channel_ns(Direction::Read);
        self.sleep_until(self.now_ns() + channel_ns);
        let mut state = self.lock();
        state.link_free_ns = state.link_free_ns.max(self.now_ns()) + flash.link_ns(Direction::Read, len_bytes);
        let through_ns = state.link_free_ns;
        drop(state);
        // A throttle lets nothing else pass meanwhile.
        if flash.is_throttle() {
            self.sleep_until(through_ns);
        }
        self.lock().busy_channels -= 1;
        self.freed.notify_all();
        self.sleep_until(through_ns);
    }
}

/// Of the requests that fit the disk's queue, the one that costs the head the least.
fn nearest(disk: &DiskModel, state: &State, now_ns: u64) -> Option<u64> {
    let positioning = |waiting: &&Waiting| {
        disk.access(&state.head, Direction::Read, waiting.at, waiting.len_bytes, now_ns).positioning_ns
    };
    let known = state.waiting.iter().take(disk.queue_depth.max(1) as usize);
    known.min_by_key(positioning).map(|waiting| waiting.id)
}

impl ReadDevice for EmulatedDevice {
    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn alignment(&self) -> usize {
        self.inner.alignment()
    }

    fn read_at(&self, at: Physical, buf: &mut [u8]) -> io::Result<()> {
        match &self.medium {
            Medium::Disk(disk) => self.wait_for_disk(disk, at.raw(), buf.len() as u64),
            Medium::Flash(flash) => self.wait_for_flash(flash, buf.len() as u64),
        }
        self.inner.read_at(at, buf)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::MemoryDevice;

    #[test]
    fn a_read_takes_at_least_what_the_model_says_and_gives_the_same_bytes() {
        let inner: Arc<dyn ReadDevice> = Arc::new(MemoryDevice::new(vec![7; 1 << 16]));
        // The platter may happen to stand right: a disk owes no more than the transfer.
        for (model, least) in [("hdd", Duration::from_micros(10)), ("ssd", Duration::from_micros(90))] {
            let device = EmulatedDevice::new(Arc::clone(&inner), &DeviceModel::built_in(model).unwrap());
            let mut bytes = [0; 4096];
            let started = Instant::now();
            device.read_at(Physical::new(8192), &mut bytes).unwrap();
            assert!(started.elapsed() >= least, "{model}");
            assert_eq!(bytes, [7; 4096]);
        }
    }
}
