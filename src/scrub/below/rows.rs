//! P and Q of md arrays below btrfs, held against the data of their rows as it should be.
//!
//! Every window that has been judged brings its blocks here, right ones only: those that verify as they are, and those
//! that a copy or a reconstruction has given. They are added up row by row, so that nothing has to be read twice; what has
//! not come by the time a row is judged is read: as it is where it is not allocated, for it is part of the sums, and held
//! against its checksum where it is. A row in which a block is wrong and not known as it should be is not judged. md judges 4 KiB of a row by themselves (as raid6check does), and so do we.

use super::BelowPlace;
use super::prove::{Proof, prove};
use super::tell::joined;
use crate::device::{Below, LowerPlace, ParityRows, lower_devid};
use crate::filesystem::Filesystem;
use crate::scrub::finding::{Evidence, Finding, FindingKind, Problem, RepairState};
use crate::scrub::mend::{Fix, Mends, Source};
use crate::scrub::sink::Tally;
use crate::units::{DevicePhysical, Logical, MirrorNum, Physical};
use crate::volume::Profile;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// A row is judged in units of this.
const UNIT_BYTES: u64 = 4096;
/// Memory for rows that are not complete yet.
const MAX_WAITING_BYTES: u64 = 32 << 20;
/// At least so many rows may wait.
const MIN_WAITING_ROWS: usize = 4;

/// What is known of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::scrub) enum State {
    /// Its bytes are the right ones.
    Proved,
    /// Nothing says what its bytes should be.
    Unproved,
    /// It is bad, and what it should be is not known.
    Lost,
}

/// A block of a stripe, on its way into its row.
pub(in crate::scrub) struct Block<'a> {
    pub(in crate::scrub) logical: Logical,
    pub(in crate::scrub) member: DevicePhysical,
    pub(in crate::scrub) profile: Profile,
    pub(in crate::scrub) bytes: &'a [u8],
    pub(in crate::scrub) state: State,
}

/// The rows of all arrays that are on their way.
#[derive(Default)]
pub(in crate::scrub) struct Rows(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    rows: BTreeMap<(usize, u64), Row>,
    /// In the order they came.
    order: std::collections::VecDeque<(usize, u64)>,
    bytes: u64,
    /// Rows of which something was told: one that comes in two parts is told of once.
    told: std::collections::BTreeSet<(usize, u64)>,
}

/// Rows that are remembered as told.
const MAX_TOLD: usize = 1 << 16;

/// One row.
struct Row {
    array: Arc<dyn ParityRows>,
    p: Vec<u8>,
    q: Vec<u8>,
    /// By column and unit.
    units: Vec<Option<State>>,
    unseen: usize,
    /// The first of its blocks, for the finding.
    first: (Logical, DevicePhysical, Profile),
    /// A block of it in the array and on the member: the others are as far from it there as here.
    anchor: (u64, DevicePhysical),
}

/// How a run looks at rows.
#[derive(Clone, Copy)]
pub(in crate::scrub) struct Judging<'a> {
    pub(in crate::scrub) fs: &'a Filesystem,
    pub(in crate::scrub) below: &'a dyn Below,
    pub(in crate::scrub) wants_mends: bool,
}

impl Rows {
    /// Takes in a block. Rows that are complete with it, and those for which there is no room any more, are judged.
    pub(in crate::scrub) fn take(&self, judging: Judging<'_>, block: &Block<'_>, tally: &mut Tally) {
        let mut done: Vec<((usize, u64), Row)> = Vec::new();
        {
            let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            for part in judging.below.parts(block.member.physical, block.bytes.len() as u64) {
                let Some((number, at)) = part.row else { continue };
                let Some(array) = judging.below.parities().get(number) else { continue };
                let range = part.offset_bytes as usize..(part.offset_bytes + part.len_bytes) as usize;
                let Some(bytes) = block.bytes.get(range) else { continue };
                waiting.add(array, (number, at), (part.offset_bytes, bytes), block, &mut done);
            }
        }
        for (key, row) in done {
            self.judge(judging, key, row, tally);
        }
    }

    fn judge(&self, judging: Judging<'_>, key: (usize, u64), row: Row, tally: &mut Tally) {
        let bad = row.judge(judging, key.0, key.1);
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = !bad.is_empty() && waiting.told.len() < MAX_TOLD && waiting.told.insert(key);
        drop(waiting);
        if is_new {
            for bad in bad {
                bad.tell(judging, tally);
            }
        }
    }

    /// Judges what is left.
    pub(in crate::scrub) fn finish(&self, judging: Judging<'_>, tally: &mut Tally) {
        let rows = std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner).rows);
        for (key, row) in rows {
            self.judge(judging, key, row, tally);
        }
    }
}

