//! Allocated tree blocks that the extent tree does not name: those of log trees, always; all others, where the part of
//! the extent tree that would name them is lost.

use crate::tree::ParentCheck;
use crate::units::{Logical, LogicalRange};

/// A tree block known from the pointer to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ExtraBlock {
    /// Where it lives.
    pub(super) at: Logical,
    /// What the pointer promises.
    pub(super) check: ParentCheck,
}

/// Where nothing stands in.
pub(super) struct NothingLost;

impl LostAllocation for NothingLost {
    fn tree_blocks(&self, _: LogicalRange) -> Vec<ExtraBlock> {
        Vec::new()
    }
}

/// Finds out what a lost part of the extent tree would have said.
pub(super) trait LostAllocation: Sync {
    /// The tree blocks that other trees point to in `range`, ascending.
    fn tree_blocks(&self, range: LogicalRange) -> Vec<ExtraBlock>;
}
