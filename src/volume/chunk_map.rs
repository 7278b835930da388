//! All chunks of a file system: which chunk maps a logical address, and what a place on a device is for.
//!
//! Holds the invariant that no two chunks share a logical address or a byte of a device. Kernel: the mapping tree
//! (`btrfs_get_chunk_map`) and the checks of `btrfs_verify_dev_extents` in `fs/btrfs/volumes.c`.

use super::chunk::{Chunk, ChunkError, ChunkProblem};
use super::geometry::Role;
use crate::format::items::StripeItem;
use crate::units::{DeviceId, DevicePhysical, Logical, MirrorNum, Physical};
use std::collections::BTreeMap;
use thiserror::Error;

/// A logical address that no chunk maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("no chunk maps logical={at}")]
pub struct Unmapped {
    /// The address.
    pub at: Logical,
}

/// A stripe in the index by device: the chunk it is of and its number there.
#[derive(Clone, Copy, Debug)]
struct Slot {
    chunk: Logical,
    stripe: usize,
    end: Physical,
}

/// The chunks, by logical address and by place.
#[derive(Clone, Debug, Default)]
pub struct ChunkMap {
    chunks: BTreeMap<Logical, Chunk>,
    by_place: BTreeMap<DevicePhysical, Slot>,
}

impl ChunkMap {
    /// A map of nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a chunk. The same chunk again is welcome: system chunks stand in the super block and in the chunk tree.
    pub fn insert(&mut self, chunk: Chunk) -> Result<(), ChunkError> {
        let start = chunk.start();
        match self.chunks.range(..chunk.end()).next_back() {
            Some((_, known)) if *known == chunk => return Ok(()),
            Some((_, known)) if known.end() > start => {
                let (end, other_start, other_end) = (chunk.end(), known.start(), known.end());
                return Err(ChunkError {
                    start,
                    problem: ChunkProblem::Overlap { start, end, other_start, other_end },
                });
            }
            _ => {}
        }
        for stripe in chunk.stripes() {
            if let Some(other) = self.holder(stripe, chunk.stripe_bytes()) {
                let (devid, physical) = (stripe.devid, stripe.offset);
                return Err(ChunkError { start, problem: ChunkProblem::StripesOverlap { devid, physical, other } });
            }
        }
        for (number, stripe) in chunk.stripes().iter().enumerate() {
            let slot = Slot { chunk: start, stripe: number, end: stripe.offset + chunk.stripe_bytes() };
            self.by_place.insert(DevicePhysical { devid: stripe.devid, physical: stripe.offset }, slot);
        }
        self.chunks.insert(start, chunk);
        Ok(())
    }

    /// The chunk that maps `at`.
    pub fn lookup(&self, at: Logical) -> Result<&Chunk, Unmapped> {
        let below = self.chunks.range(..=at).next_back();
        below.map(|(_, chunk)| chunk).filter(|chunk| at < chunk.end()).ok_or(Unmapped { at })
    }

    /// All chunks by logical address.
    pub fn iter(&self) -> impl Iterator<Item = &Chunk> {
        self.chunks.values()
    }

    /// How many chunks there are.
    pub fn len(&self) -> usize {
        self.chunks.len()
    }

    /// True where there are none.
    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// What a byte of a device is for: its chunk and its role there. `None` where no chunk has it.
    pub fn role_at(&self, place: DevicePhysical) -> Option<(&Chunk, Role)> {
        let (key, slot) = self.by_place.range(..=place).next_back()?;
        if key.devid != place.devid || place.physical >= slot.end {
            return None;
        }
        let chunk = self.chunks.get(&slot.chunk)?;
        Some((chunk, chunk.role_at(slot.stripe, place.physical - key.physical)))
    }

    /// The logical address that a byte of a device holds, and which copy it is; `None` for parity and free space.
    pub fn logical_at(&self, place: DevicePhysical) -> Option<(Logical, MirrorNum)> {
        match self.role_at(place)? {
            (_, Role::Data { logical, mirror, .. }) => Some((logical, mirror)),
            _ => None,
        }
    }

    /// The stripes on one device in the order of their places, each as its chunk and its number in
    /// [`Chunk::stripes`].
    pub fn chunks_on(&self, devid: DeviceId) -> impl Iterator<Item = (&Chunk, usize)> {
        let from = DevicePhysical { devid, physical: Physical::new(0) };
        let to = DevicePhysical { devid, physical: Physical::new(u64::MAX) };
        self.by_place.range(from..=to).filter_map(|(_, slot)| Some((self.chunks.get(&slot.chunk)?, slot.stripe)))
    }

    /// The chunk that already has a byte of the place that `stripe` claims.
    fn holder(&self, stripe: &StripeItem, stripe_bytes: u64) -> Option<Logical> {
        let last = DevicePhysical { devid: stripe.devid, physical: stripe.offset + (stripe_bytes - 1) };
        let (key, slot) = self.by_place.range(..=last).next_back()?;
        (key.devid == stripe.devid && slot.end > stripe.offset).then_some(slot.chunk)
    }
}

#[cfg(test)]
mod tests;
