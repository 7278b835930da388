//! One batch of writes, in phases each made only from the one before: log what was there and sync the log ([`log`]), write
//! and sync the devices ([`Writer`]), read back around the cache and compare ([`read_back`]).
//!
//! A device that errors on a write or a sync is dropped: nothing more is written to it in this run. The other devices
//! go on.

use super::journal::{Journal, Record};
use super::outcome::{Failure, StepState};
use crate::device::BufferPool;
use crate::lease::{LeasedDevice, WriteLease};
use crate::scrub::mend::{MAX_MEND_BYTES, ProvenBytes};
use crate::units::{DeviceId, DevicePhysical};
use std::collections::BTreeMap;
use std::io;
use std::panic::resume_unwind;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::ScopedJoinHandle;

/// Writes in flight per device, and reads of what was written.
const AT_A_TIME: usize = 4;
/// What direct writes want of an address, whatever the device.
const PAGE_BYTES: usize = 4096;
/// Buffers for both: a step is at most a window.
const BUFFERS: usize = 2 * AT_A_TIME;

/// The buffers that writes and reads of what was written go through: on huge pages, as a disk likes them.
pub(super) fn buffers() -> io::Result<BufferPool> {
    BufferPool::new(BUFFERS, MAX_MEND_BYTES)
}

/// One step, and what the log must have of it first.
pub(super) struct Write {
    pub(super) step: usize,
    pub(super) new: ProvenBytes,
    pub(super) record: Record,
}

impl Write {
    pub(super) fn place(&self) -> DevicePhysical {
        self.record.place
    }
}

/// A write whose record is on stable storage.
pub(super) struct Logged {
    step: usize,
    place: DevicePhysical,
    new: ProvenBytes,
}

/// A write that is said to be on stable storage.
pub(super) struct Written {
    device: LeasedDevice,
    write: Logged,
}

/// Steps that are settled.
pub(super) type States = Vec<(usize, StepState)>;

/// Logs a batch. An error leaves a log that takes no more.
pub(super) fn log(journal: &mut Journal, writes: Vec<Write>) -> io::Result<Vec<Logged>> {
    let one = |Write { step, new, record }| (Logged { step, place: record.place, new }, record);
    let (logged, records): (Vec<Logged>, Vec<Record>) = writes.into_iter().map(one).unzip();
    if !records.is_empty() {
        journal.log(&records)?;
    }
    Ok(logged)
}

/// Writes batches, and remembers which devices have failed.
pub(super) struct Writer<'a> {
    lease: &'a WriteLease,
    dropped: Mutex<BTreeMap<DeviceId, Failure>>,
}

impl<'a> Writer<'a> {
    pub(super) fn new(lease: &'a WriteLease) -> Self {
        Self { lease, dropped: Mutex::default() }
    }

