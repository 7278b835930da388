//! Which tree blocks a walk has seen: a bit per sector of the address space, where there are any.

use crate::units::Logical;
use std::collections::BTreeMap;

/// Bytes of address space that one leaf of the map covers: 64 MiB in 16,384 bits of 4 KiB, 2 KiB of memory.
const REGION_BYTES: u64 = 64 << 20;
/// Tree blocks start on sectors.
const SECTOR_BYTES: u64 = 4096;
const WORDS: usize = (REGION_BYTES / SECTOR_BYTES / 64) as usize;

/// A set of block addresses: 1,000,000 blocks of 16 KiB that lie together take half a MiB.
#[derive(Debug, Default)]
pub struct SeenBlocks {
    regions: BTreeMap<u64, Box<[u64; WORDS]>>,
}

impl SeenBlocks {
    /// Whether `at` is in the set.
    pub fn contains(&self, at: Logical) -> bool {
        let (region, word, bit) = place_of(at);
        self.regions.get(&region).and_then(|words| words.get(word)).is_some_and(|word| word & bit != 0)
    }

    /// Adds `at`. True where it was not in the set.
    pub fn insert(&mut self, at: Logical) -> bool {
        let (region, word, bit) = place_of(at);
        let words = self.regions.entry(region).or_insert_with(|| Box::new([0; WORDS]));
        let Some(word) = words.get_mut(word) else { return false };
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }
}

fn place_of(at: Logical) -> (u64, usize, u64) {
    let sector = at.raw() % REGION_BYTES / SECTOR_BYTES;
    (at.raw() / REGION_BYTES, (sector / 64) as usize, 1 << (sector % 64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_is_a_set(sectors in prop::collection::vec(0_u64..100_000, 0..200)) {
            let mut seen = SeenBlocks::default();
            let mut model = std::collections::BTreeSet::new();
            for sector in sectors {
                let at = Logical::new(sector * SECTOR_BYTES);
                prop_assert_eq!(seen.contains(at), model.contains(&sector));
                prop_assert_eq!(seen.insert(at), model.insert(sector));
            }
        }
    }
}
