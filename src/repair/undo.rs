//! Gives the members back the bytes they had before a repair, from its log.
//!
//! Two phases: [`UndoPlan::check`] reads everything and refuses where the members are not the ones, or hold anything
//! that neither the repair wrote nor was there before; only then does [`UndoPlan::carry_out`] write, newest batch first,
//! having looked at each place once more. What has its old bytes already is not written. An undo that was cut short can
//! be run again. Old bytes that could not be read when they were overwritten stay new.

use super::fingerprint::{ATOM_BYTES, atoms};
use super::journal::{LOST_UNIT_BYTES, LogEnd, LogError, LogHeader, LogReader, Record};
use crate::device::{Below, LowerFile, ReadDevice, lower_file};
use crate::lease::{LeaseError, WriteLease};
use crate::units::{DeviceId, DevicePhysical, Generation, Physical};
use crate::volume::Member;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read, Seek};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use thiserror::Error;
use uuid::Uuid;

/// Bytes of the log that are undone at once: as many as a batch of a repair has.
const CHUNK_BYTES: u64 = 8 << 20;
/// Reads and writes in flight.
const AT_A_TIME: usize = 4;

/// Why nothing, or not everything, was undone.
#[derive(Debug, Error)]
pub enum UndoError {
    /// The log.
    #[error(transparent)]
    Log(#[from] LogError),
    /// A device that was written is not among the given ones.
    #[error("devid {devid} with uuid {uuid} (then {path}) is needed and was not given", path = .path.display())]
    MemberMissing {
        /// Its number.
        devid: DeviceId,
        /// Its uuid.
        uuid: Uuid,
        /// Where it was.
        path: PathBuf,
    },
    /// A given device belongs to another file system.
    #[error("{path}: belongs to file system {have}, the undo log to {expect}", path = .path.display())]
    Filesystem {
        /// The device.
        path: PathBuf,
        /// Its file system.
        have: Uuid,
        /// That of the log.
        expect: Uuid,
    },
    /// A device has another size.
    #[error("{path}: is {have_bytes} bytes long, was {expect_bytes} when it was repaired", path = .path.display())]
    Size {
        /// The device.
        path: PathBuf,
        /// Now.
        have_bytes: u64,
        /// Then.
        expect_bytes: u64,
    },
    /// The file system was written to after the repair.
    #[error(
        "{path}: is at generation {have}, the repair was done at {expect}: the file system has been used since",
        path = .path.display()
    )]
    Used {
        /// The device.
        path: PathBuf,
        /// Its last transaction.
        have: Generation,
        /// The last transaction when it was repaired.
        expect: Generation,
    },
    /// A place holds bytes that were not there before and that the repair did not write.
    #[error("devid {} physical {}: holds neither the old nor the repaired bytes", .0.devid, .0.physical)]
    Foreign(DevicePhysical),
    /// The members are in use, or not what they were when the log was held against them.
    #[error(transparent)]
    Lease(#[from] LeaseError),
    /// A device that has to be written was not opened for it.
    #[error("devid {0} is not open for writing")]
    NotOpen(DeviceId),
    /// Reading, writing or syncing failed.
    #[error("devid {} physical {}: cannot be {what}", .place.devid, .place.physical)]
    Io {
        /// Where.
        place: DevicePhysical,
        /// Read, written, synced.
        what: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// What was read back is not what was written.
    #[error("devid {} physical {}: what was read back is not what was written", .0.devid, .0.physical)]
    ReadBack(DevicePhysical),
}

/// What an undo did.
#[derive(Debug)]
pub struct UndoSummary {
    /// Bytes that have their old values.
    pub restored_bytes: u64,
    /// Bytes that had other ones and were written, or may have been where that failed.
    pub written_bytes: u64,
    /// Bytes that could not be read before the repair, and stay as it wrote them.
    pub lost_bytes: u64,
    /// How the log ends.
    pub log_end: LogEnd,
    /// What ended it early. Where nothing was written before, the undo was not done at all.
    pub error: Option<UndoError>,
}

/// A log whose every record fits the members.
pub struct UndoPlan<F> {
    log: LogReader<F>,
    devices: BTreeSet<DeviceId>,
}

impl<F: Read + Seek> UndoPlan<F> {
    /// Holds a log against the members. Reads only.
    pub fn check(mut log: LogReader<F>, members: &[Arc<Member>]) -> Result<Self, UndoError> {
        let lower = lower_devices(log.header(), members);
        let header = log.header().clone();
        let mut by_devid: BTreeMap<DeviceId, Arc<dyn ReadDevice>> = lower.into_iter().collect();
        for member in members {
            let path = || member.path().to_owned();
            let Some(then) = header.members.iter().find(|then| then.uuid == member.uuid()) else {
                return Err(UndoError::Filesystem { path: path(), have: member.fsid(), expect: header.fsid });
            };
            let (have, expect) = (member.generation(), header.generation);
            if have > expect {
                return Err(UndoError::Used { path: path(), have, expect });
            }
            let (have_bytes, expect_bytes) = (member.device().len(), then.len_bytes);
            if have_bytes != expect_bytes {
                return Err(UndoError::Size { path: path(), have_bytes, expect_bytes });
            }
            by_devid.insert(then.devid, Arc::clone(member.device()));
        }
        let mut checked = Checked::default();
        each_chunk(&mut log, |chunk| {
            let mut new = Vec::with_capacity(chunk.len());
            // What a later record covers is checked against that one.
            for record in chunk.into_iter().rev().filter(|record| checked.add(record)) {
                let devid = record.place.devid;
                let Some(device) = by_devid.get(&devid) else {
                    let then = header.members.iter().find(|then| then.devid == devid);
                    let (uuid, path) = then.map_or_else(Default::default, |then| (then.uuid, then.path.clone()));
                    return Err(UndoError::MemberMissing { devid, uuid, path });
                };
                new.push((record, Arc::clone(device)));
            }
            let check = |(record, device): &(Record, Arc<dyn ReadDevice>)| {
                now_in(record, |at, buf| device.read_at(at, buf)).map(drop)
            };
            in_parallel(AT_A_TIME, &new, check).map(drop)
        })?;
        Ok(Self { devices: checked.devices(), log })
    }

    /// The devices to be written.
    pub fn devices(&self) -> &BTreeSet<DeviceId> {
        &self.devices
    }

    /// How the log ends.
    pub fn log_end(&self) -> LogEnd {
        self.log.end()
    }

    /// Writes the old bytes, newest batch first, each synced and read back before the next.
    pub fn carry_out(mut self, lease: &WriteLease) -> UndoSummary {
        let (restored_bytes, written_bytes, lost_bytes) = (0, 0, 0);
        let log_end = self.log.end();
        let mut summary = UndoSummary { restored_bytes, written_bytes, lost_bytes, log_end, error: None };
        let result = each_chunk(&mut self.log, |chunk| restore(&chunk, lease, &mut summary));
        summary.error = result.err();
        summary
    }
}

/// Does something with the records of a log, newest batch first, many at a time.
fn each_chunk<F: Read + Seek>(
    log: &mut LogReader<F>,
    mut each: impl FnMut(Vec<Record>) -> Result<(), UndoError>,
) -> Result<(), UndoError> {
    let mut end = log.len();
    while end > 0 {
        let start = log.start_of_chunk(end, CHUNK_BYTES);
        each(log.records(start..end)?)?;
        end = start;
    }
    Ok(())
}

/// Does something with each item on so many threads; the first error in the order of the items, if there is any.
fn in_parallel<T: Sync, R: Send>(
    threads: usize,
    items: &[T],
    each: impl Fn(&T) -> Result<R, UndoError> + Sync,
) -> Result<Vec<R>, UndoError> {
    let waiting = Mutex::new(items.iter().enumerate());
    let results = Mutex::new(Vec::with_capacity(items.len()));
    let work = || {
        loop {
            let next = waiting.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some((number, item)) = next else { return };
            let result = each(item);
            let has_failed = result.is_err();
            results.lock().unwrap_or_else(PoisonError::into_inner).push((number, result));
            if has_failed {
                // Nobody begins with another one.
                waiting.lock().unwrap_or_else(PoisonError::into_inner).by_ref().for_each(drop);
            }
        }
    };
    std::thread::scope(|scope| {
        (1..threads.min(items.len())).for_each(|_| drop(scope.spawn(work)));
        work();
    });
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_by_key(|(number, _)| *number);
    results.into_iter().map(|(_, result)| result).collect()
}

/// The files below the members, by the numbers that the log has for them.
pub fn lower_devices(header: &LogHeader, members: &[Arc<Member>]) -> Vec<(DeviceId, Arc<dyn ReadDevice>)> {
    let files = lower_files(members);
    let known = files.filter_map(|file| {
        let then = header.members.iter().find(|then| then.uuid == file.uuid && lower_file(then.devid).is_some())?;
        (then.len_bytes == file.device.len()).then(|| (then.devid, Arc::clone(&file.device)))
    });
    known.collect()
}

/// The files below members that are put together from others.
pub fn lower_files(members: &[Arc<Member>]) -> impl Iterator<Item = &LowerFile> {
    let below = members.iter().find_map(|member| member.device().below());
    below.into_iter().flat_map(Below::files).filter(|file| file.is_written())
}

/// The places that have been looked at.
#[derive(Default)]
struct Checked(BTreeMap<(DeviceId, Physical), Physical>);

impl Checked {
    /// Notes the place of `record`; false where it overlaps one that was noted before.
    fn add(&mut self, record: &Record) -> bool {
        let DevicePhysical { devid, physical: start } = record.place;
        let end = start + record.old.len_bytes() as u64;
        let before = self.0.range(..(devid, end)).next_back();
        let overlaps = before.is_some_and(|((on, _), until)| *on == devid && *until > start);
        if !overlaps {
            self.0.insert((devid, start), end);
        }
        !overlaps
    }

    fn devices(&self) -> BTreeSet<DeviceId> {
        self.0.keys().map(|(devid, _)| *devid).collect()
    }
}

/// The bytes in the place of a record, whose every 512 must be the old ones or the new ones; a power cut may have left
/// some of each. Those whose old values are not known are zeros.
fn now_in(record: &Record, read: impl Fn(Physical, &mut [u8]) -> io::Result<()>) -> Result<Vec<u8>, UndoError> {
    let old = record.old.to_bytes();
    let mut now = vec![0; old.len()];
    for unit in readable_units(record) {
        let Some(room) = now.get_mut(unit.clone()) else { continue };
        let place = place_in(record, unit.start);
        let failed = |source| UndoError::Io { place, what: "read", source };
        read(place.physical, room).map_err(failed)?;
    }
    let olds = old.chunks(ATOM_BYTES);
    let mut pieces = now.chunks(ATOM_BYTES).zip(olds).zip(&record.new_atoms).enumerate();
    let foreign = pieces.find(|(nth, ((piece, old), new))| {
        let is_lost = record.is_lost(nth * ATOM_BYTES / LOST_UNIT_BYTES);
        !is_lost && piece != old && atoms(piece).next() != Some(**new)
    });
    match foreign {
        Some((nth, _)) => Err(UndoError::Foreign(place_in(record, nth * ATOM_BYTES))),
        None => Ok(now),
    }
}

/// Records of one batch.
fn restore(chunk: &[Record], lease: &WriteLease, summary: &mut UndoSummary) -> Result<(), UndoError> {
    lease.check_batch()?;
    // Within a batch no place is written twice; a log that says otherwise is undone from its end, record by record.
    let newest_first: Vec<&Record> = chunk.iter().rev().collect();
    let threads = if overlap(chunk) { 1 } else { AT_A_TIME };
    let written = Mutex::new(Vec::new());
    let tried_bytes = AtomicU64::new(0);
    let done = in_parallel(threads, &newest_first, |record| {
        if restore_record(record, lease, &tried_bytes)? {
            written.lock().unwrap_or_else(PoisonError::into_inner).push(*record);
        }
        Ok(())
    });
    summary.written_bytes += tried_bytes.into_inner();
    let written = written.into_inner().unwrap_or_else(PoisonError::into_inner);
    let touched: BTreeMap<DeviceId, DevicePhysical> = written.iter().map(|r| (r.place.devid, r.place)).collect();
    for (devid, place) in touched {
        let device = lease.device(devid).ok_or(UndoError::NotOpen(devid))?;
        device.sync().map_err(|source| UndoError::Io { place, what: "synced", source })?;
    }
    done?;
    in_parallel(AT_A_TIME, &written, |record| is_restored(record, lease))?;
    summary.restored_bytes += chunk.iter().map(known_bytes).sum::<u64>();
    summary.lost_bytes += chunk.iter().map(|record| record.lost.len() as u64 * LOST_UNIT_BYTES as u64).sum::<u64>();
    Ok(())
}

/// Whether two of them are about the same bytes.
fn overlap(chunk: &[Record]) -> bool {
    let mut checked = Checked::default();
    !chunk.iter().all(|record| checked.add(record))
}

/// Writes what is not old already; whether there was any.
fn restore_record(record: &Record, lease: &WriteLease, tried_bytes: &AtomicU64) -> Result<bool, UndoError> {
    let device = lease.device(record.place.devid).ok_or(UndoError::NotOpen(record.place.devid))?;
    let now = now_in(record, |at, buf| device.read_at(at, buf))?;
    let old = record.old.to_bytes();
    let mut is_written = false;
    for unit in readable_units(record) {
        let place = place_in(record, unit.start);
        let (Some(old), Some(now)) = (old.get(unit.clone()), now.get(unit)) else { continue };
        if old == now {
            continue;
        }
        let failed = |source| match lease.lost() {
            Some(lost) => UndoError::Lease(lost),
            None => UndoError::Io { place, what: "written", source },
        };
        let result = device.write_at(place.physical, old);
        if result.is_ok() || lease.lost().is_none() {
            tried_bytes.fetch_add(old.len() as u64, Ordering::Relaxed);
        }
        result.map_err(failed)?;
        is_written = true;
    }
    Ok(is_written)
}

fn is_restored(record: &Record, lease: &WriteLease) -> Result<(), UndoError> {
    let device = lease.device(record.place.devid).ok_or(UndoError::NotOpen(record.place.devid))?;
    let old = record.old.to_bytes();
    for unit in readable_units(record) {
        let place = place_in(record, unit.start);
        let Some(old) = old.get(unit) else { continue };
        let mut now = vec![0; old.len()];
        let failed = |source| UndoError::Io { place, what: "read", source };
        device.read_at(place.physical, &mut now).map_err(failed)?;
        if now != old {
            return Err(UndoError::ReadBack(place));
        }
    }
    Ok(())
}

/// Bytes whose old values are known.
fn known_bytes(record: &Record) -> u64 {
    readable_units(record).iter().map(|unit| unit.len() as u64).sum()
}

/// The parts of a record whose old bytes are known: all of it at once where nothing is lost.
fn readable_units(record: &Record) -> Vec<std::ops::Range<usize>> {
    let len = record.old.len_bytes();
    if record.lost.is_empty() {
        return std::iter::once(0..len).collect();
    }
    let units = (0..len.div_ceil(LOST_UNIT_BYTES)).filter(|unit| !record.is_lost(*unit));
    units.map(|unit| unit * LOST_UNIT_BYTES..((unit + 1) * LOST_UNIT_BYTES).min(len)).collect()
}

fn place_in(record: &Record, offset: usize) -> DevicePhysical {
    DevicePhysical { physical: record.place.physical + offset as u64, ..record.place }
}
