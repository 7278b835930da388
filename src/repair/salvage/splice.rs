//! Parts of different copies, in all combinations: for copies that are bad in different places, or that can be read in
//! different places.

use super::{Trial, is_readable};
use crate::scrub::mend::LostCopy;

/// What disks write at once, and what they write at once since 2010. The finer one is tried unless that are too many.
const PART_BYTES: [usize; 2] = [512, 4096];
/// Combinations that are tried for a block: 16 parts in which two copies differ, or 8 in which four do.
pub(super) const MAX_COMBINATIONS: u64 = 1 << 16;

/// The first combination that is the right block.
pub(super) fn search(copies: &[LostCopy<'_>], trial: &mut Trial<'_>) -> Option<Vec<u8>> {
    PART_BYTES.iter().find_map(|part_bytes| Parts::of(copies, *part_bytes))?.search(trial)
}

/// The different versions of each part of a block, none without a version. Parts in which all copies agree cost nothing.
struct Parts<'a> {
    part_bytes: usize,
    versions: Vec<Vec<&'a [u8]>>,
}

impl<'a> Parts<'a> {
    /// `None` where no copy of a part can be read, or where there are too many combinations.
    fn of(copies: &'a [LostCopy<'_>], part_bytes: usize) -> Option<Self> {
        let len = copies.iter().map(|copy| copy.bytes.len()).min()?;
        let mut combinations = 1_u64;
        let mut parts = Vec::with_capacity(len.div_ceil(part_bytes));
        for from in (0..len).step_by(part_bytes) {
            let to = (from + part_bytes).min(len);
            let mut versions: Vec<&[u8]> = Vec::new();
            for copy in copies.iter().filter(|copy| is_readable(copy, from, to)) {
                let part = copy.bytes.get(from..to)?;
                if !versions.contains(&part) {
                    versions.push(part);
                }
            }
            combinations = combinations.saturating_mul(versions.len() as u64);
            parts.push(versions);
        }
        (1..=MAX_COMBINATIONS).contains(&combinations).then_some(Self { part_bytes, versions: parts })
    }

    /// Counts through the combinations, one digit for each part that has several versions.
    fn search(&self, trial: &mut Trial<'_>) -> Option<Vec<u8>> {
        let mut candidate: Vec<u8> =
            self.versions.iter().filter_map(|v| v.first()).copied().flatten().copied().collect();
        let places = self.versions.iter().zip((0..).step_by(self.part_bytes));
        let places: Vec<(&[&[u8]], usize)> = places.filter(|(v, _)| v.len() > 1).map(|(v, at)| (&v[..], at)).collect();
        let mut digits = vec![0; places.len()];
        while !trial.takes(&candidate) {
            let mut carries = true;
            for ((versions, at), digit) in places.iter().zip(&mut digits) {
                *digit = (*digit + 1) % versions.len();
                let version = versions.get(*digit)?;
                candidate.get_mut(*at..at + version.len())?.copy_from_slice(version);
                if *digit > 0 {
                    carries = false;
                    break;
                }
            }
            if carries {
                return None;
            }
        }
        Some(candidate)
    }
}
