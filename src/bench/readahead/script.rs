//! What a scrub reads, in the order in which its planners come to it: the tree blocks that their cursors need, and the
//! windows of data between them.
//!
//! A stand-in for the scrub's own planner, which lives beside this module and not below it: the same extents, the same
//! windows of 1 MiB per stripe, the same joined requests, without parity and without what the extent tree does not name.

use super::shape::Shape;
use crate::device::{Coalesce, Limits};
use crate::filesystem::Filesystem;
use crate::format::Key;
use crate::format::items::ExtentItem;
use crate::format::types::{key_type, object};
use crate::tree::{BlockSource, Cursor, LostBlock, ParentCheck, TreeBlock};
use crate::units::{DeviceId, Logical, LogicalRange, MirrorNum, Physical};
use crate::volume::Chunk;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of a stripe in one window, as in `scrub::window`.
const WINDOW_BYTES: u64 = 1 << 20;

/// Which cursor of a planner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reader {
    /// The one over the extent tree.
    Extents,
    /// The one over the checksum tree.
    Sums,
}

/// The requests to each stripe's device.
pub(super) type WindowRequests = Vec<(DeviceId, Vec<(Physical, u64)>)>;

/// What a planner does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A cursor needs a tree block.
    Block(Reader, Logical),
    /// A window is complete.
    Window(WindowRequests),
}

/// One block group.
#[derive(Clone, Debug)]
pub(super) struct GroupScript {
    /// Its addresses.
    pub(super) range: LogicalRange,
    /// The devices that it occupies, each once.
    pub(super) devices: Vec<DeviceId>,
    /// Whether a device holds several of its stripes.
    pub(super) is_dup: bool,
    /// In order.
    pub(super) steps: Vec<Step>,
}

/// A whole scrub.
#[derive(Debug)]
pub struct Script {
    /// By address.
    pub(super) groups: Vec<GroupScript>,
    /// The extent tree.
    pub(super) extents: Shape,
    /// The checksum tree.
    pub(super) sums: Shape,
    /// Bytes of all windows' pieces.
    pub(super) bytes: u64,
}

impl Script {
    /// Reads the extent and the checksum tree of `fs`.
    pub fn of(fs: &Filesystem) -> Self {
        let roots = fs.roots();
        let shape = |root: Option<_>| Shape::of(fs, &root.into_iter().collect::<Vec<_>>());
        let mut script = Self { groups: Vec::new(), extents: shape(roots.extent), sums: shape(roots.csum), bytes: 0 };
        for chunk in fs.chunks().iter() {
            let group = script.group(fs, chunk);
            script.groups.push(group);
        }
        script
    }

    /// Tree blocks that the cursors need, each once.
    pub fn tree_blocks(&self) -> u64 {
        let blocks = self.groups.iter().flat_map(|group| &group.steps).filter_map(|step| match step {
            Step::Block(_, at) => Some(*at),
            Step::Window(_) => None,
        });
        blocks.collect::<BTreeSet<_>>().len() as u64
    }

    fn group(&mut self, fs: &Filesystem, chunk: &Chunk) -> GroupScript {
        let mut devices: Vec<DeviceId> = chunk.stripes().iter().map(|stripe| stripe.devid).collect();
        devices.sort_unstable();
        devices.dedup();
        let is_dup = devices.len() < chunk.stripes().len();
        let log = Log { fs, blocks: Mutex::default() };
        let (extents, sums) = (LogAs(&log, Reader::Extents), LogAs(&log, Reader::Sums));
        let mut plan = Plan { chunk, log: &log, steps: Vec::new(), window: None, pieces: BTreeMap::new(), bytes: 0 };
        let mut sums = fs.roots().csum.map(|root| Cursor::new(&sums, root));
        if let Some(sums) = &mut sums {
            sums.seek_floor(&sum_key(chunk.start()));
        }
        if let Some(root) = fs.roots().extent {
            let mut cursor = Cursor::new(&extents, root);
            cursor.seek(&Key::new(chunk.start().raw(), 0, 0));
            while let Some((key, bytes)) = cursor.item().filter(|(key, _)| key.objectid.raw() < chunk.end().raw()) {
                if let Some((range, is_data)) = extent_of(fs, &key, bytes) {
                    if let Some(sums) = sums.as_mut().filter(|_| is_data) {
                        pass(sums, range.end);
                    }
                    plan.add(&range);
                }
                cursor.advance();
            }
        }
        plan.flush();
        self.bytes += plan.bytes;
        GroupScript { range: chunk.range(), devices, is_dup, steps: plan.steps }
    }
}

