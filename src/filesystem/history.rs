//! Whether a member that missed transactions has only missed them, or has made others of its own meanwhile. In the second
//! case "bringing it up to date" would destroy what was written there, and nothing but the user can say which half is
//! wanted.
//!
//! What an older member holds up to its last transaction with changes of files must be what the others had then. A
//! transaction that both sides know is shown by a witness: an inode item, or a leaf with one, that was last changed in that
//! very transaction and is the same on both sides to the nanosecond of its times. All transactions before a common one are
//! common. So
//!
//! * where the last change of files on the older side is common, the member has only missed transactions: whatever else
//!   differs are writes that were lost;
//! * where it is not, something of the older side may exist nowhere else. What contradicts is named as the proof; where
//!   nothing is left that contradicts, that is said, and the answer is the same.
//!
//! Members of one generation are held against each other by their roots. A side that cannot be opened by itself has
//! nothing that could be used. Sides are read from their own devices alone.

mod side;

use super::Filesystem;
use crate::format::Superblock;
use crate::tree::ParentCheck;
use crate::tree::block::check_block;
use crate::units::{DeviceId, Generation, Logical, ObjectId};
use crate::volume::{Member, Standing};
use side::{Changes, common_inode, open_side};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use thiserror::Error;
use xxhash_rust::xxh3::xxh3_128;

/// Two members with histories of their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SplitBrain {
    /// The member with the older or equal generation.
    pub one: PathBuf,
    /// Its number.
    pub one_devid: DeviceId,
    /// Its last transaction.
    pub one_generation: Generation,
    /// The member that the set goes by.
    pub other: PathBuf,
    /// Its number.
    pub other_devid: DeviceId,
    /// Its last transaction.
    pub other_generation: Generation,
    /// What shows it.
    pub proof: SplitProof,
}

impl fmt::Display for SplitBrain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { one_devid, one_generation, other_devid, other_generation, proof, .. } = self;
        let may = if matches!(proof, SplitProof::Unproved { .. }) { "may have been" } else { "were" };
        write!(
            f,
            "split brain: {} (devid {one_devid}, generation {one_generation}) and {} (devid {other_devid}, generation \
             {other_generation}) {may} written without each other: {proof}",
            self.one.display(),
            self.other.display()
        )
    }
}

/// What shows that two members were written without each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SplitProof {
    /// Two super blocks of one transaction name different trees.
    #[error("their super blocks of generation {generation} name different roots")]
    Roots {
        /// Of both.
        generation: Generation,
    },
    /// A block verifies on both and is not the same block.
    #[error("tree block {at} of generation {generation} is whole on both and not the same")]
    Block {
        /// Where.
        at: Logical,
        /// Of both.
        generation: Generation,
    },
    /// A block that one wrote was never written on the other, though it was there by its own account.
    #[error("tree block {at} of generation {expect} is of generation {have} on the other")]
    Missed {
        /// Where.
        at: Logical,
        /// On the one that lacks it.
        have: Generation,
        /// On the one that has it.
        expect: Generation,
    },
    /// A file was made or changed in one transaction on both, and not in the same way.
    #[error("inode {inode} of tree {tree} was changed on both in the transactions up to {generation}, and differently")]
    Inode {
        /// The subvolume.
        tree: ObjectId,
        /// The file.
        inode: ObjectId,
        /// The last transaction of the older one.
        generation: Generation,
    },
    /// Nothing is left that shows whether the last changes of the older one are known to the other.
    #[error("nothing on the other shows that it knows the changes of transaction {upto} on the first")]
    Unproved {
        /// The last transaction with changes of files on the older one.
        upto: Generation,
    },
}

impl Filesystem {
    /// Members that have, or may have, a history of their own. Reads trees of both sides where a member is older; known
    /// from the first call on.
    pub fn splits(&self) -> &[SplitBrain] {
        self.splits.get_or_init(|| {
            let newest = self.superblock();
            let is_current = |member: &&Arc<Member>| !member.is_seed() && member.generation() == newest.generation();
            let same = self.members().find(|member| member.superblock() == newest);
            let Some(speaker) = same.or_else(|| self.members().find(is_current)) else { return Vec::new() };
            let others = self.members().filter(|member| !member.is_seed() && member.devid() != speaker.devid());
            let split = |member: &Arc<Member>| {
                Some(SplitBrain {
                    one: member.path().to_owned(),
                    one_devid: member.devid(),
                    one_generation: member.generation(),
                    other: speaker.path().to_owned(),
                    other_devid: speaker.devid(),
                    other_generation: speaker.generation(),
                    proof: proof_against(self, member)?,
                })
            };
            others.filter_map(split).collect()
        })
    }

    /// Where the member of this number stands, its history considered; `None` where it is missing.
    pub fn standing(&self, devid: DeviceId) -> Option<Standing> {
        let standing = self.volume.standing(devid)?;
        let newest = self.superblock().generation();
        let split = self.splits().iter().find(|split| split.one_devid == devid);
        Some(split.map_or(standing, |split| Standing::Apart { have: split.one_generation, newest }))
    }
}

fn proof_against(fs: &Filesystem, member: &Arc<Member>) -> Option<SplitProof> {
    let newest = fs.superblock();
    let (own, generation) = (member.superblock(), member.generation());
    if generation == newest.generation() {
        return different_roots(own, newest).or_else(|| different_root_blocks(fs));
    }
    chunk_roots_disagree(own, newest).or_else(|| backup_disagrees(own, newest)).or_else(|| own_changes(fs, generation))
}

