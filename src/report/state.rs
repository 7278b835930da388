//! The memory of a file system as a JSON file: written after every few block groups, read by the next run.

use super::document::{CountersEntry, FindingEntry, Tool};
use super::read::SavedFinding;
use crate::owners::Owners;
use crate::scrub::earlier::Earlier;
use crate::scrub::history::{Finished, History, Visit};
use crate::scrub::lost::RebuiltBytes;
use crate::scrub::tally::Counters;
use crate::units::{DeviceId, Generation, Logical};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};
use time::OffsetDateTime;
use uuid::Uuid;

/// The layout of the file; a file of another is not read.
const VERSION: u32 = 1;

/// Why bytes are not a state file.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// Not JSON, or JSON of another shape; the source names line and column.
    #[error("not a state file")]
    Json(#[from] serde_json::Error),
    /// Written by another version.
    #[error("state file of version {have}, this program reads version {VERSION}")]
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
    if version.version != VERSION {
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
        finished: state.finished.map(|f| Finished { generation: Generation::new(f.generation), at: f.at.0 }),
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
}

impl State {
    pub(super) fn new(history: &History) -> Self {
        Self {
            tool: Tool::THIS,
            version: VERSION,
            fsid: history.fsid,
            finished: history.finished.map(|f| FinishedEntry { generation: f.generation.raw(), at: rfc3339(f.at) }),
            sitting: history.sitting.as_ref().map(Sitting::new),
            block_groups: history.block_groups.iter().map(|(start, visit)| Group::new(*start, visit)).collect(),
            sections: history.sections.iter().map(|(s, g)| Section { start: s.raw(), generation: g.raw() }).collect(),
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
}

#[derive(Serialize, Deserialize)]
struct FinishedEntry {
    generation: u64,
    at: Time,
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
        })
    }
}

/// A point in time, as RFC 3339.
struct Time(SystemTime);

fn rfc3339(at: SystemTime) -> Time {
    Time(at)
}

impl Serialize for Time {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = OffsetDateTime::from(self.0).format(&time::format_description::well_known::Rfc3339);
        text.map_err(serde::ser::Error::custom)?.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let parsed = OffsetDateTime::parse(&text, &time::format_description::well_known::Rfc3339);
        parsed.map(|at| Self(at.into())).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scrub::earlier::{Part, PartDone};
    use crate::scrub::history::Look;

    fn history() -> History {
        let mut history = History::new(Uuid::from_u128(7));
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        history.begin("--only data".to_owned(), now);
        let done = PartDone {
            part: Part::BlockGroup(Logical::new(4096)..Logical::new(8192)),
            generation: Generation::new(9),
            counters: BTreeMap::from([(DeviceId::new(2), Counters { csum_errors: 3, ..Counters::default() })]),
            findings: vec![super::super::tests::bad_sector(1, crate::scrub::finding::RepairState::Possible)],
            findings_omitted: 0,
            bytes: 8192,
            unsummed_bytes: 4096,
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
        assert_eq!(after.findings.len(), 1);
        assert_eq!(after.findings[0].sort_key(), before.findings[0].sort_key());
    }

    #[test]
    fn a_file_of_another_version_is_refused_by_its_number() {
        let bytes = write_state(&history()).unwrap();
        let text = String::from_utf8(bytes).unwrap().replace("\"version\": 1", "\"version\": 2");
        let error = read_state(text.as_bytes()).unwrap_err();
        assert_eq!(error.to_string(), "state file of version 2, this program reads version 1");
        assert!(matches!(read_state(b"hello"), Err(StateError::Json(_))));
    }
}
