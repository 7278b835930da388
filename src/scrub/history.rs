//! What is remembered of a file system between runs: when each block group was last looked at, how far an unfinished
//! scrub has come, and which transaction the last finished one saw. Pure: somebody else stores it.

use super::commit::Commit;
use super::earlier::{Earlier, Part, PartDone};
use super::extent_sample::ExtentSample;
use super::lost::RebuiltBytes;
use super::outcome::{Status, Verdict};
use crate::units::{DeviceId, Generation, Logical};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, SystemTime};
use uuid::Uuid;

/// The last look at a block group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Visit {
    /// The generation of the file system at that time.
    pub generation: Generation,
    /// When it was last looked at as a whole; never, where only parts of it were.
    pub checked: Option<SystemTime>,
    /// Was it in the sittings of the scrub that is not finished?
    pub in_sitting: bool,
}

/// How much of a block group a run looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// All that is wanted of it by whoever asks for the oldest.
    Whole,
    /// One kind of blocks, one copy, or what was written since.
    Partial,
}

/// The last scrub that got to its end and left nothing out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    /// The commit that it saw.
    pub commit: Commit,
    /// The extents that there were.
    pub seen: ExtentSample,
    /// When it ended.
    pub at: SystemTime,
}

/// The memory of one file system.
#[derive(Clone, Debug)]
pub struct History {
    /// Which one.
    pub fsid: Uuid,
    /// By the start of the block group.
    pub block_groups: BTreeMap<Logical, Visit>,
    /// Sections that the unfinished scrub has seen of block groups that it has not seen as a whole.
    pub sections: BTreeMap<Logical, Generation>,
    /// The sum of the sittings of a scrub that is not finished.
    pub sitting: Option<Earlier>,
    /// The last one that is.
    pub finished: Option<Finished>,
    /// The last runs, the newest last.
    pub runs: VecDeque<PastRun>,
}

/// Runs that are remembered.
const MAX_RUNS: usize = 12;

/// What one run came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastRun {
    /// When it ended.
    pub at: SystemTime,
    /// How long it took, with the sittings before.
    pub duration: Duration,
    /// What it was told to look at, as typed; empty for everything.
    pub parts: String,
    /// Did it get to its end?
    pub status: Status,
    /// What it found.
    pub verdict: Verdict,
    /// The generation that it saw.
    pub generation: Generation,
    /// Bytes read.
    pub bytes: u64,
    /// Bad copies found.
    pub findings: u64,
    /// Devices that were missing.
    pub missing: Vec<DeviceId>,
}

impl History {
    /// Of a file system that was never looked at.
    pub fn new(fsid: Uuid) -> Self {
        let (block_groups, sections, runs) = (BTreeMap::new(), BTreeMap::new(), VecDeque::new());
        Self { fsid, block_groups, sections, sitting: None, finished: None, runs }
    }

    /// A scrub of these parts of `commit` begins anew: earlier sittings are forgotten.
    pub fn begin(&mut self, parts: String, commit: Commit, now: SystemTime) {
        self.block_groups.values_mut().for_each(|visit| visit.in_sitting = false);
        self.sections.clear();
        self.sitting = Some(Earlier {
            started: now,
            duration: Duration::ZERO,
            counters: BTreeMap::new(),
            findings: Vec::new(),
            findings_omitted: 0,
            bytes: 0,
            unsummed_bytes: 0,
            rebuilt: RebuiltBytes::default(),
            parts,
            superblocks_done: None,
            commit,
            seen: ExtentSample::default(),
        });
    }

    /// Block groups that the unfinished scrub has seen, and the generation at that time.
    pub fn done(&self) -> BTreeMap<Logical, Generation> {
        let seen = self.block_groups.iter().filter(|(_, visit)| visit.in_sitting);
        seen.map(|(start, visit)| (*start, visit.generation)).collect()
    }

    /// The generation that the earliest look of the unfinished scrub saw.
    pub fn earliest_look(&self) -> Option<Generation> {
        let supers = self.sitting.as_ref().and_then(|sitting| sitting.superblocks_done);
        self.done().into_values().chain(self.sections.values().copied()).chain(supers).min()
    }

    /// One more part is done; the sitting has lasted for `duration` in all. A [`Look::Partial`] does not make a block group
    /// younger.
    pub fn add(&mut self, done: &PartDone, look: Look, now: SystemTime, duration: Duration) {
        let Some(sitting) = &mut self.sitting else { return };
        match &done.part {
            Part::Superblocks => sitting.superblocks_done = Some(done.generation),
            Part::Section(start) => {
                self.sections.insert(*start, done.generation);
            }
            Part::BlockGroup(range) => {
                let before = self.block_groups.get(&range.start).and_then(|visit| visit.checked);
                let checked = if look == Look::Whole { Some(now) } else { before };
                let visit = Visit { generation: done.generation, checked, in_sitting: true };
                self.block_groups.insert(range.start, visit);
                self.sections.retain(|start, _| !range.contains(start));
            }
        }
        for (devid, counters) in &done.counters {
            sitting.counters.entry(*devid).or_default().add(counters);
        }
        sitting.findings.extend(done.findings.iter().cloned());
        sitting.findings_omitted += done.findings_omitted;
        sitting.seen.merge(&done.sample);
        sitting.bytes += done.bytes;
        sitting.unsummed_bytes += done.unsummed_bytes;
        sitting.rebuilt.add(&done.rebuilt);
        sitting.duration = duration;
    }