fn different_roots(own: &Superblock, newest: &Superblock) -> Option<SplitProof> {
    let generation = own.generation();
    let same = own.root() == newest.root() && own.chunk_root() == newest.chunk_root();
    (!same).then_some(SplitProof::Roots { generation })
}

/// A chunk tree that is as old as the older side is the one of that side.
fn chunk_roots_disagree(own: &Superblock, newest: &Superblock) -> Option<SplitProof> {
    let generation = newest.chunk_root().generation;
    let same = generation > own.generation() || own.chunk_root() == newest.chunk_root();
    (!same).then_some(SplitProof::Roots { generation })
}

/// The newest side remembers the roots of its last four transactions.
fn backup_disagrees(own: &Superblock, newest: &Superblock) -> Option<SplitProof> {
    let generation = own.generation();
    let backup = newest.backup_roots().into_iter().find(|backup| backup.tree_root.generation == generation)?;
    let same = backup.tree_root.bytenr == own.root().bytenr && backup.chunk_root.bytenr == own.chunk_root().bytenr;
    (!same).then_some(SplitProof::Roots { generation })
}

/// Copies of the two root blocks that verify must be equal.
fn different_root_blocks(fs: &Filesystem) -> Option<SplitProof> {
    let roots = [fs.superblock().root(), fs.superblock().chunk_root()];
    roots.into_iter().find_map(|root| {
        let check = ParentCheck { generation: Some(root.generation), ..ParentCheck::default() };
        let copies = copies_that_verify(fs, root.bytenr, &check, |_| true);
        let (first, rest) = copies.split_first()?;
        let differs = rest.iter().any(|(_, bytes)| *bytes != first.1);
        differs.then_some(SplitProof::Block { at: root.bytenr, generation: root.generation })
    })
}

/// What the older side changed last and the newest one does not know.
fn own_changes(fs: &Filesystem, generation: Generation) -> Option<SplitProof> {
    let side = open_side(fs, generation)?;
    let changes = Changes::of(&side, generation);
    let last = changes.last()?;
    let is_known = |at: Logical, ours: u128| {
        let newest = copies_that_verify(fs, at, &ParentCheck::default(), on(fs, fs.superblock().generation()));
        newest.iter().any(|(_, bytes)| xxh3_128(bytes) == ours)
    };
    let known = changes.witness_blocks().find(|block| is_known(block.at, block.fingerprint));
    let known = known.map(|block| block.generation);
    if known >= Some(last) {
        return None;
    }
    let known = known.max(match common_inode(fs, &changes, known) {
        Ok(common) => common,
        Err(proof) => return Some(proof),
    });
    if known >= Some(last) {
        return None;
    }
    let contradiction = own_blocks(fs, &changes, known).or_else(|| blocks_from_before(fs, generation, known));
    contradiction.or(Some(SplitProof::Unproved { upto: last }))
}

/// Blocks of the older side since the last common transaction, held against what the newest side has in their places.
/// Something newer there is as it should be.
fn own_blocks(fs: &Filesystem, changes: &Changes, known: Option<Generation>) -> Option<SplitProof> {
    let newest = fs.superblock().generation();
    changes.blocks().filter(|block| Some(block.generation) > known).find_map(|block| {
        let copies = copies_that_verify(fs, block.at, &ParentCheck::default(), on(fs, newest));
        copies
            .into_iter()
            .find_map(|(have, bytes)| contradiction(block.at, block.generation, have, &bytes, block.fingerprint))
    })
}

/// Blocks of the newest side from before the older one left: they are there as well, the same ones.
fn blocks_from_before(fs: &Filesystem, generation: Generation, known: Option<Generation>) -> Option<SplitProof> {
    let changes = Changes::of(fs, generation);
    changes.blocks().filter(|block| Some(block.generation) > known).find_map(|block| {
        let copies = copies_that_verify(fs, block.at, &ParentCheck::default(), on(fs, generation));
        let (at, expect) = (block.at, block.generation);
        copies.into_iter().find_map(|(have, bytes)| {
            let is_other = have > expect;
            let missed = is_other.then_some(SplitProof::Missed { at, have: expect, expect: have });
            missed.or_else(|| contradiction(at, expect, have, &bytes, block.fingerprint))
        })
    })
}

fn contradiction(
    at: Logical,
    expect: Generation,
    have: Generation,
    bytes: &[u8],
    fingerprint: u128,
) -> Option<SplitProof> {
    if have < expect {
        return Some(SplitProof::Missed { at, have, expect });
    }
    (have == expect && xxh3_128(bytes) != fingerprint).then_some(SplitProof::Block { at, generation: have })
}

/// The devices whose last transaction this is.
fn on(fs: &Filesystem, generation: Generation) -> impl Fn(DeviceId) -> bool {
    move |devid| fs.volume().member(devid).is_some_and(|member| member.generation() == generation)
}

/// The copies of a block on the chosen devices that verify, each with its generation.
fn copies_that_verify(
    fs: &Filesystem,
    at: Logical,
    check: &ParentCheck,
    on: impl Fn(DeviceId) -> bool,
) -> Vec<(Generation, Vec<u8>)> {
    let Ok(chunk) = fs.chunks().lookup(at) else { return Vec::new() };
    let copies = chunk.copies(at).into_iter().filter(|copy| on(copy.place.devid));
    let verified = copies.filter_map(|copy| {
        let mut bytes = vec![0; fs.geometry().nodesize() as usize];
        fs.volume().read_copy(at, copy.mirror, &mut bytes).ok()?;
        let header = check_block(&bytes, at, fs.geometry(), check).ok()?;
        Some((header.generation, bytes))
    });
    verified.collect()
}
