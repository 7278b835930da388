//! Which tree block is read next, from which device, so that a walk in key order never waits for more than it must.
//!
//! Decides; reads nothing, knows no clock. [`Readahead`] is told of roots ([`Readahead::add`]), asked by each device that
//! has room for work ([`Readahead::next`]), told how a read ended ([`Readahead::complete`]), and asked by the walker for
//! the next block in key order ([`Readahead::take`]). Threads drive it over devices (`tree::prefetch`), a simulator drives
//! it over models.
//!
//! * **One set, one elevator per device.** A wanted block stands in the elevator of every device that has a copy of it.
//!   Each device takes its blocks in ascending order and starts again at the bottom; what it takes is gone from the
//!   others, so no two mirrors read the same block. Where several devices could, the read policy is asked, and what it
//!   sends to a busy device waits for that one. Neighbours on a device are one request.
//! * **Children follow when a node arrives**, whether or not the walker has come to it.
//! * **A window in key order bounds memory.** Blocks are let in from the walker's position on, as many as the window
//!   holds; a node counts for the children that it is expected to bring, so that nodes far ahead do not take the room
//!   of leaves close by. What the walker passes over is dropped.
//! * **Batches.** For a reader beside other work the window is filled only when it is half empty, so that the disk goes
//!   to the trees for a few hundred blocks in one sweep and not for each one.
//! * **A bad copy** sends its block to the elevators of the other copies; nothing else waits for it. When there is no other
//!   copy the block is given out to be rebuilt.
//!
//! The idea of per-device pointers in ascending order is that of the kernel's former fs/btrfs/reada.c; what the window
//! in key order, the weights and the batches do is not in it. `siblings` does as today's kernel with
//! `READA_FORWARD_ALWAYS` (`reada_for_search` in fs/btrfs/ctree.c): the next 128 KiB of leaves under the same node.

mod elevator;
mod machine;
mod mode;
mod window;

pub use machine::{Issue, Outcome, Piece, Readahead, Take};
pub use mode::{ReadaheadMode, UnknownMode};

use super::block::ParentCheck;
use crate::units::{DevicePhysical, Logical};
use smallvec::SmallVec;

/// The largest request: eight nodes of 16 KiB. Larger ones gain nothing and keep other devices' blocks waiting.
pub(crate) const REQUEST_BYTES: u64 = 128 << 10;
/// The largest gap between two blocks that is read along: on flash as cheap as a second request, on a disk the head
/// passes over it anyway.
pub(crate) const GAP_BYTES: u64 = 16 << 10;

/// One walker's own sequence of blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u32);

/// A block of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockId {
    /// Whose.
    pub stream: StreamId,
    /// Where it lives.
    pub at: Logical,
}

/// The places of the copies of one block.
pub type Places = SmallVec<[DevicePhysical; 2]>;

/// A block that somebody points to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Want {
    /// Where it lives.
    pub at: Logical,
    /// What the pointer promises.
    pub check: ParentCheck,
    /// Which pointer of its parent (or which root of its walk) leads to it.
    pub slot: usize,
    /// Its copies in mirror order, each whole on one device. Without any the block goes to [`Readahead::next_rebuild`].
    pub copies: Places,
}

impl Want {
    /// 0 for leaves, and where nothing is promised.
    fn level(&self) -> u8 {
        self.check.level.unwrap_or(0)
    }
}

/// How much is read ahead, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Requests in flight per device.
    pub depth: usize,
    /// Bytes of blocks that each stream holds or has asked for.
    pub window_bytes: u64,
    /// Whether children follow when a node arrives, or only when the walker has come to it.
    pub descends: bool,
    /// Whether the window is filled only when it is half empty.
    pub in_batches: bool,
}

/// Where a block stands in the order of a walk: parents before children, siblings by their slot. (Not the key: on a
/// damaged image keys may be in any order, and a walk goes by slots.)
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Position {
    /// One more than the slot at each level, from the root down; 0 behind the last.
    slots: [u16; Self::LEVELS],
}

impl Position {
    /// The root's slot, then one for each of the seven levels below the highest.
    const LEVELS: usize = 9;

    fn root(slot: usize) -> Self {
        Self::default().child(slot)
    }

    /// A walk has at most eight levels; a position below the last is the last.
    fn child(mut self, slot: usize) -> Self {
        let depth = self.depth();
        if let Some(place) = self.slots.get_mut(depth) {
            *place = u16::try_from(slot + 1).unwrap_or(u16::MAX);
        }
        self
    }

    fn parent(mut self) -> Self {
        if let Some(place) = self.depth().checked_sub(1).and_then(|last| self.slots.get_mut(last)) {
            *place = 0;
        }
        self
    }

    fn depth(&self) -> usize {
        self.slots.iter().take_while(|slot| **slot > 0).count()
    }
}

#[cfg(test)]
mod tests;
