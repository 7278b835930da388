//! Which subvolumes would lose how much with some devices: every subvolume is walked once, and the bytes that its files
//! refer to are summed by the devices that they depend on.
//!
//! Bytes count as often as files of the subvolume refer to them: a reflinked extent that is lost is lost in both files.

use super::names::{Names, Subvolume};
use super::pieces;
use super::trees::Trees;
use crate::filesystem::Filesystem;
use crate::format::types::{key_type, object};
use crate::tree::block::is_subvolume;
use crate::tree::{LostBlock, ParentCheck, TreeBlock, Visit, Visitor, walk};
use crate::units::{DeviceId, Logical, LogicalRange};
use crate::volume::{Chunk, ChunkMap, Layout};
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// What one subvolume loses with some devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubvolumeLoss {
    /// The subvolume.
    pub subvolume: Arc<Subvolume>,
    /// Bytes in data extents that its files refer to.
    pub data_bytes: u64,
    /// Of them unreadable.
    pub lost_bytes: u64,
}

/// What is known of all subvolumes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubvolumeLosses {
    /// For each set of lost devices the subvolumes that lose data, by number.
    pub hit: Vec<Vec<SubvolumeLoss>>,
    /// Subvolumes that were not seen whole, with the number of tree blocks that no copy gives: what lies below is not counted.
    pub not_seen: Vec<(Arc<Subvolume>, u64)>,
}

/// For each set of lost devices (beside those that are missing) which subvolumes lose data. Reads all blocks of all
/// subvolumes.
pub fn subvolume_losses(fs: &Filesystem, losses: &[Vec<DeviceId>]) -> SubvolumeLosses {
    let (mut trees, mut names) = (Trees::new(fs), Names::default());
    let missing: BTreeSet<DeviceId> = fs.set().missing().iter().map(|item| item.devid).collect();
    let mut known = SubvolumeLosses { hit: vec![Vec::new(); losses.len()], not_seen: Vec::new() };
    for root in fs.all_roots() {
        if !is_subvolume(root.id)
            || root.id == object::DATA_RELOC_TREE
            || trees.find(root.id).is_none_or(|tree| tree.is_dead)
        {
            continue;
        }
        let mut sums = Sums { chunks: fs.chunks(), bytes: HashMap::new(), lost_blocks: 0 };
        walk(fs, &root, &mut sums);
        if sums.lost_blocks > 0 {
            known.not_seen.push((names.subvolume(&mut trees, root.id), sums.lost_blocks));
        }
        let data_bytes = sums.bytes.values().sum();
        for (devids, hit) in losses.iter().zip(&mut known.hit) {
            let lost = missing.iter().chain(devids).copied().collect();
            let lost_bytes = sums.lost_bytes(&lost);
            if lost_bytes > 0 {
                let subvolume = names.subvolume(&mut trees, root.id);
                hit.push(SubvolumeLoss { subvolume, data_bytes, lost_bytes });
            }
        }
    }
    known
}

/// What a piece of data depends on: its chunk, and the devices that have a copy of it.
type Needs = (Logical, SmallVec<[DeviceId; 4]>);

/// Bytes of one subvolume.
struct Sums<'c> {
    chunks: &'c ChunkMap,
    bytes: HashMap<Needs, u64>,
    lost_blocks: u64,
}

impl Sums<'_> {
    fn add(&mut self, range: &LogicalRange) {
        let mut at = range.start;
        while at < range.end {
            let Ok(chunk) = self.chunks.lookup(at) else { return };
            let bytes = chunk.contiguous_bytes(at).min(range.end - at);
            if bytes == 0 {
                return;
            }
            let devids = chunk.copies(at).iter().map(|copy| copy.place.devid).collect();
            *self.bytes.entry((chunk.start(), devids)).or_default() += bytes;
            at = at + bytes;
        }
    }

    fn lost_bytes(&self, lost: &BTreeSet<DeviceId>) -> u64 {
        let by_chunk: BTreeMap<Logical, bool> = self
            .bytes
            .keys()
            .filter_map(|(start, _)| Some((*start, cannot_rebuild(self.chunks.lookup(*start).ok()?, lost))))
            .collect();
        let is_lost = |(start, devids): &Needs| {
            by_chunk.get(start).copied().unwrap_or(true) && devids.iter().all(|devid| lost.contains(devid))
        };
        self.bytes.iter().filter(|(needs, _)| is_lost(needs)).map(|(_, bytes)| bytes).sum()
    }
}

/// Has the block that starts here no copy and no parity left?
pub(super) fn is_lost_range(chunk: &Chunk, at: Logical, lost: &BTreeSet<DeviceId>) -> bool {
    cannot_rebuild(chunk, lost) && chunk.copies(at).iter().all(|copy| lost.contains(&copy.place.devid))
}

/// True where parity, if there is any, does not make up for the lost devices.
fn cannot_rebuild(chunk: &Chunk, lost: &BTreeSet<DeviceId>) -> bool {
    let row = chunk.profile().row();
    let columns = chunk.stripes().iter().filter(|stripe| lost.contains(&stripe.devid)).count();
    row.layout != Layout::Parity || columns > usize::from(row.nparity)
}

impl Visitor for Sums<'_> {
    fn block(&mut self, block: &Arc<TreeBlock>) -> Visit {
        let items = (0..block.len()).filter_map(|slot| block.item(slot));
        for (key, bytes) in items.filter(|(key, _)| key.item_type == key_type::EXTENT_DATA) {
            if let Some((piece, _, _)) = pieces::parse(block.header().bytenr, &key, bytes) {
                self.add(&piece.range);
            }
        }
        Visit::Into
    }

    fn lost(&mut self, _: Logical, _: &ParentCheck, _: &LostBlock) {
        self.lost_blocks += 1;
    }
}
