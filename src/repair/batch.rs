//! One batch of writes: log what was there, sync the log, write, sync the devices; then, beside the next batch, read back
//! around the cache and compare.
//!
//! A device that errors on a write or a sync is dropped: nothing more is written to it in this run. The other devices
//! go on.

use super::journal::{Journal, LOST_UNIT_BYTES, Record};
use super::outcome::{Failure, StepState};
use super::target::Target;
use crate::device::{AlignedVec, WriteDevice};
use crate::units::{DeviceId, DevicePhysical};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

/// Of the buffer for reading back: enough for direct I/O on any device.
const READ_ALIGNMENT: usize = 4096;

/// One step with its bytes.
pub(super) struct Write {
    pub(super) step: usize,
    pub(super) place: DevicePhysical,
    pub(super) new: Vec<u8>,
    /// What was read there a moment ago, `None` where it could not be.
    pub(super) old: Option<Vec<u8>>,
}

/// What a batch has come to so far.
#[derive(Default)]
pub(super) struct Committed {
    /// Steps that are settled.
    pub(super) states: Vec<(usize, StepState)>,
    /// Writes that are on their devices, to be read back.
    pub(super) written: Vec<Written>,
}

/// A write that is said to be on stable storage.
pub(super) struct Written {
    device: Arc<dyn WriteDevice>,
    write: Write,
}

/// Carries out batches, and remembers which devices have failed.
pub(super) struct Writer<'a> {
    target: &'a Target,
    journal: &'a mut Journal,
    dropped: BTreeMap<DeviceId, Failure>,
}

impl<'a> Writer<'a> {
    pub(super) fn new(target: &'a Target, journal: &'a mut Journal) -> Self {
        Self { target, journal, dropped: BTreeMap::new() }
    }

    /// Devices that have failed before.
    pub(super) fn drop_devices(&mut self, failed: &BTreeMap<DeviceId, Failure>) {
        self.dropped.extend(failed);
    }

    /// The devices that failed, and how.
    pub(super) fn into_dropped(self) -> BTreeMap<DeviceId, Failure> {
        self.dropped
    }

    /// Logs and writes. An error is one of the log: then nothing of this batch was written.
    pub(super) fn commit(&mut self, writes: Vec<Write>) -> io::Result<Committed> {
        let mut committed = Committed::default();
        let mut records = Vec::with_capacity(writes.len());
        let mut by_device: BTreeMap<DeviceId, Vec<Write>> = BTreeMap::new();
        for mut write in writes {
            let devid = write.place.devid;
            let failure = match (self.dropped.get(&devid), self.target.device(devid)) {
                (None, Some(_)) => None,
                (Some(_), _) => Some(Failure::DeviceDropped),
                (None, None) => Some(Failure::NotOpen),
            };
            if let Some(failure) = failure {
                committed.states.push((write.step, StepState::Failed(failure)));
                continue;
            }
            records.push(record_of(&mut write));
            by_device.entry(devid).or_default().push(write);
        }
        if !records.is_empty() {
            self.journal.log(&records)?;
        }
        drop(records);
        for (devid, done) in self.write_all(by_device) {
            if let Some(failure) = done.failure {
                self.dropped.insert(devid, failure);
            }
            committed.states.extend(done.failed);
            if let Some(device) = self.target.device(devid) {
                let written = |write| Written { device: Arc::clone(device), write };
                committed.written.extend(done.written.into_iter().map(written));
            }
        }
        Ok(committed)
    }

    /// Each device by a thread of its own.
    fn write_all(&self, by_device: BTreeMap<DeviceId, Vec<Write>>) -> Vec<(DeviceId, DeviceDone)> {
        let devices = by_device.into_iter().filter_map(|(devid, w)| Some((devid, self.target.device(devid)?, w)));
        let mut jobs: Vec<_> = devices.collect();
        if jobs.len() < 2 {
            return jobs.pop().map(|(devid, device, w)| (devid, write_device(&**device, w))).into_iter().collect();
        }
        std::thread::scope(|scope| {
            let start = |(devid, device, writes): (DeviceId, &'a Arc<dyn WriteDevice>, Vec<Write>)| {
                (devid, scope.spawn(move || write_device(&**device, writes)))
            };
            let threads: Vec<_> = jobs.into_iter().map(start).collect();
            threads.into_iter().filter_map(|(devid, thread)| Some((devid, thread.join().ok()?))).collect()
        })
    }
}

fn record_of(write: &mut Write) -> Record {
    if let Some(old) = write.old.take() {
        return Record::new(write.place, old, Vec::new(), &write.new);
    }
    let len = write.new.len();
    let lost = (0..len.div_ceil(LOST_UNIT_BYTES) as u32).collect();
    Record::new(write.place, vec![0; len], lost, &write.new)
}

/// What became of the writes to one device.
struct DeviceDone {
    written: Vec<Write>,
    failed: Vec<(usize, StepState)>,
    /// Why the device must not be written again.
    failure: Option<Failure>,
}

fn write_device(device: &dyn WriteDevice, writes: Vec<Write>) -> DeviceDone {
    let mut done = DeviceDone { written: Vec::with_capacity(writes.len()), failed: Vec::new(), failure: None };
    for write in writes {
        if done.failure.is_some() {
            done.failed.push((write.step, StepState::Failed(Failure::DeviceDropped)));
            continue;
        }
        match device.write_at(write.place.physical, &write.new) {
            Ok(()) => done.written.push(write),
            Err(error) => {
                let failure = Failure::Write(error.raw_os_error());
                done.failed.push((write.step, StepState::Failed(failure)));
                done.failure = Some(failure);
            }
        }
    }
    if let Err(error) = device.sync() {
        let failure = Failure::Sync(error.raw_os_error());
        done.failed.extend(done.written.drain(..).map(|write| (write.step, StepState::Failed(failure))));
        done.failure.get_or_insert(failure);
    }
    done
}

/// Reads back and compares, one buffer for all.
pub(super) fn read_back(written: &[Written]) -> Vec<(usize, StepState)> {
    let longest = written.iter().map(|written| written.write.new.len()).max().unwrap_or(0);
    let mut buffer = AlignedVec::new(longest, READ_ALIGNMENT);
    let states = written.iter().map(|Written { device, write }| {
        let Some(bytes) = buffer.get_mut(..write.new.len()) else { return (write.step, StepState::Pending) };
        let state = match device.read_at(write.place.physical, bytes) {
            Ok(()) if *bytes == write.new[..] => StepState::Done,
            Ok(()) => StepState::Failed(Failure::ReadBackDiffers),
            Err(error) => StepState::Failed(Failure::ReadBack(error.raw_os_error())),
        };
        (write.step, state)
    });
    states.collect()
}
