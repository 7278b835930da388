//! Verified tree blocks kept for the next cursor: a few leaves, and more of the nodes above them, which every descent
//! passes.

use crate::tree::TreeBlock;
use crate::units::Logical;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

/// For nodes above the leaves.
const NODE_BYTES_MAX: usize = 3 << 20;
/// For leaves: cursors move on and come back only to where they left off.
const LEAF_BYTES_MAX: usize = 1 << 20;

/// Blocks by address; the oldest give way.
#[derive(Default)]
pub(super) struct BlockCache {
    shelves: Mutex<Shelves>,
}

#[derive(Default)]
struct Shelves {
    blocks: HashMap<Logical, Arc<TreeBlock>>,
    nodes: Shelf,
    leaves: Shelf,
}

#[derive(Default)]
struct Shelf {
    order: VecDeque<Logical>,
    bytes: usize,
}

impl BlockCache {
    /// The block at `at`, if it is kept.
    pub(super) fn find(&self, at: Logical) -> Option<Arc<TreeBlock>> {
        self.shelves.lock().unwrap_or_else(PoisonError::into_inner).blocks.get(&at).map(Arc::clone)
    }

    /// Keeps a block.
    pub(super) fn keep(&self, block: &Arc<TreeBlock>) {
        let at = block.header().bytenr;
        let mut guard = self.shelves.lock().unwrap_or_else(PoisonError::into_inner);
        let shelves = &mut *guard;
        if shelves.blocks.insert(at, Arc::clone(block)).is_some() {
            return;
        }
        let (shelf, most) = if block.level() == 0 {
            (&mut shelves.leaves, LEAF_BYTES_MAX)
        } else {
            (&mut shelves.nodes, NODE_BYTES_MAX)
        };
        shelf.order.push_back(at);
        shelf.bytes += block.bytes().len();
        while shelf.bytes > most {
            let Some(oldest) = shelf.order.pop_front() else { break };
            shelf.bytes -= shelves.blocks.remove(&oldest).map_or(0, |block| block.bytes().len());
        }
    }
}
