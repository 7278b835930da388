//! The stripes of a member that is lost, made again while the others are in memory: from a copy that verifies, by P and Q,
//! or, for P and Q themselves, from the data of their row. Never reads what stands in the lost member's place, never writes.
//!
//! [`RebuiltStripe`] can be made here alone. Sectors without checksum are taken from current members and counted as
//! unproved; what nobody has is left out and counted as lost.

mod mirrored;
mod stray;

pub(super) use mirrored::fill_mirrored;
pub(super) use stray::fill_stray;

use super::window::{WINDOW_BYTES, Window};
use crate::device::{BufferPool, PooledBuffer};
use crate::format::{SUPERBLOCK_BYTES, SUPERBLOCK_OFFSETS};
use crate::units::{DeviceId, LogicalRange, MirrorNum, Physical};
use crate::volume::{Chunk, LostMember};
use std::io;
use std::ops::Range;

/// The lost member, and who takes its stripes.
#[derive(Clone, Copy)]
pub struct Rebuilding<'a> {
    /// The member.
    pub lost: &'a LostMember,
    /// Of [`rebuild_buffers`]: a run waits while all of them are out.
    pub buffers: &'a BufferPool,
    /// Takes the stripes of one window at a time, from several threads.
    pub sink: &'a (dyn Fn(Vec<RebuiltStripe>) + Sync),
}

impl Rebuilding<'_> {
    pub(super) fn devid(&self) -> DeviceId {
        self.lost.devid()
    }

    /// Whether the lost member holds a part of the chunk.
    pub(super) fn concerns(&self, chunk: &Chunk) -> bool {
        chunk.stripes().iter().any(|stripe| stripe.devid == self.devid())
    }

    /// Bytes of a range that the lost member holds as they are.
    pub(super) fn bytes_of(&self, chunk: &Chunk, range: &LogicalRange) -> u64 {
        let mirrors = (1..=chunk.mirrors()).map(MirrorNum::new);
        let pieces = mirrors.flat_map(|mirror| chunk.pieces(range.clone(), mirror));
        pieces.filter(|piece| piece.place.devid == self.devid()).map(|piece| piece.len_bytes).sum()
    }
}

/// Buffers for so many stripes at once.
pub fn rebuild_buffers(count: usize) -> io::Result<BufferPool> {
    BufferPool::new(count, WINDOW_BYTES as usize)
}

/// Allocated bytes of a lost member, by what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RebuiltBytes {
    /// Taken from another copy.
    pub from_copies: u64,
    /// Taken from the rest of a row: by P and Q, or P and Q themselves.
    pub from_parity: u64,
    /// Of both, those that no checksum proves.
    pub unproved: u64,
    /// Nobody has them.
    pub lost: u64,
}

impl RebuiltBytes {
    /// Adds those of another part.
    pub fn add(&mut self, other: &Self) {
        self.from_copies += other.from_copies;
        self.from_parity += other.from_parity;
        self.unproved += other.unproved;
        self.lost += other.lost;
    }

    /// All that was made again.
    pub fn rebuilt(&self) -> u64 {
        self.from_copies + self.from_parity
    }
}

/// What the lost member has to hold in one stretch of at most 1 MiB, as far as anybody knows it.
pub struct RebuiltStripe {
    at: Physical,
    buffer: PooledBuffer,
    parts: Vec<Range<usize>>,
}

impl RebuiltStripe {
    /// Where, and what, ascending. No part touches a super block.
    pub fn parts(&self) -> impl Iterator<Item = (Physical, &[u8])> {
        self.parts.iter().filter_map(|part| Some((self.at + part.start as u64, self.buffer.get(part.clone())?)))
    }
}

/// A stripe that is being put together.
pub(super) struct StripeBuilder {
    /// Its number in the chunk.
    pub(super) stripe: usize,
    at: Physical,
    pool: BufferPool,
    buffer: Option<PooledBuffer>,
    parts: Vec<Range<usize>>,
}

impl StripeBuilder {
    /// One for each stripe of the window that lies on the lost member.
    pub(super) fn all(window: &Window, rebuilding: &Rebuilding<'_>) -> Vec<Self> {
        let stripes = window.chunk.stripes().iter().enumerate();
        let on_lost = stripes.filter(|(_, stripe)| stripe.devid == rebuilding.devid());
        on_lost.map(|(nth, stripe)| Self::new(nth, stripe.offset + window.from_bytes, rebuilding.buffers)).collect()
    }

    fn new(stripe: usize, at: Physical, pool: &BufferPool) -> Self {
        Self { stripe, at, pool: pool.clone(), buffer: None, parts: Vec::new() }
    }

    /// Takes in bytes that are known to be right, `offset` bytes into the window's part of the stripe. `false` where they
    /// cannot stand there: a super block does, or the window ends.
    pub(super) fn put(&mut self, offset: usize, bytes: &[u8]) -> bool {
        if bytes.is_empty() || touches_superblock(self.at + offset as u64, bytes.len()) {
            return false;
        }
        let pool = &self.pool;
        let buffer = self.buffer.get_or_insert_with(|| pool.take());
        let Some(to) = buffer.get_mut(offset..offset + bytes.len()) else { return false };
        to.copy_from_slice(bytes);
        match self.parts.last_mut() {
            Some(last) if last.end == offset => last.end += bytes.len(),
            _ => self.parts.push(offset..offset + bytes.len()),
        }
        true
    }

    /// The stripe; `None` where nothing was put in.
    pub(super) fn finish(self) -> Option<RebuiltStripe> {
        self.buffer.map(|buffer| RebuiltStripe { at: self.at, buffer, parts: self.parts })
    }
}

fn touches_superblock(at: Physical, len: usize) -> bool {
    SUPERBLOCK_OFFSETS.iter().any(|place| at < *place + SUPERBLOCK_BYTES as u64 && *place < at + len as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_become_one_part_and_the_place_of_a_super_block_stays_free() {
        let pool = rebuild_buffers(1).unwrap();
        let mut stripe = StripeBuilder::new(0, Physical::new(64 << 20), &pool);
        assert!(!stripe.put(0, &[1; 4096]));
        assert!(stripe.put(4096, &[2; 4096]));
        assert!(stripe.put(8192, &[3; 4096]));
        assert!(stripe.put(16384, &[4; 4096]));
        assert!(!stripe.put(WINDOW_BYTES as usize, &[5; 4096]));
        let stripe = stripe.finish().unwrap();
        let places: Vec<_> = stripe.parts().map(|(at, bytes)| (at.raw() - (64 << 20), bytes.len(), bytes[0])).collect();
        assert_eq!(places, [(4096, 8192, 2), (16384, 4096, 4)]);
        assert!(StripeBuilder::new(0, Physical::new(0), &pool).finish().is_none());
    }
}
