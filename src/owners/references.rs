//! Which references the extent tree holds for an extent: those inside of its item, then those in items of their own.

use crate::filesystem::Filesystem;
use crate::format::Key;
use crate::format::items::{ExtentItem, ExtentRef};
use crate::format::types::key_type;
use crate::tree::{Cursor, ParentCheck};
use crate::units::{Generation, Logical, LogicalRange};

/// References of one extent that are looked at: 32 MiB. Reflinks and snapshots make hundreds of thousands.
pub(super) const MAX_REFS: usize = 1 << 20;

/// One extent and who refers to it.
#[derive(Clone, Debug)]
pub(super) struct Referenced {
    /// The whole extent.
    pub(super) range: LogicalRange,
    /// The level of a tree block; `None` for data.
    pub(super) level: Option<u8>,
    /// When the extent was allocated; of a tree block this is the generation that its header must have.
    generation: Generation,
    /// Not more than are looked at.
    pub(super) refs: Vec<ExtentRef>,
    /// How many uses the extent item promises.
    pub(super) promised: u64,
    /// There are more references than are looked at.
    pub(super) is_cut: bool,
}

impl Referenced {
    /// What a good copy of this tree block must be: a copy that missed a write is good in itself, and holds something else.
    pub(super) fn check(&self) -> ParentCheck {
        ParentCheck { level: self.level, generation: Some(self.generation), ..ParentCheck::default() }
    }

    /// Whether all promised uses are among the references, as far as those are looked at.
    pub(super) fn is_whole(&self) -> bool {
        self.is_cut || self.refs.iter().map(ExtentRef::count).sum::<u64>() >= self.promised
    }
}

/// Looks extents up in the extent tree. Best asked in ascending order.
pub(super) struct References<'f> {
    cursor: Option<Cursor<'f, Filesystem>>,
    nodesize: u32,
}

impl<'f> References<'f> {
    pub(super) fn new(fs: &'f Filesystem) -> Self {
        let cursor = fs.roots().extent.map(|root| Cursor::new(fs, root));
        Self { cursor, nodesize: fs.geometry().nodesize() }
    }

    /// The data extent that covers `at`.
    pub(super) fn data(&mut self, at: Logical) -> Option<Referenced> {
        self.around(at).filter(|found| found.level.is_none())
    }

    /// The leaf that covers `at`.
    pub(super) fn leaf(&mut self, at: Logical) -> Option<Referenced> {
        self.around(at).filter(|found| found.level == Some(0))
    }

    fn around(&mut self, at: Logical) -> Option<Referenced> {
        let cursor = self.cursor.as_mut()?;
        cursor.seek_floor(&Key::new(at.raw(), u8::MAX, u64::MAX));
        // The floor is the extent item itself or an item behind it with the same object.
        let start = cursor.key().map(|key| key.objectid.raw()).filter(|start| *start <= at.raw())?;
        let found = self.read(Logical::new(start))?;
        found.range.contains(&at).then_some(found)
    }

    /// The tree block at `at`.
    pub(super) fn block(&mut self, at: Logical) -> Option<Referenced> {
        self.read(at).filter(|found| found.level.is_some())
    }

    fn read(&mut self, start: Logical) -> Option<Referenced> {
        let cursor = self.cursor.as_mut()?;
        cursor.seek(&Key::new(start.raw(), key_type::EXTENT_ITEM, 0));
        let (key, bytes) = cursor.item().filter(|(key, _)| key.objectid.raw() == start.raw())?;
        let item = ExtentItem::parse(&key, bytes).ok()?;
        let level = if item.is_tree_block() { Some(item.level(&key)?) } else { None };
        let range = ExtentItem::range(&key, self.nodesize);
        let mut found = Referenced {
            range,
            level,
            generation: item.generation,
            refs: item.inline_refs().map_while(Result::ok).take(MAX_REFS).collect(),
            promised: item.refs,
            is_cut: false,
        };
        cursor.advance();
        while let Some((key, bytes)) = cursor.item().filter(|(key, _)| key.objectid.raw() == start.raw()) {
            if key.item_type > key_type::SHARED_DATA_REF {
                break;
            }
            if found.refs.len() >= MAX_REFS {
                found.is_cut = true;
                break;
            }
            found.refs.extend(ExtentRef::parse_keyed(&key, bytes));
            cursor.advance();
        }
        Some(found)
    }
}
