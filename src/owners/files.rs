//! Bad data to files, many addresses in one batch: each tree is asked in the order of its keys, so that every block of it
//! is read about once however many addresses there are.
//!
//! extents (extent tree) -> file extent items (subvolumes) -> subvolumes that share their leaves (`roots_of`) -> names.

use super::names::{Names, Subvolume};
use super::pieces::{self, Piece};
use super::references::{MAX_REFS, References};
use super::roots_of::{RootSet, RootsOf};
use super::stray::uses_by_walk;
use super::table::Owners;
use super::trees::Trees;
use crate::filesystem::Filesystem;
use crate::format::items::ExtentRef;
use crate::format::types::object;
use crate::units::{Logical, LogicalRange, ObjectId};
use crate::volume::Chunk;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;

/// File extent items looked at in one batch; beyond it answers are partial. About 100 bytes each.
const MAX_PIECES: usize = 1 << 20;

/// One place in one file, under one of its names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileUse {
    /// The subvolume.
    pub subvolume: Arc<Subvolume>,
    /// The file in it.
    pub inode: ObjectId,
    /// From the top of the subvolume, without a slash at its start. `None` for a file without a name: deleted while it
    /// was open, or its names are lost.
    pub path: Option<Arc<[u8]>>,
    /// In bytes; of compressed data, where the compressed piece starts.
    pub offset: u64,
}

/// All names of one file.
type Paths = Arc<[Arc<[u8]>]>;

/// One use of a part of an extent by one file.
#[derive(Clone, Debug)]
struct Holding {
    range: LogicalRange,
    subvolume: Arc<Subvolume>,
    inode: ObjectId,
    paths: Paths,
    file_offset: u64,
    is_compressed: bool,
}

#[derive(Clone, Debug)]
struct ExtentOwners {
    end: Logical,
    holdings: Vec<Holding>,
    /// Of uses that were left out, with the number of names of the file.
    unlisted: Vec<(LogicalRange, u64)>,
    others: Vec<(LogicalRange, &'static str)>,
    is_partial: bool,
    is_cut: bool,
}

/// The owners of the extents that were asked for.
#[derive(Clone, Debug, Default)]
pub(super) struct FileTable {
    extents: BTreeMap<Logical, ExtentOwners>,
    max_owners: usize,
}

impl FileTable {
    /// The owners of the sector at `at`; nothing for an address that was not asked for.
    pub(super) fn owners(&self, at: Logical) -> Owners {
        let extent = self.extents.range(..=at).next_back().map(|(_, extent)| extent).filter(|extent| at < extent.end);
        let Some(extent) = extent else { return Owners::default() };
        let mut owners = Owners { is_partial: extent.is_partial, is_cut: extent.is_cut, ..Owners::default() };
        for holding in extent.holdings.iter().filter(|holding| holding.range.contains(&at)) {
            let within = if holding.is_compressed { 0 } else { at - holding.range.start };
            let paths = holding.paths.iter().map(|path| Some(Arc::clone(path)));
            let nameless = holding.paths.is_empty().then_some(None);
            for path in paths.chain(nameless) {
                if owners.files.len() >= self.max_owners {
                    owners.omitted += 1;
                    continue;
                }
                let (subvolume, inode) = (Arc::clone(&holding.subvolume), holding.inode);
                owners.files.push(FileUse { subvolume, inode, path, offset: holding.file_offset + within });
            }
        }
        owners.omitted += extent.unlisted.iter().filter(|(range, _)| range.contains(&at)).map(|(_, n)| n).sum::<u64>();
        if owners.files.is_empty() {
            let other = extent.others.iter().find(|(range, _)| range.contains(&at)).map(|(_, what)| *what);
            let unused = (!extent.is_partial && !extent.is_cut && owners.omitted == 0)
                .then_some("a part of an extent that no file refers to any more");
            owners.holds = other.or(unused).map(str::to_owned);
        }
        owners
    }
}

/// Finds the owners of the sectors at `wanted`, listing at most `max_owners` of each.
pub(super) fn resolve(fs: &Filesystem, wanted: &BTreeSet<Logical>, max_owners: usize) -> FileTable {
    let mut batch = Batch {
        fs,
        trees: Trees::new(fs),
        wanted: wanted.iter().copied().collect(),
        extents: Vec::new(),
        inline: Vec::new(),
        uses: Vec::new(),
        max_owners,
    };
    let lost = batch.find_extents();
    let pieces = batch.find_pieces();
    batch.find_roots(pieces);
    batch.search_lost(&lost);
    batch.into_table()
}

/// An extent with a share of the wanted addresses.
struct Wanted {
    range: LogicalRange,
    /// Of `Batch::wanted`.
    numbers: Range<usize>,
    refs: Vec<ExtentRef>,
    is_partial: bool,
    /// More refer to it than are looked at.
    is_cut: bool,
}

/// A file extent item in one of the subvolumes that its leaf belongs to.
pub(super) struct Use {
    /// Which of the extents.
    pub(super) extent: usize,
    /// The tree.
    pub(super) root: ObjectId,
    /// The item.
    pub(super) piece: Piece,
}

impl Use {
    fn key(&self) -> (usize, ObjectId, ObjectId, u64, Logical) {
        (self.extent, self.root, self.piece.inode, self.piece.file_offset, self.piece.range.start)
    }
}

struct Batch<'f> {
    fs: &'f Filesystem,
    trees: Trees<'f>,
    /// Ascending.
    wanted: Vec<Logical>,
    extents: Vec<Wanted>,
    /// Of those extents that stand in a leaf.
    inline: Vec<(usize, Piece)>,
    uses: Vec<Use>,
    max_owners: usize,
}

