//! What is wrong inside of a tree block, and in which slot.

use crate::format::Key;
use crate::format::items::ItemError;
use crate::format::types::{key_type_name, tree_name};
use crate::units::{Logical, ObjectId};
use std::fmt;
use thiserror::Error;

/// What is wrong inside of a tree block. The message starts with the slot, where there is one; the caller puts tree,
/// block and mirror in front of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StructureError {
    /// Which item or pointer, from 0; `None` where the whole block is meant.
    pub slot: Option<u32>,
    /// What is wrong.
    pub problem: Problem,
}

impl StructureError {
    pub(super) fn block(problem: Problem) -> Self {
        Self { slot: None, problem }
    }

    pub(super) fn slot(slot: u32, problem: Problem) -> Self {
        Self { slot: Some(slot), problem }
    }
}

impl fmt::Display for StructureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(slot) = self.slot {
            write!(f, "slot={slot}, ")?;
        }
        self.problem.fmt(f)
    }
}

impl std::error::Error for StructureError {}

/// What is wrong inside of a tree block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Problem {
    /// Not as many bytes as a tree block has.
    #[error("invalid block size, have {have_bytes} expect {expect_bytes} bytes")]
    BlockSize {
        /// The bytes there are.
        have_bytes: usize,
        /// The node size.
        expect_bytes: u32,
    },
    /// No tree is that high.
    #[error("invalid level, have {have} expect 7 at most")]
    Level {
        /// As stored.
        have: u8,
    },
    /// More items than fit, or a node without any.
    #[error("invalid nritems, have {have} expect {min} to {max}")]
    ItemCount {
        /// As stored.
        have: u32,
        /// At least.
        min: u32,
        /// At most.
        max: u32,
    },
    /// No kernel writes a block without this flag.
    #[error("invalid flags, have 0x{have:x} expect 0x1 (written) to be set")]
    NotWritten {
        /// As stored.
        have: u64,
    },
    /// A leaf without items in a tree that is never empty.
    #[error("invalid nritems, have 0 expect some, the {} is never empty", tree_name(*owner))]
    Empty {
        /// The tree.
        owner: ObjectId,
    },
    /// A key that is not above the one before it.
    #[error("bad key order, have {have} after {previous}")]
    KeyOrder {
        /// In the slot before.
        previous: Key,
        /// In this slot.
        have: Key,
    },
    /// A pointer to an address that no block can have.
    #[error("invalid block pointer, have {have} expect a multiple of {sectorsize}, not 0")]
    Pointer {
        /// As stored.
        have: Logical,
        /// In bytes.
        sectorsize: u32,
    },
    /// The data of an item does not end where that of the item before it starts.
    #[error("unexpected item end, have {have} expect {expect}")]
    ItemEnd {
        /// Offset plus size, from the end of the header.
        have: u64,
        /// The same of where it should end.
        expect: u32,
    },
    /// The data of an item reaches into the item table.
    #[error("item overlaps the item table, have offset {have} expect at least {table_end}")]
    ItemInTable {
        /// Where the data starts, from the end of the header.
        have: u32,
        /// Where the table ends, from the end of the header.
        table_end: u32,
    },
    /// A type that does not exist, or not in this tree.
    #[error("{} key type {} in the {}, key {have}", known(*have), have.item_type, tree_name(*owner))]
    KeyType {
        /// The key.
        have: Key,
        /// The tree.
        owner: ObjectId,
    },
    /// An item is wrong in itself.
    #[error(transparent)]
    Item(#[from] ItemError),
    /// Two neighbours cover the same.
    #[error("{item} overlap, {previous} ends at {previous_end}, {have} starts at {start}")]
    Overlap {
        /// What they are.
        item: &'static str,
        /// The key in the slot before.
        previous: Key,
        /// Where what it covers ends.
        previous_end: u64,
        /// The key in this slot.
        have: Key,
        /// Where what it covers starts.
        start: u64,
    },
    /// An item of an inode follows an item of another inode: the inode item is missing.
    #[error("item of inode {have} without an inode item, the item before it is of inode {previous}")]
    NoInode {
        /// The inode of the slot before.
        previous: ObjectId,
        /// The inode of this slot.
        have: ObjectId,
    },
}

fn known(key: Key) -> &'static str {
    if key_type_name(key.item_type).is_some() { "misplaced" } else { "unknown" }
}
