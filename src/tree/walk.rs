//! Visiting every block of a tree once, parents before children, in key order.
//!
//! Shared blocks are visited as often as they are pointed to unless the visitor says [`Visit::Skip`]. A block that
//! cannot be read is handed to the visitor as lost and its subtree is passed over.

use super::block::{ParentCheck, TreeBlock};
use super::source::{BlockSource, LostBlock, TreeRoot};
use crate::units::Logical;
use std::sync::Arc;

/// Whether to go down into a node's children.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visit {
    /// Visit the children.
    Into,
    /// Do not.
    Skip,
    /// End the walk.
    Stop,
}

/// What a walk sees: the pointer to a block before it is read, then the block.
pub trait Visitor {
    /// Called for each pointer, before the block is read.
    fn pointer(&mut self, at: Logical, check: &ParentCheck) -> Visit {
        let _ = (at, check);
        Visit::Into
    }

    /// Called for each block that was read.
    fn block(&mut self, block: &Arc<TreeBlock>) -> Visit;

    /// Called for each block that could not be.
    fn lost(&mut self, at: Logical, check: &ParentCheck, why: &LostBlock);
}

/// Walks the tree under `root`. Returns false where the visitor stopped it. The depth is bounded by the level that the
/// root promises, so a tree that points in circles ends.
pub fn walk<S: BlockSource + ?Sized>(source: &S, root: &TreeRoot, visitor: &mut dyn Visitor) -> bool {
    walk_from(source, root.at, &root.check(), visitor)
}

fn walk_from<S: BlockSource + ?Sized>(source: &S, at: Logical, check: &ParentCheck, visitor: &mut dyn Visitor) -> bool {
    match visitor.pointer(at, check) {
        Visit::Into => {}
        Visit::Skip => return true,
        Visit::Stop => return false,
    }
    let block = match source.read_block(at, check) {
        Ok(block) => block,
        Err(why) => {
            visitor.lost(at, check, &why);
            return true;
        }
    };
    match visitor.block(&block) {
        Visit::Into => {}
        Visit::Skip => return true,
        Visit::Stop => return false,
    }
    if block.level() == 0 {
        return true;
    }
    let children = || (0..block.len()).filter_map(|s| block.key_ptr(s));
    source.expect(&mut children().map(|ptr| (ptr.child, block.child_check(&ptr))));
    children().all(|ptr| walk_from(source, ptr.child, &block.child_check(&ptr), visitor))
}
