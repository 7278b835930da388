//! One batch of writes, in phases each made only from the one before: log what was there and sync the log ([`log`]), write
//! and sync the devices ([`Writer`]), read back around the cache and compare ([`read_back`]).
//!
//! What cannot be written costs no more than itself: a step of many findings is written finding by finding then. A device
//! is dropped, so that nothing more is written to it in this run, where the kernel says that it is gone or read-only, and
//! where nothing was written to it for a long time of trying. The other devices go on.

use super::journal::{Journal, Record};
use super::ledger::{Ledger, Part};
use super::outcome::{Failure, StepState};
use crate::device::BufferPool;
use crate::lease::{LeasedDevice, WriteLease};
use crate::scrub::mend::{MAX_MEND_BYTES, ProvenBytes};
use crate::units::{DeviceId, DevicePhysical};
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

/// Writes in flight per device, and reads of what was written.
const AT_A_TIME: usize = 4;
/// What direct writes want of an address, whatever the device.
const PAGE_BYTES: usize = 4096;
/// What is tried by itself where more cannot be written at once.
const SECTOR_BYTES: usize = 4096;
/// A device to which so many writes in a row failed ...
const HOPELESS_WRITES: u32 = 64;
/// ... within at least this time is not waited for any longer. A disk that is dying may take half a minute for each.
const HOPELESS_TIME: Duration = Duration::from_secs(60);
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
    step: usize,
    place: DevicePhysical,
    /// All bytes of the write, and those of them that are this step's.
    new: Arc<ProvenBytes>,
    range: Range<usize>,
}

impl Written {
    fn bytes(&self) -> &[u8] {
        self.new.get(self.range.clone()).unwrap_or_default()
    }
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

    /// Writes and syncs, and notes what failed. Returns what is to be read back. Steps of members that are not what they
    /// were stay as they are: not reached.
    pub(super) fn write(&self, writes: Vec<Logged>, ledger: &Ledger<'_>, pool: &BufferPool) -> Vec<Written> {
        if writes.is_empty() || self.lease.check_batch().is_err() {
            return Vec::new();
        }
        let mut by_device: BTreeMap<DeviceId, Vec<Logged>> = BTreeMap::new();
        for write in writes {
            let devid = write.place.devid;
            match self.refusal(devid) {
                Some(failure) => ledger.note(vec![(write.step, StepState::Failed(failure))]),
                None => by_device.entry(devid).or_default().push(write),
            }
        }
        let open = by_device.into_iter().filter_map(|(devid, writes)| {
            let device = self.lease.device(devid)?;
            Some((OneDevice { writer: self, devid, device, ledger, pool, trying: Mutex::default() }, writes))
        });
        let mut jobs: Vec<_> = open.collect();
        if jobs.len() < 2 {
            return jobs.pop().map(|(one, writes)| one.write(writes)).unwrap_or_default();
        }
        // Each device by a thread of its own.
        std::thread::scope(|scope| {
            let threads: Vec<_> =
                jobs.into_iter().map(|(one, writes)| scope.spawn(move || one.write(writes))).collect();
            let join =
                |thread: ScopedJoinHandle<'_, Vec<Written>>| thread.join().unwrap_or_else(|panic| resume_unwind(panic));
            threads.into_iter().flat_map(join).collect()
        })
    }
}

/// Writes that failed with none between them that did not.
#[derive(Default)]
struct Trying {
    failed: u32,
    since: Option<Instant>,
}

/// The writes of one batch to one device.
struct OneDevice<'a> {
    writer: &'a Writer<'a>,
    devid: DeviceId,
    device: LeasedDevice,
    ledger: &'a Ledger<'a>,
    pool: &'a BufferPool,
    trying: Mutex<Trying>,
}

