//! The trees that references name, looked up once each.

use crate::filesystem::Filesystem;
use crate::format::Key;
use crate::format::items::RootItem;
use crate::format::types::key_type;
use crate::tree::{Cursor, TreeRoot};
use crate::units::ObjectId;
use std::collections::HashMap;

/// A tree with what its root item says beside the root.
#[derive(Clone, Copy, Debug)]
pub(super) struct NamedTree {
    pub(super) root: TreeRoot,
    /// Deleted, and not yet cleaned away.
    pub(super) is_dead: bool,
}

/// Root items by tree.
pub(super) struct Trees<'f> {
    fs: &'f Filesystem,
    known: HashMap<ObjectId, Option<NamedTree>>,
}

impl<'f> Trees<'f> {
    pub(super) fn new(fs: &'f Filesystem) -> Self {
        Self { fs, known: HashMap::new() }
    }

    /// The tree with this id, `None` where its root item is missing or lost.
    pub(super) fn find(&mut self, id: ObjectId) -> Option<NamedTree> {
        let fs = self.fs;
        *self.known.entry(id).or_insert_with(|| find(fs, id))
    }

    /// A cursor on the tree with this id.
    pub(super) fn cursor(&mut self, id: ObjectId) -> Option<Cursor<'f, Filesystem>> {
        Some(Cursor::new(self.fs, self.find(id)?.root))
    }
}

fn find(fs: &Filesystem, id: ObjectId) -> Option<NamedTree> {
    let roots = fs.roots();
    if let Some(root) = [roots.root, roots.chunk].into_iter().find(|root| root.id == id) {
        return Some(NamedTree { root, is_dead: false });
    }
    let mut cursor = Cursor::new(fs, roots.root);
    cursor.seek(&Key::new(id.raw(), key_type::ROOT_ITEM, 0));
    let (key, bytes) = cursor.item()?;
    if (key.objectid, key.item_type) != (id, key_type::ROOT_ITEM) {
        return None;
    }
    let item = RootItem::parse(bytes).ok()?;
    let root = TreeRoot { id, at: item.bytenr, level: item.level, generation: Some(item.generation) };
    Some(NamedTree { root, is_dead: item.refs == 0 })
}