impl Waiting {
    fn add(
        &mut self,
        array: &Arc<dyn ParityRows>,
        (number, at): (usize, u64),
        (from, bytes): (u64, &[u8]),
        block: &Block<'_>,
        done: &mut Vec<((usize, u64), Row)>,
    ) {
        let chunk = array.chunk_bytes();
        let (row, column, offset) = (at / chunk / array.data_columns(), at / chunk % array.data_columns(), at % chunk);
        // Sectors that lie across units are not what md is made for; they are left alone.
        if !offset.is_multiple_of(UNIT_BYTES) || !(bytes.len() as u64).is_multiple_of(UNIT_BYTES) {
            return;
        }
        if chunk * array.parities() as u64 > MAX_WAITING_BYTES {
            return;
        }
        let key = (number, row);
        let waiting = self.rows.entry(key).or_insert_with(|| {
            self.order.push_back(key);
            self.bytes += chunk * array.parities() as u64;
            Row::new(array, block, (at, from))
        });
        if block.logical < waiting.first.0 {
            waiting.first = (block.logical, block.member, block.profile);
        }
        waiting.add(row, column, offset, bytes, block.state);
        if waiting.unseen == 0 {
            self.take_out(key, done);
        }
        while self.bytes > MAX_WAITING_BYTES && self.rows.len() > MIN_WAITING_ROWS {
            let Some(oldest) = self.order.pop_front() else { return };
            self.take_out(oldest, done);
        }
    }

    fn take_out(&mut self, key: (usize, u64), done: &mut Vec<((usize, u64), Row)>) {
        if let Some(row) = self.rows.remove(&key) {
            self.bytes -= row.array.chunk_bytes() * row.array.parities() as u64;
            self.order.retain(|other| *other != key);
            done.push((key, row));
        }
    }
}

impl Row {
    fn new(array: &Arc<dyn ParityRows>, block: &Block<'_>, (at, from): (u64, u64)) -> Self {
        let chunk = array.chunk_bytes() as usize;
        let units = chunk / UNIT_BYTES as usize * array.data_columns() as usize;
        Self {
            p: vec![0; chunk],
            q: if array.parities() == 2 { vec![0; chunk] } else { Vec::new() },
            array: Arc::clone(array),
            units: vec![None; units],
            unseen: units,
            first: (block.logical, block.member, block.profile),
            anchor: (at, DevicePhysical { physical: block.member.physical + from, ..block.member }),
        }
    }

    fn per_column(&self) -> usize {
        (self.array.chunk_bytes() / UNIT_BYTES) as usize
    }

    fn add(&mut self, row: u64, column: u64, offset: u64, bytes: &[u8], state: State) {
        let first = column as usize * self.per_column() + (offset / UNIT_BYTES) as usize;
        for (nth, bytes) in bytes.chunks(UNIT_BYTES as usize).enumerate() {
            let Some(unit) = self.units.get_mut(first + nth).filter(|unit| unit.is_none()) else { continue };
            *unit = Some(state);
            self.unseen -= 1;
            let start = offset as usize + nth * UNIT_BYTES as usize;
            self.sum(row, column, start, bytes);
        }
    }

    fn sum(&mut self, row: u64, column: u64, start: usize, bytes: &[u8]) {
        let range = start..start + bytes.len();
        let q = self.q.get_mut(range.clone()).unwrap_or_default();
        if let Some(p) = self.p.get_mut(range) {
            self.array.add_column(row, column, bytes, p, q);
        }
    }

