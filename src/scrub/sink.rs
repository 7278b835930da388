//! Where results gather: counters per device, findings up to a cap, links. Each block group has its own, so that an
//! unfinished one can be left out of a checkpoint; order of arrival does not change what comes out.

use super::accounts::Account;
use super::extent_sample::ExtentSample;
use super::finding::{Finding, FindingKind, Problem, RepairState};
use super::links::Links;
use super::lost::{RebuiltBytes, StripeBuilder};
use super::mend::Mends;
use super::tally::Counters;
use crate::format::PrivateMarks;
use crate::tree::LostSubtree;
use crate::units::{DeviceId, Logical};
use std::collections::{BTreeMap, BTreeSet};

/// Findings beyond the cap that are held before the last ones are given up, at least.
const MIN_SURPLUS: usize = 64;

/// The first findings in report order, and how many there are beyond.
#[derive(Clone, Debug, Default)]
pub(super) struct FindingList {
    /// As they came: up to a quarter more than the cap, so that a push costs next to nothing on average.
    findings: Vec<Finding>,
    cap: usize,
    omitted: u64,
}

impl FindingList {
    pub(super) fn new(cap: usize) -> Self {
        Self { cap, ..Self::default() }
    }

    pub(super) fn push(&mut self, finding: Finding) {
        self.findings.push(finding);
        if self.findings.len() >= self.cap.saturating_add(MIN_SURPLUS.max(self.cap / 4)) {
            self.give_up_last();
        }
    }

    /// Leaves the first findings, as many as the cap allows.
    fn give_up_last(&mut self) {
        if self.findings.len() > self.cap {
            self.findings.select_nth_unstable_by_key(self.cap, Finding::sort_key);
            self.omit((self.findings.len() - self.cap) as u64);
            self.findings.truncate(self.cap);
        }
    }

    /// Counts findings that nobody will list.
    pub(super) fn omit(&mut self, count: u64) {
        self.omitted = self.omitted.saturating_add(count);
    }

    /// Is one of the findings about a copy of the tree block at `at`?
    pub(super) fn has_block(&mut self, at: Logical) -> bool {
        self.give_up_last();
        let is_copy = |f: &Finding| f.kind == FindingKind::Metadata && f.problem != Problem::Contradiction;
        self.findings.iter().any(|f| is_copy(f) && f.logical == at)
    }

    /// The findings in report order, and the number of those left out.
    pub(super) fn to_sorted(&self) -> (Vec<Finding>, u64) {
        self.clone().into_sorted()
    }

    pub(super) fn append(&mut self, other: Self) {
        self.omit(other.omitted);
        other.findings.into_iter().for_each(|finding| self.push(finding));
    }

    /// The findings in report order, and the number of those left out.
    pub(super) fn into_sorted(mut self) -> (Vec<Finding>, u64) {
        self.give_up_last();
        self.findings.sort_unstable_by_key(Finding::sort_key);
        (self.findings, self.omitted)
    }
}

/// Extents without checksums that are remembered, to see whether they are compressed: each costs a look into two trees.
const MAX_UNSUMMED: usize = 1024;

/// What a part of the run has seen.
#[derive(Default)]
pub(super) struct Tally {
    pub(super) devices: BTreeMap<DeviceId, Counters>,
    pub(super) findings: FindingList,
    pub(super) links: Links,
    /// The worst prospect of any finding, listed or not.
    pub(super) worst: Option<RepairState>,
    /// By device: findings that nothing can be done about, listed or not, and rows of it that could not be judged.
    pub(super) left: BTreeMap<DeviceId, u64>,
    /// Keys of some tree are lost: what they tell of is not known.
    pub(super) has_lost: bool,
    /// Tree blocks whose right bytes were handed over.
    pub(super) mended_blocks: Vec<Logical>,
    /// Tree blocks that verify and are not what their parents describe.
    pub(super) broken_links: BTreeSet<Logical>,
    /// Checksums without an extent, in sectors.
    pub(super) orphan_sums: u64,
    /// What the extent tree has of each block group that was gone through.
    pub(super) accounts: Vec<Account>,
    /// Extent items that made no sense.
    pub(super) ignored_extents: u64,
    /// Data without checksums that was compared or read, in bytes of logical space.
    pub(super) unsummed_bytes: u64,
    /// Of these, bytes with one copy and no parity.
    pub(super) uncompared_bytes: u64,
    /// Extent items of tree blocks with a generation that has not been yet.
    pub(super) beyond_newest: u64,
    /// The first of the extents without any checksum.
    pub(super) unsummed: Vec<Logical>,
    /// Full stripes whose parity could not be judged, for what it should be is not known.
    pub(super) unjudged_parity: u64,
    /// What a vendor's kernel has written into right tree blocks.
    pub(super) marks: PrivateMarks,
    /// The extents that were gone through.
    pub(super) sample: ExtentSample,
    /// Extents that are old and were not seen by whoever has looked at the old ones.
    pub(super) unknown_extents: u64,
    /// Bytes read.
    pub(super) bytes: u64,
    /// Right bytes for bad ones; leaves the tally with its window.
    pub(super) mends: Mends,
    /// Subtrees of the extent and checksum trees that are lost.
    pub(super) lost: Vec<LostSubtree>,
    /// Stripes of a lost member; leave the tally with their window.
    pub(super) stripes: Vec<StripeBuilder>,
    /// What became of the lost member's bytes.
    pub(super) rebuilt: RebuiltBytes,
    /// What should be told, one line each.
    pub(super) notes: Vec<String>,
}

