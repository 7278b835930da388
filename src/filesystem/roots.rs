//! The trees of a file system, from the root items of the root tree.

use super::Filesystem;
use crate::format::Key;
use crate::format::items::RootItem;
use crate::format::types::{key_type, object};
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
