//! What there is per profile, and what the loss of devices would cost. Pure: chunks in, tables out; nothing is read.
//!
//! Whole block groups are counted, but for those that hold nothing: which extents lie in the lost part is a question to
//! the trees.

use super::chunk::Chunk;
use super::profile::{Layout, Profile};
use crate::units::DeviceId;
use std::collections::{BTreeMap, BTreeSet};

/// Combinations of lost devices tried for one number of losses; beyond it that number is not examined.
pub const MAX_COMBINATIONS: u64 = 4096;

/// What a block group holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// File data.
    Data,
    /// Tree blocks.
    Metadata,
    /// The chunk tree.
    System,
    /// Data and metadata together.
    Mixed,
}

impl Class {
    fn of(chunk: &Chunk) -> Self {
        match (chunk.holds_data(), chunk.is_system()) {
            (true, _) if chunk.holds_metadata() => Self::Mixed,
            (true, _) => Self::Data,
            (false, true) => Self::System,
            (false, false) => Self::Metadata,
        }
    }
}

/// All block groups of one class and profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupSum {
    /// What they hold.
    pub class: Class,
    /// How they are laid out.
    pub profile: Profile,
    /// How many.
    pub count: u64,
    /// Their size in logical bytes.
    pub bytes: u64,
    /// What they take on the devices.
    pub device_bytes: u64,
}

/// Sums the block groups by class and profile, in that order.
pub fn group_sums<'a>(chunks: impl IntoIterator<Item = &'a Chunk>) -> Vec<GroupSum> {
    let mut sums = BTreeMap::new();
    for chunk in chunks {
        let (class, profile) = (Class::of(chunk), chunk.profile());
        let empty = GroupSum { class, profile, count: 0, bytes: 0, device_bytes: 0 };
        let sum = sums.entry((class, profile)).or_insert(empty);
        sum.count += 1;
        sum.bytes = sum.bytes.saturating_add(chunk.len_bytes());
        let device_bytes = chunk.stripe_bytes().saturating_mul(chunk.stripes().len() as u64);
        sum.device_bytes = sum.device_bytes.saturating_add(device_bytes);
    }
    sums.into_values().collect()
}

/// What cannot be read without some devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// The devices lost, beside those that are missing already.
    pub devids: Vec<DeviceId>,
    /// Data block groups: bytes that no copy and no parity gives back (mixed block groups count here).
    pub data_bytes: u64,
    /// The same of metadata and system block groups.
    pub metadata_bytes: u64,
}

impl Loss {
    /// True where everything is still readable.
    pub fn is_harmless(&self) -> bool {
        self.data_bytes == 0 && self.metadata_bytes == 0
    }
}

/// All combinations of one number of losses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Round {
    /// Devices lost at once.
    pub count: usize,
    /// One per combination, in the order of devids.
    pub losses: Vec<Loss>,
}

impl Round {
    /// True where no combination costs anything.
    pub fn is_harmless(&self) -> bool {
        self.losses.iter().all(Loss::is_harmless)
    }
}

/// The chunks in the form that losses are computed from: alike ones summed up.
#[derive(Clone, Debug)]
pub struct Redundancy {
    shapes: BTreeMap<Shape, u64>,
    present: Vec<DeviceId>,
    missing: BTreeSet<DeviceId>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Shape {
    profile: Profile,
    holds_data: bool,
    devids: Vec<DeviceId>,
}

impl Redundancy {
    /// `present` and `missing` are all members. A chunk that holds nothing is best left out: nothing is lost with it.
    pub fn new<'a>(chunks: impl IntoIterator<Item = &'a Chunk>, present: &[DeviceId], missing: &[DeviceId]) -> Self {
        let mut shapes = BTreeMap::new();
        for chunk in chunks {
            let devids = chunk.stripes().iter().map(|stripe| stripe.devid).collect();
            let shape = Shape { profile: chunk.profile(), holds_data: chunk.holds_data(), devids };
            let bytes = shapes.entry(shape).or_insert(0_u64);
            *bytes = bytes.saturating_add(chunk.len_bytes());
        }
        let mut present = present.to_vec();
        present.sort_unstable();
        present.dedup();
        Self { shapes, present, missing: missing.iter().copied().collect() }
    }

