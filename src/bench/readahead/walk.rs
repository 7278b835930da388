//! The walk that is measured: every block of the chosen trees once, in key order.

use crate::filesystem::Filesystem;
use crate::format::types::object;
use crate::tree::block::is_subvolume;
use crate::tree::{
    BlockSource, LostBlock, ParentCheck, ReadaheadMode, SeenBlocks, TreeBlock, TreeRoot, Visit, Visitor,
};
use crate::tree::{prefetch, walk};
use crate::units::Logical;
use std::fmt;
use std::hash::{DefaultHasher, Hasher as _};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Which trees are walked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trees {
    /// `all`: whatever the root tree names.
    #[default]
    All,
    /// `extent`: what is allocated.
    Extent,
    /// `csum`: the checksums of data.
    Csum,
    /// `fs`: the trees of files.
    Fs,
}

/// Text that names no trees.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown trees {given:?}, expect all, extent, csum or fs")]
pub struct UnknownTrees {
    /// What was given.
    pub given: String,
}

impl FromStr for Trees {
    type Err = UnknownTrees;

    fn from_str(text: &str) -> Result<Self, UnknownTrees> {
        [Self::All, Self::Extent, Self::Csum, Self::Fs]
            .into_iter()
            .find(|trees| trees.to_string() == text)
            .ok_or_else(|| UnknownTrees { given: text.to_owned() })
    }
}

impl fmt::Display for Trees {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::All => "all",
            Self::Extent => "extent",
            Self::Csum => "csum",
            Self::Fs => "fs",
        })
    }
}

impl Trees {
    /// Their roots.
    pub fn roots(self, fs: &Filesystem) -> Vec<TreeRoot> {
        let wanted = |root: &TreeRoot| match self {
            Self::All => true,
            Self::Extent => root.id == object::EXTENT_TREE,
            Self::Csum => root.id == object::CSUM_TREE,
            Self::Fs => is_subvolume(root.id),
        };
        fs.all_roots().into_iter().filter(wanted).collect()
    }
}

/// What a walker saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Blocks that it was given.
    pub tree_blocks: u64,
    /// Blocks that no copy could give.
    pub lost_blocks: u64,
    /// Bytes of those it was given, or of everything that was scrubbed.
    pub bytes: u64,
    /// Of addresses and contents, in the order in which they came.
    pub digest: u64,
}

/// Walks the trees under `roots`. `progress` counts bytes.
pub fn walk_trees(
    fs: &Filesystem,
    mode: ReadaheadMode,
    roots: &[TreeRoot],
    progress: &std::sync::atomic::AtomicU64,
) -> Seen {
    match mode.for_walk() {
        None => walk_all(fs, roots, progress),
        Some(limits) => prefetch(fs, limits, |ahead| walk_all(&ahead.follow_once(roots), roots, progress)),
    }
}

fn walk_all<S: BlockSource + ?Sized>(source: &S, roots: &[TreeRoot], progress: &std::sync::atomic::AtomicU64) -> Seen {
    let mut witness =
        Witness { seen: Seen::default(), hasher: DefaultHasher::new(), known: SeenBlocks::default(), progress };
    for root in roots {
        walk(source, root, &mut witness);
    }
    Seen { digest: witness.hasher.finish(), ..witness.seen }
}

struct Witness<'p> {
    seen: Seen,
    hasher: DefaultHasher,
    known: SeenBlocks,
    progress: &'p std::sync::atomic::AtomicU64,
}

impl Visitor for Witness<'_> {
    fn pointer(&mut self, at: Logical, _: &ParentCheck) -> Visit {
        if self.known.insert(at) { Visit::Into } else { Visit::Skip }
    }

    fn block(&mut self, block: &Arc<TreeBlock>) -> Visit {
        let bytes = block.bytes().len() as u64;
        self.seen.tree_blocks += 1;
        self.seen.bytes += bytes;
        self.hasher.write_u64(block.header().bytenr.raw());
        // The checksum stands for the content: it has been verified.
        self.hasher.write(block.bytes().get(..32).unwrap_or_default());
        self.progress.fetch_add(bytes, Ordering::Relaxed);
        Visit::Into
    }

    fn lost(&mut self, at: Logical, _: &ParentCheck, _: &LostBlock) {
        self.seen.lost_blocks += 1;
        self.hasher.write_u64(!at.raw());
    }
}
