//! The findings of a page as columns of JSON: each word and each file once, each finding a row of numbers. Addresses that a
//! script's numbers cannot hold are strings.

use super::super::owner::full_path;
use super::super::words::Word;
use crate::scrub::finding::Finding;
use crate::scrub::outcome::ScrubOutcome;
use serde::{Serialize, Serializer};
use std::collections::HashMap;
use std::io::{self, Write};

/// Files listed of one finding; the rest is counted.
const MAX_FILES: usize = 8;
/// Above this a number of JavaScript loses its last digit.
const MAX_SAFE: u64 = (1 << 53) - 1;

/// All findings of a report.
#[derive(Serialize)]
pub(super) struct Findings {
    /// The words that rows name by number.
    words: Vec<&'static str>,
    /// The paths that rows name by number.
    files: Vec<String>,
    rows: Vec<Row>,
}

/// kind, problem, prospects (words); logical, length, mirror, devid, physical; files; files not listed; have, expect.
#[derive(Serialize)]
struct Row(
    usize,
    usize,
    usize,
    Number,
    u32,
    u8,
    Number,
    Number,
    Vec<usize>,
    u64,
    #[serde(skip_serializing_if = "String::is_empty")] String,
);

struct Number(u64);

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0 > MAX_SAFE { serializer.collect_str(&self.0) } else { serializer.serialize_u64(self.0) }
    }
}

/// Values by the order in which they came, each once.
struct Numbered<T>(HashMap<T, usize>);

impl<T: Eq + std::hash::Hash> Numbered<T> {
    fn number(&mut self, value: T) -> usize {
        let next = self.0.len();
        *self.0.entry(value).or_insert(next)
    }

    fn into_values(self) -> Vec<T> {
        let mut values: Vec<(T, usize)> = self.0.into_iter().collect();
        values.sort_by_key(|(_, number)| *number);
        values.into_iter().map(|(value, _)| value).collect()
    }
}

impl Findings {
    pub(super) fn new(outcome: &ScrubOutcome) -> Self {
        let (mut words, mut files) = (Numbered(HashMap::new()), Numbered(HashMap::new()));
        let row = |finding: &Finding| {
            let owners = outcome.owners_of(finding);
            let mut named: Vec<usize> =
                owners.files.iter().take(MAX_FILES).map(|file| files.number(full_path(file))).collect();
            if let Some(holds) = &owners.holds {
                named.insert(0, files.number(holds.clone()));
            }
            let unlisted = (owners.files.len().saturating_sub(MAX_FILES) as u64).saturating_add(owners.omitted);
            Row(
                words.number(finding.kind.word()),
                words.number(finding.problem.word()),
                words.number(finding.repair.word()),
                Number(finding.logical.raw()),
                finding.length,
                finding.mirror.raw(),
                Number(finding.devid.raw()),
                Number(finding.physical.raw()),
                named,
                unlisted,
                evidence(finding),
            )
        };
        let rows = outcome.findings.iter().map(row).collect();
        Self { words: words.into_values(), files: files.into_values(), rows }
    }
}

fn evidence(finding: &Finding) -> String {
    match finding.evidence.strings() {
        (Some(have), Some(expect)) => format!("have {have} expect {expect}"),
        (Some(text), None) | (None, Some(text)) => text,
        (None, None) => String::new(),
    }
}

/// Writes JSON that can stand inside a script element: nothing in it can end the element.
pub(super) fn write_json(findings: &Findings, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer(Escaped(out), findings)?;
    Ok(())
}

/// Writes `<` as an escape of JSON, where it can stand only in a string.
struct Escaped<'a>(&'a mut dyn Write);

impl Write for Escaped<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for part in bytes.split_inclusive(|byte| *byte == b'<') {
            match part.split_last() {
                Some((b'<', before)) => {
                    self.0.write_all(before)?;
                    self.0.write_all(br"\u003c")?;
                }
                _ => self.0.write_all(part)?,
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}
