//! One scrub from start to outcome.

use super::engine::Engine;
use super::fallback::log_blocks;
use super::finding::RepairState;
use super::mend::Mending;
use super::outcome::{DeviceOutcome, FilesystemInfo, ScrubOutcome, Status, Verdict};
use super::progress::Progress;
use super::relink::report_broken_links;
use super::sink::Tally;
use super::supers::scrub_supers;
use super::tally::Counters;
use super::{ScrubError, ScrubOptions};
use crate::filesystem::Filesystem;
use crate::owners::OwnerTable;
use crate::units::DeviceId;
use crate::volume::Chunk;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Instant, SystemTime};

/// Scrubs `fs`: super blocks, then all block groups. Blocks until done or cancelled.
pub fn scrub(fs: &Filesystem, options: &ScrubOptions, progress: &Progress) -> Result<ScrubOutcome, ScrubError> {
    run(fs, options, progress, None)
}

/// Scrubs what `mending` names, and hands over the right bytes of all that is bad and has them. Super blocks are judged,
/// but their right bytes are left to the caller.
pub fn scrub_and_mend(
    fs: &Filesystem,
    options: &ScrubOptions,
    progress: &Progress,
    mending: &Mending<'_>,
) -> Result<ScrubOutcome, ScrubError> {
    run(fs, options, progress, Some(mending))
}

fn run(
    fs: &Filesystem,
    options: &ScrubOptions,
    progress: &Progress,
    mending: Option<&Mending<'_>>,
) -> Result<ScrubOutcome, ScrubError> {
    let (started, clock) = (SystemTime::now(), Instant::now());
    let logs = log_blocks(fs);
    let has_log = !logs.is_empty();
    let expected = expected_bytes(fs);
    let expected_sum = expected.values().fold(0, |sum: u64, bytes| sum.saturating_add(*bytes));
    progress.bytes_total.store(expected_sum, Ordering::Relaxed);
    let engine = Engine::new(fs, options, progress, logs, mending)?;
    let places = mending.and_then(|m| m.places);
    let wanted = |chunk: &&Chunk| places.is_none_or(|places| places.has_any_of(chunk.start()));
    let chunks: Vec<Arc<Chunk>> = fs.chunks().iter().filter(wanted).map(|chunk| Arc::new(chunk.clone())).collect();
    let mut tally = Tally::new(options.max_findings);
    scrub_supers(fs, &mut tally);
    tally.append(engine.run(chunks, &|_, _| {}));
    report_broken_links(fs, &mut tally);
    let status = if progress.is_cancelled() { Status::Interrupted } else { Status::Finished };
    let mut notes = super::notes::of_filesystem(fs, has_log);
    notes.extend(super::notes::of_tally(&tally, fs, status));
    let bytes_total = if status == Status::Finished { tally.bytes } else { expected_sum.max(tally.bytes) };
    let worst = tally.worst;
    let devices = devices(fs, &tally, &expected);
    let mut totals = Counters::default();
    devices.iter().for_each(|device| totals.add(&device.counters));
    let (bytes_scrubbed, findings) = (tally.bytes, tally.findings);
    let (findings, findings_omitted) = findings.into_sorted();
    Ok(ScrubOutcome {
        filesystem: describe(fs),
        status,
        verdict: verdict(fs, worst),
        started,
        duration: clock.elapsed(),
        bytes_total,
        bytes_scrubbed,
        totals,
        devices,
        findings,
        findings_omitted,
        owners: OwnerTable::default(),
        notes,
    })
}

/// What a report says of the file system.
pub fn describe(fs: &Filesystem) -> FilesystemInfo {
    let superblock = fs.superblock();
    FilesystemInfo {
        fsid: superblock.fsid(),
        label: superblock.label(),
        generation: superblock.generation(),
        csum_type: superblock.csum_type(),
        sectorsize: superblock.sectorsize(),
        nodesize: superblock.nodesize(),
        num_devices: fs.volume().members().count() as u64 + fs.set().missing().len() as u64,
        missing_devids: fs.set().missing().iter().map(|item| item.devid).collect(),
    }
}

/// A set with a missing member is never clean: what should be on it is not there.
fn verdict(fs: &Filesystem, worst: Option<RepairState>) -> Verdict {
    let found = match worst {
        None => Verdict::Clean,
        Some(RepairState::Done) => Verdict::Corrected,
        Some(RepairState::Possible) => Verdict::Correctable,
        Some(RepairState::Failed | RepairState::Impossible | RepairState::Undecidable) => Verdict::Uncorrectable,
    };
    if !fs.set().missing().is_empty() { found.max(Verdict::Correctable) } else { found }
}

/// One line per member, and one per missing member.
fn devices(fs: &Filesystem, tally: &Tally, expected: &BTreeMap<DeviceId, u64>) -> Vec<DeviceOutcome> {
    let outcome = |devid: DeviceId, path: PathBuf| {
        let counters = tally.devices.get(&devid).copied().unwrap_or_default();
        let scrubbed = counters.data_bytes_scrubbed + counters.tree_bytes_scrubbed;
        let bytes_total = expected.get(&devid).copied().unwrap_or(0).max(scrubbed);
        DeviceOutcome { devid, path, bytes_total, counters }
    };
    let present = fs.members().map(|member| outcome(member.devid(), member.path().to_owned()));
    let missing = fs.set().missing().iter().map(|item| outcome(item.devid, PathBuf::new()));
    let mut devices: Vec<DeviceOutcome> = present.chain(missing).collect();
    devices.sort_by_key(|device| device.devid);
    devices
}

/// Allocated bytes of data and trees on each present device, as far as the block group items tell.
fn expected_bytes(fs: &Filesystem) -> BTreeMap<DeviceId, u64> {
    let mut expected: BTreeMap<DeviceId, u64> = BTreeMap::new();
    for group in fs.block_groups() {
        let Ok(chunk) = fs.chunks().lookup(group.start) else { continue };
        let used = group.used_bytes.unwrap_or(0).min(group.length_bytes);
        let stripes = chunk.stripes().len() as u64;
        let each = (u128::from(used) * u128::from(chunk.mirrors()) / u128::from(stripes.max(1))) as u64;
        for stripe in chunk.stripes().iter().filter(|s| fs.device(s.devid).is_some()) {
            let sum = expected.entry(stripe.devid).or_default();
            *sum = sum.saturating_add(each);
        }
    }
    expected
}
