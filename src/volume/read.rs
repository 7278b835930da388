//! The address space of a file system: members and chunks together, read copy by copy or row by row.
//!
//! Reads what it is told to read and says what went wrong; chooses no mirror, checks no checksum and keeps nothing.

use super::chunk::Chunk;
use super::chunk_map::{ChunkMap, Unmapped};
use super::geometry::Column;
use super::member::Member;
use super::raid56::{self, Recovered, Row, RowColumn};
use super::standing::Standing;
use crate::device::read_tolerant;
use crate::units::{DeviceId, DevicePhysical, Generation, Logical, MirrorNum};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use thiserror::Error;

/// Members by number, and the chunks that map addresses to them.
#[derive(Clone, Debug)]
pub struct Volume {
    members: BTreeMap<DeviceId, Arc<Member>>,
    chunks: ChunkMap,
    /// Of the members that are no seeds.
    newest: Generation,
}

/// Why one copy could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum CopyError {
    /// No chunk has the address.
    #[error(transparent)]
    Unmapped(#[from] Unmapped),
    /// The profile of the chunk has fewer copies.
    #[error("logical={at} has no mirror {mirror}")]
    NoMirror {
        /// The address.
        at: Logical,
        /// The mirror asked for.
        mirror: MirrorNum,
    },
    /// The device was not given.
    #[error("devid={devid} is missing")]
    Missing {
        /// The device.
        devid: DeviceId,
    },
    /// The device returned an error.
    #[error("read error at devid={} physical={}, {}", .place.devid, .place.physical, Errno(*.errno))]
    Io {
        /// Where the failed read started.
        place: DevicePhysical,
        /// What the kernel said; `None` where the device ends before the range does.
        errno: Option<i32>,
    },
}

struct Errno(Option<i32>);

impl std::fmt::Display for Errno {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(errno) => io::Error::from_raw_os_error(errno).fmt(f),
            None => f.write_str("past the end of the device"),
        }
    }
}

impl Volume {
    /// An address space of these members and chunks.
    pub fn new(members: BTreeMap<DeviceId, Arc<Member>>, chunks: ChunkMap) -> Self {
        let own = members.values().filter(|member| !member.is_seed());
        let newest = own.map(|member| member.generation()).max().unwrap_or_default();
        Self { members, chunks, newest }
    }

    /// Where the member of this number stands among the others; `None` where it is missing.
    pub fn standing(&self, devid: DeviceId) -> Option<Standing> {
        let member = self.member(devid)?;
        let (have, newest) = (member.generation(), self.newest);
        Some(match member.is_seed() {
            true => Standing::Seed,
            false if have < newest => Standing::Stale { have, newest },
            false => Standing::Current,
        })
    }

    /// The member of this number; `None` where it is missing.
    pub fn member(&self, devid: DeviceId) -> Option<&Arc<Member>> {
        self.members.get(&devid)
    }

    /// All members by number.
    pub fn members(&self) -> impl Iterator<Item = (DeviceId, &Arc<Member>)> {
        self.members.iter().map(|(devid, member)| (*devid, member))
    }

    /// The chunks.
    pub fn chunks(&self) -> &ChunkMap {
        &self.chunks
    }

    /// The chunks, to add more as they become known.
    pub fn chunks_mut(&mut self) -> &mut ChunkMap {
        &mut self.chunks
    }

    /// Fills `buf` from one place of one device.
    pub fn read_place(&self, place: DevicePhysical, buf: &mut [u8]) -> Result<(), CopyError> {
        let member = self.member(place.devid).ok_or(CopyError::Missing { devid: place.devid })?;
        let failed = |error: io::Error| CopyError::Io { place, errno: error.raw_os_error() };
        member.device().read_at(place.physical, buf).map_err(failed)
    }