fn sum_key(at: Logical) -> Key {
    Key::new(object::EXTENT_CSUM.raw(), key_type::EXTENT_CSUM, at.raw())
}

/// Moves on until the item that covers `end` is under the cursor.
fn pass<S: BlockSource + ?Sized>(sums: &mut Cursor<'_, S>, end: Logical) {
    while sums.key().is_some_and(|key| key < sum_key(end)) {
        sums.advance();
    }
}

fn extent_of(fs: &Filesystem, key: &Key, bytes: &[u8]) -> Option<(LogicalRange, bool)> {
    if !matches!(key.item_type, key_type::EXTENT_ITEM | key_type::METADATA_ITEM) {
        return None;
    }
    let item = ExtentItem::parse(key, bytes).ok()?;
    let start = Logical::new(key.objectid.raw());
    let len = if item.is_tree_block() { u64::from(fs.geometry().nodesize()) } else { key.offset };
    Some((start..start + len, !item.is_tree_block()))
}

/// The windows of one block group.
struct Plan<'a> {
    chunk: &'a Chunk,
    log: &'a Log<'a>,
    steps: Vec<Step>,
    window: Option<u64>,
    /// By stripe number.
    pieces: BTreeMap<usize, (DeviceId, Vec<std::ops::Range<Physical>>)>,
    bytes: u64,
}

impl Plan<'_> {
    fn add(&mut self, range: &LogicalRange) {
        let mut at = range.start;
        while at < range.end && at < self.chunk.end() {
            let len = self
                .chunk
                .contiguous_bytes(at)
                .min(range.end - at)
                .min(WINDOW_BYTES - self.in_stripe(at) % WINDOW_BYTES);
            let number = self.in_stripe(at) / WINDOW_BYTES;
            if self.window != Some(number) {
                self.flush();
                self.window = Some(number);
            }
            for copy in (1..=self.chunk.mirrors()).filter_map(|nth| self.chunk.copy(at, MirrorNum::new(nth))) {
                let (_, pieces) = self.pieces.entry(copy.stripe).or_insert_with(|| (copy.place.devid, Vec::new()));
                pieces.push(copy.place.physical..copy.place.physical + len);
                self.bytes += len;
            }
            if len == 0 {
                return;
            }
            at = at + len;
        }
    }

    /// How far into its stripe a byte is.
    fn in_stripe(&self, at: Logical) -> u64 {
        let copy = self.chunk.copy(at, MirrorNum::new(1));
        let start = copy.and_then(|copy| self.chunk.stripes().get(copy.stripe)).map(|stripe| stripe.offset);
        copy.zip(start).map_or(0, |(copy, start)| copy.place.physical - start)
    }

    /// What was read meanwhile, then the window.
    fn flush(&mut self) {
        let mut blocks = self.log.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        self.steps.extend(blocks.drain(..).map(|(reader, at)| Step::Block(reader, at)));
        let requests = |mut pieces: Vec<std::ops::Range<Physical>>| {
            pieces.sort_by_key(|piece| piece.start);
            Coalesce::new(pieces, Limits::default())
                .map(|request| (request.start, request.end - request.start))
                .collect()
        };
        let stripes = std::mem::take(&mut self.pieces).into_values();
        let window: Vec<_> = stripes.map(|(devid, pieces)| (devid, requests(pieces))).collect();
        if !window.is_empty() {
            self.steps.push(Step::Window(window));
        }
    }
}

/// Remembers what was read through it.
struct Log<'f> {
    fs: &'f Filesystem,
    blocks: Mutex<Vec<(Reader, Logical)>>,
}

struct LogAs<'l>(&'l Log<'l>, Reader);

impl BlockSource for LogAs<'_> {
    fn read_block(&self, at: Logical, check: &ParentCheck) -> Result<Arc<TreeBlock>, LostBlock> {
        self.0.blocks.lock().unwrap_or_else(PoisonError::into_inner).push((self.1, at));
        self.0.fs.read_block(at, check)
    }
}
