//! What stands in for a lost part of the extent tree: the tree blocks that the other trees point to. Found by walking
//! every root once, and only when it is needed.
//!
//! Leaves are not read for it: the pointer in the node above tells all there is to know.

use super::extra::{ExtraBlock, LostAllocation};
use crate::filesystem::Filesystem;
use crate::tree::{LostBlock, ParentCheck, TreeBlock, Visit, Visitor, walk};
use crate::units::{Logical, LogicalRange};
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

/// At most so many tree blocks are remembered: 2 Mi x about 100 bytes.
const MAX_BLOCKS: usize = 2 << 20;

pub(super) struct Fallback<'a> {
    fs: &'a Filesystem,
    blocks: OnceLock<BTreeMap<Logical, ParentCheck>>,
}

impl<'a> Fallback<'a> {
    pub(super) fn new(fs: &'a Filesystem) -> Self {
        Self { fs, blocks: OnceLock::new() }
    }
}

impl LostAllocation for Fallback<'_> {
    fn tree_blocks(&self, range: LogicalRange) -> Vec<ExtraBlock> {
        let blocks = self.blocks.get_or_init(|| collect(self.fs));
        blocks.range(range).map(|(at, check)| ExtraBlock { at: *at, check: *check }).collect()
    }
}

/// All tree blocks that any root leads to.
fn collect(fs: &Filesystem) -> BTreeMap<Logical, ParentCheck> {
    let mut pointers = Pointers::default();
    for root in fs.all_roots() {
        walk(fs, &root, &mut pointers);
    }
    pointers.seen
}

/// Every block a walk is pointed to, each once.
#[derive(Default)]
struct Pointers {
    seen: BTreeMap<Logical, ParentCheck>,
}

impl Visitor for Pointers {
    fn pointer(&mut self, at: Logical, check: &ParentCheck) -> Visit {
        if self.seen.len() >= MAX_BLOCKS {
            return Visit::Stop;
        }
        // The owner of a shared block need not be the tree of this walk, and the first key is checked by links.
        let check = ParentCheck { first_key: None, owner: None, ..*check };
        if self.seen.insert(at, check).is_some() || check.level == Some(0) {
            return Visit::Skip;
        }
        Visit::Into
    }

    fn block(&mut self, _: &Arc<TreeBlock>) -> Visit {
        Visit::Into
    }

    fn lost(&mut self, _: Logical, _: &ParentCheck, _: &LostBlock) {}
}
