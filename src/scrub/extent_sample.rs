//! A sample of the extents that a scrub has seen, small enough to be remembered: whether what a later run passes over as
//! old was there. The extents whose hashes are the lowest are kept, so that of a file system with few extents it is all
//! of them, and of any other an even choice which does not depend on the order.
//!
//! Where a file system was put back to an earlier state and used from there, extents lie in it that are older than the
//! generation remembered and that nobody has seen.

use crate::units::{Generation, Logical};
use std::collections::BTreeSet;

/// Hashes kept: 8 bytes each, 16 letters in the state file, 64 KiB in all.
const MAX_HASHES: usize = 4096;

/// The lowest hashes of the extents seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExtentSample {
    hashes: BTreeSet<u64>,
}

impl ExtentSample {
    /// One that is read back; of more than are kept the lowest.
    pub fn from_hashes(hashes: impl IntoIterator<Item = u64>) -> Self {
        let mut sample = Self::default();
        hashes.into_iter().for_each(|hash| sample.add(hash));
        sample
    }

    /// The hashes, ascending.
    pub fn hashes(&self) -> impl Iterator<Item = u64> {
        self.hashes.iter().copied()
    }

    /// This one, and what another has seen.
    #[must_use]
    pub fn with(mut self, other: &Self) -> Self {
        self.merge(other);
        self
    }

    /// The extent that starts here, of this generation, was seen.
    pub(super) fn note(&mut self, start: Logical, generation: Generation) {
        self.add(hash(start, generation));
    }

    /// Takes in what another has seen.
    pub(super) fn merge(&mut self, other: &Self) {
        other.hashes.iter().for_each(|hash| self.add(*hash));
    }

    /// False where the extent was certainly not seen.
    pub(super) fn may_have(&self, start: Logical, generation: Generation) -> bool {
        let hash = hash(start, generation);
        let is_beyond = self.is_full() && self.hashes.last().is_some_and(|last| hash > *last);
        is_beyond || self.hashes.contains(&hash)
    }

    fn is_full(&self) -> bool {
        self.hashes.len() >= MAX_HASHES
    }

    fn add(&mut self, hash: u64) {
        if self.is_full() && self.hashes.last().is_some_and(|last| hash >= *last) {
            return;
        }
        self.hashes.insert(hash);
        if self.hashes.len() > MAX_HASHES {
            self.hashes.pop_last();
        }
    }
}

fn hash(start: Logical, generation: Generation) -> u64 {
    mixed(start.raw() ^ mixed(generation.raw()))
}

/// Every bit of the number in every bit of the result (the output step of `SplitMix64`). Stands in state files: it stays.
const fn mixed(number: u64) -> u64 {
    let n = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(numbers: impl Iterator<Item = u64>) -> ExtentSample {
        let mut sample = ExtentSample::default();
        numbers.for_each(|n| sample.note(Logical::new(n * 4096), Generation::new(n % 7)));
        sample
    }

    fn may_have(sample: &ExtentSample, n: u64) -> bool {
        sample.may_have(Logical::new(n * 4096), Generation::new(n % 7))
    }

    #[test]
    fn of_few_extents_all_are_known_and_no_other() {
        let seen = sample(0..1000);
        assert!((0..1000).all(|n| may_have(&seen, n)));
        assert!((1000..2000).all(|n| !may_have(&seen, n)));
        assert!(!seen.may_have(Logical::new(4096), Generation::new(2)), "another generation in the same place");
    }

    #[test]
    fn of_many_extents_none_that_was_seen_is_unknown_and_some_that_were_not_are() {
        let seen = sample(0..40_000);
        assert_eq!(seen.hashes().count(), MAX_HASHES);
        assert!((0..40_000).all(|n| may_have(&seen, n)));
        let unknown = (40_000..80_000).filter(|n| !may_have(&seen, *n)).count();
        assert!((3000..5500).contains(&unknown), "{unknown}");
    }

    #[test]
    fn the_order_and_the_parts_do_not_matter() {
        let (mut low, high) = (sample(0..20_000), sample(20_000..40_000));
        low.merge(&high);
        assert_eq!(low, sample((0..40_000).rev()));
        assert_eq!(ExtentSample::from_hashes(low.hashes()), low);
    }
}
