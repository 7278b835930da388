//! The names of inodes whose own items are lost: taken from the directories that still list them.

use super::files::FileUse;
use super::names::Names;
use super::trees::Trees;
use crate::filesystem::Filesystem;
use crate::format::items::DirEntries;
use crate::format::types::key_type;
use crate::tree::{LostBlock, ParentCheck, TreeBlock, TreeRoot, Visit, Visitor, walk};
use crate::units::{Logical, ObjectId};
use std::ops::RangeInclusive;
use std::sync::Arc;

/// Directory entries remembered in one walk; beyond it the walk ends. About 100 bytes each.
const MAX_ENTRIES: usize = 1 << 18;

/// The inodes of one lost block, and the names that were found for them.
pub(super) struct LostInodes {
    /// The block.
    pub(super) at: Logical,
    /// Numbers of inodes that had something in it.
    pub(super) inodes: RangeInclusive<u64>,
    /// By name.
    pub(super) files: Vec<FileUse>,
}

/// Walks the subvolume at `root` for directory entries of the lost inodes.
pub(super) fn name_lost(
    fs: &Filesystem,
    trees: &mut Trees<'_>,
    names: &mut Names,
    root: &TreeRoot,
    lost: &mut [LostInodes],
) {
    let mut search = Search { lost, entries: Vec::new() };
    walk(fs, root, &mut search);
    let subvolume = names.subvolume(trees, root.id);
    let mut entries = search.entries;
    entries.sort();
    for Entry { directory, name, inode } in entries {
        let path: Arc<[u8]> = names.join(trees, root.id, directory, &name).into();
        for one in lost.iter_mut().filter(|one| one.inodes.contains(&inode.raw())) {
            let (subvolume, path) = (Arc::clone(&subvolume), Some(Arc::clone(&path)));
            one.files.push(FileUse { subvolume, inode, path, offset: 0 });
        }
    }
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    directory: ObjectId,
    name: Vec<u8>,
    inode: ObjectId,
}

struct Search<'a> {
    lost: &'a [LostInodes],
    entries: Vec<Entry>,
}

impl Visitor for Search<'_> {
    fn block(&mut self, block: &Arc<TreeBlock>) -> Visit {
        let items = (0..block.len()).filter_map(|slot| block.item(slot));
        for (key, bytes) in items.filter(|(key, _)| key.item_type == key_type::DIR_INDEX) {
            for entry in DirEntries::new(bytes).map_while(Result::ok) {
                let inode = entry.location.objectid;
                let is_inode = entry.location.item_type == key_type::INODE_ITEM;
                if is_inode && self.lost.iter().any(|one| one.inodes.contains(&inode.raw())) {
                    self.entries.push(Entry { directory: key.objectid, name: entry.name.to_vec(), inode });
                }
            }
        }
        if self.entries.len() >= MAX_ENTRIES { Visit::Stop } else { Visit::Into }
    }

    fn lost(&mut self, _: Logical, _: &ParentCheck, _: &LostBlock) {}
}
