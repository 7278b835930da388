//! Items of the trees, one file per family: bytes of one item in, a value out. Each parser checks sizes and bounds and
//! refuses what it cannot represent; whether the numbers make sense together is asked by the tree checker.
//! (kernel: `include/uapi/linux/btrfs_tree.h`)

mod block_group;
mod chunk;
mod csum;
mod device;
mod directory;
mod extent;
mod extent_ref;
mod file_extent;
mod inode;
mod root;
mod temporary;

pub use block_group::BlockGroupItem;
pub use chunk::{ChunkItem, StripeItem};
pub use csum::CsumItem;
pub(in crate::format) use device::RawDevItem;
pub use device::{DEV_ITEM_BYTES, DevExtent, DevItem};
pub use directory::{DirEntries, DirEntry, InodeName, InodeNames, name_hash};
pub use extent::{ExtentFlags, ExtentItem, TreeBlockInfo};
pub use extent_ref::{DATA_REF_BYTES, ExtentRef, InlineRefs};
pub use file_extent::{Compression, ExtentPointer, FileExtent, FileExtentItem};
pub use inode::{InodeFlags, InodeItem, InodeTime};
pub use root::{RootFlags, RootItem, RootRef};
pub use temporary::{BalanceFlags, BalanceItem, DevReplaceItem, DevReplaceState};

use thiserror::Error;
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

/// Why the bytes of an item are not what its key says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ItemError {
    /// The fixed part, or what it announces, does not fit.
    #[error("{item} too short, have {have_bytes} expect at least {expect_bytes} bytes")]
    TooShort {
        /// The kind of item.
        item: &'static str,
        /// The bytes there are.
        have_bytes: usize,
        /// The bytes it needs.
        expect_bytes: usize,
    },
    /// The size is fixed, and it is another.
    #[error("invalid {item} size, have {have_bytes} expect {expect_bytes} bytes")]
    Size {
        /// The kind of item.
        item: &'static str,
        /// The bytes there are.
        have_bytes: usize,
        /// The bytes it needs.
        expect_bytes: usize,
    },
    /// A number has a value that it cannot have.
    #[error("invalid {item} {field}, have {have} expect {expect}")]
    Value {
        /// The kind of item.
        item: &'static str,
        /// The field, by its kernel name.
        field: &'static str,
        /// What it holds.
        have: u64,
        /// What it may hold.
        expect: &'static str,
    },
    /// A number differs from the one that another place holds.
    #[error("{item} {field} mismatch, have {have} expect {expect}")]
    Mismatch {
        /// The kind of item.
        item: &'static str,
        /// The field, by its kernel name.
        field: &'static str,
        /// What it holds.
        have: u64,
        /// What the other place holds.
        expect: u64,
    },
}

/// The fixed part of an item, and what follows it.
fn prefix<'a, T>(item: &'static str, bytes: &'a [u8]) -> Result<(&'a T, &'a [u8]), ItemError>
where
    T: FromBytes + KnownLayout + Immutable + Unaligned,
{
    T::ref_from_prefix(bytes).map_err(|_| ItemError::TooShort {
        item,
        have_bytes: bytes.len(),
        expect_bytes: size_of::<T>(),
    })
}

/// An item that consists of its fixed part alone.
fn exact<'a, T>(item: &'static str, bytes: &'a [u8]) -> Result<&'a T, ItemError>
where
    T: FromBytes + KnownLayout + Immutable + Unaligned,
{
    T::ref_from_bytes(bytes).map_err(|_| ItemError::Size {
        item,
        have_bytes: bytes.len(),
        expect_bytes: size_of::<T>(),
    })
}

/// The first `len` bytes, and what follows them.
fn split<'a>(item: &'static str, bytes: &'a [u8], len: usize) -> Result<(&'a [u8], &'a [u8]), ItemError> {
    bytes.split_at_checked(len).ok_or(ItemError::TooShort { item, have_bytes: bytes.len(), expect_bytes: len })
}

/// The next of several records that follow each other; nothing follows an error.
fn next_record<'a, T>(
    rest: &mut &'a [u8],
    parse: impl Fn(&'a [u8]) -> Result<(T, &'a [u8]), ItemError>,
) -> Option<Result<T, ItemError>> {
    if rest.is_empty() {
        return None;
    }
    match parse(rest) {
        Ok((value, after)) => {
            *rest = after;
            Some(Ok(value))
        }
        Err(error) => {
            *rest = &[];
            Some(Err(error))
        }
    }
}

#[cfg(test)]
mod tests;