    /// The states of one unit in all columns.
    fn states(&self, unit: usize) -> impl Iterator<Item = Option<State>> + '_ {
        self.units.iter().copied().skip(unit).step_by(self.per_column().max(1))
    }

    /// The parities of the row that are not what they should be.
    fn judge(mut self, judging: Judging<'_>, array: usize, number: u64) -> Vec<BadParity> {
        let units = self.per_column();
        let mut wanted: Vec<bool> = (0..units).map(|unit| self.is_wanted(unit)).collect();
        for unit in 0..units {
            if let Some(wanted) = wanted.get_mut(unit).filter(|wanted| **wanted) {
                *wanted = self.fill(judging, array, number, unit);
            }
        }
        (0..self.array.parities()).flat_map(|parity| self.judge_parity(number, parity, &wanted)).collect()
    }

    /// Units that hold something that is proved, and nothing that is lost.
    fn is_wanted(&self, unit: usize) -> bool {
        let has = |wanted: State| self.states(unit).any(|state| state == Some(wanted));
        has(State::Proved) && !has(State::Lost)
    }

    /// Reads what did not come. False where something of it is not what it should be.
    fn fill(&mut self, judging: Judging<'_>, array: usize, number: u64, unit: usize) -> bool {
        let (columns, chunk) = (self.array.data_columns(), self.array.chunk_bytes());
        let unseen: Vec<u64> = (0..).zip(self.states(unit)).filter(|(_, s)| s.is_none()).map(|(c, _)| c).collect();
        for column in unseen {
            let offset = unit as u64 * UNIT_BYTES;
            let at = (number * columns + column) * chunk + offset;
            let mut bytes = vec![0; UNIT_BYTES as usize];
            if self.array.read_data(at, &mut bytes).is_err() {
                return false;
            }
            match self.place_of(judging, array, at).map(|place| prove(judging.fs, place, &bytes)) {
                None | Some(Proof::Free | Proof::Right) => {}
                Some(Proof::Open) => {
                    let index = column as usize * self.per_column() + unit;
                    if let Some(state) = self.units.get_mut(index) {
                        *state = Some(State::Unproved);
                    }
                }
                Some(Proof::Wrong) => return false,
            }
            self.sum(number, column, offset as usize, &bytes);
        }
        true
    }

    /// Where on the member a place of the array is; `None` where it belongs to something else.
    fn place_of(&self, judging: Judging<'_>, array: usize, at: u64) -> Option<DevicePhysical> {
        let (known, member) = self.anchor;
        let physical = member.physical.raw().checked_add(at)?.checked_sub(known)?;
        let place = DevicePhysical { physical: Physical::new(physical), ..member };
        let part = judging.below.parts(place.physical, UNIT_BYTES).into_iter().next()?;
        (part.row == Some((array, at))).then_some(place)
    }

    fn judge_parity(&self, number: u64, parity: usize, wanted: &[bool]) -> Vec<BadParity> {
        let right = if parity == 0 { &self.p } else { &self.q };
        if self.array.place(number, parity, 0).is_none() || !wanted.contains(&true) {
            return Vec::new();
        }
        let mut have = vec![0; right.len()];
        let is_read = self.array.read(number, parity, 0, &mut have).is_ok();
        if is_read && have == *right {
            return Vec::new();
        }
        let size = UNIT_BYTES as usize;
        let (mut sure, mut open) = (Vec::new(), Vec::new());
        for (unit, have) in have.chunks_mut(size).enumerate().filter(|(unit, _)| wanted.get(*unit) == Some(&true)) {
            let offset = (unit * size) as u64;
            let can_read = is_read || self.array.read(number, parity, offset, have).is_ok();
            let right = right.get(unit * size..(unit + 1) * size).unwrap_or_default();
            if can_read && *right == *have {
                continue;
            }
            let Some(place) = self.array.place(number, parity, offset) else { continue };
            let bad = BadUnit { place, unit, right: right.to_vec(), before: can_read.then(|| have.to_vec()) };
            let is_open = self.states(unit).any(|state| state == Some(State::Unproved));
            if is_open { open.push(bad) } else { sure.push(bad) }
        }
        let of = |(units, is_sure): (Vec<BadUnit>, bool)| BadParity { parity, first: self.first, units, is_sure };
        [(sure, true), (open, false)].into_iter().filter(|(units, _)| !units.is_empty()).map(of).collect()
    }
}

/// 4 KiB of a parity that are not what they should be.
struct BadUnit {
    place: LowerPlace,
    unit: usize,
    right: Vec<u8>,
    /// `None` where it cannot be read.
    before: Option<Vec<u8>>,
}

/// A parity of a row that is not what it should be.
struct BadParity {
    parity: usize,
    first: (Logical, DevicePhysical, Profile),
    units: Vec<BadUnit>,
    /// All data of the row that is allocated has a checksum.
    is_sure: bool,
}

impl BadParity {
    fn tell(&self, judging: Judging<'_>, tally: &mut Tally) {
        let (logical, member, profile) = self.first;
        let (Some(first), Some(last)) = (self.units.first(), self.units.last()) else { return };
        let places = self.units.iter().filter_map(|bad| BelowPlace::new(judging.below, bad.place, UNIT_BYTES));
        let is_unread = self.units.iter().all(|bad| bad.before.is_none());
        let problem = if is_unread { Problem::ReadError } else { Problem::ParityMismatch };
        tally.device(member.devid).parity_errors += 1;
        let finding = Finding {
            kind: FindingKind::Parity,
            problem,
            logical,
            length: ((last.unit - first.unit + 1) as u64 * UNIT_BYTES) as u32,
            mirror: MirrorNum::new(self.parity as u8 + 1),
            devid: member.devid,
            physical: member.physical,
            profile,
            evidence: Evidence::None,
            repair: if self.is_sure { RepairState::Possible } else { RepairState::Undecidable },
            owner: None,
            below: joined(places.collect()),
        };
        tally.find(finding, 0);
        if judging.wants_mends && self.is_sure {
            self.mends(problem, &mut tally.mends);
        }
    }

    fn mends(&self, problem: Problem, mends: &mut Mends) {
        let (logical, member, _) = self.first;
        let unread = vec![0; UNIT_BYTES as usize];
        for (nth, bad) in self.units.iter().enumerate() {
            let fix = Fix {
                kind: FindingKind::Parity,
                problem,
                logical,
                mirror: MirrorNum::new(self.parity as u8 + 1),
                member,
                place: DevicePhysical { devid: lower_devid(bad.place.file), physical: bad.place.at },
                source: Source::RowData,
                right: &bad.right,
                before: bad.before.as_deref().unwrap_or(&unread),
                lost: if bad.before.is_some() { &[] } else { &[0] },
                findings: u64::from(nth == 0),
                sectors: 0,
            };
            fix.push(mends, UNIT_BYTES as usize);
        }
    }
}
