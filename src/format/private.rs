//! What kernels of vendors write that mainline btrfs does not know, by name: flags, key types and trees that are used by
//! nobody else. Where they stand in blocks that are right otherwise they are no damage. Names and counts them; never
//! decides where they may stand (the tree checker does).
//!
//! Facts: the kernel sources that Synology and UGREEN have published for their boxes; other releases may have more.

use super::Key;
use super::types::{key_type, object};
use crate::units::ObjectId;
use std::fmt;

/// Where `flags` stands in an inode item and in a root item.
const INODE_FLAGS_AT: usize = 64;
const ROOT_FLAGS_AT: usize = 208;

/// Flags of root items that a vendor's kernel sets (`BTRFS_ROOT_SUBVOL_*`).
pub(super) const PRIVATE_ROOT_FLAGS: u64 = 0xf << 32;
/// Flags of inodes that a vendor's kernel sets (`BTRFS_INODE_*`).
pub(super) const PRIVATE_INODE_FLAGS: u64 = 1 << 30;

/// What a mark is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    RootFlag,
    InodeFlag,
    KeyType,
    Tree,
}

/// One mark: its number (bit, key type or tree), whose it is, and what they call it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    kind: Kind,
    number: u64,
    vendor: &'static str,
    name: &'static str,
}

const fn mark(kind: Kind, number: u64, name: &'static str) -> Mark {
    Mark { kind, number, vendor: "Synology DSM", name }
}

const fn ugreen(kind: Kind, number: u64, name: &'static str) -> Mark {
    Mark { kind, number, vendor: "UGREEN", name }
}

/// All that are known, in the order in which they are told.
const MARKS: [Mark; 23] = [
    mark(Kind::RootFlag, 32, "HIDE"),
    mark(Kind::RootFlag, 33, "NOLOAD_USRQUOTA"),
    mark(Kind::RootFlag, 34, "CMPR_RATIO"),
    mark(Kind::RootFlag, 35, "DISABLE_QUOTA"),
    mark(Kind::InodeFlag, 30, "UQ_REF_USED"),
    mark(Kind::KeyType, 158, "USAGE_STATUS"),
    mark(Kind::KeyType, 159, "USAGE_GLOBAL_TYPE"),
    mark(Kind::KeyType, 160, "USAGE_ROOT_STATUS"),
    mark(Kind::KeyType, 162, "SUBVOL_DUMMY"),
    mark(Kind::KeyType, 163, "SUBVOL_USAGE"),
    mark(Kind::KeyType, 165, "EXTENT_USAGE"),
    mark(Kind::KeyType, 241, "USRQUOTA_ROOT"),
    mark(Kind::KeyType, 245, "USRQUOTA_COMPAT"),
    mark(Kind::Tree, 200, "USRQUOTA"),
    mark(Kind::Tree, 201, "QUOTA"),
    mark(Kind::Tree, 202, "BLOCK_GROUP_HINT"),
    mark(Kind::Tree, 203, "BLOCK_GROUP_CACHE"),
    mark(Kind::Tree, 204, "no name known"),
    mark(Kind::Tree, 205, "SYNO_USAGE"),
    mark(Kind::Tree, 206, "SYNO_EXTENT_USAGE"),
    mark(Kind::Tree, object::SYNO_SUBVOL_USAGE.raw(), "SYNO_SUBVOL_USAGE"),
    ugreen(Kind::Tree, 208, "UG_QUOTA"),
    ugreen(Kind::Tree, 209, "UG_USRQUOTA"),
];

fn find(kind: Kind, number: u64) -> Option<usize> {
    MARKS.iter().position(|mark| mark.kind == kind && mark.number == number)
}

/// The vendor's name of a tree that mainline btrfs does not have.
pub(super) fn private_tree_name(tree: ObjectId) -> Option<&'static str> {
    find(Kind::Tree, tree.raw()).and_then(|at| MARKS.get(at)).map(|mark| mark.name)
}

/// Whether a vendor has such a key type.
pub(super) fn is_private_key(item_type: u8) -> bool {
    find(Kind::KeyType, item_type.into()).is_some()
}

/// How often each mark was seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrivateMarks {
    counts: [u32; MARKS.len()],
}

impl PrivateMarks {
    /// Takes in one item of a leaf that belongs to `owner`.
    pub(super) fn note(&mut self, owner: ObjectId, key: &Key, data: &[u8]) {
        match key.item_type {
            key_type::INODE_ITEM => {
                self.note_bits(Kind::InodeFlag, flags_at(data, INODE_FLAGS_AT) & PRIVATE_INODE_FLAGS);
            }
            key_type::ROOT_ITEM if owner == object::ROOT_TREE => {
                self.note_bits(Kind::RootFlag, flags_at(data, ROOT_FLAGS_AT) & PRIVATE_ROOT_FLAGS);
                self.add(find(Kind::Tree, key.objectid.raw()));
            }
            158..=165 | 241 | 245 => self.add(find(Kind::KeyType, key.item_type.into())),
            _ => {}
        }
    }

    fn note_bits(&mut self, kind: Kind, mut bits: u64) {
        while bits != 0 {
            self.add(find(kind, bits.trailing_zeros().into()));
            bits &= bits - 1;
        }
    }

    fn add(&mut self, at: Option<usize>) {
        if let Some(count) = at.and_then(|at| self.counts.get_mut(at)) {
            *count = count.saturating_add(1);
        }
    }

    /// Takes over what was seen elsewhere.
    pub fn append(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(other.counts) {
            *count = count.saturating_add(more);
        }
    }

    /// True where none was seen.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// One sentence for each mark that was seen.
    pub fn sentences(&self) -> impl Iterator<Item = String> + '_ {
        let seen = MARKS.iter().zip(self.counts).filter(|(_, count)| *count > 0);
        seen.map(|(mark, count)| Seen { mark, count }.to_string())
    }
}

fn flags_at(data: &[u8], at: usize) -> u64 {
    data.get(at..).and_then(|data| data.first_chunk()).map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

struct Seen<'a> {
    mark: &'a Mark,
    count: u32,
}

impl fmt::Display for Seen<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { mark: Mark { kind, number, vendor, name }, count } = *self;
        let one = count == 1;
        match kind {
            Kind::RootFlag | Kind::InodeFlag => {
                let what = if *kind == Kind::RootFlag { "root" } else { "inode" };
                let has = if one { " has" } else { "s have" };
                let value = 1_u64 << number;
                write!(f, "{count} {what}{has} the flag 0x{value:x} (bit {number}, {name} of {vendor})")?;
            }
            Kind::KeyType => {
                let has = if one { " has" } else { "s have" };
                write!(f, "{count} item{has} the key type {number} ({name} of {vendor})")?;
            }
            Kind::Tree => {
                let tree = number.cast_signed();
                write!(f, "tree {tree} is there ({name} of {vendor})")?;
            }
        }
        f.write_str(": mainline btrfs does not know it, no damage")
    }
}
