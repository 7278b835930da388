//! What is allocated in one block group, in ascending order: a forward reader over the extent tree, merged with blocks
//! that the extent tree does not know (log trees, and what stands in for lost parts of the extent tree).

use super::extra::{ExtraBlock, LostAllocation};
use crate::format::items::{ExtentItem, ExtentRef};
use crate::format::types::{key_type, object};
use crate::format::{BlockGroupFlags, Key};
use crate::tree::{BlockSource, Cursor, IsKnown, LostSubtree, ParentCheck, TreeRoot};
use crate::units::{Generation, Logical, LogicalRange, ObjectId};
use crate::volume::Chunk;
use std::collections::VecDeque;

/// What an extent holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExtentKind {
    /// File data.
    Data,
    /// A tree block, and what the extent item promises of it.
    Tree(ParentCheck),
    /// Only a lost part of the extent tree could say: the sectors that have checksums are data.
    Unknown,
}

/// One extent, clipped to its block group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    /// Its addresses.
    pub(super) range: LogicalRange,
    /// What it holds.
    pub(super) kind: ExtentKind,
    /// The transaction that allocated it, where known.
    pub(super) generation: Option<Generation>,
}

/// Which extents are passed over.
#[derive(Clone, Copy, Default)]
pub(super) struct Older<'s> {
    /// Those that are older than this.
    pub(super) than: Option<Generation>,
    /// And were seen.
    pub(super) is_known: Option<IsKnown<'s>>,
}

impl Older<'_> {
    /// Is the extent passed over; and if it is old, but was never seen, that is counted.
    fn covers(&self, extent: &Extent, unknown: &mut u64) -> bool {
        let Some(generation) = extent.generation.filter(|generation| Some(*generation) < self.than) else {
            return false;
        };
        let is_covered = self.is_known.is_none_or(|is_known| is_known(extent.range.start, generation));
        *unknown += u64::from(!is_covered);
        is_covered
    }
}

/// Reads the extents of one block group in ascending order; no two overlap.
pub(super) struct Allocation<'s, S: BlockSource + ?Sized> {
    cursor: Option<Cursor<'s, S>>,
    range: LogicalRange,
    flags: BlockGroupFlags,
    nodesize: u64,
    sectorsize: u64,
    older: Older<'s>,
    unknown: u64,
    /// Blocks from outside the extent tree, ascending.
    extra: VecDeque<ExtraBlock>,
    /// Data from outside the extent tree, ascending.
    extra_data: VecDeque<LogicalRange>,
    /// The next extent of the tree, already read.
    ahead: Option<Extent>,
    /// Ranges whose extent items are lost, ascending.
    lost: VecDeque<LogicalRange>,
    lost_subtrees: Vec<LostSubtree>,
    has_lost: bool,
    /// Everything below has been returned.
    done: Logical,
    ignored: u64,
    listed_bytes: u64,
    stand_in: &'s dyn LostAllocation,
}

impl<'s, S: BlockSource + ?Sized> Allocation<'s, S> {
    /// A reader for the block group of `chunk`, but for extents that are `older`. Without a root (the extent tree's root is
    /// lost) all of it is unknown. `extra` must be ascending.
    pub(super) fn new(
        source: &'s S,
        root: Option<TreeRoot>,
        chunk: &Chunk,
        (nodesize, sectorsize): (u32, u32),
        older: Older<'s>,
        extra: VecDeque<ExtraBlock>,
        stand_in: &'s dyn LostAllocation,
    ) -> Self {
        let range = chunk.range();
        let mut allocation = Self {
            cursor: root.map(|root| Cursor::new(source, root).since(older.than).where_known(older.is_known)),
            flags: chunk.flags(),
            nodesize: u64::from(nodesize),
            sectorsize: u64::from(sectorsize),
            older,
            unknown: 0,
            extra,
            extra_data: VecDeque::new(),
            ahead: None,
            lost: VecDeque::new(),
            lost_subtrees: Vec::new(),
            has_lost: false,
            done: range.start,
            ignored: 0,
            listed_bytes: 0,
            stand_in,
            range,
        };
        match &mut allocation.cursor {
            Some(cursor) => cursor.seek(&Key::new(allocation.range.start.raw(), 0, 0)),
            None => allocation.lose(allocation.range.clone()),
        }
        allocation.note_lost();
        allocation.ahead = allocation.read_tree();
        allocation
    }

