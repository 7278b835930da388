//! One batch of writes: log what is there, sync the log, write, sync the devices, read back around the cache, compare.
//!
//! A device that errors on a write or a sync is dropped: nothing more is written to it in this run. The other devices
//! go on.

use super::journal::{Journal, LOST_UNIT_BYTES, Record};
use super::outcome::{Failure, StepState};
use super::target::Target;
use crate::device::{FailedSector, WriteDevice, read_tolerant};
use crate::units::{DeviceId, DevicePhysical};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

/// One step with its bytes.
pub(super) struct Write {
    pub(super) step: usize,
    pub(super) place: DevicePhysical,
    pub(super) new: Vec<u8>,
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

    /// The devices that failed, and how.
    pub(super) fn into_dropped(self) -> BTreeMap<DeviceId, Failure> {
        self.dropped
    }

    /// Returns what became of each write. An error is one of the log: then nothing of this batch was written.
    pub(super) fn commit(&mut self, writes: Vec<Write>) -> io::Result<Vec<(usize, StepState)>> {
        let mut states = Vec::with_capacity(writes.len());
        let mut records = Vec::with_capacity(writes.len());
        let mut by_device: BTreeMap<DeviceId, Vec<Write>> = BTreeMap::new();
        for write in writes {
            let devid = write.place.devid;
            let device = match (self.dropped.get(&devid), self.target.device(devid)) {
                (None, Some(device)) => device,
                (Some(_), _) => {
                    states.push((write.step, StepState::Failed(Failure::DeviceDropped)));
                    continue;
                }
                (None, None) => {
                    states.push((write.step, StepState::Failed(Failure::NotOpen)));
                    continue;
                }
            };
            let record = record_of(&**device, &write);
            if record.lost.is_empty() && record.old == write.new {
                states.push((write.step, StepState::Done));
                continue;
            }
            records.push(record);
            by_device.entry(devid).or_default().push(write);
        }
        if !records.is_empty() {
            self.journal.log(&records)?;
        }
        drop(records);
        for (devid, written) in self.write_all(by_device) {
            if let Some(failure) = written.failure {
                self.dropped.insert(devid, failure);
            }
            states.extend(written.states);
        }
        Ok(states)
    }

    /// Each device by a thread of its own.
    fn write_all(&self, by_device: BTreeMap<DeviceId, Vec<Write>>) -> Vec<(DeviceId, Written)> {
        let jobs: Vec<(DeviceId, Arc<dyn WriteDevice>, Vec<Write>)> = by_device
            .into_iter()
            .filter_map(|(devid, writes)| Some((devid, Arc::clone(self.target.device(devid)?), writes)))
            .collect();
        match &jobs[..] {
            [(devid, device, writes)] => vec![(*devid, write_device(&**device, writes))],
            _ => std::thread::scope(|scope| {
                let threads: Vec<_> = jobs
                    .iter()
                    .map(|(devid, device, writes)| (*devid, scope.spawn(move || write_device(&**device, writes))))
                    .collect();
                threads.into_iter().filter_map(|(devid, thread)| Some((devid, thread.join().ok()?))).collect()
            }),
        }
    }
}

fn record_of(device: &dyn WriteDevice, write: &Write) -> Record {
    let mut old = vec![0; write.new.len()];
    let mut failed: Vec<FailedSector> = Vec::new();
    read_tolerant(device, write.place.physical, &mut old, LOST_UNIT_BYTES, &mut failed);
    let lost = failed.into_iter().map(|sector| sector.index as u32).collect();
    Record::new(write.place, old, lost, &write.new)
}

/// What became of the writes to one device.
struct Written {
    states: Vec<(usize, StepState)>,
    /// Why the device must not be written again.
    failure: Option<Failure>,
}

fn write_device(device: &dyn WriteDevice, writes: &[Write]) -> Written {
    let mut failure = None;
    let mut made = 0;
    for write in writes {
        if let Err(error) = device.write_at(write.place.physical, &write.new) {
            failure = Some(Failure::Write(error.raw_os_error()));
            break;
        }
        made += 1;
    }
    if let Err(error) = device.sync() {
        failure.get_or_insert(Failure::Sync(error.raw_os_error()));
    }
    let states = writes.iter().enumerate().map(|(nth, write)| {
        let state = match failure {
            Some(Failure::Write(_)) if nth < made => read_back(device, write),
            Some(first) if nth <= made => StepState::Failed(first),
            Some(_) => StepState::Failed(Failure::DeviceDropped),
            None => read_back(device, write),
        };
        (write.step, state)
    });
    Written { states: states.collect(), failure }
}

fn read_back(device: &dyn WriteDevice, write: &Write) -> StepState {
    let mut bytes = vec![0; write.new.len()];
    match device.read_at(write.place.physical, &mut bytes) {
        Ok(()) if bytes == write.new => StepState::Done,
        Ok(()) => StepState::Failed(Failure::ReadBackDiffers),
        Err(error) => StepState::Failed(Failure::ReadBack(error.raw_os_error())),
    }
}