impl Batch<'_> {
    /// Groups the wanted addresses by extent. Returns the extents that only a search can tell about.
    fn find_extents(&mut self) -> Vec<usize> {
        let mut references = References::new(self.fs);
        let (mut lost, mut room) = (Vec::new(), MAX_REFS);
        let is_metadata = |at: Logical| self.fs.chunks().lookup(at).is_ok_and(Chunk::holds_metadata);
        let sector_bytes = u64::from(self.fs.geometry().sectorsize());
        for (number, at) in self.wanted.iter().enumerate() {
            if let Some(last) = self.extents.last_mut().filter(|last| last.range.contains(at)) {
                last.numbers.end = number + 1;
                continue;
            }
            let numbers = number..number + 1;
            let found = references.data(*at);
            let leaf = if found.is_none() && is_metadata(*at) { references.leaf(*at) } else { None };
            if let Some(piece) = leaf.and_then(|leaf| pieces::inline(self.fs, &leaf, *at)) {
                let range = piece.range.clone();
                self.inline.push((self.extents.len(), piece));
                self.extents.push(Wanted { range, numbers, refs: Vec::new(), is_partial: false, is_cut: false });
                continue;
            }
            if found.is_none() {
                lost.push(self.extents.len());
            }
            let is_partial = found.as_ref().is_none_or(|found| !found.is_whole());
            let is_cut = found.as_ref().is_some_and(|found| found.is_cut || found.refs.len() > room);
            let (range, mut refs) =
                found.map_or((*at..*at + sector_bytes, Vec::new()), |found| (found.range, found.refs));
            refs.truncate(room);
            room -= refs.len();
            self.extents.push(Wanted { range, numbers, refs, is_partial, is_cut });
        }
        lost
    }

    /// The file extent items that need one of the wanted sectors, with the numbers of their extents.
    fn find_pieces(&mut self) -> Vec<(usize, Piece)> {
        let mut all: Vec<(usize, ExtentRef)> = Vec::new();
        for (number, extent) in self.extents.iter_mut().enumerate() {
            all.extend(std::mem::take(&mut extent.refs).into_iter().map(|reference| (number, reference)));
        }
        all.sort_by_key(|(_, reference)| place_of(reference));
        let (mut pieces, mut found) = (std::mem::take(&mut self.inline), Vec::new());
        for (number, reference) in all {
            let Some(extent) = self.extents.get_mut(number) else { continue };
            if pieces.len() >= MAX_PIECES {
                extent.is_cut = true;
                continue;
            }
            extent.is_partial |= !pieces::find(self.fs, &mut self.trees, &extent.range, &reference, &mut found);
            let wanted = self.wanted.get(extent.numbers.clone()).unwrap_or(&[]);
            pieces.extend(found.drain(..).filter(|p| !within(wanted, &p.range).is_empty()).map(|p| (number, p)));
        }
        pieces
    }

    /// Gives each piece to all the trees that its leaf is part of.
    fn find_roots(&mut self, pieces: Vec<(usize, Piece)>) {
        let mut roots_of = RootsOf::new(self.fs);
        let leaves: BTreeSet<Logical> = pieces.iter().map(|(_, piece)| piece.leaf).collect();
        let sets: HashMap<Logical, Arc<RootSet>> =
            leaves.into_iter().map(|leaf| (leaf, roots_of.of(&mut self.trees, leaf, 0))).collect();
        for (number, piece) in pieces {
            let Some(set) = sets.get(&piece.leaf) else { continue };
            if let Some(extent) = self.extents.get_mut(number) {
                extent.is_partial |= set.is_partial;
                extent.is_cut |= self.uses.len().saturating_add(set.ids.len()) > MAX_PIECES;
            }
            if self.uses.len() < MAX_PIECES {
                let one = |root: &ObjectId| Use { extent: number, root: *root, piece: piece.clone() };
                let room = MAX_PIECES - self.uses.len();
                self.uses.extend(set.ids.iter().take(room).map(one));
            }
        }
    }

    /// Walks the subvolumes for extents whose items are lost.
    fn search_lost(&mut self, lost: &[usize]) {
        let mut ranges: Vec<(LogicalRange, usize)> = Vec::new();
        for number in lost {
            ranges.extend(self.extents.get(*number).map(|extent| (extent.range.clone(), *number)));
        }
        if !ranges.is_empty() {
            uses_by_walk(self.fs, &ranges, MAX_PIECES, &mut self.uses);
        }
    }

    fn into_table(mut self) -> FileTable {
        self.uses.sort_by_key(Use::key);
        self.uses.dedup_by_key(|one| one.key());
        let mut names = Names::default();
        let mut paths: HashMap<(ObjectId, ObjectId), Paths> = HashMap::new();
        for (inode, root) in self.files_to_name() {
            let found = names.of(&mut self.trees, root, inode).into_iter().map(Arc::from);
            paths.insert((root, inode), found.collect());
        }
        let mut table = FileTable { extents: BTreeMap::new(), max_owners: self.max_owners };
        for extent in &self.extents {
            table.extents.insert(
                extent.range.start,
                ExtentOwners {
                    end: extent.range.end,
                    holdings: Vec::new(),
                    unlisted: Vec::new(),
                    others: Vec::new(),
                    is_partial: extent.is_partial,
                    is_cut: extent.is_cut,
                },
            );
        }
        for Use { extent, root, piece } in self.uses {
            let start = self.extents.get(extent).map(|extent| extent.range.start);
            let Some(owners) = start.and_then(|start| table.extents.get_mut(&start)) else { continue };
            match (no_file(&mut self.trees, root), paths.get(&(root, piece.inode))) {
                (Some(what), _) => owners.others.push((piece.range, what)),
                (None, Some(paths)) => owners.holdings.push(Holding {
                    range: piece.range,
                    subvolume: names.subvolume(&mut self.trees, root),
                    inode: piece.inode,
                    paths: Arc::clone(paths),
                    file_offset: piece.file_offset,
                    is_compressed: piece.is_compressed,
                }),
                (None, None) => {
                    // One without a name is one owner.
                    let names = Names::count(&mut self.trees, root, piece.inode).max(1);
                    owners.unlisted.push((piece.range, names));
                }
            }
        }
        table
    }

    /// The files that will be listed for some sector: inode and subvolume, in this order, for subvolumes that share an
    /// inode mostly share the leaf with its names.
    fn files_to_name(&mut self) -> BTreeSet<(ObjectId, ObjectId)> {
        let mut files = BTreeSet::new();
        let mut given: Vec<usize> = vec![0; self.wanted.len()];
        for one in &self.uses {
            let Some(extent) = self.extents.get(one.extent) else { continue };
            let wanted = self.wanted.get(extent.numbers.clone()).unwrap_or(&[]);
            let numbers = within(wanted, &one.piece.range);
            let first = extent.numbers.start;
            let share = given.get_mut(first + numbers.start..first + numbers.end).unwrap_or_default();
            if no_file(&mut self.trees, one.root).is_none() && share.iter().any(|count| *count < self.max_owners) {
                for count in share {
                    *count += 1;
                }
                files.insert((one.piece.inode, one.root));
            }
        }
        files
    }
}

/// What a tree without files, or one that is being deleted, keeps in a data extent.
fn no_file(trees: &mut Trees<'_>, root: ObjectId) -> Option<&'static str> {
    match root {
        object::ROOT_TREE => Some("the free space cache of a block group: the kernel makes it anew"),
        object::DATA_RELOC_TREE => Some("data that a balance was moving"),
        _ if trees.find(root).is_some_and(|tree| tree.is_dead) => {
            Some("a file of a deleted subvolume that is not cleaned away yet")
        }
        _ => None,
    }
}

/// The order in which references are followed: that of the leaves they lead to.
fn place_of(reference: &ExtentRef) -> (u8, u64, u64, u64) {
    match *reference {
        ExtentRef::SharedData { parent, .. } => (0, parent.raw(), 0, 0),
        ExtentRef::ExtentData { root, objectid, offset, .. } => (1, root.raw(), objectid.raw(), offset),
        _ => (2, 0, 0, 0),
    }
}

/// Which of the ascending addresses lie in `range`.
fn within(wanted: &[Logical], range: &LogicalRange) -> Range<usize> {
    wanted.partition_point(|at| *at < range.start)..wanted.partition_point(|at| *at < range.end)
}
