//! Tree blocks that pointers lead to and that the extent tree does not list: they are part of the file system all the
//! same, and the allocator may take their place.
//!
//! Found by what the scrub has seen: a block that a verified node points to and that nobody has read is looked for by
//! walking the trees. Where there is none, which is the rule, nothing is walked.

use super::extra::ExtraBlock;
use super::links::Links;
use crate::filesystem::{Conflict, Contradiction, Filesystem};
use crate::format::Key;
use crate::format::items::RootItem;
use crate::format::types::key_type;
use crate::tree::{BlockSource, Cursor, ParentCheck, SeenBlocks, TreeRoot};
use crate::units::{Logical, ObjectId};
use std::collections::BTreeMap;

/// At most so many are remembered: 1 Mi x about 100 bytes.
const MAX_BLOCKS: usize = 1 << 20;

/// What the trees lead to beyond the extent tree.
#[derive(Default)]
pub(super) struct Unlisted {
    /// Ascending.
    pub(super) blocks: Vec<ExtraBlock>,
    /// Pointers to where no chunk is.
    pub(super) unmapped: Vec<Contradiction>,
}

/// Looks for them after a scrub of all tree blocks that the extent tree lists.
pub(super) fn find(fs: &Filesystem, links: &mut Links) -> Unlisted {
    let Some(extent_root) = fs.roots().extent.filter(|_| !links.overflowed()) else { return Unlisted::default() };
    let unseen = links.unseen();
    let roots = roots(fs);
    let root_blocks = roots.iter().map(|(root, _)| root.at).filter(|at| !links.is_there(*at));
    let candidates: Vec<Logical> = root_blocks.chain(unseen).collect();
    let mut walk =
        Walk { fs, links, extent_root, seen: SeenBlocks::default(), found: BTreeMap::new(), unmapped: BTreeMap::new() };
    if candidates.into_iter().all(|at| walk.is_listed(at)) {
        return Unlisted::default();
    }
    // What is shared with a tree that is being deleted is alive all the same: such trees come last.
    let (dropped, whole): (Vec<_>, Vec<_>) = roots.into_iter().partition(|(_, dropped)| dropped.is_some());
    for (root, dropped) in whole.into_iter().chain(dropped) {
        walk.visit(root.at, &root.check(), root.id, None, dropped);
    }
    let blocks = walk.found.into_iter().map(|(at, check)| ExtraBlock { at, check }).collect();
    let unmapped = walk.unmapped.into_iter();
    let unmapped =
        unmapped.map(|(at, tree)| Contradiction { at, place: None, tree, conflict: Conflict::Unmapped }).collect();
    Unlisted { blocks, unmapped }
}

/// All trees, each with the key up to which it has been deleted.
fn roots(fs: &Filesystem) -> Vec<(TreeRoot, Option<Key>)> {
    let mut roots = vec![(fs.roots().root, None), (fs.roots().chunk, None)];
    let mut cursor = Cursor::new(fs, fs.roots().root);
    cursor.seek(&Key::MIN);
    while let Some((key, bytes)) = cursor.item() {
        if let (key_type::ROOT_ITEM, Ok(item)) = (key.item_type, RootItem::parse(bytes)) {
            let (id, at, level) = (key.objectid, item.bytenr, item.level);
            let root = TreeRoot { id, at, level, generation: Some(item.generation) };
            roots.push((root, (item.refs == 0 && item.drop_progress != Key::MIN).then_some(item.drop_progress)));
        }
        cursor.advance();
    }
    roots
}

struct Walk<'a> {
    fs: &'a Filesystem,
    links: &'a Links,
    extent_root: TreeRoot,
    /// Nodes whose children were looked at.
    seen: SeenBlocks,
    found: BTreeMap<Logical, ParentCheck>,
    unmapped: BTreeMap<Logical, ObjectId>,
}

impl Walk<'_> {
    /// Looks at a block and what is below it. `end` is the key behind its last; all below `dropped` has been deleted. As
    /// deep as the level of the root, at the most.
    fn visit(&mut self, at: Logical, check: &ParentCheck, tree: ObjectId, end: Option<Key>, dropped: Option<Key>) {
        let is_deleted = dropped.is_some_and(|dropped| end.is_some_and(|end| end <= dropped));
        if is_deleted || self.found.len() >= MAX_BLOCKS {
            return;
        }
        if self.fs.chunks().lookup(at).is_err() {
            if self.unmapped.len() < MAX_BLOCKS {
                self.unmapped.insert(at, tree);
            }
            return;
        }
        if !self.links.is_there(at) && !self.is_listed(at) {
            // The owner of a shared block need not be the tree of this walk, and the first key is checked by links.
            self.found.entry(at).or_insert(ParentCheck { first_key: None, owner: None, ..*check });
        }
        if check.level == Some(0) || !self.seen.insert(at) {
            return;
        }
        let Ok(block) = self.fs.read_block(at, check) else { return };
        if block.level() == 0 {
            return;
        }
        for slot in 0..block.len() {
            let Some(ptr) = block.key_ptr(slot) else { continue };
            let end = block.key(slot + 1).or(end);
            self.visit(ptr.child, &block.child_check(&ptr), tree, end, dropped);
        }
    }

    /// Does the extent tree have an item of the block? Where that part of it is lost, something else stands in already.
    fn is_listed(&self, at: Logical) -> bool {
        let mut cursor = Cursor::new(self.fs, self.extent_root);
        cursor.seek(&Key::new(at.raw(), 0, 0));
        while let Some(key) = cursor.key().filter(|key| key.objectid.raw() == at.raw()) {
            if matches!(key.item_type, key_type::EXTENT_ITEM | key_type::METADATA_ITEM) {
                return true;
            }
            cursor.advance();
        }
        !cursor.take_lost().is_empty()
    }
}
