//! What an extraction tells: the manifest, one JSON object per line, and the sum of a run.

use super::document::{Encoding, FilesystemEntry, Tool, WriteError, encode};
use super::human;
use super::words::Word;
use crate::extract::{Entry, EntryKind, EntryState, ExtractOutcome, FileVersion, Fingerprint};
use crate::owners::printable;
use crate::scrub::outcome::Status;
use crate::units::{Generation, ObjectId};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::fmt::Write as _;
use std::io::{self, BufRead, Write};
use time::OffsetDateTime;
use time::UtcOffset;
use time::format_description::well_known::Rfc3339;
use uuid::Uuid;

/// Paths with trouble that a text lists.
const LISTED: usize = 20;

#[derive(Serialize, Deserialize)]
struct Line {
    path: String,
    /// The bytes of a path that is not UTF-8, in hex.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    path_hex: Option<String>,
    #[serde(rename = "type")]
    kind: String,
    size: u64,
    sha256: Option<String>,
    state: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    fsid: Uuid,
    subvolume: u64,
    inode: u64,
    generation: u64,
}

/// Adds the lines of some entries.
pub fn write_manifest_lines(entries: &[Entry], out: &mut dyn Write) -> Result<(), WriteError> {
    for entry in entries {
        serde_json::to_writer(&mut *out, &Line::of(entry))?;
        out.write_all(b"\n")?;
    }
    Ok(())
}

/// The fingerprints of what a manifest calls whole: of each path by its last line. A line that was cut off says nothing.
pub fn read_manifest(manifest: impl BufRead) -> io::Result<HashSet<Fingerprint>> {
    let mut whole = HashSet::new();
    for line in manifest.split(b'\n') {
        let Some(line) = serde_json::from_slice::<Line>(&line?).ok() else { continue };
        let Some(entry) = line.entry() else { continue };
        let fingerprint = entry.fingerprint();
        if entry.state == EntryState::Whole {
            whole.insert(fingerprint)
        } else {
            whole.remove(&fingerprint)
        };
    }
    Ok(whole)
}

impl Line {
    fn of(entry: &Entry) -> Self {
        let text = std::str::from_utf8(&entry.path).ok();
        let FileVersion { fsid, subvolume, inode, generation } = entry.version;
        Self {
            path: text.map_or_else(|| printable(&entry.path), ToOwned::to_owned),
            path_hex: text.is_none().then(|| hex(&entry.path)),
            kind: entry.kind.word().to_owned(),
            size: entry.size,
            sha256: entry.sha256.map(|sum| hex(&sum)),
            state: entry.state.word().to_owned(),
            reason: entry.trouble.map(|trouble| trouble.to_string()),
            fsid,
            subvolume: subvolume.raw(),
            inode: inode.raw(),
            generation: generation.raw(),
        }
    }

    fn entry(self) -> Option<Entry> {
        let path = match self.path_hex {
            Some(hex) => unhex(&hex)?,
            None => self.path.into_bytes(),
        };
        Some(Entry {
            path,
            kind: EntryKind::from_word(&self.kind)?,
            size: self.size,
            sha256: None,
            state: EntryState::from_word(&self.state)?,
            trouble: None,
            version: FileVersion {
                fsid: self.fsid,
                subvolume: ObjectId::new(self.subvolume),
                inode: ObjectId::new(self.inode),
                generation: Generation::new(self.generation),
            },
        })
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    digits.len().is_multiple_of(2).then(|| digits.chunks(2).map(pair).collect())?
}

#[derive(Serialize)]
struct Document<'a> {
    tool: Tool,
    command: &'static str,
    filesystem: FilesystemEntry<'a>,
    status: &'static str,
    verdict: &'static str,
    started: String,
    duration_seconds: f64,
    folder: String,
    files: Files,
    directories: u64,
    symlinks: u64,
    special_files: u64,
    hard_links: u64,
    damaged: u64,
    not_written: u64,
    bytes_written: u64,
    rate_bytes_per_second: f64,
    attributes_refused: u64,
    special_files_refused: u64,
    unmatched_patterns: u64,
    troubled: Vec<Troubled>,
    notes: &'a [String],
}

#[derive(Serialize)]
struct Files {
    whole: u64,
    unproved: u64,
    already_there: u64,
}

#[derive(Serialize)]
struct Troubled {
    path: String,
    reason: String,
}

