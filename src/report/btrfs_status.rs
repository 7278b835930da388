//! A result as btrfs-progs stores it in `/var/lib/btrfs/scrub.status.<fsid>`, so that `btrfs scrub status` shows it
//! (btrfs-progs `cmds/scrub.c`, file version 1): one line per device of `name:value` pairs.

use super::Report;
use crate::scrub::outcome::{ScrubOutcome, Status};
use crate::scrub::tally::Counters;
use std::io::{self, Write};
use std::time::SystemTime;
use uuid::Uuid;

/// The name of the file that btrfs-progs looks for.
pub fn btrfs_status_file_name(fsid: Uuid) -> String {
    format!("scrub.status.{fsid}")
}

/// Writes the content of the file.
pub fn write_btrfs_status(report: Report<'_>, out: &mut dyn Write) -> io::Result<()> {
    let outcome = report.outcome;
    writeln!(out, "scrub status:1")?;
    for device in outcome.devices.iter().filter(|device| device.tells_something()) {
        write!(out, "{}:{}", outcome.filesystem.fsid, device.devid)?;
        let is_whole = outcome.status == Status::Finished && outcome.selected.has_all_of(device.devid);
        counters(out, &device.counters, is_whole)?;
        times(out, outcome, is_whole)?;
    }
    Ok(())
}

/// What was looked at in part only is canceled: btrfs has no word for it.
///
/// `btrfs scrub resume` would go on at `last_physical` and take all before it for done; an interrupted run of ours, or one of a
/// part, may have left gaps there, so that it starts over.
fn counters(out: &mut dyn Write, counters: &Counters, is_whole: bool) -> io::Result<()> {
    let pairs = Counters::NAMES.into_iter().zip(counters.values()).take(Counters::KERNEL);
    for (name, value) in pairs.filter(|(name, _)| *name != "unverified_errors") {
        let starts_over = name == "last_physical" && !is_whole;
        write!(out, "|{name}:{}", if starts_over { 0 } else { value })?;
    }
    Ok(())
}

fn times(out: &mut dyn Write, outcome: &ScrubOutcome, is_whole: bool) -> io::Result<()> {
    let start = outcome.started.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    let finished = u8::from(is_whole);
    let (canceled, duration) = (1 - finished, outcome.duration.as_secs());
    writeln!(out, "|t_start:{start}|t_resumed:0|duration:{duration}|canceled:{canceled}|finished:{finished}")
}
