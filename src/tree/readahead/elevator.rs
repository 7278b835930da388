//! The wanted blocks of one device in ascending order, and where the device has got to.

use super::{BlockId, GAP_BYTES, REQUEST_BYTES};
use crate::units::Physical;
use std::collections::BTreeSet;

/// One device's blocks. A block of two streams stands here twice.
#[derive(Debug, Default)]
pub(super) struct Elevator {
    wanted: BTreeSet<(Physical, BlockId)>,
    at: Physical,
    /// Requests on their way.
    pub(super) in_flight: usize,
}

impl Elevator {
    pub(super) fn insert(&mut self, at: Physical, id: BlockId) {
        self.wanted.insert((at, id));
    }

    pub(super) fn remove(&mut self, at: Physical, id: BlockId) {
        self.wanted.remove(&(at, id));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.wanted.is_empty()
    }

    /// The next block at or above where the device is, or else the lowest.
    pub(super) fn first(&self) -> Option<(Physical, BlockId)> {
        let up = self.wanted.range((self.at, BlockId::LOWEST)..).next();
        up.or_else(|| self.wanted.first()).copied()
    }

    /// The block that can be read with the same request as those in `[start, end)`, if there is one: of the same
    /// stream, close enough, and not too much in all.
    pub(super) fn neighbour(
        &self,
        start: Physical,
        end: Physical,
        id: BlockId,
        block_bytes: u64,
    ) -> Option<(Physical, BlockId)> {
        let from = (end, BlockId::LOWEST);
        let (at, next) =
            self.wanted.range(from..=(end + GAP_BYTES, BlockId::HIGHEST)).find(|(_, next)| next.stream == id.stream)?;
        (*at + block_bytes - start <= REQUEST_BYTES).then_some((*at, *next))
    }

    /// The device has gone to `end`.
    pub(super) fn advance(&mut self, end: Physical) {
        self.at = end;
    }
}

impl BlockId {
    const LOWEST: Self = Self { stream: super::StreamId(0), at: crate::units::Logical::new(0) };
    const HIGHEST: Self = Self { stream: super::StreamId(u32::MAX), at: crate::units::Logical::new(u64::MAX) };
}
