//! A position in one tree, moving forward in key order over its commit root.
//!
//! A subtree that cannot be read is passed over and remembered as [`LostSubtree`]; the walk goes on behind it.

use super::block::TreeBlock;
use super::source::{BlockSource, LostBlock, TreeRoot};
use crate::format::Key;
use crate::units::{Generation, Logical};
use std::sync::Arc;

/// A subtree that no copy could give, with the keys that are lost with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostSubtree {
    /// The block that could not be used.
    pub at: Logical,
    /// Its level.
    pub level: u8,
    /// The first lost key.
    pub first: Key,
    /// The key at which the tree goes on; `None` where nothing follows.
    pub end: Option<Key>,
    /// What the parent promised of it.
    pub check: super::ParentCheck,
    /// Why.
    pub why: LostBlock,
}

struct Step {
    block: Arc<TreeBlock>,
    slot: usize,
}

/// Whether the block that starts here was there in this generation.
pub type IsKnown<'s> = &'s (dyn Fn(Logical, Generation) -> bool + Sync);

/// A forward cursor. Holds one block per level of the tree.
pub struct Cursor<'s, S: BlockSource + ?Sized> {
    source: &'s S,
    root: TreeRoot,
    path: Vec<Step>,
    lost: Vec<LostSubtree>,
    since: Option<Generation>,
    is_known: Option<IsKnown<'s>>,
    unknown: u64,
}

impl<'s, S: BlockSource + ?Sized> Cursor<'s, S> {
    /// A cursor on `root`, standing nowhere until [`Self::seek`].
    pub fn new(source: &'s S, root: TreeRoot) -> Self {
        Self { source, root, path: Vec::new(), lost: Vec::new(), since: None, is_known: None, unknown: 0 }
    }

    /// Passes over subtrees that have not changed since before generation `since`. Items older than that may still be
    /// seen: they share a leaf with newer ones.
    #[must_use]
    pub fn since(mut self, since: Option<Generation>) -> Self {
        self.since = since;
        self
    }

    /// Passes over old subtrees only where their block is known.
    #[must_use]
    pub fn where_known(mut self, is_known: Option<IsKnown<'s>>) -> Self {
        self.is_known = is_known;
        self
    }

    /// Old subtrees so far that were not passed over, for their block is not known.
    pub fn unknown(&self) -> u64 {
        self.unknown
    }

    /// Moves to the first item at or above `key`.
    pub fn seek(&mut self, key: &Key) {
        self.seek_floor(key);
        while self.key().is_some_and(|k| k < *key) {
            self.advance();
        }
    }

    /// Moves to the last item at or below `key`, or to the first item of the tree where there is none. After damage the
    /// item may be an earlier or later one: callers look at the key they get.
    pub fn seek_floor(&mut self, key: &Key) {
        self.path.clear();
        match self.source.read_block(self.root.at, &self.root.check()) {
            Ok(block) => self.descend(block, key),
            Err(why) => self.lost.push(LostSubtree {
                at: self.root.at,
                level: self.root.level,
                first: Key::MIN,
                end: None,
                check: self.root.check(),
                why,
            }),
        }
    }

    /// The key of the item under the cursor; `None` behind the last.
    pub fn key(&self) -> Option<Key> {
        let leaf = self.leaf()?;
        leaf.block.key(leaf.slot)
    }

    /// The item under the cursor; `None` behind the last. An item that lies outside its leaf is empty.
    pub fn item(&self) -> Option<(Key, &[u8])> {
        let leaf = self.leaf()?;
        Some(leaf.block.item(leaf.slot).unwrap_or((leaf.block.key(leaf.slot)?, &[])))
    }

    /// The address of the leaf under the cursor.
    pub fn leaf_at(&self) -> Option<Logical> {
        self.leaf().map(|step| step.block.header().bytenr)
    }

    /// Moves to the next item.
    pub fn advance(&mut self) {
        if let Some(step) = self.path.last_mut() {
            step.slot += 1;
        }
        self.settle();
    }

    /// What could not be read so far; the list starts anew.
    pub fn take_lost(&mut self) -> Vec<LostSubtree> {
        std::mem::take(&mut self.lost)
    }

    fn leaf(&self) -> Option<&Step> {
        self.path.last().filter(|s| s.block.level() == 0 && s.slot < s.block.len())
    }

    /// From the root block down towards `key`.
    fn descend(&mut self, root: Arc<TreeBlock>, key: &Key) {
        let mut next = Some(root);
        while let Some(block) = next.take() {
            let slot = block.slot_floor(key).unwrap_or(0);
            let is_leaf = block.level() == 0;
            self.path.push(Step { block, slot });
            if !is_leaf {
                next = self.child();
            }
        }
        self.settle();
    }

    /// Goes on until the last block of the path is a leaf with an item in its slot, or the tree ends.
    fn settle(&mut self) {
        while let Some(step) = self.path.last_mut() {
            if step.slot >= step.block.len() {
                self.path.pop();
                if let Some(parent) = self.path.last_mut() {
                    parent.slot += 1;
                }
            } else if step.block.level() == 0 {
                return;
            } else if let Some(block) = self.child() {
                self.path.push(Step { block, slot: 0 });
            }
        }
    }

    /// The child under the slot of the last block; where it is lost, notes that and moves to the next slot.
    fn child(&mut self) -> Option<Arc<TreeBlock>> {
        let step = self.path.last()?;
        let block = &step.block;
        let Some(ptr) = block.key_ptr(step.slot) else {
            self.path.last_mut()?.slot += 1;
            return None;
        };
        if self.since.is_some_and(|since| ptr.generation < since) {
            if self.is_known.is_none_or(|is_known| is_known(ptr.child, ptr.generation)) {
                self.path.last_mut()?.slot += 1;
                return None;
            }
            self.unknown += 1;
        }
        let check = block.child_check(&ptr);
        self.source.expect(&mut (step.slot..block.len()).filter_map(|slot| {
            let ptr = block.key_ptr(slot)?;
            Some((ptr.child, block.child_check(&ptr)))
        }));
        match self.source.read_block(ptr.child, &check) {
            Ok(block) => Some(block),
            Err(why) => {
                let end = block.key(step.slot + 1).or_else(|| self.end_of_last());
                let level = check.level.unwrap_or(0);
                self.lost.push(LostSubtree { at: ptr.child, level, first: ptr.key, end, check, why });
                self.path.last_mut()?.slot += 1;
                None
            }
        }
    }

    /// The key at which the tree goes on behind the last block of the path.
    fn end_of_last(&self) -> Option<Key> {
        self.path.iter().rev().skip(1).find_map(|step| step.block.key(step.slot + 1))
    }
}