    /// Fills `buf` with one copy of the addresses from `at` on, which may be spread over stripes and chunks. Where that fails,
    /// `buf` holds nothing of use.
    pub fn read_copy(&self, at: Logical, mirror: MirrorNum, buf: &mut [u8]) -> Result<(), CopyError> {
        let (mut at, mut rest) = (at, buf);
        while !rest.is_empty() {
            let chunk = self.chunks.lookup(at)?;
            let copy = chunk.copy(at, mirror).ok_or(CopyError::NoMirror { at, mirror })?;
            let len = chunk.contiguous_bytes(at).min(rest.len() as u64) as usize;
            let (now, later) = rest.split_at_mut(len);
            self.read_place(copy.place, now)?;
            (at, rest) = (at + len as u64, later);
        }
        Ok(())
    }

    /// Looks for the bytes `[at, at + len_bytes)` that `accept` takes by P and Q of their row (see [`raid56::recover`]), for a
    /// range within one stripe unit. `None` where the profile has no parity, the range leaves the unit, or nothing is
    /// accepted. Sectors that cannot be read count as known to be bad.
    pub fn recover(
        &self,
        at: Logical,
        len_bytes: usize,
        sector_bytes: usize,
        accept: impl FnMut(&[u8]) -> bool,
    ) -> Option<Recovered> {
        let chunk = self.chunks.lookup(at).ok()?;
        let full = chunk.full_stripe(at)?;
        if len_bytes as u64 > chunk.contiguous_bytes(at) {
            return None;
        }
        let range = RowRange { skip_bytes: skip_bytes(chunk, at), len_bytes, sector_bytes };
        let data: Vec<Option<ColumnRead>> = full.data.iter().map(|column| self.read_column(column, range)).collect();
        let (p, q) = (self.read_column(&full.p, range), full.q.and_then(|q| self.read_column(&q, range)));
        let target = column_of(chunk, at);
        let known_bad = |sector: usize, column: RowColumn| {
            let read = match column {
                RowColumn::Data(k) => data.get(k).and_then(Option::as_ref),
                RowColumn::P => p.as_ref(),
                RowColumn::Q => q.as_ref(),
            };
            read.is_none_or(|read| read.failed.contains(&sector))
        };
        let slices: Vec<Option<&[u8]>> = data.iter().map(|column| ColumnRead::bytes(column.as_ref())).collect();
        let row = Row { data: &slices, p: ColumnRead::bytes(p.as_ref()), q: ColumnRead::bytes(q.as_ref()) };
        raid56::recover(row, target, sector_bytes, known_bad, accept)
    }

    /// `None` where nothing of it can be read.
    fn read_column(&self, column: &Column, range: RowRange) -> Option<ColumnRead> {
        let member = self.member(column.place.devid)?;
        let (mut bytes, mut failed) = (vec![0; range.len_bytes], Vec::new());
        let at = column.place.physical + range.skip_bytes;
        read_tolerant(&**member.device(), at, &mut bytes, range.sector_bytes, &mut failed);
        let failed: Vec<usize> = failed.into_iter().map(|sector| sector.index).collect();
        (failed.len() < range.len_bytes.div_ceil(range.sector_bytes.max(1))).then_some(ColumnRead { bytes, failed })
    }
}

/// The same bytes of every column of a row.
#[derive(Clone, Copy)]
struct RowRange {
    skip_bytes: u64,
    len_bytes: usize,
    sector_bytes: usize,
}

struct ColumnRead {
    bytes: Vec<u8>,
    /// Sectors that could not be read, as zeros in `bytes`.
    failed: Vec<usize>,
}

impl ColumnRead {
    fn bytes(read: Option<&Self>) -> Option<&[u8]> {
        read.map(|read| &read.bytes[..])
    }
}

fn skip_bytes(chunk: &Chunk, at: Logical) -> u64 {
    (at - chunk.start()) % super::STRIPE_LEN_BYTES
}

fn column_of(chunk: &Chunk, at: Logical) -> usize {
    ((at - chunk.start()) / super::STRIPE_LEN_BYTES % chunk.data_columns()) as usize
}

#[cfg(test)]
mod tests;
