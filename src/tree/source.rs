//! Where tree blocks come from. `tree` never sees a device: it asks a [`BlockSource`], which knows copies, read
//! policies, reconstruction and caches.

use super::block::{BadBlock, ParentCheck, TreeBlock};
use crate::units::{Generation, Logical, ObjectId};
use std::sync::Arc;
use thiserror::Error;

/// The root of one tree, as a root item or super block gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeRoot {
    /// The tree's id.
    pub id: ObjectId,
    /// Where its root block lives.
    pub at: Logical,
    /// The root block's level.
    pub level: u8,
    /// The root block's generation, where known.
    pub generation: Option<Generation>,
}

impl TreeRoot {
    /// What the pointer to the root promises of it.
    pub fn check(&self) -> ParentCheck {
        ParentCheck { level: Some(self.level), generation: self.generation, first_key: None, owner: Some(self.id) }
    }
}

/// Why no copy of a block could be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LostBlock {
    /// No chunk maps the address.
    #[error("block {0} is not mapped by any chunk")]
    Unmapped(Logical),
    /// Every copy is on a device that is missing.
    #[error("block {0} has no copy on a present device")]
    Missing(Logical),
    /// A read failed on every copy that is there.
    #[error("block {at} cannot be read: errno {errno:?}")]
    Unreadable {
        /// The block.
        at: Logical,
        /// Of the first copy; `None` for a read past the end of the device.
        errno: Option<i32>,
    },
    /// No copy, and no reconstruction, verifies.
    #[error("block {at}: {why}")]
    Bad {
        /// The block.
        at: Logical,
        /// What is wrong with the first copy that could be read.
        why: BadBlock,
    },
}

/// Verified tree blocks by address.
pub trait BlockSource: Sync {
    /// The block at `at`, from whichever copy keeps the promise.
    fn read_block(&self, at: Logical, check: &ParentCheck) -> Result<Arc<TreeBlock>, LostBlock>;

    /// Called with the children a walk is about to visit, in the order of their keys. A source with readahead starts
    /// fetching; others ignore it.
    fn expect(&self, children: &mut dyn Iterator<Item = (Logical, ParentCheck)>) {
        let _ = children;
    }
}
