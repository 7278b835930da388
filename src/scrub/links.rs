//! Does every parent point to what is there? Parents and children lie in different windows, so both leave a fingerprint
//! (16 bytes per block) and the two lists are joined at the end: no block is read twice for it.
//!
//! Only the first key is news at that point: level and generation have been checked against the extent item.

use crate::format::Key;
use crate::format::node::{self, Header, KeyPtr};
use crate::units::{Generation, Logical};
use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

/// At most so many blocks and pointers are remembered: 2 x 1 Mi x 16 bytes = 32 MiB. Beyond, links are not checked,
/// and the report says so.
pub(super) const MAX_LINKS: usize = 1 << 20;

/// What one verified block says of itself and of its children.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BlockLink {
    /// The block.
    pub(super) at: Logical,
    itself: u64,
    children: Vec<(Logical, u64)>,
}

impl BlockLink {
    /// Of a verified block; `None` for an empty one, which has no first key.
    pub(super) fn of(at: Logical, block: &[u8]) -> Option<Self> {
        let header = Header::parse(block).filter(|header| header.nritems > 0)?;
        let first = node::key_at(block, header.level, 0)?;
        let itself = fingerprint(header.generation, header.level, &first);
        let child = |ptr: KeyPtr, level: u8| (ptr.child, fingerprint(ptr.generation, level, &ptr.key));
        let slots = 0..header.nritems as usize;
        let children = match header.level.checked_sub(1) {
            Some(level) => slots.filter_map(|slot| node::key_ptr(block, slot)).map(|ptr| child(ptr, level)).collect(),
            None => Vec::new(),
        };
        Some(Self { at, itself, children })
    }
}

/// Fingerprints of what is promised and of what is there.
#[derive(Default)]
pub(super) struct Links {
    /// By pointers of nodes: the child's address, and its generation, level and first key as one number.
    promised: Vec<(Logical, u64)>,
    /// By the blocks themselves.
    there: Vec<(Logical, u64)>,
    overflow: bool,
}

impl Links {
    /// Takes in one block.
    pub(super) fn note(&mut self, link: BlockLink) {
        self.there.push((link.at, link.itself));
        self.promised.extend(link.children);
    }

    /// Takes over what another list holds.
    pub(super) fn append(&mut self, mut other: Self) {
        self.promised.append(&mut other.promised);
        self.there.append(&mut other.there);
        self.overflow |= other.overflow || self.promised.len() > MAX_LINKS || self.there.len() > MAX_LINKS;
        if self.overflow {
            self.promised = Vec::new();
            self.there = Vec::new();
        }
    }

    /// True where there was too much to remember.
    pub(super) fn overflowed(&self) -> bool {
        self.overflow
    }

    /// Has the block at `at` verified? Asked after [`Self::sort`].
    pub(super) fn is_there(&self, at: Logical) -> bool {
        self.there.binary_search_by_key(&at, |(there, _)| *there).is_ok()
    }

    /// Puts what is there in order.
    pub(super) fn sort(&mut self) {
        self.there.sort_unstable();
        self.there.dedup();
    }

    /// Blocks that some parent points to and that nobody has seen, ascending, each once. Sorts.
    pub(super) fn unseen(&mut self) -> Vec<Logical> {
        self.sort();
        let unseen = self.promised.iter().map(|(at, _)| *at).filter(|at| !self.is_there(*at));
        let unseen: BTreeSet<Logical> = unseen.collect();
        unseen.into_iter().collect()
    }

    /// Blocks that some parent describes otherwise, ascending, each once.
    pub(super) fn broken(mut self) -> Vec<Logical> {
        self.sort();
        let mut broken: Vec<Logical> = self
            .promised
            .iter()
            .filter(|(at, promised)| {
                let from = self.there.partition_point(|(there, _)| there < at);
                let is = |t: &&(Logical, u64)| t.0 == *at;
                let mut found = self.there.get(from..).unwrap_or(&[]).iter().take_while(is).peekable();
                found.peek().is_some() && !found.any(|(_, fact)| fact == promised)
            })
            .map(|(at, _)| *at)
            .collect();
        broken.sort_unstable();
        broken.dedup();
        broken
    }
}

fn fingerprint(generation: Generation, level: u8, key: &Key) -> u64 {
    let mut hasher = DefaultHasher::new();
    (generation, level, key).hash(&mut hasher);
    hasher.finish()
}