impl OneDevice<'_> {
    /// In the order of the device, several at a time, and synced.
    fn write(&self, mut writes: Vec<Logged>) -> Vec<Written> {
        writes.sort_by_key(|write| write.place.physical);
        let written = Mutex::new(Vec::with_capacity(writes.len()));
        several_at_a_time(writes, self.pool, |write, buffer| {
            let done = self.write_one(write, buffer);
            written.lock().unwrap_or_else(PoisonError::into_inner).extend(done);
        });
        let written = written.into_inner().unwrap_or_else(PoisonError::into_inner);
        match self.device.sync() {
            Ok(()) => written,
            Err(_) => self.write_again(written),
        }
    }

    /// One step, or the parts of it that can be written.
    fn write_one(&self, write: Logged, buffer: &mut [u8]) -> Vec<Written> {
        if let Some(failure) = self.writer.refusal(self.devid) {
            self.fail(write.step, failure);
            return Vec::new();
        }
        let Logged { step, place, new } = write;
        let len = new.len();
        let whole = |new: ProvenBytes| {
            let device = self.device.clone();
            vec![Written { device, step, place, new: Arc::new(new), range: 0..len }]
        };
        match self.try_write(place, &new, buffer) {
            Ok(()) => whole(new),
            Err(failure) if len <= SECTOR_BYTES || self.writer.refusal(self.devid).is_some() => {
                self.fail(step, failure);
                Vec::new()
            }
            Err(_) => self.write_parts(step, place, &Arc::new(new), buffer),
        }
    }

    /// Sector by sector. What cannot be written fails the finding that it belongs to.
    fn write_parts(
        &self,
        step: usize,
        place: DevicePhysical,
        new: &Arc<ProvenBytes>,
        buffer: &mut [u8],
    ) -> Vec<Written> {
        let mut failures: Vec<Option<Failure>> = Vec::new();
        for (nth, sector) in new.chunks(SECTOR_BYTES).enumerate() {
            let place = DevicePhysical { physical: place.physical + (nth * SECTOR_BYTES) as u64, ..place };
            let refused = self.writer.refusal(self.devid).map_or(Ok(()), Err);
            let written = refused.and_then(|()| self.try_write(place, sector, buffer));
            if self.writer.is_lost() {
                return Vec::new();
            }
            failures.push(written.err());
        }
        let parts = self.ledger.split(step, new, SECTOR_BYTES, &failures);
        let good = parts.into_iter().filter(|part| part.failure.is_none());
        let written = good.map(|Part { step, range, .. }| {
            let place = DevicePhysical { physical: place.physical + range.start as u64, ..place };
            Written { device: self.device.clone(), step, place, new: Arc::clone(new), range }
        });
        written.collect()
    }

    /// After a sync that failed nobody knows which write it was: each again by itself, with a sync of its own.
    fn write_again(&self, written: Vec<Written>) -> Vec<Written> {
        let mut done = Vec::new();
        let mut buffer = self.pool.take();
        for write in written {
            let refused = self.writer.refusal(self.devid).map_or(Ok(()), Err);
            let result = refused.and_then(|()| self.try_write(write.place, write.bytes(), &mut buffer));
            let synced = result.and_then(|()| {
                let failed = |error: io::Error| self.failure(&error, Failure::Sync(error.raw_os_error()));
                self.device.sync().map_err(failed)
            });
            match synced {
                Ok(()) => done.push(write),
                Err(failure) => self.fail(write.step, failure),
            }
        }
        done
    }

    /// As it is where it stands on pages of its own, else through a buffer that does: from there it can go directly.
    fn try_write(&self, place: DevicePhysical, new: &[u8], buffer: &mut [u8]) -> Result<(), Failure> {
        let result = if new.as_ptr().addr().is_multiple_of(PAGE_BYTES) {
            self.device.write_at(place.physical, new)
        } else {
            stage(buffer, new.len()).and_then(|stage| {
                stage.copy_from_slice(new);
                self.device.write_at(place.physical, stage)
            })
        };
        match result {
            Ok(()) => {
                *self.trying() = Trying::default();
                Ok(())
            }
            Err(error) => Err(self.failure(&error, Failure::Write(error.raw_os_error()))),
        }
    }

    /// Drops the device where there is no hope for it.
    fn failure(&self, error: &io::Error, failure: Failure) -> Failure {
        if self.writer.is_lost() {
            return failure;
        }
        let mut trying = self.trying();
        trying.failed += 1;
        let since = *trying.since.get_or_insert_with(Instant::now);
        let is_hopeless = trying.failed >= HOPELESS_WRITES && since.elapsed() >= HOPELESS_TIME;
        if is_gone(error) || is_hopeless {
            self.writer.dropped().entry(self.devid).or_insert(failure);
        }
        failure
    }

    fn fail(&self, step: usize, failure: Failure) {
        if !self.writer.is_lost() {
            self.ledger.note(vec![(step, StepState::Failed(failure))]);
        }
    }

    fn trying(&self) -> MutexGuard<'_, Trying> {
        self.trying.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the kernel says that no write to the device can succeed any more.
fn is_gone(error: &io::Error) -> bool {
    let gone = [libc::ENODEV, libc::ENXIO, libc::ENOMEDIUM, libc::EROFS, libc::EPERM, libc::EBADF];
    error.raw_os_error().is_some_and(|errno| gone.contains(&errno))
}

/// The part of a buffer that takes what is written: all of it, for a step is no longer than a buffer.
fn stage(buffer: &mut [u8], len: usize) -> io::Result<&mut [u8]> {
    buffer.get_mut(..len).ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

/// Reads back and compares.
pub(super) fn read_back(written: Vec<Written>, pool: &BufferPool) -> States {
    let states = Mutex::new(Vec::with_capacity(written.len()));
    several_at_a_time(written, pool, |write, buffer| {
        let state = match holds(&write, buffer) {
            Ok(true) => StepState::Done,
            Ok(false) => StepState::Failed(Failure::ReadBackDiffers),
            Err(error) => StepState::Failed(Failure::ReadBack(error.raw_os_error())),
        };
        states.lock().unwrap_or_else(PoisonError::into_inner).push((write.step, state));
    });
    states.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Whether the device holds what was written.
fn holds(write: &Written, buffer: &mut [u8]) -> io::Result<bool> {
    let stage = stage(buffer, write.range.len())?;
    write.device.read_at(write.place.physical, stage)?;
    Ok(*stage == *write.bytes())
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
