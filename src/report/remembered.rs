//! What a state file remembers of a commit, of the extents seen, and of past runs.

use super::words::Word;
use crate::checksum::Digest;
use crate::scrub::commit::{Commit, Replaced, RootMark};
use crate::scrub::extent_sample::ExtentSample;
use crate::scrub::history::PastRun;
use crate::scrub::outcome::{Status, Verdict};
use crate::units::{DeviceId, Generation, Logical, ObjectId};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt::Write as _;
use std::time::{Duration, SystemTime};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use uuid::Uuid;

/// Letters of a hash in the sample of extents.
const HASH_LETTERS: usize = 16;

/// A commit; empty where an earlier version did not write it.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct CommitEntry {
    roots: Vec<RootEntry>,
    has_more_roots: bool,
    devices: Vec<DeviceEntry>,
    replaced: Option<ReplacedEntry>,
}

#[derive(Serialize, Deserialize)]
struct RootEntry {
    tree: u64,
    bytenr: u64,
    generation: u64,
    checksum: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct DeviceEntry {
    devid: u64,
    uuid: Uuid,
}

#[derive(Serialize, Deserialize)]
struct ReplacedEntry {
    time_started: u64,
}

impl CommitEntry {
    pub(super) fn new(commit: &Commit) -> Self {
        let root = |mark: &RootMark| RootEntry {
            tree: mark.tree.raw(),
            bytenr: mark.bytenr.raw(),
            generation: mark.generation.raw(),
            checksum: mark.checksum.map(|checksum| checksum.to_string()),
        };
        let replaced = commit.replaced.map(|r| ReplacedEntry { time_started: r.time_started });
        Self {
            roots: commit.roots.iter().map(root).collect(),
            has_more_roots: commit.has_more_roots,
            devices: commit
                .devices
                .iter()
                .map(|(devid, uuid)| DeviceEntry { devid: devid.raw(), uuid: *uuid })
                .collect(),
            replaced,
        }
    }

    pub(super) fn commit(self, generation: Generation) -> Commit {
        let root = |root: RootEntry| RootMark {
            tree: ObjectId::new(root.tree),
            bytenr: Logical::new(root.bytenr),
            generation: Generation::new(root.generation),
            checksum: root.checksum.as_deref().and_then(digest),
        };
        let replaced = self.replaced.map(|r| Replaced { time_started: r.time_started });
        Commit {
            generation,
            roots: self.roots.into_iter().map(root).collect(),
            has_more_roots: self.has_more_roots,
            devices: self.devices.into_iter().map(|device| (DeviceId::new(device.devid), device.uuid)).collect(),
            replaced,
        }
    }
}

/// A checksum as it is shown: `0x` and two letters per byte.
fn digest(text: &str) -> Option<Digest> {
    let letters = text.strip_prefix("0x")?.as_bytes();
    let byte = |two: &[u8]| u8::from_str_radix(std::str::from_utf8(two).ok()?, 16).ok();
    let bytes: Option<Vec<u8>> = letters.chunks(2).map(byte).collect();
    bytes.filter(|bytes| !bytes.is_empty()).map(|bytes| Digest::new(&bytes))
}

/// The hashes of a sample, one after the other.
pub(super) fn sample_text(sample: &ExtentSample) -> String {
    sample.hashes().fold(String::new(), |mut text, hash| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{hash:016x}");
        text
    })
}

/// The sample that a text holds, as far as it makes sense.
pub(super) fn sample_of(text: &str) -> ExtentSample {
    let hash = |letters: &[u8]| u64::from_str_radix(std::str::from_utf8(letters).ok()?, 16).ok();
    ExtentSample::from_hashes(text.as_bytes().chunks_exact(HASH_LETTERS).filter_map(hash))
}

/// A run that has ended.
#[derive(Serialize, Deserialize)]
pub(super) struct RunEntry {
    ended: Time,
    duration_seconds: f64,
    parts: String,
    status: String,
    verdict: String,
    generation: u64,
    bytes_scrubbed: u64,
    findings: u64,
    missing_devids: Vec<u64>,
}

impl RunEntry {
    pub(super) fn new(run: &PastRun) -> Self {
        Self {
            ended: rfc3339(run.at),
            duration_seconds: run.duration.as_secs_f64(),
            parts: run.parts.clone(),
            status: run.status.word().to_owned(),
            verdict: run.verdict.word().to_owned(),
            generation: run.generation.raw(),
            bytes_scrubbed: run.bytes,
            findings: run.findings,
            missing_devids: run.missing.iter().map(|devid| devid.raw()).collect(),
        }
    }

    /// `None` for one whose words are not known here.
    pub(super) fn run(self) -> Option<PastRun> {
        Some(PastRun {
            at: self.ended.0,
            duration: Duration::try_from_secs_f64(self.duration_seconds).unwrap_or_default(),
            parts: self.parts,
            status: Status::from_word(&self.status)?,
            verdict: Verdict::from_word(&self.verdict)?,
            generation: Generation::new(self.generation),
            bytes: self.bytes_scrubbed,
            findings: self.findings,
            missing: self.missing_devids.into_iter().map(DeviceId::new).collect(),
        })
    }
}

/// A point in time, as RFC 3339.
pub(super) struct Time(pub(super) SystemTime);

pub(super) fn rfc3339(at: SystemTime) -> Time {
    Time(at)
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = OffsetDateTime::from(self.0).format(&Rfc3339);
        text.map_err(serde::ser::Error::custom)?.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let parsed = OffsetDateTime::parse(&text, &Rfc3339);
        parsed.map(|at| Self(at.into())).map_err(serde::de::Error::custom)
    }
}
