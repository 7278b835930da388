//! What lives in a tree block: its tree, its keys, and what those keys stand for. Of a block that can be read the keys
//! are its own; of one that cannot, they are those that the pointer to it and the next pointer leave for it, found by
//! walking the nodes (not the leaves) of its tree.

use super::names::Names;
use super::orphaned::{LostInodes, name_lost};
use super::references::{Referenced, References};
use super::roots_of::RootsOf;
use super::table::Owners;
use super::trees::Trees;
use super::words::Speaker;
use crate::filesystem::Filesystem;
use crate::format::Key;
use crate::format::items::{ChunkItem, ExtentRef};
use crate::format::node::MAX_LEVEL;
use crate::format::types::key_type;
use crate::tree::block::is_subvolume;
use crate::tree::{BlockSource, LostBlock, ParentCheck, TreeBlock, TreeGeometry, TreeRoot, Visit, Visitor, walk};
use crate::units::{Logical, ObjectId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Where a tree block stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The trees that it is part of, the one that it was made for first.
    pub(super) trees: Vec<ObjectId>,
    pub(super) level: u8,
    /// No copy could be read.
    is_lost: bool,
    /// The first key.
    pub(super) first: Key,
    /// The last key of a leaf that could be read; else the key at which the tree goes on, `None` for its end.
    pub(super) last: Last,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Last {
    /// With the bytes of logical space that its item is about.
    Within(Key, u64),
    Before(Option<Key>),
}

impl Last {
    /// The last object that can be in the block.
    pub(super) fn object(self) -> u64 {
        match self {
            Self::Before(Some(key)) if key.item_type == 0 && key.offset == 0 => key.objectid.raw().saturating_sub(1),
            Self::Within(key, _) | Self::Before(Some(key)) => key.objectid.raw(),
            Self::Before(None) => u64::MAX,
        }
    }
}

/// Says what lives in each of the tree blocks at `wanted`, one clause each; nothing of those that nobody points to. Where
/// no copy can be read, the files that are hit are listed too, `max_owners` at most.
pub(super) fn describe_blocks(
    fs: &Filesystem,
    wanted: &BTreeSet<Logical>,
    max_owners: usize,
) -> BTreeMap<Logical, Owners> {
    let mut finder = Finder { fs, trees: Trees::new(fs), lost: BTreeSet::new(), places: BTreeMap::new() };
    let lost = finder.leaves(wanted);
    finder.others(lost);
    let (mut trees, mut names) = (finder.trees, Names::default());
    let mut speaker = Speaker { trees: &mut trees, names: &mut names };
    let clause =
        |(at, place): (&Logical, &Place)| (*at, Owners { holds: Some(speaker.clause(place)), ..Owners::default() });
    let mut owners: BTreeMap<Logical, Owners> = finder.places.iter().map(clause).collect();
    for one in lost_inodes(fs, &mut trees, &mut names, &finder.places) {
        let Some(owners) = owners.get_mut(&one.at) else { continue };
        owners.omitted = one.files.len().saturating_sub(max_owners) as u64;
        owners.files = one.files;
        owners.files.truncate(max_owners);
    }
    owners
}

/// The inodes in lost blocks of subvolumes, with their names in the first subvolume of each.
fn lost_inodes(
    fs: &Filesystem,
    trees: &mut Trees<'_>,
    names: &mut Names,
    places: &BTreeMap<Logical, Place>,
) -> Vec<LostInodes> {
    let mut by_tree: BTreeMap<ObjectId, Vec<LostInodes>> = BTreeMap::new();
    for (at, place) in places.iter().filter(|(_, place)| place.is_lost) {
        if let Some(tree) = place.trees.first().filter(|tree| is_subvolume(**tree)) {
            let inodes = place.first.objectid.raw()..=place.last.object();
            by_tree.entry(*tree).or_default().push(LostInodes { at: *at, inodes, files: Vec::new() });
        }
    }
    for (tree, lost) in &mut by_tree {
        if let Some(tree) = trees.find(*tree) {
            name_lost(fs, trees, names, &tree.root, lost);
        }
    }
    by_tree.into_values().flatten().collect()
}

struct Finder<'f> {
    fs: &'f Filesystem,
    trees: Trees<'f>,
    lost: BTreeSet<Logical>,
    places: BTreeMap<Logical, Place>,
}