    fn dropped(&self) -> MutexGuard<'_, BTreeMap<DeviceId, Failure>> {
        self.dropped.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The devices that failed, and how.
    pub(super) fn into_dropped(self) -> BTreeMap<DeviceId, Failure> {
        self.dropped.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the members were found not to be what they were: nothing is written any more, to none of them.
    pub(super) fn is_lost(&self) -> bool {
        self.lease.lost().is_some()
    }

    /// Why nothing is written to this device.
    pub(super) fn refusal(&self, devid: DeviceId) -> Option<Failure> {
        match self.lease.device(devid) {
            None => Some(Failure::NotOpen),
            Some(_) => self.dropped().contains_key(&devid).then_some(Failure::DeviceDropped),
        }
    }

    /// Writes and syncs. Returns what is to be read back, and the steps that have failed. Steps of members that are not
    /// what they were stay as they are: not reached.
    pub(super) fn write(&self, writes: Vec<Logged>, pool: &BufferPool) -> (Vec<Written>, States) {
        let mut failed = States::new();
        if writes.is_empty() || self.lease.check_batch().is_err() {
            return (Vec::new(), failed);
        }
        let mut by_device: BTreeMap<DeviceId, Vec<Logged>> = BTreeMap::new();
        for write in writes {
            let devid = write.place.devid;
            match self.refusal(devid) {
                Some(failure) => failed.push((write.step, StepState::Failed(failure))),
                None => by_device.entry(devid).or_default().push(write),
            }
        }
        let mut written = Vec::new();
        for (devid, done) in self.write_all(by_device, pool) {
            if let Some(failure) = done.failure.filter(|_| !self.is_lost()) {
                self.dropped().insert(devid, failure);
            }
            if !self.is_lost() {
                failed.extend(done.failed);
            }
            if let Some(device) = self.lease.device(devid) {
                written.extend(done.written.into_iter().map(|write| Written { device: device.clone(), write }));
            }
        }
        (written, failed)
    }

    /// Each device by a thread of its own.
    fn write_all(&self, by_device: BTreeMap<DeviceId, Vec<Logged>>, pool: &BufferPool) -> Vec<(DeviceId, DeviceDone)> {
        let devices = by_device.into_iter().filter_map(|(devid, w)| Some((devid, self.lease.device(devid)?, w)));
        let mut jobs: Vec<_> = devices.collect();
        if jobs.len() < 2 {
            return jobs.pop().map(|(devid, device, w)| (devid, write_device(&device, w, pool))).into_iter().collect();
        }
        std::thread::scope(|scope| {
            let start = |(devid, device, writes): (DeviceId, LeasedDevice, Vec<Logged>)| {
                (devid, scope.spawn(move || write_device(&device, writes, pool)))
            };
            let threads: Vec<_> = jobs.into_iter().map(start).collect();
            let join =
                |thread: ScopedJoinHandle<'_, DeviceDone>| thread.join().unwrap_or_else(|panic| resume_unwind(panic));
            threads.into_iter().map(|(devid, thread)| (devid, join(thread))).collect()
        })
    }
}

/// What became of the writes to one device.
#[derive(Default)]
struct DeviceDone {
    written: Vec<Logged>,
    failed: States,
    /// Why the device must not be written again.
    failure: Option<Failure>,
}

/// Writes in the order of the device, several at a time, and syncs.
fn write_device(device: &LeasedDevice, mut writes: Vec<Logged>, pool: &BufferPool) -> DeviceDone {
    writes.sort_by_key(|write| write.place.physical);
    let done = Mutex::new(DeviceDone::default());
    let lock = || done.lock().unwrap_or_else(PoisonError::into_inner);
    several_at_a_time(writes, pool, |write, buffer| {
        if lock().failure.is_some() {
            lock().failed.push((write.step, StepState::Failed(Failure::DeviceDropped)));
            return;
        }
        match write_staged(device, &write, buffer) {
            Ok(()) => lock().written.push(write),
            Err(error) => {
                let failure = Failure::Write(error.raw_os_error());
                let mut done = lock();
                done.failed.push((write.step, StepState::Failed(failure)));
                done.failure = Some(failure);
            }
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Err(error) = device.sync() {
        let failure = Failure::Sync(error.raw_os_error());
        done.failed.extend(done.written.drain(..).map(|write| (write.step, StepState::Failed(failure))));
        done.failure.get_or_insert(failure);
    }
    done
}

/// The part of a buffer that takes what is written: all of it, for a step is no longer than a buffer.
fn stage<'b>(buffer: &'b mut [u8], write: &Logged) -> io::Result<&'b mut [u8]> {
    buffer.get_mut(..write.new.len()).ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

/// As it is where it stands on pages of its own, else through a buffer that does: from there it can go directly.
fn write_staged(device: &LeasedDevice, write: &Logged, buffer: &mut [u8]) -> io::Result<()> {
    if write.new.as_ptr().addr().is_multiple_of(PAGE_BYTES) {
        return device.write_at(write.place.physical, &write.new);
    }
    let stage = stage(buffer, write)?;
    stage.copy_from_slice(&write.new);
    device.write_at(write.place.physical, stage)
}

/// Reads back and compares.
pub(super) fn read_back(written: Vec<Written>, pool: &BufferPool) -> States {
    let states = Mutex::new(Vec::with_capacity(written.len()));
    several_at_a_time(written, pool, |Written { device, write }, buffer| {
        let state = match holds(&device, &write, buffer) {
            Ok(true) => StepState::Done,
            Ok(false) => StepState::Failed(Failure::ReadBackDiffers),
            Err(error) => StepState::Failed(Failure::ReadBack(error.raw_os_error())),
        };
        states.lock().unwrap_or_else(PoisonError::into_inner).push((write.step, state));
    });
    states.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Whether the device holds what was written.
fn holds(device: &LeasedDevice, write: &Logged, buffer: &mut [u8]) -> io::Result<bool> {
    let stage = stage(buffer, write)?;
    device.read_at(write.place.physical, stage)?;
    Ok(*stage == write.new[..])
}

/// Does something with each item and a buffer of the pool, on [`AT_A_TIME`] threads.
fn several_at_a_time<T: Send>(items: Vec<T>, pool: &BufferPool, each: impl Fn(T, &mut [u8]) + Sync) {
    let threads = AT_A_TIME.min(items.len());
    let waiting = Mutex::new(items.into_iter());
    let work = || {
        let mut buffer = pool.take();
        loop {
            let next = waiting.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some(item) = next else { return };
            each(item, &mut buffer);
        }
    };
    std::thread::scope(|scope| {
        (1..threads).for_each(|_| drop(scope.spawn(work)));
        work();
    });
}