    /// The same reader with data extents that the tree does not list; ascending.
    pub(super) fn with_data(mut self, data: VecDeque<LogicalRange>) -> Self {
        self.extra_data = data;
        self
    }

    /// The same reader for `extra` alone.
    pub(super) fn of_extra(mut self, extra: VecDeque<ExtraBlock>) -> Self {
        (self.cursor, self.ahead, self.extra) = (None, None, extra);
        self.lost.clear();
        self.lost_subtrees.clear();
        self
    }

    /// The next extent.
    pub(super) fn next_extent(&mut self) -> Option<Extent> {
        loop {
            let extent = self.lowest()?;
            let start = extent.range.start.max(self.done);
            if start >= extent.range.end || (start > extent.range.start && matches!(extent.kind, ExtentKind::Tree(_))) {
                continue;
            }
            self.done = extent.range.end;
            return Some(Extent { range: start..extent.range.end, ..extent });
        }
    }

    /// Extent items that made no sense and were passed over.
    pub(super) fn ignored(&self) -> u64 {
        self.ignored
    }

    /// The bytes of all extents of the tree so far; `None` where some of it is lost or was passed over.
    pub(super) fn listed_bytes(&self) -> Option<u64> {
        let is_whole = self.cursor.is_some() && self.older.than.is_none() && !self.has_lost;
        is_whole.then_some(self.listed_bytes)
    }

    /// Old extents, and old parts of the extent tree, that were not passed over because nobody has seen them.
    pub(super) fn unknown(&self) -> u64 {
        self.unknown.saturating_add(self.cursor.as_ref().map_or(0, Cursor::unknown))
    }

    /// Subtrees of the extent tree that could not be read.
    pub(super) fn take_lost(&mut self) -> Vec<LostSubtree> {
        std::mem::take(&mut self.lost_subtrees)
    }

    /// Of the next extent of the tree, the next extra block and the next lost range, the one that starts first.
    fn lowest(&mut self) -> Option<Extent> {
        let tree = self.ahead.as_ref().map(|e| e.range.start);
        let extra = self.extra.front().map(|b| b.at);
        let data = self.extra_data.front().map(|r| r.start);
        let lost = self.lost.front().map(|r| r.start);
        let first = [extra, data, tree, lost].into_iter().flatten().min()?;
        if extra == Some(first) {
            let block = self.extra.pop_front()?;
            let (range, kind) = (block.at..block.at + self.nodesize, ExtentKind::Tree(block.check));
            return Some(Extent { range, kind, generation: block.check.generation });
        }
        if data == Some(first) {
            let range = self.extra_data.pop_front()?;
            return Some(Extent { range, kind: ExtentKind::Data, generation: None });
        }
        if tree == Some(first) {
            let extent = self.ahead.take();
            self.ahead = self.read_tree();
            return extent;
        }
        // A lost range gives way to blocks known to lie inside it.
        let range = self.lost.pop_front()?;
        let known = [extra.map(|at| (at, at + self.nodesize)), self.extra_data.front().map(|r| (r.start, r.end))];
        let next = known.into_iter().flatten().filter(|(at, _)| *at < range.end).min();
        let end = next.map_or(range.end, |(at, _)| at);
        if let Some((_, rest)) = next.filter(|(_, rest)| *rest < range.end) {
            self.lost.push_front(rest..range.end);
        }
        Some(Extent { range: range.start..end, kind: ExtentKind::Unknown, generation: None })
    }

    fn read_tree(&mut self) -> Option<Extent> {
        loop {
            let (key, bytes) = self.cursor.as_ref()?.item()?;
            if Logical::new(key.objectid.raw()) >= self.range.end {
                return None;
            }
            let is_extent = matches!(key.item_type, key_type::EXTENT_ITEM | key_type::METADATA_ITEM);
            let extent = is_extent.then(|| self.parse(&key, bytes));
            self.listed_bytes = self.listed_bytes.saturating_add(if is_extent { self.len_bytes(&key) } else { 0 });
            if let Some(cursor) = &mut self.cursor {
                cursor.advance();
            }
            self.note_lost();
            match extent {
                Some(Some(extent)) if self.older.covers(&extent, &mut self.unknown) => {}
                Some(Some(extent)) => return Some(extent),
                Some(None) => self.ignored += 1,
                None => {}
            }
        }
    }