impl Tally {
    pub(super) fn new(cap: usize) -> Self {
        Self { findings: FindingList::new(cap), ..Self::default() }
    }

    pub(super) fn device(&mut self, devid: DeviceId) -> &mut Counters {
        self.devices.entry(devid).or_default()
    }

    /// Takes in a finding of `sectors` sectors: the prospects are counted here, the problem by whoever found it.
    pub(super) fn find(&mut self, finding: Finding, sectors: u64) {
        let counters = self.device(finding.devid);
        match finding.repair {
            RepairState::Possible => counters.correctable_errors += sectors,
            RepairState::Impossible => counters.uncorrectable_errors += sectors,
            RepairState::Done | RepairState::Failed | RepairState::Undecidable => {}
        }
        self.note_prospect(finding.devid, finding.repair, 1);
        self.findings.push(finding);
    }

    /// Remembers how bad it is, whatever is listed of it.
    pub(super) fn note_prospect(&mut self, devid: DeviceId, repair: RepairState, findings: u64) {
        self.worst = self.worst.max(Some(repair));
        if matches!(repair, RepairState::Impossible | RepairState::Undecidable | RepairState::Failed) {
            self.leave(devid, findings);
        }
    }

    /// Something on a device stays as it is.
    pub(super) fn leave(&mut self, devid: DeviceId, count: u64) {
        let left = self.left.entry(devid).or_default();
        *left = left.saturating_add(count);
    }

    /// Takes in a finding of an earlier sitting, whose counters are known.
    pub(super) fn recall(&mut self, finding: Finding) {
        self.note_prospect(finding.devid, finding.repair, 1);
        self.findings.push(finding);
    }

    /// Remembers an extent without checksums.
    pub(super) fn note_unsummed(&mut self, at: Logical) {
        if self.unsummed.len() < MAX_UNSUMMED {
            self.unsummed.push(at);
        }
    }

    pub(super) fn append(&mut self, other: Self) {
        for (devid, counters) in &other.devices {
            self.device(*devid).add(counters);
        }
        self.findings.append(other.findings);
        self.links.append(other.links);
        self.worst = self.worst.max(other.worst);
        for (devid, count) in other.left {
            self.leave(devid, count);
        }
        self.has_lost |= other.has_lost;
        self.mended_blocks.extend(other.mended_blocks);
        self.broken_links.extend(other.broken_links);
        self.orphan_sums += other.orphan_sums;
        self.accounts.extend(other.accounts);
        self.ignored_extents += other.ignored_extents;
        self.unsummed_bytes += other.unsummed_bytes;
        self.uncompared_bytes += other.uncompared_bytes;
        self.beyond_newest += other.beyond_newest;
        other.unsummed.into_iter().for_each(|at| self.note_unsummed(at));
        self.unjudged_parity += other.unjudged_parity;
        self.marks.append(&other.marks);
        self.sample.merge(&other.sample);
        self.unknown_extents += other.unknown_extents;
        self.bytes += other.bytes;
        self.lost.extend(other.lost);
        self.rebuilt.add(&other.rebuilt);
        self.notes.extend(other.notes);
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::{Evidence, FindingKind, Problem};
    use super::*;
    use crate::units::{Logical, MirrorNum, Physical};
    use crate::volume::Profile;

    fn finding(logical: u64) -> Finding {
        Finding {
            kind: FindingKind::Data,
            problem: Problem::Checksum,
            logical: Logical::new(logical),
            length: 4096,
            mirror: MirrorNum::new(1),
            devid: DeviceId::new(1),
            physical: Physical::new(logical),
            profile: Profile::Raid1,
            evidence: Evidence::None,
            repair: RepairState::Possible,
            owner: None,
            below: Vec::new(),
        }
    }

    #[test]
    fn the_first_findings_stay_whatever_the_order_of_arrival() {
        let kept = |order: &[u64]| {
            let mut list = FindingList::new(2);
            for at in order {
                list.push(finding(*at));
            }
            let (findings, omitted) = list.into_sorted();
            (findings.iter().map(|f| f.logical.raw()).collect::<Vec<_>>(), omitted)
        };
        assert_eq!(kept(&[4096, 8192, 12288]), (vec![4096, 8192], 1));
        assert_eq!(kept(&[12288, 4096, 8192]), kept(&[4096, 8192, 12288]));
        let many: Vec<u64> = (1..=1000).rev().map(|n| n * 4096).collect();
        assert_eq!(kept(&many), (vec![4096, 8192], 998));
    }

    #[test]
    fn prospects_are_counted_in_sectors() {
        let mut tally = Tally::new(10);
        tally.find(finding(4096), 4);
        assert_eq!(tally.device(DeviceId::new(1)).correctable_errors, 4);
        assert_eq!(tally.worst, Some(RepairState::Possible));
    }
}
