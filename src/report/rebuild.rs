//! What became of a lost member, as text, as a part of the document, and as metrics.

use super::human;
use crate::rebuild::Rebuilt;
use crate::units::DeviceId;
use serde::Serialize;
use std::io::{self, Write};
use std::path::Path;

/// The part of a report that only a rebuild has.
#[derive(Clone, Copy, Debug)]
pub struct RebuildReport<'a> {
    /// The member.
    pub devid: DeviceId,
    /// The new device.
    pub path: &'a Path,
    /// What became of its bytes.
    pub rebuilt: &'a Rebuilt,
    /// Whether something was written.
    pub is_dry_run: bool,
}

/// The lines under the summary of a text.
pub(super) fn write_text(report: &RebuildReport<'_>, out: &mut dyn Write) -> io::Result<()> {
    let RebuildReport { devid, path, rebuilt, is_dry_run } = *report;
    let bytes = rebuilt.bytes;
    let label = match (is_dry_run, rebuilt.is_member) {
        (true, _) => "Would rebuild:",
        (false, true) => "Rebuilt:",
        (false, false) => "Rebuilt so far:",
    };
    write!(out, "{label:<17} devid {devid}, {} from copies", human::size(bytes.from_copies))?;
    if bytes.from_parity > 0 {
        write!(out, ", {} from parity", human::size(bytes.from_parity))?;
    }
    if bytes.unproved > 0 {
        write!(out, ", {} of it without checksum (unproved)", human::size(bytes.unproved))?;
    }
    writeln!(out, "; {} lost", human::size(bytes.lost))?;
    let state = match (is_dry_run, rebuilt.is_member) {
        (true, _) => "nothing was written",
        (false, true) => "read back, a member now",
        (false, false) => "no member yet",
    };
    writeln!(out, "{:<17} {}, {state}", "New device:", path.display())
}

#[derive(Serialize)]
pub(super) struct RebuiltEntry {
    devid: u64,
    path: String,
    dry_run: bool,
    is_member: bool,
    bytes_from_copies: u64,
    bytes_from_parity: u64,
    bytes_unproved: u64,
    bytes_lost: u64,
}

impl RebuiltEntry {
    pub(super) fn new(report: &RebuildReport<'_>) -> Self {
        let RebuildReport { devid, path, rebuilt, is_dry_run } = *report;
        let bytes = rebuilt.bytes;
        Self {
            devid: devid.raw(),
            path: path.display().to_string(),
            dry_run: is_dry_run,
            is_member: rebuilt.is_member,
            bytes_from_copies: bytes.from_copies,
            bytes_from_parity: bytes.from_parity,
            bytes_unproved: bytes.unproved,
            bytes_lost: bytes.lost,
        }
    }
}

/// Name, help and value of each metric.
pub(super) fn metrics(report: &RebuildReport<'_>) -> [(&'static str, &'static str, u64); 5] {
    let bytes = report.rebuilt.bytes;
    [
        (
            "rebuilt_from_copies_bytes",
            "Allocated bytes of the lost member that were taken from copies.",
            bytes.from_copies,
        ),
        (
            "rebuilt_from_parity_bytes",
            "Allocated bytes of the lost member that were made by parity.",
            bytes.from_parity,
        ),
        ("rebuilt_unproved_bytes", "Rebuilt bytes that no checksum proves.", bytes.unproved),
        ("rebuilt_lost_bytes", "Allocated bytes of the lost member that nobody has.", bytes.lost),
        ("rebuilt_is_member", "1 where the new device is a member now.", u64::from(report.rebuilt.is_member)),
    ]
}
