//! Whether a member that missed transactions has only missed them, or has made others of its own meanwhile. In the
//! second case "bringing it up to date" would destroy what was written there, and nothing but the user can say which
//! half is wanted.
//!
//! A clean latecomer wrote nothing alone. So whatever it holds up to its own last generation is what the others had
//! then, and they still have it, or something newer in its place. Proofs of the contrary:
//!
//! * super blocks of one generation that name different roots;
//! * a tree block that verifies on both, with one generation, and is not the same;
//! * a tree block of either side that the other never saw, though the transaction is one that both claim.
//!
//! Sides are compared through their own trees, read from their own devices alone.

use super::fingerprint::Fingerprint;
use super::preflight::{Refusal, SplitBrain, SplitProof};
use crate::filesystem::{Filesystem, OpenOptions};
use crate::format::Superblock;
use crate::tree::block::check_block;
use crate::tree::{LostBlock, ParentCheck, TreeBlock, Visit, Visitor, walk};
use crate::units::{DeviceId, Generation, Logical};
use crate::volume::{DeviceSet, Member, Opened, SetOptions};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Tree blocks of each side that are looked at, at most: 64 Ki blocks of 16 KiB are 1 GiB to read.
const MAX_COMPARED: usize = 64 << 10;
/// Transactions of the older side that are looked at: what was written alone is the newest there is.
const MAX_TRANSACTIONS: u64 = 64;

/// Refuses a set of members with different histories.
pub fn check_same_history(fs: &Filesystem) -> Result<(), Refusal> {
    let newest = fs.superblock();
    let Some(speaker) = fs.members().find(|member| member.superblock() == newest) else { return Ok(()) };
    let others = fs.members().filter(|member| !member.is_seed() && member.devid() != speaker.devid());
    for member in others {
        if let Some(proof) = proof_against(fs, member) {
            return Err(Refusal::SplitBrain(Box::new(SplitBrain {
                one: member.path().to_owned(),
                one_devid: member.devid(),
                one_generation: member.generation(),
                other: speaker.path().to_owned(),
                other_devid: speaker.devid(),
                other_generation: speaker.generation(),
                proof,
            })));
        }
    }
    Ok(())
}

fn proof_against(fs: &Filesystem, member: &Arc<Member>) -> Option<SplitProof> {
    let newest = fs.superblock();
    let (own, generation) = (member.superblock(), member.generation());
    if generation == newest.generation() {
        return different_roots(own, newest).or_else(|| different_root_blocks(fs));
    }
    backup_disagrees(own, newest).or_else(|| own_blocks(fs, generation)).or_else(|| blocks_from_before(fs, generation))
}

fn different_roots(own: &Superblock, newest: &Superblock) -> Option<SplitProof> {
    let generation = own.generation();
    let same = own.root() == newest.root() && own.chunk_root() == newest.chunk_root();
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

/// Blocks of the older side's own last transactions, compared with what the newest side has in their places. Something
/// newer there is as it should be.
fn own_blocks(fs: &Filesystem, generation: Generation) -> Option<SplitProof> {
    let alone = open_side(fs, generation)?;
    let newest = fs.superblock().generation();
    let blocks = Recent::of(&alone, generation);
    blocks.seen.iter().find_map(|(at, (expect, own))| {
        copies_that_verify(fs, *at, &ParentCheck::default(), on(fs, newest)).into_iter().find_map(|(have, bytes)| {
            if have < *expect {
                return Some(SplitProof::Missed { at: *at, have, expect: *expect });
            }
            let differs = have == *expect && Fingerprint::of(&bytes) != *own;
            differs.then_some(SplitProof::Block { at: *at, generation: have })
        })
    })
}

/// Blocks of the newest side from before the older one left: they are there as well, the same ones.
fn blocks_from_before(fs: &Filesystem, generation: Generation) -> Option<SplitProof> {
    let blocks = Recent::of(fs, generation);
    blocks.seen.iter().find_map(|(at, (expect, ours))| {
        copies_that_verify(fs, *at, &ParentCheck::default(), on(fs, generation)).into_iter().find_map(
            |(have, bytes)| {
                if have != *expect {
                    return Some(SplitProof::Missed { at: *at, have, expect: *expect });
                }
                (Fingerprint::of(&bytes) != *ours).then_some(SplitProof::Block { at: *at, generation: have })
            },
        )
    })
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

/// The file system as the members of an older generation see it by themselves; `None` where they are too few.
fn open_side(fs: &Filesystem, generation: Generation) -> Option<Filesystem> {
    let members = fs.members().filter(|member| member.generation() == generation || member.is_seed());
    let opened = members.map(|member| Opened {
        path: member.path().to_owned(),
        device: Arc::clone(member.device()),
        identity: member.identity(),
    });
    let set = DeviceSet::assemble(opened.collect(), SetOptions { degraded: true }).ok()?;
    Filesystem::open(set, &OpenOptions::default()).ok()
}

/// Blocks of the last transactions up to one, by address.
struct Recent {
    from: Generation,
    upto: Generation,
    /// How many blocks were looked at.
    visited: usize,
    seen: BTreeMap<Logical, (Generation, Fingerprint)>,
}

impl Recent {
    fn of(side: &Filesystem, upto: Generation) -> Self {
        let from = Generation::new(upto.raw().saturating_sub(MAX_TRANSACTIONS));
        let mut recent = Self { from, upto, visited: 0, seen: BTreeMap::new() };
        for root in side.all_roots() {
            walk(side, &root, &mut recent);
        }
        recent
    }
}

impl Visitor for Recent {
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
        if header.generation <= self.upto {
            self.seen.insert(header.bytenr, (header.generation, Fingerprint::of(block.bytes())));
        }
        Visit::Into
    }

    fn lost(&mut self, _: Logical, _: &ParentCheck, _: &LostBlock) {}
}
