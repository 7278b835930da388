//! Gives the members back the bytes they had before a repair, from its log.
//!
//! Two phases: [`UndoPlan::check`] reads everything and refuses where the members are not the ones, or hold anything
//! that neither the repair wrote nor was there before; only then does [`UndoPlan::carry_out`] write, newest batch first.
//! An undo that was cut short can be run again. Old bytes that could not be read when they were overwritten stay new.

use super::fingerprint::{ATOM_BYTES, atoms};
use super::journal::{LOST_UNIT_BYTES, LogError, LogReader, Record};
use crate::lease::{LeaseError, WriteLease};
use crate::units::{DeviceId, DevicePhysical, Generation, Physical};
use crate::volume::Member;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read, Seek};
use std::path::PathBuf;
use std::sync::Arc;
use thiserror::Error;
use uuid::Uuid;

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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UndoSummary {
    /// Bytes that have their old values (some may have had them before).
    pub restored_bytes: u64,
    /// Bytes that could not be read before the repair, and stay as it wrote them.
    pub lost_bytes: u64,
    /// The log ended in the middle of a batch, of which nothing was written.
    pub is_cut: bool,
}

/// A log whose every record fits the members.
pub struct UndoPlan<F> {
    log: LogReader<F>,
    devices: BTreeSet<DeviceId>,
}

impl<F: Read + Seek> UndoPlan<F> {
    /// Holds a log against the members. Reads only.
    pub fn check(mut log: LogReader<F>, members: &[Arc<Member>]) -> Result<Self, UndoError> {
        let header = log.header().clone();
        let mut by_devid: BTreeMap<DeviceId, &Member> = BTreeMap::new();
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
            by_devid.insert(then.devid, member);
        }
        let mut checked = Checked::default();
        for number in (0..log.len()).rev() {
            let (record, _) = log.record(number)?;
            let devid = record.place.devid;
            let Some(member) = by_devid.get(&devid) else {
                let then = header.members.iter().find(|then| then.devid == devid);
                let (uuid, path) = then.map_or_else(Default::default, |then| (then.uuid, then.path.clone()));
                return Err(UndoError::MemberMissing { devid, uuid, path });
            };
            // What a later record covers is checked against that one.
            if checked.add(&record) {
                check_record(&record, member)?;
            }
        }
        Ok(Self { devices: checked.devices(), log })
    }

    /// The devices to be written.
    pub fn devices(&self) -> &BTreeSet<DeviceId> {
        &self.devices
    }

    /// Writes the old bytes, newest batch first, each synced and read back before the next.
    pub fn carry_out(mut self, lease: &WriteLease) -> Result<UndoSummary, UndoError> {
        let mut summary = UndoSummary { is_cut: self.log.is_cut(), ..UndoSummary::default() };
        let mut batch: Vec<Record> = Vec::new();
        let mut current = None;
        for number in (0..self.log.len()).rev() {
            let (record, of_batch) = self.log.record(number)?;
            if current != Some(of_batch) {
                restore(&batch, lease, &mut summary)?;
                batch.clear();
                current = Some(of_batch);
            }
            batch.push(record);
        }
        restore(&batch, lease, &mut summary)?;
        Ok(summary)
    }
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

/// Every 512 bytes must be the old ones or the new ones; a power cut may have left some of each.
fn check_record(record: &Record, member: &Member) -> Result<(), UndoError> {
    let old = record.old.to_bytes();
    let mut now = vec![0; old.len()];
    for unit in readable_units(record) {
        let Some(room) = now.get_mut(unit.clone()) else { continue };
        let place = place_in(record, unit.start);
        let failed = |source| UndoError::Io { place, what: "read", source };
        member.device().read_at(place.physical, room).map_err(failed)?;
    }
    let olds = old.chunks(ATOM_BYTES);
    let mut pieces = now.chunks(ATOM_BYTES).zip(atoms(&now)).zip(olds).zip(&record.new_atoms).enumerate();
    let foreign = pieces.find(|(nth, (((piece, atom), old), new))| {
        let is_lost = record.is_lost(nth * ATOM_BYTES / LOST_UNIT_BYTES);
        !is_lost && piece != old && atom != *new
    });
    match foreign {
        Some((nth, _)) => Err(UndoError::Foreign(place_in(record, nth * ATOM_BYTES))),
        None => Ok(()),
    }
}

fn restore(batch: &[Record], lease: &WriteLease, summary: &mut UndoSummary) -> Result<(), UndoError> {
    let device_of = |record: &Record| {
        let devid = record.place.devid;
        lease.device(devid).ok_or(UndoError::NotOpen(devid))
    };
    lease.check_batch()?;
    for record in batch {
        let (device, old) = (device_of(record)?, record.old.to_bytes());
        for unit in readable_units(record) {
            let place = place_in(record, unit.start);
            let Some(old) = old.get(unit) else { continue };
            let failed = |source| match lease.lost() {
                Some(lost) => UndoError::Lease(lost),
                None => UndoError::Io { place, what: "written", source },
            };
            device.write_at(place.physical, old).map_err(failed)?;
            summary.restored_bytes += old.len() as u64;
        }
        summary.lost_bytes += record.lost.len() as u64 * LOST_UNIT_BYTES as u64;
    }
    let touched: BTreeMap<DeviceId, DevicePhysical> = batch.iter().map(|r| (r.place.devid, r.place)).collect();
    for (devid, place) in touched {
        let device = lease.device(devid).ok_or(UndoError::NotOpen(devid))?;
        device.sync().map_err(|source| UndoError::Io { place, what: "synced", source })?;
    }
    for record in batch {
        let (device, old) = (device_of(record)?, record.old.to_bytes());
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
    }
    Ok(())
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
