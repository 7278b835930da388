//! The trees of a file system as far as a simulation needs them: which block points to which, and where their copies
//! are. About 100 bytes per block.

use crate::filesystem::Filesystem;
use crate::tree::readahead::{Places, Want};
use crate::tree::{CopySource, LostBlock, ParentCheck, ReadaheadMode, SeenBlocks, TreeBlock, TreeRoot, Visit, Visitor};
use crate::tree::{prefetch, walk};
use crate::units::{DeviceId, Logical};
use std::collections::HashMap;
use std::sync::Arc;

/// One block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shaped {
    /// Where it lives.
    pub at: Logical,
    /// What its parent promises.
    pub check: ParentCheck,
    /// Its copies in mirror order.
    pub copies: Places,
    /// The blocks that it is the first to point to, as indices.
    pub children: Vec<u32>,
}

/// Trees without their contents.
#[derive(Clone, Debug, Default)]
pub struct Shape {
    blocks: Vec<Shaped>,
    roots: Vec<u32>,
    index: HashMap<Logical, u32>,
    devices: Vec<DeviceId>,
    block_bytes: u32,
}

impl Shape {
    /// Reads the trees under `roots`. What is lost has no shape.
    pub fn of(fs: &Filesystem, roots: &[TreeRoot]) -> Self {
        let mut shape = Self { devices: fs.devices(), block_bytes: fs.geometry().nodesize(), ..Self::default() };
        let mut survey =
            Survey { fs, shape: &mut shape, known: SeenBlocks::default(), pointer: ParentCheck::default() };
        match ReadaheadMode::default().for_walk() {
            Some(limits) => prefetch(fs, limits, |ahead| {
                let source = ahead.follow_once(roots);
                for root in roots {
                    walk(&source, root, &mut survey);
                }
            }),
            None => {
                for root in roots {
                    walk(fs, root, &mut survey);
                }
            }
        }
        shape.link(roots);
        shape
    }

    /// All blocks, in the order in which they became known.
    pub fn blocks(&self) -> &[Shaped] {
        &self.blocks
    }

    /// The roots, as indices.
    pub fn roots(&self) -> &[u32] {
        &self.roots
    }

    /// The devices that are there.
    pub fn devices(&self) -> &[DeviceId] {
        &self.devices
    }

    /// The size of a block.
    pub fn block_bytes(&self) -> u32 {
        self.block_bytes
    }

    /// The block at this index.
    pub fn block(&self, index: u32) -> Option<&Shaped> {
        self.blocks.get(index as usize)
    }

    /// The block at this address.
    pub fn block_at(&self, at: Logical) -> Option<&Shaped> {
        self.block(*self.index.get(&at)?)
    }

    /// A pointer to a block, as the state machine takes it.
    pub fn want(&self, slot: usize, index: u32) -> Option<Want> {
        let block = self.block(index)?;
        Some(Want { at: block.at, check: block.check, slot, copies: block.copies.clone() })
    }

    /// Each block becomes a child of the first that points to it.
    fn link(&mut self, roots: &[TreeRoot]) {
        let mut taken = vec![false; self.blocks.len()];
        let mut take = |index: u32| taken.get_mut(index as usize).is_some_and(|taken| !std::mem::replace(taken, true));
        self.roots = roots.iter().filter_map(|root| self.index.get(&root.at).copied()).collect();
        self.roots.retain(|root| take(*root));
        for block in &mut self.blocks {
            block.children.retain(|child| take(*child));
        }
    }
}

struct Survey<'f, 's> {
    fs: &'f Filesystem,
    shape: &'s mut Shape,
    known: SeenBlocks,
    pointer: ParentCheck,
}

impl Survey<'_, '_> {
    /// The index of the block at `at`, which may not have been read yet.
    fn index_of(&mut self, at: Logical, check: ParentCheck) -> u32 {
        let next = self.shape.blocks.len() as u32;
        let index = *self.shape.index.entry(at).or_insert(next);
        if index == next {
            self.shape.blocks.push(Shaped { at, check, copies: self.fs.copies(at), children: Vec::new() });
        }
        index
    }
}

impl Visitor for Survey<'_, '_> {
    fn pointer(&mut self, at: Logical, check: &ParentCheck) -> Visit {
        self.pointer = *check;
        if self.known.insert(at) { Visit::Into } else { Visit::Skip }
    }

    fn block(&mut self, block: &Arc<TreeBlock>) -> Visit {
        let own = self.index_of(block.header().bytenr, self.pointer);
        let pointers: Vec<_> = (0..block.len()).filter_map(|slot| block.key_ptr(slot)).collect();
        let children = pointers.iter().map(|ptr| self.index_of(ptr.child, block.child_check(ptr))).collect();
        if let Some(shaped) = self.shape.blocks.get_mut(own as usize) {
            shaped.children = children;
        }
        Visit::Into
    }

    fn lost(&mut self, _: Logical, _: &ParentCheck, _: &LostBlock) {}
}
