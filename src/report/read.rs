//! Reads a report back, JSON or YAML: what an earlier run found, as the input of a repair. The report is only a list
//! of places to look at; whoever acts on it judges the bytes anew.

use super::words::Word;
use crate::scrub::finding::{Evidence, Finding};
use crate::scrub::outcome::Status;
use crate::units::{DeviceId, Generation, Logical, MirrorNum, Physical};
use serde::Deserialize;
use uuid::Uuid;

/// What a saved report says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedReport {
    /// The command that wrote it.
    pub command: String,
    /// The file system it is about.
    pub fsid: Uuid,
    /// The generation at that time.
    pub generation: Generation,
    /// Did the run get to its end?
    pub is_finished: bool,
    /// Its findings in their order; have and expect as they were said.
    pub findings: Vec<Finding>,
    /// Findings that the run counted but did not list.
    pub findings_omitted: u64,
}

/// Why bytes are not a report.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file is empty.
    #[error("the report is empty")]
    Empty,
    /// Not JSON, or JSON of another shape; the source names line and column.
    #[error("not a report in json")]
    Json(#[from] serde_json::Error),
    /// Not YAML, or YAML of another shape; the source names line and column.
    #[error("not a report in yaml")]
    Yaml(#[from] serde_yaml::Error),
    /// Another program's report.
    #[error("the report was written by {tool}, not by mirrortool")]
    Tool {
        /// The name it carries.
        tool: String,
    },
    /// The fsid is not one.
    #[error("the report's fsid is {fsid:?}, which is not a uuid")]
    Fsid {
        /// What stands there.
        fsid: String,
    },
    /// A word outside its set.
    #[error("finding {index}: unknown {field} {word:?}")]
    Word {
        /// The number of the finding, from 0.
        index: usize,
        /// The key.
        field: &'static str,
        /// What stands there.
        word: String,
    },
}

/// Reads a report as [`super::write_document`] wrote it. A document that starts with `{` is JSON, any other YAML.
pub fn read_report(bytes: &[u8]) -> Result<SavedReport, ReadError> {
    let saved: Saved = match bytes.iter().find(|byte| !byte.is_ascii_whitespace()) {
        None => return Err(ReadError::Empty),
        Some(b'{') => serde_json::from_slice(bytes)?,
        Some(_) => serde_yaml::from_slice(bytes)?,
    };
    if saved.tool.name != env!("CARGO_PKG_NAME") {
        return Err(ReadError::Tool { tool: saved.tool.name });
    }
    let Ok(fsid) = Uuid::parse_str(&saved.filesystem.fsid) else {
        return Err(ReadError::Fsid { fsid: saved.filesystem.fsid });
    };
    let findings = saved.findings.iter().enumerate().map(|(index, entry)| entry.finding(index));
    Ok(SavedReport {
        command: saved.command,
        fsid,
        generation: Generation::new(saved.filesystem.generation),
        is_finished: saved.status.as_deref() == Some(Status::Finished.word()),
        findings: findings.collect::<Result<_, _>>()?,
        findings_omitted: saved.findings_omitted,
    })
}

#[derive(Deserialize)]
struct Saved {
    tool: SavedTool,
    command: String,
    filesystem: SavedFilesystem,
    status: Option<String>,
    findings: Vec<SavedFinding>,
    #[serde(default)]
    findings_omitted: u64,
}

#[derive(Deserialize)]
struct SavedTool {
    name: String,
}

#[derive(Deserialize)]
struct SavedFilesystem {
    fsid: String,
    generation: u64,
}

#[derive(Deserialize)]
pub(super) struct SavedFinding {
    kind: String,
    problem: String,
    logical: u64,
    length: u32,
    mirror: u8,
    devid: u64,
    physical: u64,
    profile: String,
    owner: Option<u64>,
    have: Option<Box<str>>,
    expect: Option<Box<str>>,
    repair: String,
}

impl SavedFinding {
    pub(super) fn finding(&self, index: usize) -> Result<Finding, ReadError> {
        Ok(Finding {
            kind: known(index, "kind", &self.kind)?,
            problem: known(index, "problem", &self.problem)?,
            logical: Logical::new(self.logical),
            length: self.length,
            mirror: MirrorNum::new(self.mirror),
            devid: DeviceId::new(self.devid),
            physical: Physical::new(self.physical),
            profile: known(index, "profile", &self.profile)?,
            evidence: match &self.have {
                Some(have) => Evidence::Said { have: have.clone(), expect: self.expect.clone() },
                None => Evidence::None,
            },
            repair: known(index, "repair", &self.repair)?,
            owner: self.owner,
            below: Vec::new(),
        })
    }
}

fn known<T: Word>(index: usize, field: &'static str, word: &str) -> Result<T, ReadError> {
    T::from_word(word).ok_or_else(|| ReadError::Word { index, field, word: word.to_owned() })
}