    /// What is lost already, with the devices that are missing.
    pub fn now(&self) -> Loss {
        self.loss(&[])
    }

    /// The losses of one device, of two, ... up to `most`, ending with the first number that costs something.
    pub fn rounds(&self, most: usize) -> Vec<Round> {
        let mut rounds: Vec<Round> = Vec::new();
        for count in 1..=most {
            if rounds.last().is_some_and(|round| !round.is_harmless()) {
                break;
            }
            let Some(losses) = self.losses(count) else { break };
            rounds.push(Round { count, losses });
        }
        rounds
    }

    /// The cost of each combination of `count` more lost devices, in the order of devids. `None` where there are more
    /// than [`MAX_COMBINATIONS`], or fewer devices than that.
    pub fn losses(&self, count: usize) -> Option<Vec<Loss>> {
        let combinations = combinations_of(self.present.len() as u64, count as u64)?;
        if combinations > MAX_COMBINATIONS {
            return None;
        }
        let mut losses = Vec::with_capacity(combinations as usize);
        self.combine(count, 0, &mut Vec::with_capacity(count), &mut losses);
        Some(losses)
    }

    /// Recurses once per lost device.
    fn combine(&self, left: usize, from: usize, chosen: &mut Vec<DeviceId>, losses: &mut Vec<Loss>) {
        if left == 0 {
            losses.push(self.loss(chosen));
            return;
        }
        for (index, devid) in self.present.iter().enumerate().skip(from) {
            chosen.push(*devid);
            self.combine(left - 1, index + 1, chosen, losses);
            chosen.pop();
        }
    }

    fn loss(&self, chosen: &[DeviceId]) -> Loss {
        let mut loss = Loss { devids: chosen.to_vec(), data_bytes: 0, metadata_bytes: 0 };
        let is_lost = |devid: &DeviceId| chosen.contains(devid) || self.missing.contains(devid);
        for (shape, &bytes) in &self.shapes {
            let sum = if shape.holds_data { &mut loss.data_bytes } else { &mut loss.metadata_bytes };
            *sum = sum.saturating_add(shape.unreadable(bytes, is_lost));
        }
        loss
    }
}

impl Shape {
    /// How many of `bytes` in chunks of this shape have no source left.
    fn unreadable(&self, bytes: u64, is_lost: impl Fn(&DeviceId) -> bool) -> u64 {
        let row = self.profile.row();
        let columns = match row.layout {
            Layout::Mirrored => vec![self.devids.as_slice()],
            Layout::Striped => self.devids.chunks(usize::from(row.sub_stripes)).collect(),
            Layout::Parity => self.devids.chunks(1).collect(),
        };
        let lost = columns.iter().filter(|column| column.iter().all(&is_lost)).count();
        if lost <= usize::from(row.nparity) {
            return 0;
        }
        (u128::from(bytes) * lost as u128 / columns.len() as u128) as u64
    }
}

/// n over k; `None` where k is 0 or above n, or the result is beyond u64.
fn combinations_of(n: u64, k: u64) -> Option<u64> {
    if k == 0 || k > n {
        return None;
    }
    (0..k).try_fold(1_u64, |product, i| Some(product.checked_mul(n - i)? / (i + 1)))
}

#[cfg(test)]
mod tests {
    use super::super::testing::chunk;
    use super::*;

    fn devids(numbers: &[u64]) -> Vec<DeviceId> {
        numbers.iter().copied().map(DeviceId::new).collect()
    }

    /// Of a chunk of 12 rows on devices 1..=n: which share is lost with `lost` devices, worst case.
    fn worst(profile: Profile, n: usize, lost: usize) -> f64 {
        let chunk = chunk(profile, n, 12);
        let present: Vec<_> = chunk.stripes().iter().map(|stripe| stripe.devid).collect();
        let losses = Redundancy::new([&chunk], &present, &[]).losses(lost).expect("few combinations");
        losses.iter().map(|loss| loss.data_bytes).max().expect("some") as f64 / chunk.len_bytes() as f64
    }