impl Finder<'_> {
    /// Places the leaves that some copy can give. Returns the other blocks, with the trees that they may be part of; no
    /// tree stands for all.
    fn leaves(&mut self, wanted: &BTreeSet<Logical>) -> Vec<(Logical, BTreeSet<ObjectId>)> {
        let mut references = References::new(self.fs);
        let mut roots_of = RootsOf::new(self.fs);
        let mut others = Vec::new();
        for at in wanted {
            let found = references.block(*at);
            let check = found.as_ref().map(Referenced::check).unwrap_or_default();
            let mut owners = BTreeSet::new();
            if let Ok(block) = self.fs.read_block(*at, &check) {
                owners.extend(&roots_of.of(&mut self.trees, *at, block.level()).ids);
                if block.level() == 0 {
                    self.places.insert(*at, place_of(&block, &owners, self.fs.geometry()));
                    continue;
                }
            } else {
                self.lost.insert(*at);
            }
            for reference in found.iter().flat_map(|found| &found.refs) {
                match reference {
                    ExtentRef::TreeBlock { root } => drop(owners.insert(*root)),
                    ExtentRef::SharedBlock { parent } => {
                        owners.extend(&roots_of.of(&mut self.trees, *parent, check.level.unwrap_or(0) + 1).ids);
                    }
                    _ => {}
                }
            }
            others.push((*at, owners));
        }
        others
    }

    /// Places nodes, and leaves that no copy can give, by walking each tree that may have one of them.
    fn others(&mut self, others: Vec<(Logical, BTreeSet<ObjectId>)>) {
        if others.is_empty() {
            return;
        }
        let anywhere = others.iter().any(|(_, owners)| owners.is_empty());
        let owners: BTreeSet<ObjectId> = others.iter().flat_map(|(_, owners)| owners).copied().collect();
        let wanted: BTreeSet<Logical> = others.into_iter().map(|(at, _)| at).collect();
        let roots: Vec<TreeRoot> = if anywhere {
            self.fs.all_roots().into_iter().chain(self.fs.log_roots()).collect()
        } else {
            owners.iter().filter_map(|id| self.trees.find(*id)).map(|tree| tree.root).collect()
        };
        let mut parents = Vec::new();
        for root in roots {
            let mut search = Search {
                tree: root.id,
                wanted: &wanted,
                lost: &self.lost,
                open: Vec::new(),
                path: [Logical::default(); MAX_LEVEL as usize + 1],
                parents: &mut parents,
                places: &mut self.places,
            };
            walk(self.fs, &root, &mut search);
        }
        let mut roots_of = RootsOf::new(self.fs);
        for (at, parent) in parents {
            let Some(place) = self.places.get_mut(&at) else { continue };
            for id in &roots_of.of(&mut self.trees, parent, place.level + 1).ids {
                place.add_tree(*id);
            }
        }
    }
}

impl Place {
    fn add_tree(&mut self, id: ObjectId) {
        if !self.trees.contains(&id) {
            self.trees.push(id);
        }
    }
}

fn place_of(block: &TreeBlock, roots: &BTreeSet<ObjectId>, geometry: &TreeGeometry) -> Place {
    let owner = block.header().owner;
    let others = roots.iter().copied().filter(|id| *id != owner);
    let is_part = roots.is_empty() || roots.contains(&owner);
    let trees = is_part.then_some(owner).into_iter().chain(others).collect();
    let last = block.len().checked_sub(1).and_then(|slot| block.item(slot));
    let last = last.map_or(Last::Before(None), |(key, bytes)| Last::Within(key, reach_bytes(&key, bytes, geometry)));
    Place { trees, level: block.level(), is_lost: false, first: block.key(0).unwrap_or_default(), last }
}

/// How much of logical space an item is about, from the address in its key on.
fn reach_bytes(key: &Key, bytes: &[u8], geometry: &TreeGeometry) -> u64 {
    let sectorsize = u64::from(geometry.sectorsize());
    match key.item_type {
        key_type::EXTENT_CSUM => (bytes.len() / geometry.csum_type().digest_len()) as u64 * sectorsize,
        key_type::METADATA_ITEM => u64::from(geometry.nodesize()),
        key_type::EXTENT_ITEM
        | key_type::BLOCK_GROUP_ITEM
        | key_type::FREE_SPACE_INFO
        | key_type::FREE_SPACE_EXTENT
        | key_type::FREE_SPACE_BITMAP => key.offset,
        key_type::CHUNK_ITEM => ChunkItem::parse(bytes).map_or(sectorsize, |chunk| chunk.length),
        _ => sectorsize,
    }
}

/// Finds the pointers to the wanted blocks.
struct Search<'a> {
    tree: ObjectId,
    wanted: &'a BTreeSet<Logical>,
    /// Those of them that no copy can give.
    lost: &'a BTreeSet<Logical>,
    /// Found blocks whose end is not known yet.
    open: Vec<Logical>,
    /// The nodes above, by level.
    path: [Logical; MAX_LEVEL as usize + 1],
    /// Found blocks, each with the node above it.
    parents: &'a mut Vec<(Logical, Logical)>,
    places: &'a mut BTreeMap<Logical, Place>,
}

impl Visitor for Search<'_> {
    fn pointer(&mut self, at: Logical, check: &ParentCheck) -> Visit {
        let (level, first) = (check.level.unwrap_or(0), check.first_key.unwrap_or(Key::MIN));
        let places = &mut *self.places;
        self.open.retain(|open| match places.get_mut(open) {
            Some(place) if place.level <= level && place.first < first => {
                place.last = Last::Before(Some(first));
                false
            }
            _ => true,
        });
        if !self.wanted.contains(&at) {
            return if level == 0 { Visit::Skip } else { Visit::Into };
        }
        let tree = self.tree;
        if let Some(place) = places.get_mut(&at) {
            place.add_tree(tree);
        } else {
            let is_lost = self.lost.contains(&at);
            places.insert(at, Place { trees: vec![tree], level, is_lost, first, last: Last::Before(None) });
            self.open.push(at);
            let above = self.path.get(usize::from(level) + 1).filter(|above| **above != Logical::default());
            self.parents.extend(above.map(|above| (at, *above)));
        }
        Visit::Skip
    }

    fn block(&mut self, block: &Arc<TreeBlock>) -> Visit {
        self.path.iter_mut().skip(usize::from(block.level())).take(1).for_each(|at| *at = block.header().bytenr);
        Visit::Into
    }

    fn lost(&mut self, _: Logical, _: &ParentCheck, _: &LostBlock) {}
}