    /// The scrub has got to its end. With `everything`, nothing was left out, and later ones may build on it; `since_last`
    /// where what was old was left to the last one.
    pub fn finish(&mut self, now: SystemTime, everything: bool, since_last: bool) {
        self.block_groups.values_mut().for_each(|visit| visit.in_sitting = false);
        self.sections.clear();
        let Some(Earlier { commit, mut seen, .. }) = self.sitting.take().filter(|_| everything) else { return };
        if let Some(last) = self.finished.take().filter(|_| since_last) {
            seen.merge(&last.seen);
        }
        self.finished = Some(Finished { commit, seen, at: now });
    }

    /// A run has ended.
    pub fn add_run(&mut self, run: PastRun) {
        self.runs.push_back(run);
        let surplus = self.runs.len().saturating_sub(MAX_RUNS);
        self.runs.drain(..surplus);
    }

    /// The block groups that were not looked at for the longest time, never before ever, until they hold `percent` of all
    /// used bytes. `used` has the used bytes by the start of the group. Those that the unfinished scrub has seen were chosen
    /// by it, and are again.
    pub fn oldest(&self, used: &BTreeMap<Logical, u64>, percent: f64) -> BTreeSet<Logical> {
        let seen = |start| self.block_groups.get(start);
        let mut groups: Vec<(bool, Option<SystemTime>, Logical, u64)> = used
            .iter()
            .map(|(at, bytes)| (seen(at).is_none_or(|v| !v.in_sitting), seen(at).and_then(|v| v.checked), *at, *bytes))
            .collect();
        groups.sort_unstable();
        let wanted = used.values().sum::<u64>() as f64 * percent / 100.0;
        let mut sum = 0;
        let enough = |(_, _, _, bytes): &(bool, Option<SystemTime>, Logical, u64)| {
            let more = (sum as f64) < wanted;
            sum += bytes;
            more
        };
        groups.into_iter().take_while(enough).map(|(_, _, start, _)| start).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scrub::tally::Counters;

    fn seconds(s: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(s)
    }

    fn done(start: u64, generation: u64) -> PartDone {
        let counters = Counters { csum_errors: 2, ..Counters::default() };
        PartDone {
            part: Part::BlockGroup(Logical::new(start)..Logical::new(start + 1)),
            generation: Generation::new(generation),
            counters: BTreeMap::from([(DeviceId::new(1), counters)]),
            findings: Vec::new(),
            findings_omitted: 1,
            bytes: 100,
            unsummed_bytes: 0,
            sample: ExtentSample::default(),
            rebuilt: RebuiltBytes::default(),
        }
    }

    #[test]
    fn sittings_add_up() {
        let mut history = History::new(Uuid::nil());
        history.begin(String::new(), Commit::default(), seconds(1));
        history.add(&done(0, 7), Look::Whole, seconds(2), Duration::from_secs(1));
        history.add(&done(1 << 30, 7), Look::Whole, seconds(3), Duration::from_secs(2));
        let sitting = history.sitting.as_ref().unwrap();
        assert_eq!((sitting.bytes, sitting.findings_omitted), (200, 2));
        assert_eq!(sitting.counters[&DeviceId::new(1)].csum_errors, 4);
        assert_eq!(history.done().len(), 2);
    }

    #[test]
    fn a_finished_scrub_leaves_nothing_to_resume() {
        let mut history = History::new(Uuid::nil());
        history.begin(String::new(), Commit::default(), seconds(1));
        history.add(&done(0, 7), Look::Whole, seconds(2), Duration::ZERO);
        history.finish(seconds(3), true, false);
        assert!(history.sitting.is_none() && history.done().is_empty());
        assert_eq!(history.finished.map(|f| f.at), Some(seconds(3)));
    }

    #[test]
    fn a_sample_takes_the_oldest_first() {
        let used: BTreeMap<Logical, u64> = (0..4).map(|n| (Logical::new(n), 25)).collect();
        let mut history = History::new(Uuid::nil());
        history.begin(String::new(), Commit::default(), seconds(0));
        history.add(&done(0, 1), Look::Whole, seconds(9), Duration::ZERO);
        history.add(&done(1, 1), Look::Whole, seconds(5), Duration::ZERO);
        history.finish(seconds(9), false, false);
        let starts = |percent| history.oldest(&used, percent).iter().map(|at| at.raw()).collect::<Vec<_>>();
        assert_eq!(starts(50.0), [2, 3]);
        assert_eq!(starts(51.0), [1, 2, 3]);
        assert_eq!(starts(0.1), [2]);
        assert_eq!(starts(100.0), [0, 1, 2, 3]);
    }

    #[test]
    fn a_partial_look_makes_nothing_younger() {
        let used: BTreeMap<Logical, u64> = (0..2).map(|n| (Logical::new(n), 50)).collect();
        let mut history = History::new(Uuid::nil());
        history.begin(String::new(), Commit::default(), seconds(0));
        history.add(&done(0, 1), Look::Whole, seconds(5), Duration::ZERO);
        history.add(&done(1, 1), Look::Partial, seconds(6), Duration::ZERO);
        history.add(&done(0, 1), Look::Partial, seconds(9), Duration::ZERO);
        history.finish(seconds(9), false, false);
        assert_eq!(history.oldest(&used, 50.0), BTreeSet::from([Logical::new(1)]));
        assert_eq!(history.block_groups[&Logical::new(0)].checked, Some(seconds(5)));
    }

    #[test]
    fn a_sample_that_is_gone_on_with_stays_the_same() {
        let used: BTreeMap<Logical, u64> = (0..4).map(|n| (Logical::new(n), 25)).collect();
        let mut history = History::new(Uuid::nil());
        history.begin(String::new(), Commit::default(), seconds(0));
        let before = history.oldest(&used, 50.0);
        history.add(&done(0, 1), Look::Whole, seconds(9), Duration::ZERO);
        assert_eq!(history.oldest(&used, 50.0), before);
    }
}
