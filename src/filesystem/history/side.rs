//! One side of a set whose members have different generations: its last changes, as its own devices have them.

use super::SplitProof;
use crate::filesystem::{Filesystem, OpenOptions, find_root};
use crate::format::Key;
use crate::format::types::{key_type, object};
use crate::tree::{Cursor, LostBlock, ParentCheck, TreeBlock, TreeRoot, Visit, Visitor, walk};
use crate::units::{Generation, Logical, ObjectId};
use crate::volume::{DeviceSet, Opened, SetOptions};
use std::collections::BTreeMap;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_128;

/// Tree blocks of each side that are looked at, at most: 64 Ki blocks of 16 KiB are 1 GiB to read.
const MAX_COMPARED: usize = 64 << 10;
/// Transactions of the older side that are looked at: what was written alone is the newest there is.
const MAX_TRANSACTIONS: u64 = 64;
/// Inodes that are remembered of them, and of those the last changed ones that are looked up on the other side.
const MAX_INODES: usize = 64 << 10;
const MAX_LOOKED_UP: usize = 4 << 10;

/// Where the fields are that tell one change of an inode from another, in an inode item.
const INODE_ITEM_BYTES: usize = 160;
const TRANSID: usize = 8;
const CTIME: usize = 124;
const OTIME: usize = 148;
/// The same in a root item: the transaction of the root block, and the last one with a change of a file.
const ROOT_GENERATION: usize = 160;
const ROOT_CTRANSID: usize = 295;

/// The file system as the members of an older generation see it by themselves; `None` where they are too few to be written
/// without the others, as the kernel counts that (`btrfs_check_rw_degradable`), or where they do not have its roots.
pub(super) fn open_side(fs: &Filesystem, generation: Generation) -> Option<Filesystem> {
    let members = fs.members().filter(|member| member.generation() == generation || member.is_seed());
    let opened = members.map(|member| Opened {
        path: member.path().to_owned(),
        device: Arc::clone(member.device()),
        identity: member.identity(),
    });
    let set = DeviceSet::assemble(opened.collect(), SetOptions { degraded: true }).ok()?;
    let side = Filesystem::open(set, &OpenOptions::default()).ok().filter(|side| side.lost_roots().is_empty())?;
    // A device that is missing in the whole set may have been with this side.
    let is_with_others =
        |devid| fs.volume().member(devid).is_some_and(|m| !m.is_seed() && m.generation() != generation);
    let can_stand = side.chunks().iter().all(|chunk| {
        let absent = chunk.stripes().iter().filter(|stripe| is_with_others(stripe.devid)).count();
        absent <= usize::from(chunk.profile().row().tolerated_failures)
    });
    can_stand.then_some(side)
}

/// A tree block of a side.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    pub(super) at: Logical,
    pub(super) generation: Generation,
    pub(super) fingerprint: u128,
    /// It holds an item that was changed, with its times, in the transaction that wrote the block.
    is_witness: bool,
}

/// An inode that was changed in the last transactions.
struct Inode {
    tree: ObjectId,
    inode: ObjectId,
    item: InodeFacts,
}

/// What tells one state of an inode from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct InodeFacts {
    generation: Generation,
    transid: Generation,
    otime: [u8; 12],
    whole: u128,
}

impl InodeFacts {
    fn of(item: &[u8]) -> Option<Self> {
        let item = item.get(..INODE_ITEM_BYTES)?;
        Some(Self {
            generation: Generation::new(number(item, 0)?),
            transid: Generation::new(number(item, TRANSID)?),
            otime: item.get(OTIME..)?.try_into().ok()?,
            whole: xxh3_128(item),
        })
    }
}

