//! What one stream may hold: blocks from the walker's position on, in the order of the walk, as much as fits.

use super::{Limits, Position};
use crate::units::Logical;
use std::collections::BTreeMap;

/// A window never is so small that a walker waits for each block.
const CAPACITY_MIN: usize = 8;

/// A block of the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) at: Logical,
    /// How many blocks it counts for.
    weight: usize,
}

/// A block that waits to be let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pending {
    at: Logical,
    level: u8,
}

/// The blocks of one stream.
#[derive(Debug)]
pub(super) struct Window {
    capacity: usize,
    descends: bool,
    in_batches: bool,
    /// Whether blocks are being let in; always, unless in batches.
    filling: bool,
    /// Known, but not yet let in.
    pending: BTreeMap<Position, Pending>,
    /// Wanted, on their way, or here.
    held: BTreeMap<Position, Held>,
    weight: usize,
    /// Where the walker is.
    front: Position,
    /// Children of a node, on average: children seen and nodes seen.
    fanout: (usize, usize),
}

impl Window {
    pub(super) fn new(limits: &Limits, nodesize: u32) -> Self {
        let blocks = limits.window_bytes / u64::from(nodesize.max(1));
        Self {
            capacity: usize::try_from(blocks).unwrap_or(usize::MAX).max(CAPACITY_MIN),
            descends: limits.descends,
            in_batches: limits.in_batches,
            filling: true,
            pending: BTreeMap::new(),
            held: BTreeMap::new(),
            weight: 0,
            front: Position::default(),
            // Half of the pointers that fit (33 bytes each), until nodes have been seen.
            fanout: (nodesize as usize / 66, 1),
        }
    }

    /// Learns how many children a node has.
    pub(super) fn learn_fanout(&mut self, children: usize) {
        self.fanout = (self.fanout.0.saturating_add(children), self.fanout.1.saturating_add(1));
    }

    /// Where the walker is: what lies before is of no interest.
    pub(super) fn front(&self) -> Position {
        self.front
    }

    /// A block becomes known.
    pub(super) fn insert(&mut self, position: Position, at: Logical, level: u8) {
        self.pending.insert(position, Pending { at, level });
    }

    /// A block is no longer of interest.
    pub(super) fn remove(&mut self, position: Position) {
        self.pending.remove(&position);
        if let Some(held) = self.held.remove(&position) {
            self.weight -= held.weight;
        }
    }

    /// A node has arrived: it counts for itself, its children for themselves.
    pub(super) fn arrived(&mut self, position: Position) {
        if let Some(held) = self.held.get_mut(&position) {
            self.weight = self.weight - held.weight + 1;
            held.weight = 1;
        }
    }

    /// The walker has come to `position`. Returns what it has passed over.
    pub(super) fn pass(&mut self, position: Position) -> Vec<Logical> {
        self.front = self.front.max(position);
        let later = self.held.split_off(&position);
        let passed = std::mem::replace(&mut self.held, later);
        self.weight -= passed.values().map(|held| held.weight).sum::<usize>();
        let later = self.pending.split_off(&position);
        let skipped = std::mem::replace(&mut self.pending, later);
        passed.into_values().map(|held| held.at).chain(skipped.into_values().map(|pending| pending.at)).collect()
    }

    /// Lets the block at `position` in whatever the window holds. False where it is in, or unknown.
    pub(super) fn let_in(&mut self, position: Position) -> bool {
        let Some(pending) = self.pending.remove(&position) else { return false };
        let weight = self.weight_of(pending.level);
        self.held.insert(position, Held { at: pending.at, weight });
        self.weight += weight;
        true
    }

    /// The next block to let in, if there is room for it.
    pub(super) fn let_in_next(&mut self) -> Option<Logical> {
        let (&position, &pending) = self.pending.first_key_value()?;
        let is_sibling = || pending.level == 0 && position.parent() == self.front.parent();
        if !self.descends && !is_sibling() {
            return None;
        }
        self.filling |= !self.in_batches || self.weight <= self.capacity / 2;
        let fits = self.weight == 0 || self.weight + self.weight_of(pending.level) <= self.capacity;
        self.filling &= fits;
        (self.filling && self.let_in(position)).then_some(pending.at)
    }

    /// A leaf counts for one block, a node for as many as are expected under it, but never for more than half of the
    /// window, so that the next one is under way when the walker comes to it.
    fn weight_of(&self, level: u8) -> usize {
        let fanout = self.fanout.0 / self.fanout.1.max(1);
        let below = (0..level).fold(1_usize, |sum, _| sum.saturating_mul(fanout).saturating_add(1));
        below.min(self.capacity / 2)
    }
}
