//! A real device that answers no faster than its model would: reads wait in real time for a modelled disk or flash.

use super::model::{DeviceModel, Direction, DiskModel, FlashModel, Head, Medium};
use crate::device::ReadDevice;
use crate::units::{DeviceId, Physical};
use crate::volume::{DeviceSet, Member, SetError};
use std::io;
use std::num::NonZeroU64;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Puts every member behind a model: the first is that of the lowest devid, and the last serves all that are left. Without
/// models the members stay as they are.
pub fn emulated(set: &DeviceSet, models: &[DeviceModel]) -> Result<DeviceSet, SetError> {
    let mut devids: Vec<DeviceId> = set.members().map(|member| member.devid()).collect();
    devids.sort_unstable();
    set.behind(|member: &Member| {
        let device = Arc::clone(member.device());
        match model_of(member.devid(), &devids, models) {
            Some(model) => Arc::new(EmulatedDevice::new(device, model)),
            None => device,
        }
    })
}

fn model_of<'m>(devid: DeviceId, sorted: &[DeviceId], models: &'m [DeviceModel]) -> Option<&'m DeviceModel> {
    let place = sorted.iter().position(|known| *known == devid)?;
    models.get(place).or(models.last())
}

/// What time it is, and waiting for another.
trait Clock: Send + Sync {
    /// Nanoseconds since some moment.
    fn now_ns(&self) -> u64;

    /// Returns when it is `at_ns` or later.
    fn sleep_until(&self, at_ns: u64);
}

/// The clock of this machine.
struct RealTime(Instant);

impl Clock for RealTime {
    fn now_ns(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn sleep_until(&self, at_ns: u64) {
        // The kernel wakes a thread up to 50 us late unless told otherwise, which is the time of a read from flash.
        let _ = rustix::thread::set_current_timer_slack(Some(NonZeroU64::MIN));
        std::thread::sleep(Duration::from_nanos(at_ns.saturating_sub(self.now_ns())));
    }
}

/// A device behind a model.
pub struct EmulatedDevice {
    inner: Arc<dyn ReadDevice>,
    medium: Medium,
    clock: Arc<dyn Clock>,
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
        Self::on_clock(inner, model, Arc::new(RealTime(Instant::now())))
    }

    fn on_clock(inner: Arc<dyn ReadDevice>, model: &DeviceModel, clock: Arc<dyn Clock>) -> Self {
        Self { inner, medium: model.medium.clone(), clock, state: Mutex::default(), freed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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
        let access = disk.access(&state.head, Direction::Read, at, len_bytes, self.clock.now_ns());
        (state.head, state.busy) = (access.head, true);
        drop(state);
        self.clock.sleep_until(access.done_ns);
        let mut state = self.lock();
        state.busy = false;
        state.chosen = nearest(disk, &state, self.clock.now_ns());
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
        self.clock.sleep_until(self.clock.now_ns() + channel_ns);
        let mut state = self.lock();
        state.link_free_ns = state.link_free_ns.max(self.clock.now_ns()) + flash.link_ns(Direction::Read, len_bytes);
        let through_ns = state.link_free_ns;
        drop(state);
        // A throttle lets nothing else pass meanwhile.
        if flash.is_throttle() {
            self.clock.sleep_until(through_ns);
        }
        self.lock().busy_channels -= 1;
        self.freed.notify_all();
        self.clock.sleep_until(through_ns);
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
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    /// A clock that whoever waits for it puts forward.
    #[derive(Default)]
    struct HandClock(AtomicU64);

    impl Clock for HandClock {
        fn now_ns(&self) -> u64 {
            self.0.load(Relaxed)
        }

        fn sleep_until(&self, at_ns: u64) {
            self.0.fetch_max(at_ns, Relaxed);
        }
    }

    const LEN: usize = 16 << 20;

    /// The time that reads of `len_bytes` take one after the other, in seconds.
    fn took(model: &str, reads: impl Iterator<Item = usize>, len_bytes: usize) -> f64 {
        let clock = Arc::new(HandClock::default());
        let inner: Arc<dyn ReadDevice> = Arc::new(MemoryDevice::new(vec![7; LEN]));
        let model = DeviceModel::built_in(model).unwrap();
        let device = EmulatedDevice::on_clock(inner, &model, Arc::clone(&clock) as Arc<dyn Clock>);
        let mut bytes = vec![0; len_bytes];
        for at in reads {
            bytes.fill(0);
            device.read_at(Physical::new(at as u64), &mut bytes).unwrap();
            assert!(bytes.iter().all(|byte| *byte == 7));
        }
        clock.now_ns() as f64 / 1e9
    }

    fn in_order(len_bytes: usize) -> impl Iterator<Item = usize> {
        (0..LEN / len_bytes).map(move |read| read * len_bytes)
    }

    fn close(found: f64, expect: f64) {
        assert!((found / expect - 1.0).abs() < 0.02, "found {found}, expect {expect}");
    }

    #[test]
    fn reading_in_order_gets_the_rate_of_the_data_sheet() {
        for (model, rate) in [("hdd", 255e6), ("hdd-2005", 64.8e6), ("vm", 100e6)] {
            // The first read of a disk waits for the platter.
            let first = if model == "vm" { 0.0 } else { took(model, 0..1, 128 << 10) };
            close(took(model, in_order(128 << 10), 128 << 10) - first, (LEN - (128 << 10)) as f64 / rate);
        }
    }

    #[test]
    fn one_read_at_a_time_gets_the_requests_per_second_of_the_data_sheet() {
        for (model, per_second) in [("ssd", 10e3), ("nvme", 15e3), ("vm", 7_812.0)] {
            close(took(model, in_order(4096), 4096), (LEN / 4096) as f64 / per_second);
        }
    }

    #[test]
    fn a_disk_waits_for_head_and_platter_where_reads_are_apart() {
        let there_and_back = (0..100).map(|read| if read % 2 == 0 { 0 } else { LEN - 4096 });
        let mean_ms = took("hdd", there_and_back, 4096) * 10.0;
        assert!((0.43..9.0).contains(&mean_ms), "{mean_ms}");
    }

    #[test]
    fn real_time_is_never_early() {
        let clock = RealTime(Instant::now());
        clock.sleep_until(200_000);
        assert!(clock.now_ns() >= 200_000);
    }

    #[test]
    fn models_go_by_devid_and_the_last_serves_the_rest() {
        let models = ["hdd", "ssd"].map(|name| DeviceModel::built_in(name).unwrap());
        let devids = [1, 4, 7].map(DeviceId::new);
        let names = devids.map(|devid| model_of(devid, &devids, &models).unwrap().name.as_str());
        assert_eq!(names, ["hdd", "ssd", "ssd"]);
        assert_eq!(model_of(devids[0], &devids, &[]), None);
    }
}
