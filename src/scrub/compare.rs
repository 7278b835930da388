//! Holds copies against each other where that is all there is: sectors without checksum, and tree blocks that verify on
//! more than one copy. Pure.
//!
//! A member that missed transactions has no vote. What differs on it from the current members is wrong; what only it has is
//! not proved by anything, for a sector without checksum may have been written in place since.

use super::stream::StripeCopy;
use super::window::Window;
use crate::units::{DeviceId, Logical};
use crate::volume::Standing;
use std::collections::{BTreeMap, BTreeSet};

/// What the comparison of a block's copies has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Difference {
    /// Copies that count are not equal, and nothing tells which of them is right.
    Open,
    /// Those that count are equal; one on a member that missed transactions is not.
    Stale,
    /// No copy that counts can be read; there is one on a member that missed transactions.
    Unproved,
}

/// Blocks whose copies are not all equal, or that no current member vouches for.
pub(super) fn differences(
    window: &Window,
    copies: &[StripeCopy],
    standing: &dyn Fn(DeviceId) -> Option<Standing>,
) -> BTreeMap<Logical, Difference> {
    let mut found = BTreeMap::new();
    let has_vote = |copy: &&StripeCopy| {
        let devid = window.chunk.stripes().get(copy.stripe).map(|stripe| stripe.devid);
        devid.and_then(standing).is_some_and(Standing::has_vote)
    };
    let (current, stale): (Vec<&StripeCopy>, Vec<&StripeCopy>) = copies.iter().partition(has_vote);
    let mut right: BTreeMap<Logical, u128> = BTreeMap::new();
    if current.len() > 1 || !stale.is_empty() {
        for (at, fingerprint) in current.iter().flat_map(|copy| &copy.verdict.fingerprints) {
            if *right.entry(*at).or_insert(*fingerprint) != *fingerprint {
                found.insert(*at, Difference::Open);
            }
        }
    }
    for (at, fingerprint) in stale.iter().flat_map(|copy| &copy.verdict.fingerprints) {
        match right.get(at) {
            Some(expect) if expect == fingerprint => {}
            Some(_) => drop(found.entry(*at).or_insert(Difference::Stale)),
            None => drop(found.insert(*at, Difference::Unproved)),
        }
    }
    found.extend(blocks_that_differ(copies).into_iter().map(|at| (at, Difference::Open)));
    found
}

/// Tree blocks that verify on several copies and are not the same block. One whose content cannot be right is none of them
/// where another copy's can.
fn blocks_that_differ(copies: &[StripeCopy]) -> BTreeSet<Logical> {
    let blocks = || copies.iter().flat_map(|copy| &copy.verdict.blocks);
    let mut differing = BTreeSet::new();
    let mut seen: BTreeMap<Logical, u128> = BTreeMap::new();
    let good = blocks().filter(|block| !block.is_odd).map(|block| (block.at, block.fingerprint));
    let with_good: BTreeSet<Logical> = good.clone().map(|(at, _)| at).collect();
    let odd = blocks().filter(|block| block.is_odd && !with_good.contains(&block.at));
    for (at, fingerprint) in good.chain(odd.map(|block| (block.at, block.fingerprint))) {
        if *seen.entry(at).or_insert(fingerprint) != fingerprint {
            differing.insert(at);
        }
    }
    differing
}