    fn assert_share(have: f64, expect: f64) {
        assert!((have - expect).abs() < 1e-6, "have {have} expect {expect}");
    }

    #[test]
    fn each_profile_survives_as_many_losses_as_its_row_says_and_no_more() {
        for (profile, n) in [
            (Profile::Single, 1),
            (Profile::Dup, 2),
            (Profile::Raid0, 3),
            (Profile::Raid1, 2),
            (Profile::Raid1c3, 3),
            (Profile::Raid1c4, 4),
            (Profile::Raid10, 4),
            (Profile::Raid5, 3),
            (Profile::Raid6, 4),
        ] {
            let tolerated = usize::from(profile.row().tolerated_failures);
            for lost in 1..=tolerated {
                assert_share(worst(profile, n, lost), 0.0);
            }
            assert!(worst(profile, n, tolerated + 1) > 0.0, "{profile}");
        }
    }

    #[test]
    fn what_is_lost_is_in_proportion_to_the_lost_columns() {
        assert_share(worst(Profile::Raid0, 3, 1), 1.0 / 3.0);
        assert_share(worst(Profile::Raid10, 6, 2), 1.0 / 3.0);
        assert_share(worst(Profile::Raid5, 5, 2), 2.0 / 5.0);
        assert_share(worst(Profile::Raid6, 6, 3), 0.5);
        assert_share(worst(Profile::Raid1, 2, 2), 1.0);
    }

    #[test]
    fn raid10_bears_the_loss_of_one_half_of_each_pair() {
        let chunk = chunk(Profile::Raid10, 4, 3);
        let losses = Redundancy::new([&chunk], &devids(&[1, 2, 3, 4]), &[]).losses(2).expect("six");
        let harmful: Vec<_> = losses.into_iter().filter(|l| !l.is_harmless()).map(|l| l.devids).collect();
        assert_eq!(harmful, [devids(&[1, 2]), devids(&[3, 4])]);
    }

    #[test]
    fn rounds_end_with_the_first_that_costs_something() {
        let chunk = chunk(Profile::Raid6, 4, 1);
        let rounds = Redundancy::new([&chunk], &devids(&[1, 2, 3, 4]), &[]).rounds(4);
        let seen: Vec<_> = rounds.iter().map(|r| (r.count, r.losses.len(), r.is_harmless())).collect();
        assert_eq!(seen, [(1, 4, true), (2, 6, true), (3, 4, false)]);
    }

    #[test]
    fn a_member_that_is_missing_already_counts_as_lost() {
        let chunk = chunk(Profile::Raid1, 2, 1);
        let losses = Redundancy::new([&chunk], &devids(&[1]), &devids(&[2])).losses(1).expect("one");
        assert_eq!(losses[0].data_bytes, chunk.len_bytes());
    }

    #[test]
    fn too_many_combinations_are_not_tried() {
        let many: Vec<_> = (1..=100).map(DeviceId::new).collect();
        let redundancy = Redundancy::new([], &many, &[]);
        assert_eq!(redundancy.losses(1).map(|l| l.len()), Some(100));
        assert_eq!(redundancy.losses(3), None);
        assert_eq!(redundancy.losses(101), None);
        assert_eq!(combinations_of(100, 3), Some(161_700));
    }

    #[test]
    fn block_groups_are_summed_by_profile() {
        let chunks = [chunk(Profile::Raid1, 2, 2), chunk(Profile::Raid5, 3, 2), chunk(Profile::Raid1, 2, 2)];
        let sums = group_sums(&chunks);
        assert_eq!(sums.len(), 2);
        assert_eq!((sums[0].profile, sums[0].class, sums[0].count), (Profile::Raid1, Class::Data, 2));
        assert_eq!((sums[0].bytes, sums[0].device_bytes), (2 * chunks[0].len_bytes(), 4 * chunks[0].len_bytes()));
        assert_eq!(sums[1].device_bytes * 2, sums[1].bytes * 3);
    }
}
