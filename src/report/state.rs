//! The memory of a file system as a JSON file: written after every few block groups, read by the next run.

use super::document::{CountersEntry, FindingEntry, Tool};
use super::read::SavedFinding;
use super::remembered::{CommitEntry, RunEntry, Time, rfc3339, sample_of, sample_text};
use crate::owners::Owners;
use crate::scrub::earlier::Earlier;
use crate::scrub::history::{Finished, History, Visit};
use crate::scrub::lost::RebuiltBytes;
use crate::scrub::tally::Counters;
use crate::units::{DeviceId, Generation, Logical};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;
use uuid::Uuid;

/// The layout of the file; a file of a later one is not read. Files of version 1 do not say what was there, so that
/// nothing can be built on what they remember but when each block group was looked at.
const VERSION: u32 = 2;

/// Why bytes are not a state file.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// Not JSON, or JSON of another shape; the source names line and column.
    #[error("not a state file")]
    Json(#[from] serde_json::Error),
    /// Written by another version.
    #[error("state file of version {have}, this program reads up to version {VERSION}")]
    Version {
        /// Its version.
        have: u32,
    },
    /// A finding that makes no sense.
    #[error(transparent)]
    Finding(#[from] super::ReadError),
}

/// The file's content.
pub fn write_state(history: &History) -> Result<Vec<u8>, serde_json::Error> {
    let mut bytes = serde_json::to_vec_pretty(&State::new(history))?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// Reads what [`write_state`] wrote.
pub fn read_state(bytes: &[u8]) -> Result<History, StateError> {
    history_of(bytes)
}

pub(super) fn history_of(bytes: &[u8]) -> Result<History, StateError> {
    let version: Version = serde_json::from_slice(bytes)?;
    if !(1..=VERSION).contains(&version.version) {
        return Err(StateError::Version { have: version.version });
    }
    let state: SavedState = serde_json::from_slice(bytes)?;
    let visit = |group: Group| {
        let generation = Generation::new(group.generation);
        (
            Logical::new(group.start),
            Visit { generation, checked: group.checked.map(|time| time.0), in_sitting: group.in_sitting },
        )
    };
    Ok(History {
        fsid: state.fsid,
        block_groups: state.block_groups.into_iter().map(visit).collect(),
        sections: state.sections.iter().map(|s| (Logical::new(s.start), Generation::new(s.generation))).collect(),
        sitting: state.sitting.map(SavedSitting::earlier).transpose()?,
        finished: state.finished.map(FinishedEntry::finished),
        runs: state.runs.into_iter().filter_map(RunEntry::run).collect(),
    })
}

#[derive(Deserialize)]
struct Version {
    version: u32,
}

#[derive(Serialize)]
pub(super) struct State {
    tool: Tool,
    version: u32,
    fsid: Uuid,
    finished: Option<FinishedEntry>,
    sitting: Option<Sitting>,
    block_groups: Vec<Group>,
    sections: Vec<Section>,
    runs: Vec<RunEntry>,
}

impl State {
    pub(super) fn new(history: &History) -> Self {
        Self {
            tool: Tool::THIS,
            version: VERSION,
            fsid: history.fsid,
            finished: history.finished.as_ref().map(FinishedEntry::new),
            sitting: history.sitting.as_ref().map(Sitting::new),
            block_groups: history.block_groups.iter().map(|(start, visit)| Group::new(*start, visit)).collect(),
            sections: history.sections.iter().map(|(s, g)| Section { start: s.raw(), generation: g.raw() }).collect(),
            runs: history.runs.iter().map(RunEntry::new).collect(),
        }
    }
}

#[derive(Deserialize)]
struct SavedState {
    fsid: Uuid,
    finished: Option<FinishedEntry>,
    sitting: Option<SavedSitting>,
    block_groups: Vec<Group>,
    sections: Vec<Section>,
    #[serde(default)]
    runs: Vec<RunEntry>,
}

#[derive(Serialize, Deserialize)]
struct FinishedEntry {
    generation: u64,
    at: Time,
    #[serde(default)]
    commit: CommitEntry,
    #[serde(default)]
    extents: String,
}

impl FinishedEntry {
    fn new(finished: &Finished) -> Self {
        Self {
            generation: finished.commit.generation.raw(),
            at: rfc3339(finished.at),
            commit: CommitEntry::new(&finished.commit),
            extents: sample_text(&finished.seen),
        }
    }

    fn finished(self) -> Finished {
        let commit = self.commit.commit(Generation::new(self.generation));
        Finished { commit, seen: sample_of(&self.extents), at: self.at.0 }
    }
}

#[derive(Serialize, Deserialize)]
struct Group {
    start: u64,
    generation: u64,
    checked: Option<Time>,
    in_sitting: bool,
}

/// A section that is done, of a block group that is not.
#[derive(Serialize, Deserialize)]
struct Section {
    start: u64,
    generation: u64,
}

impl Group {
    fn new(start: Logical, visit: &Visit) -> Self {
        let (start, generation) = (start.raw(), visit.generation.raw());
        Self { start, generation, checked: visit.checked.map(rfc3339), in_sitting: visit.in_sitting }
    }
}

/// The sums of an unfinished scrub.
#[derive(Serialize)]
struct Sitting {
    started: Time,
    duration_seconds: f64,
    parts: String,
    superblocks_generation: Option<u64>,
    bytes_scrubbed: u64,
    unsummed_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    rebuilt: Option<RebuiltEntry>,
    devices: Vec<Device>,
    findings: Vec<FindingEntry>,
    findings_omitted: u64,
    generation: u64,
    commit: CommitEntry,
    extents: String,
}

/// What became of the bytes of a lost member.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
struct RebuiltEntry {
    from_copies: u64,
    from_parity: u64,
    unproved: u64,
    lost: u64,
}

impl From<RebuiltBytes> for RebuiltEntry {
    fn from(RebuiltBytes { from_copies, from_parity, unproved, lost }: RebuiltBytes) -> Self {
        Self { from_copies, from_parity, unproved, lost }
    }
}

impl From<RebuiltEntry> for RebuiltBytes {
    fn from(RebuiltEntry { from_copies, from_parity, unproved, lost }: RebuiltEntry) -> Self {
        Self { from_copies, from_parity, unproved, lost }
    }
}

#[derive(Serialize)]
struct Device {
    devid: u64,
    counters: CountersEntry,
}

impl Sitting {
    fn new(earlier: &Earlier) -> Self {
        let device = |(devid, counters): (&DeviceId, &Counters)| Device {
            devid: devid.raw(),
            counters: CountersEntry(*counters),
        };
        Self {
            started: rfc3339(earlier.started),
            duration_seconds: earlier.duration.as_secs_f64(),
            parts: earlier.parts.clone(),
            superblocks_generation: earlier.superblocks_done.map(Generation::raw),
            bytes_scrubbed: earlier.bytes,
            unsummed_bytes: earlier.unsummed_bytes,
            rebuilt: (earlier.rebuilt != RebuiltBytes::default()).then(|| earlier.rebuilt.into()),
            devices: earlier.counters.iter().map(device).collect(),
            findings: earlier.findings.iter().map(|finding| FindingEntry::new(finding, Owners::default())).collect(),
            findings_omitted: earlier.findings_omitted,
            generation: earlier.commit.generation.raw(),
            commit: CommitEntry::new(&earlier.commit),
            extents: sample_text(&earlier.seen),
        }
    }
}

#[derive(Deserialize)]
struct SavedSitting {
    started: Time,
    duration_seconds: f64,
    #[serde(default)]
    parts: String,
    superblocks_generation: Option<u64>,
    bytes_scrubbed: u64,
    unsummed_bytes: u64,
    rebuilt: Option<RebuiltEntry>,
    devices: Vec<SavedDevice>,
    findings: Vec<SavedFinding>,
    findings_omitted: u64,
    #[serde(default)]
    generation: u64,
    #[serde(default)]
    commit: CommitEntry,
    #[serde(default)]
    extents: String,
}

#[derive(Deserialize)]
struct SavedDevice {
    devid: u64,
    counters: BTreeMap<String, u64>,
}

impl SavedSitting {
    fn earlier(self) -> Result<Earlier, StateError> {
        let device = |saved: SavedDevice| {
            let value = |name: &str| saved.counters.get(name).copied().unwrap_or(0);
            (DeviceId::new(saved.devid), Counters::from_values(Counters::NAMES.map(value)))
        };
        let findings = self.findings.iter().enumerate().map(|(index, finding)| finding.finding(index));
        Ok(Earlier {
            started: self.started.0,
            duration: Duration::try_from_secs_f64(self.duration_seconds).unwrap_or_default(),
            counters: self.devices.into_iter().map(device).collect(),
            findings: findings.collect::<Result<_, _>>()?,
            findings_omitted: self.findings_omitted,
            bytes: self.bytes_scrubbed,
            unsummed_bytes: self.unsummed_bytes,
            rebuilt: self.rebuilt.unwrap_or_default().into(),
            parts: self.parts,
            superblocks_done: self.superblocks_generation.map(Generation::new),
            commit: self.commit.commit(Generation::new(self.generation)),
            seen: sample_of(&self.extents),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::Digest;
    use crate::scrub::commit::{Commit, Replaced, RootMark};
    use crate::scrub::earlier::{Part, PartDone};
    use crate::scrub::extent_sample::ExtentSample;
    use crate::scrub::history::{Look, PastRun};
    use crate::scrub::outcome::{Status, Verdict};
    use crate::units::ObjectId;
    use std::time::SystemTime;

    fn commit() -> Commit {
        let root = |tree: u64, checksum| RootMark {
            tree: ObjectId::new(tree),
            bytenr: Logical::new(30_408_704),
            generation: Generation::new(9),
            checksum,
        };
        Commit {
            generation: Generation::new(9),
            roots: vec![root(1, Some(Digest::new(&[0xab, 0, 0xcd, 1]))), root(u64::MAX - 8, None)],
            has_more_roots: true,
            devices: BTreeMap::from([(DeviceId::new(2), Uuid::from_u128(5))]),
            replaced: Some(Replaced { time_started: 1_700_000_000 }),
        }
    }

    fn history() -> History {
        let mut history = History::new(Uuid::from_u128(7));
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        history.begin("--only data".to_owned(), commit(), now);
        let done = PartDone {
            part: Part::BlockGroup(Logical::new(4096)..Logical::new(8192)),
            generation: Generation::new(9),
            counters: BTreeMap::from([(DeviceId::new(2), Counters { csum_errors: 3, ..Counters::default() })]),
            findings: vec![super::super::tests::bad_sector(1, crate::scrub::finding::RepairState::Possible)],
            findings_omitted: 0,
            bytes: 8192,
            unsummed_bytes: 4096,
            sample: ExtentSample::from_hashes([7, u64::MAX]),
            rebuilt: RebuiltBytes { from_copies: 4096, from_parity: 8192, unproved: 4096, lost: 1 },
        };
        history.add(&done, Look::Whole, now, Duration::from_secs(5));
        history
    }

    #[test]
    fn what_is_written_is_read_back() {
        let before = history();
        let after = read_state(&write_state(&before).unwrap()).unwrap();
        assert_eq!(after.block_groups, before.block_groups);
        let (before, after) = (before.sitting.unwrap(), after.sitting.unwrap());
        assert_eq!(after.counters, before.counters);
        assert_eq!((after.started, after.duration, after.bytes), (before.started, before.duration, before.bytes));
        assert_eq!((&after.parts, after.rebuilt), (&before.parts, before.rebuilt));
        assert_eq!((after.commit, after.seen), (before.commit, before.seen));
        assert_eq!(after.findings.len(), 1);
        assert_eq!(after.findings[0].sort_key(), before.findings[0].sort_key());
    }

    #[test]
    fn a_finished_scrub_and_past_runs_are_read_back() {
        let (mut before, at) = (history(), SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_009));
        before.finish(at, true, false);
        before.add_run(PastRun {
            at,
            duration: Duration::from_secs(9),
            parts: "--only data".to_owned(),
            status: Status::Finished,
            verdict: Verdict::Correctable,
            generation: Generation::new(9),
            bytes: 8192,
            findings: 3,
            missing: vec![DeviceId::new(4)],
        });
        let after = read_state(&write_state(&before).unwrap()).unwrap();
        assert_eq!((after.finished, after.runs), (before.finished, before.runs));
    }

    #[test]
    fn a_file_of_the_first_version_is_read_and_has_no_roots_to_build_on() {
        let now = "2026-11-30T00:00:00Z";
        let text = format!(
            r#"{{"version": 1, "fsid": "{}", "finished": {{"generation": 7, "at": "{now}"}}, "sitting": {{"started": "{now}",
            "duration_seconds": 2.0, "parts": "", "superblocks_generation": 7, "bytes_scrubbed": 1, "unsummed_bytes": 0,
            "devices": [], "findings": [], "findings_omitted": 0}}, "block_groups": [{{"start": 4096, "generation": 7,
            "checked": "{now}", "in_sitting": true}}], "sections": []}}"#,
            Uuid::from_u128(7)
        );
        let history = read_state(text.as_bytes()).unwrap();
        let finished = history.finished.unwrap();
        assert_eq!((finished.commit.generation, finished.commit.roots.len()), (Generation::new(7), 0));
        assert_eq!(history.sitting.unwrap().commit.roots, []);
        assert!(history.block_groups[&Logical::new(4096)].checked.is_some());
    }

    #[test]
    fn a_file_of_a_later_version_is_refused_by_its_number() {
        let bytes = write_state(&history()).unwrap();
        let text = String::from_utf8(bytes).unwrap().replace("\"version\": 2", "\"version\": 3");
        let error = read_state(text.as_bytes()).unwrap_err();
        assert_eq!(error.to_string(), "state file of version 3, this program reads up to version 2");
        assert!(matches!(read_state(b"hello"), Err(StateError::Json(_))));
    }
}
