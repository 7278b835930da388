//! The owners of what was asked for in one batch: plain values that outlive the file system.

use super::blocks::describe_blocks;
use super::files::{FileTable, FileUse, resolve};
use super::rows::of_rows;
use crate::filesystem::Filesystem;
use crate::units::Logical;
use std::collections::{BTreeMap, BTreeSet};

/// Who owns one sector of data, or one tree block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owners {
    /// By subvolume, inode, offset, name. Of a tree block that no copy can give: the files that had something in it, with
    /// offset 0.
    pub files: Vec<FileUse>,
    /// Owners that are not listed, because there are too many.
    pub omitted: u64,
    /// What is there beside files, as a lowercase clause.
    pub holds: Option<String>,
    /// Damage was in the way: there may be more.
    pub is_partial: bool,
    /// There are more than were followed.
    pub is_cut: bool,
}

/// Owners by address.
#[derive(Clone, Debug, Default)]
pub struct OwnerTable {
    files: FileTable,
    blocks: BTreeMap<Logical, Owners>,
    rows: BTreeMap<Logical, Owners>,
}

impl OwnerTable {
    /// Finds the owners of sectors of `data`, of tree blocks, and of the data of parity `rows`, listing at most `max_owners`
    /// files of each.
    pub fn find(
        fs: &Filesystem,
        data: &BTreeSet<Logical>,
        blocks: &BTreeSet<Logical>,
        rows: &BTreeSet<Logical>,
        max_owners: usize,
    ) -> Self {
        Self {
            files: resolve(fs, data, max_owners),
            blocks: describe_blocks(fs, blocks, max_owners),
            rows: of_rows(fs, rows, max_owners),
        }
    }

    /// The files that have data in the row at `at`, each with the first of its offsets there.
    pub fn of_row(&self, at: Logical) -> Owners {
        self.rows.get(&at).cloned().unwrap_or_default()
    }

    /// The owners of the sector of data at `at`; nothing for an address that was not asked for.
    pub fn of_data(&self, at: Logical) -> Owners {
        self.files.owners(at)
    }

    /// What lives in the tree block at `at`.
    pub fn of_block(&self, at: Logical) -> Owners {
        self.blocks.get(&at).cloned().unwrap_or_default()
    }
}
