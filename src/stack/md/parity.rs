//! RAID4, RAID5 and RAID6: rows of data with P and Q, as they are, and as parity says they should be.

use super::member::{Members, unreadable};
use crate::device::{LowerPlace, ParityRows};
use crate::md::{Raid456, RowMembers};
use crate::stack::node::{Node, Parts};
use crate::volume::raid56::{self, Row, mul_into, xor_into};
use std::io;

pub(super) struct Parity {
    pub(super) members: Members,
    pub(super) geometry: Raid456,
    /// Among all arrays with parity of the set.
    pub(super) number: usize,
}

/// One column of a row.
struct Target {
    row: u64,
    column: usize,
    /// In the chunk.
    offset: u64,
}

impl Parity {
    fn find(&self, at: u64) -> (Target, u64) {
        let (row, column, offset) = self.geometry.find(at);
        (Target { row, column: column as usize, offset }, self.geometry.chunk_bytes() - offset)
    }

    /// Where in the data of a member a row begins.
    fn base(&self, row: u64) -> u64 {
        row * self.geometry.chunk_bytes()
    }

    fn read_member(&self, role: u32, row: u64, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.members.read(role, self.base(row) + offset, buf)
    }

    fn read_column(&self, target: &Target, buf: &mut [u8]) -> io::Result<()> {
        let members = self.geometry.members(target.row);
        let role = *members.data.get(target.column).ok_or_else(unreadable)?;
        let failed = match self.read_member(role, target.row, target.offset, buf) {
            Ok(()) => return Ok(()),
            Err(error) => error,
        };
        // As md does: what cannot be read is computed, from P if that is there.
        let right = self.candidates(target, buf.len(), false).into_iter().next();
        let right = right.ok_or(failed)?;
        buf.copy_from_slice(&right);
        Ok(())
    }

    /// What the column may be, other than it is: each by another parity, or with another column left out. `as_read` says
    /// whether the column itself can be used for it.
    fn candidates(&self, target: &Target, len: usize, as_read: bool) -> Vec<Vec<u8>> {
        let members = self.geometry.members(target.row);
        let read = |role: u32| {
            let mut bytes = vec![0; len];
            self.read_member(role, target.row, target.offset, &mut bytes).ok().map(|()| bytes)
        };
        let columns: Vec<Option<Vec<u8>>> = members
            .data
            .iter()
            .enumerate()
            .map(|(nth, role)| if nth == target.column && !as_read { None } else { read(*role) })
            .collect();
        let (p, q) = (read(members.p), members.q.and_then(read));
        let Some(in_q_order) = in_q_order(&members) else { return Vec::new() };
        let zeros = vec![0; len];
        let data: Vec<Option<&[u8]>> = in_q_order
            .iter()
            .map(|column| match column {
                Some(nth) => columns.get(*nth).and_then(Option::as_deref),
                None => Some(&zeros[..]),
            })
            .collect();
        let slot = in_q_order.iter().position(|column| *column == Some(target.column));
        let row = Row { data: &data, p: p.as_deref(), q: q.as_deref() };
        slot.map(|slot| raid56::candidates(row, slot)).unwrap_or_default()
    }
}

/// The data column for each power of 2 in Q, `None` where there is none (DDF counts P and Q as well).
fn in_q_order(members: &RowMembers) -> Option<Vec<Option<usize>>> {
    if members.q.is_none() {
        return Some((0..members.data.len()).map(Some).collect());
    }
    let len = members.exponents.iter().max()? + 1;
    let mut order = vec![None; len as usize];
    for (column, exponent) in members.exponents.iter().enumerate() {
        *order.get_mut(*exponent as usize)? = Some(column);
    }
    Some(order)
}

impl Node for Parity {
    fn len(&self) -> u64 {
        self.geometry.len_bytes()
    }

    fn read(&self, mut at: u64, mut buf: &mut [u8]) -> io::Result<()> {
        while !buf.is_empty() {
            let (target, left) = self.find(at);
            let place = self.base(target.row) + target.offset;
            let len = self.members.even_bytes(place, left.min(buf.len() as u64)).max(1);
            let (now, later) = buf.split_at_mut(len as usize);
            self.read_column(&target, now)?;
            at += len;
            buf = later;
        }
        Ok(())
    }

    fn cut(&self, mut at: u64, mut len_bytes: u64, parts: &mut Parts) {
        while len_bytes > 0 {
            let (target, left) = self.find(at);
            let place = self.base(target.row) + target.offset;
            let mut now = self.members.even_bytes(place, left.min(len_bytes)).max(1);
            let members = self.geometry.members(target.row);
            let role = members.data.get(target.column).copied().unwrap_or(u32::MAX);
            let copies = match self.members.places(role, place, now) {
                Some((len, copies)) => {
                    now = now.min(len);
                    copies
                }
                None => smallvec::SmallVec::new(),
            };
            parts.push(now, copies, Some((self.number, at)));
            (at, len_bytes) = (at + now, len_bytes - now);
        }
    }

    fn rebuilt(&self, at: u64, len_bytes: usize) -> Vec<Vec<u8>> {
        let (target, left) = self.find(at);
        if len_bytes as u64 > left { Vec::new() } else { self.candidates(&target, len_bytes, false) }
    }
}

impl ParityRows for Parity {
    fn chunk_bytes(&self) -> u64 {
        self.geometry.chunk_bytes()
    }

    fn data_columns(&self) -> u64 {
        self.geometry.data_columns()
    }

    fn len_bytes(&self) -> u64 {
        self.geometry.len_bytes()
    }

    fn parities(&self) -> usize {
        self.geometry.parities() as usize
    }

    fn place(&self, row: u64, parity: usize, offset: u64) -> Option<LowerPlace> {
        let members = self.geometry.members(row);
        let role = if parity == 0 { members.p } else { members.q? };
        let (_, places) = self.members.places(role, self.base(row) + offset, 1)?;
        places.first().copied()
    }

    fn read(&self, row: u64, parity: usize, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let members = self.geometry.members(row);
        let role = if parity == 0 { Some(members.p) } else { members.q };
        self.read_member(role.ok_or_else(unreadable)?, row, offset, buf)
    }

    fn add_column(&self, row: u64, column: u64, bytes: &[u8], p: &mut [u8], q: &mut [u8]) {
        xor_into(p, bytes);
        if q.is_empty() {
            return;
        }
        if let Some(exponent) = self.geometry.members(row).exponents.get(column as usize) {
            mul_into(q, bytes, raid56::exp2(*exponent as usize));
        }
    }

    fn read_data(&self, at: u64, buf: &mut [u8]) -> io::Result<()> {
        // Not what parity would give: that is what it is held against.
        let (target, left) = self.find(at);
        let members = self.geometry.members(target.row);
        let role = members.data.get(target.column).copied().ok_or_else(unreadable)?;
        if buf.len() as u64 > left {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        self.read_member(role, target.row, target.offset, buf)
    }
}