/// Writes the sum of a run as a document.
pub fn write_extract_document(
    outcome: &ExtractOutcome,
    encoding: Encoding,
    out: &mut dyn Write,
) -> Result<(), WriteError> {
    let counts = outcome.counts;
    let troubled = outcome.troubled.iter();
    let document = Document {
        tool: Tool::THIS,
        command: "extract",
        filesystem: FilesystemEntry::new(&outcome.filesystem),
        status: outcome.status.word(),
        verdict: if outcome.is_all_there() { "whole" } else { "damaged" },
        started: OffsetDateTime::from(outcome.started).format(&Rfc3339).unwrap_or_default(),
        duration_seconds: outcome.duration.as_secs_f64(),
        folder: outcome.folder.display().to_string(),
        files: Files { whole: counts.whole, unproved: counts.unproved, already_there: counts.already_there },
        directories: counts.directories,
        symlinks: counts.symlinks,
        special_files: counts.special,
        hard_links: counts.hard_links,
        damaged: counts.damaged,
        not_written: counts.not_written,
        bytes_written: counts.bytes_written,
        rate_bytes_per_second: human::rate(counts.bytes_written, outcome.duration),
        attributes_refused: counts.attributes_refused,
        special_files_refused: counts.special_refused,
        unmatched_patterns: counts.unmatched_patterns,
        troubled: troubled.map(|(path, why)| Troubled { path: printable(path), reason: why.to_string() }).collect(),
        notes: &outcome.notes,
    };
    encode(&document, encoding, out)
}

/// Writes the sum of a run for people.
pub fn write_extract_text(outcome: &ExtractOutcome, utc_offset: UtcOffset, out: &mut dyn Write) -> io::Result<()> {
    let counts = outcome.counts;
    let status = match outcome.status {
        Status::Finished => "finished",
        Status::Interrupted => "interrupted",
    };
    let rate = human::rate(counts.bytes_written, outcome.duration);
    let mut field = |label: &str, value: String| writeln!(out, "{:<17} {value}", format!("{label}:"));
    field("UUID", outcome.filesystem.fsid.to_string())?;
    field("Extract started", human::date(outcome.started, utc_offset))?;
    field("Status", status.to_owned())?;
    field("Duration", human::clock(outcome.duration))?;
    field("Folder", outcome.folder.display().to_string())?;
    field("Written", format!("{} at {}", human::size(counts.bytes_written), human::per_second(rate)))?;
    let mut files = vec![human::count(counts.whole, "file") + " whole"];
    let mut others = vec![
        (counts.unproved, "without checksums"),
        (counts.damaged, "damaged"),
        (counts.not_written, "not written"),
        (counts.already_there, "there already"),
    ];
    others.retain(|(count, _)| *count > 0);
    files.extend(others.iter().map(|(count, what)| format!("{count} {what}")));
    field("Result", files.join(", "))?;
    for (path, why) in outcome.troubled.iter().take(LISTED) {
        writeln!(out, "{}: {why}", printable(path))?;
    }
    let more = (counts.damaged + counts.not_written).saturating_sub(outcome.troubled.len().min(LISTED) as u64);
    if more > 0 {
        writeln!(out, "and {more} more; the manifest lists what is damaged")?;
    }
    if counts.unmatched_patterns > 0 {
        writeln!(out, "{} matched nothing", human::count(counts.unmatched_patterns, "pattern"))?;
    }
    outcome.notes.iter().try_for_each(|note| writeln!(out, "note: {note}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(path: &[u8], state: EntryState) -> Entry {
        let version = FileVersion { inode: ObjectId::new(300), ..FileVersion::default() };
        let (kind, trouble) = (EntryKind::File, None);
        Entry { path: path.to_vec(), kind, size: 7, sha256: Some([0xAB; 32]), state, trouble, version }
    }

    #[test]
    fn what_a_manifest_calls_whole_is_known_again_by_its_last_line() {
        let (odd, plain, lost) = (&b"a\xff\n"[..], &b"dir/b"[..], &b"c"[..]);
        let entries = [
            entry(odd, EntryState::Whole),
            entry(plain, EntryState::Damaged),
            entry(lost, EntryState::Whole),
            entry(plain, EntryState::Whole),
            entry(lost, EntryState::Damaged),
        ];
        let mut manifest = Vec::new();
        write_manifest_lines(&entries, &mut manifest).unwrap();
        let first = String::from_utf8(manifest.clone()).unwrap();
        assert!(first.starts_with(r#"{"path":"a\\xff\\n","path_hex":"61ff0a","type":"file","size":7,"sha256":"abab"#));
        manifest.extend(br#"{"path":"cut of"#);
        let whole = read_manifest(&manifest[..]).unwrap();
        let known = |entry: &Entry| whole.contains(&entry.fingerprint());
        assert!(known(&entries[0]) && known(&entries[1]) && !known(&entries[2]));
        let mut newer = entries[0].clone();
        newer.version.generation = Generation::new(8);
        assert!(!known(&newer), "another version of the file");
    }
}
