//! The trees of a file system, from the root items of the root tree.

use super::Filesystem;
use crate::format::Key;
use crate::format::items::{RootFlags, RootItem};
use crate::format::types::{key_type, object};
use crate::tree::block::is_subvolume;
use crate::tree::{BlockSource, Cursor, TreeRoot};
use crate::units::ObjectId;

/// The trees that a scrub reads itself. `None` for a tree that the file system does not have, or whose root item is
/// lost.
#[derive(Clone, Copy, Debug)]
pub struct Roots {
    /// The tree of chunks and devices.
    pub chunk: TreeRoot,
    /// The tree of all other roots.
    pub root: TreeRoot,
    /// What is allocated.
    pub extent: Option<TreeRoot>,
    /// The checksums of data.
    pub csum: Option<TreeRoot>,
    /// Which part of a device belongs to which chunk.
    pub dev: Option<TreeRoot>,
    /// Block group items, where they do not stand in the extent tree.
    pub block_group: Option<TreeRoot>,
}

impl Roots {
    /// Before the root tree has been found.
    pub(super) fn unknown(chunk: TreeRoot) -> Self {
        Self { chunk, root: chunk, extent: None, csum: None, dev: None, block_group: None }
    }

    /// Looks the trees up in the root tree.
    pub(super) fn find<S: BlockSource + ?Sized>(source: &S, chunk: TreeRoot, root: TreeRoot) -> Self {
        let find = |id| find_root(source, root, id);
        Self {
            chunk,
            root,
            extent: find(object::EXTENT_TREE),
            csum: find(object::CSUM_TREE),
            dev: find(object::DEV_TREE),
            block_group: find(object::BLOCK_GROUP_TREE),
        }
    }
}

/// A subvolume that is not deleted.
#[derive(Clone, Copy, Debug)]
pub struct LiveSubvolume {
    /// Its tree.
    pub root: TreeRoot,
    /// All that its root item says.
    pub item: RootItem,
}

/// The root item of tree `id`, if the root tree has one that can be read.
pub fn find_root<S: BlockSource + ?Sized>(source: &S, root_tree: TreeRoot, id: ObjectId) -> Option<TreeRoot> {
    let mut cursor = Cursor::new(source, root_tree);
    cursor.seek(&Key::new(id.raw(), key_type::ROOT_ITEM, 0));
    let (key, bytes) = cursor.item()?;
    (key.objectid == id && key.item_type == key_type::ROOT_ITEM).then(|| root_of(id, bytes))?
}

fn root_of(id: ObjectId, bytes: &[u8]) -> Option<TreeRoot> {
    let item = RootItem::parse(bytes).ok()?;
    Some(TreeRoot { id, at: item.bytenr, level: item.level, generation: Some(item.generation) })
}

impl Filesystem {
    /// Every tree that the root tree names, with the root tree and the chunk tree first.
    pub fn all_roots(&self) -> Vec<TreeRoot> {
        let mut roots = vec![self.roots.root, self.roots.chunk];
        roots.extend(self.named_roots(self.roots.root, None));
        roots
    }

    /// All subvolumes, those that are deleted left out: of such a tree parts may be free space already. Trees that a balance
    /// works with are none.
    pub fn live_subvolumes(&self) -> Vec<LiveSubvolume> {
        let mut found = Vec::new();
        let mut cursor = Cursor::new(self, self.roots.root);
        cursor.seek(&Key::new(object::FS_TREE.raw(), key_type::ROOT_ITEM, 0));
        while let Some((key, bytes)) = cursor.item() {
            let is_one = is_subvolume(key.objectid)
                && key.objectid != object::TREE_RELOC
                && key.objectid != object::DATA_RELOC_TREE;
            if let Some(item) = RootItem::parse(bytes).ok().filter(|_| key.item_type == key_type::ROOT_ITEM && is_one) {
                let root = root_of(key.objectid, bytes);
                let is_live = item.refs > 0 && !item.flags.contains(RootFlags::DEAD);
                found.extend(root.filter(|_| is_live).map(|root| LiveSubvolume { root, item }));
            }
            cursor.advance();
        }
        found
    }

    /// The log tree and the logs of subvolumes in it; nothing after a clean stop.
    pub fn log_roots(&self) -> Vec<TreeRoot> {
        let mut roots = self.log.roots();
        let logs: Vec<TreeRoot> =
            roots.iter().flat_map(|root| self.named_roots(*root, Some(object::TREE_LOG))).collect();
        roots.extend(logs);
        roots
    }

    /// The root items of a tree; all blocks of a log belong to `owner`, whatever subvolume it is for.
    fn named_roots(&self, tree: TreeRoot, owner: Option<ObjectId>) -> Vec<TreeRoot> {
        let mut roots = Vec::new();
        let mut cursor = Cursor::new(self, tree);
        cursor.seek(&Key::MIN);
        while let Some((key, bytes)) = cursor.item() {
            if key.item_type == key_type::ROOT_ITEM {
                roots.extend(root_of(owner.unwrap_or(key.objectid), bytes));
            }
            cursor.advance();
        }
        roots
    }
}