fn number(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// The last transactions of a side, up to one.
pub(super) struct Changes {
    from: Generation,
    upto: Generation,
    /// The tree that is being walked.
    tree: ObjectId,
    visited: usize,
    seen: BTreeMap<Logical, Block>,
    inodes: Vec<Inode>,
}

impl Changes {
    pub(super) fn of(side: &Filesystem, upto: Generation) -> Self {
        let from = Generation::new(upto.raw().saturating_sub(MAX_TRANSACTIONS));
        let tree = ObjectId::default();
        let mut changes = Self { from, upto, tree, visited: 0, seen: BTreeMap::new(), inodes: Vec::new() };
        for root in side.all_roots() {
            changes.tree = root.id;
            walk(side, &root, &mut changes);
        }
        changes.inodes.sort_by_key(|inode| std::cmp::Reverse(inode.item.transid));
        changes
    }

    pub(super) fn blocks(&self) -> impl Iterator<Item = &Block> {
        self.seen.values()
    }

    /// Those that can show a common transaction, the newest first.
    pub(super) fn witness_blocks(&self) -> impl Iterator<Item = &Block> {
        let mut blocks: Vec<&Block> = self.blocks().filter(|block| block.is_witness).collect();
        blocks.sort_by_key(|block| std::cmp::Reverse(block.generation));
        blocks.into_iter()
    }

    /// The last transaction with a change of a file.
    pub(super) fn last(&self) -> Option<Generation> {
        let block = self.blocks().filter(|block| block.is_witness).map(|block| block.generation).max();
        block.max(self.inodes.first().map(|inode| inode.item.transid))
    }

    /// Takes in the inodes of a leaf. Returns whether one of its items bears witness to the transaction that wrote it.
    fn leaf(&mut self, block: &TreeBlock) -> bool {
        let written = block.header().generation;
        let mut is_witness = false;
        for (key, item) in (0..block.len()).filter_map(|slot| block.item(slot)) {
            let stamp = |at| number(item, at).map(Generation::new);
            match key.item_type {
                key_type::INODE_ITEM if is_subvolume(self.tree) => {
                    let Some(facts) = InodeFacts::of(item).filter(|facts| facts.transid <= self.upto) else { continue };
                    let has_times = item.get(CTIME..CTIME + 12).is_some_and(|time| time.iter().any(|byte| *byte != 0));
                    is_witness |= has_times && facts.transid == written;
                    if has_times && facts.transid >= self.from && self.inodes.len() < MAX_INODES {
                        self.inodes.push(Inode { tree: self.tree, inode: key.objectid, item: facts });
                    }
                }
                key_type::ROOT_ITEM if is_subvolume(key.objectid) => {
                    is_witness |= [ROOT_GENERATION, ROOT_CTRANSID].into_iter().all(|at| stamp(at) == Some(written));
                }
                _ => {}
            }
        }
        is_witness
    }
}

impl Visitor for Changes {
    fn pointer(&mut self, at: Logical, check: &ParentCheck) -> Visit {
        if self.visited >= MAX_COMPARED {
            return Visit::Stop;
        }
        // What is below an old block is older still.
        let is_old = check.generation.is_some_and(|generation| generation < self.from);
        if is_old || self.seen.contains_key(&at) { Visit::Skip } else { Visit::Into }
    }

    fn block(&mut self, block: &Arc<TreeBlock>) -> Visit {
        self.visited += 1;
        let header = block.header();
        let is_witness = block.level() == 0 && self.leaf(block);
        if header.generation <= self.upto {
            let (at, generation, fingerprint) = (header.bytenr, header.generation, xxh3_128(block.bytes()));
            self.seen.insert(at, Block { at, generation, fingerprint, is_witness });
        }
        Visit::Into
    }

    fn lost(&mut self, _: Logical, _: &ParentCheck, _: &LostBlock) {}
}

/// A tree with files of the user.
fn is_subvolume(tree: ObjectId) -> bool {
    tree == object::FS_TREE || (object::FIRST_FREE..=object::LAST_FREE).contains(&tree)
}

/// The last transaction after `known` in which an inode of the older side was changed and is the same on the newest side;
/// an error where one was changed on both and differently.
pub(super) fn common_inode(
    newest: &Filesystem,
    changes: &Changes,
    known: Option<Generation>,
) -> Result<Option<Generation>, SplitProof> {
    let mut roots: BTreeMap<ObjectId, Option<TreeRoot>> = BTreeMap::new();
    for Inode { tree, inode, item } in changes.inodes.iter().take(MAX_LOOKED_UP) {
        if Some(item.transid) <= known {
            break;
        }
        let root = *roots.entry(*tree).or_insert_with(|| find_root(newest, newest.roots().root, *tree));
        let Some(there) = root.and_then(|root| inode_of(newest, root, *inode)) else { continue };
        if there == *item {
            return Ok(Some(item.transid));
        }
        let upto = changes.upto;
        let is_same_file = (there.generation, there.otime) == (item.generation, item.otime);
        // What was not changed since is what it was; a number that was given anew is another file.
        if there.transid <= upto || (there.generation <= upto && !is_same_file) {
            return Err(SplitProof::Inode { tree: *tree, inode: *inode, generation: upto });
        }
    }
    Ok(None)
}

fn inode_of(fs: &Filesystem, root: TreeRoot, inode: ObjectId) -> Option<InodeFacts> {
    let key = Key::new(inode.raw(), key_type::INODE_ITEM, 0);
    let mut cursor = Cursor::new(fs, root);
    cursor.seek(&key);
    let (found, item) = cursor.item()?;
    (found == key).then(|| InodeFacts::of(item)).flatten()
}