    /// The bytes that the extent with this key takes.
    fn len_bytes(&self, key: &Key) -> u64 {
        if key.item_type == key_type::METADATA_ITEM { self.nodesize } else { key.offset }
    }

    fn parse(&self, key: &Key, bytes: &[u8]) -> Option<Extent> {
        let start = Logical::new(key.objectid.raw());
        let len = self.len_bytes(key);
        if start < self.range.start || len == 0 || !start.raw().is_multiple_of(self.sectorsize) {
            return None;
        }
        let item = ExtentItem::parse(key, bytes).ok();
        let generation = item.as_ref().map(|item| item.generation);
        let kind = match self.is_tree_block(key, item.as_ref()) {
            Some(true) => {
                let level = if key.item_type == key_type::METADATA_ITEM {
                    u8::try_from(key.offset).ok()
                } else {
                    item.as_ref().and_then(|item| item.level(key))
                };
                let owner = item.as_ref().filter(|item| item.is_tree_block()).and_then(owner);
                ExtentKind::Tree(ParentCheck { level, generation, first_key: None, owner })
            }
            Some(false) => ExtentKind::Data,
            None => ExtentKind::Unknown,
        };
        if matches!(kind, ExtentKind::Tree(_)) {
            let range = start..start + self.nodesize;
            return (range.end <= self.range.end).then_some(Extent { range, kind, generation });
        }
        if !len.is_multiple_of(self.sectorsize) {
            return None;
        }
        let end = if self.range.end - start < len { self.range.end } else { start + len };
        Some(Extent { range: start..end, kind, generation })
    }

    /// Key and block group say what an extent is; the flags of its item are asked where a block group holds both kinds.
    ///
    fn is_tree_block(&self, key: &Key, item: Option<&ExtentItem<'_>>) -> Option<bool> {
        let holds = |kind| self.flags.intersects(kind);
        match (holds(BlockGroupFlags::DATA), holds(BlockGroupFlags::METADATA | BlockGroupFlags::SYSTEM)) {
            _ if key.item_type == key_type::METADATA_ITEM => Some(true),
            (false, _) => Some(true),
            (true, false) => Some(false),
            (true, true) => item.map(ExtentItem::is_tree_block),
        }
    }

    fn note_lost(&mut self) {
        let Some(cursor) = &mut self.cursor else { return };
        for lost in cursor.take_lost() {
            let from = Logical::new(lost.first.objectid.raw());
            let to = lost.end.map_or(self.range.end, |end| Logical::new(end.objectid.raw()));
            self.lost_subtrees.push(lost);
            self.has_lost = true;
            self.lose(from.max(self.range.start)..to.min(self.range.end));
        }
    }

    /// Takes in what stands in for the lost extent items of `range`.
    fn lose(&mut self, range: LogicalRange) {
        if range.start >= range.end {
            return;
        }
        let mut extra: Vec<_> = self.extra.drain(..).chain(self.stand_in.tree_blocks(range.clone())).collect();
        extra.sort_by_key(|block| block.at);
        extra.dedup_by_key(|block| block.at);
        self.extra = extra.into();
        self.lost.push_back(range);
    }
}

/// The tree that a block must belong to, where the extent item says so beyond doubt: a single reference from a tree that
/// is never snapshotted. Blocks of subvolumes may outlive the tree they were made for.
fn owner(item: &ExtentItem<'_>) -> Option<ObjectId> {
    const NEVER_SHARED: [ObjectId; 10] = [
        object::ROOT_TREE,
        object::EXTENT_TREE,
        object::CHUNK_TREE,
        object::DEV_TREE,
        object::CSUM_TREE,
        object::QUOTA_TREE,
        object::UUID_TREE,
        object::FREE_SPACE_TREE,
        object::BLOCK_GROUP_TREE,
        object::RAID_STRIPE_TREE,
    ];
    if item.refs != 1 {
        return None;
    }
    match item.inline_refs().next()? {
        Ok(ExtentRef::TreeBlock { root }) => NEVER_SHARED.contains(&root).then_some(root),
        _ => None,
    }
}
