//! Which trees a tree block is part of: upwards from the block through its references to the roots. A block that was
//! made before a snapshot is part of more trees than its own references name: whoever shares a block above it shares it
//! too. Kernel: `btrfs_find_all_roots` in fs/btrfs/backref.c.

use super::references::{Referenced, References};
use super::trees::Trees;
use crate::filesystem::Filesystem;
use crate::format::Key;
use crate::format::items::ExtentRef;
use crate::format::node::MAX_LEVEL;
use crate::tree::{BlockSource, ParentCheck, TreeBlock, TreeRoot};
use crate::units::{Logical, ObjectId};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// The trees that a block is part of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RootSet {
    /// Ascending; those being deleted too.
    pub(super) ids: BTreeSet<ObjectId>,
    /// Not all of the way up could be followed: there may be more.
    pub(super) is_partial: bool,
}

/// Follows references upwards; every block is looked at once.
pub(super) struct RootsOf<'f> {
    fs: &'f Filesystem,
    references: References<'f>,
    known: HashMap<Logical, Arc<RootSet>>,
}

impl<'f> RootsOf<'f> {
    pub(super) fn new(fs: &'f Filesystem) -> Self {
        Self { fs, references: References::new(fs), known: HashMap::new() }
    }

    /// The trees that the block at `at` is part of. The depth is bounded by the level, which grows with each step.
    pub(super) fn of(&mut self, trees: &mut Trees<'f>, at: Logical, level: u8) -> Arc<RootSet> {
        if let Some(known) = self.known.get(&at) {
            return Arc::clone(known);
        }
        let set = Arc::new(self.follow(trees, at, level));
        self.known.insert(at, Arc::clone(&set));
        set
    }

    fn follow(&mut self, trees: &mut Trees<'f>, at: Logical, level: u8) -> RootSet {
        let mut set = RootSet::default();
        let found = self.references.block(at).filter(|found| found.level == Some(level));
        let by_level = || ParentCheck { level: Some(level), ..ParentCheck::default() };
        let block = self.fs.read_block(at, &found.as_ref().map_or_else(by_level, Referenced::check)).ok();
        let refs = if let Some(found) = found {
            set.is_partial |= !found.is_whole();
            found.refs
        } else {
            // Without an extent item only the block itself can say whose it is.
            set.is_partial = true;
            block.iter().map(|block| ExtentRef::TreeBlock { root: block.header().owner }).collect()
        };
        let mut parents = BTreeSet::new();
        for reference in refs {
            match reference {
                ExtentRef::TreeBlock { root } => match self.above(trees, root, at, level, block.as_deref()) {
                    Above::Root => drop(set.ids.insert(root)),
                    Above::Parent(parent) => drop(parents.insert(parent)),
                    Above::Unknown => set.is_partial = true,
                },
                // The root of a tree that a balance works on names itself.
                ExtentRef::SharedBlock { parent } if parent != at => drop(parents.insert(parent)),
                _ => {}
            }
        }
        for parent in parents.into_iter().filter(|_| level < MAX_LEVEL) {
            let above = self.of(trees, parent, level + 1);
            set.ids.extend(&above.ids);
            set.is_partial |= above.is_partial;
        }
        set
    }

    /// What holds the pointer to the block in tree `root`, found by its first key.
    fn above(&self, trees: &mut Trees<'f>, root: ObjectId, at: Logical, level: u8, block: Option<&TreeBlock>) -> Above {
        let Some(tree) = trees.find(root) else { return Above::Unknown };
        if tree.root.at == at {
            return Above::Root;
        }
        let key = block.and_then(|block| block.key(0));
        key.and_then(|key| parent_of(self.fs, &tree.root, &key, at, level)).map_or(Above::Unknown, Above::Parent)
    }
}

enum Above {
    Root,
    Parent(Logical),
    Unknown,
}

/// The node of the tree that points to the block at `at`, whose first key is `key`.
fn parent_of(fs: &Filesystem, root: &TreeRoot, key: &Key, at: Logical, level: u8) -> Option<Logical> {
    let mut block = fs.read_block(root.at, &root.check()).ok()?;
    while block.level() > level {
        let pointer = block.key_ptr(block.slot_floor(key)?)?;
        if pointer.child == at {
            return Some(block.header().bytenr);
        }
        block = fs.read_block(pointer.child, &block.child_check(&pointer)).ok()?;
    }
    None
}
