//! One scrub from start to outcome.

use super::accounts;
use super::contradictions::{tell_all, tell_of_superblock};
use super::earlier::{Earlier, Observer, Part, PartDone};
use super::engine::Engine;
use super::extra::ExtraBlock;
use super::finding::RepairState;
use super::log_data::{self, LogContents};
use super::lost::{Rebuilding, RebuiltBytes};
use super::mend::Mending;
use super::outcome::{Behind, DeviceOutcome, FilesystemInfo, LowerInfo, ScrubOutcome, Status, Verdict};
use super::progress::Progress;
use super::relink::report_broken_links;
use super::selection::{Copies, Kinds, Selected};
use super::sink::Tally;
use super::supers::scrub_supers;
use super::tally::Counters;
use super::unlisted::{self, Unlisted};
use super::{ScrubError, ScrubOptions};
use crate::device::{Below, LowerFile};
use crate::filesystem::{BlockGroup, Contradiction, Filesystem};
use crate::format::BlockGroupFlags;
use crate::owners::OwnerTable;
use crate::units::{DeviceId, Logical};
use crate::volume::{Chunk, Member};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};

/// Scrubs `fs`: super blocks, then all block groups. Blocks until done or cancelled.
pub fn scrub(fs: &Filesystem, options: &ScrubOptions, progress: &Progress) -> Result<ScrubOutcome, ScrubError> {
    Run::new(fs, options, progress).run().map(|(outcome, _)| outcome)
}

/// Scrubs what `mending` names and all super blocks, and hands over the right bytes of all that is bad and has them; those
/// of super blocks first.
pub fn scrub_and_mend(
    fs: &Filesystem,
    options: &ScrubOptions,
    progress: &Progress,
    mending: &Mending<'_>,
) -> Result<ScrubOutcome, ScrubError> {
    Run { mending: Some(mending), ..Run::new(fs, options, progress) }.run().map(|(outcome, _)| outcome)
}

/// Scrubs in several sittings: what `earlier` ones found is part of the outcome, and `observer` is told of each block group
/// that is done. Which block groups need no second look is in the options' selection.
pub fn scrub_on(
    fs: &Filesystem,
    options: &ScrubOptions,
    progress: &Progress,
    observer: &dyn Observer,
    earlier: Option<&Earlier>,
) -> Result<ScrubOutcome, ScrubError> {
    Run { observer: Some(observer), earlier, ..Run::new(fs, options, progress) }.run().map(|(outcome, _)| outcome)
}

/// Scrubs what holds a part of a lost member, and hands over what that member has to hold. `observer` is told of a part only
/// when all stripes of it have been handed over. The verdict is about the members that are there.
pub fn scrub_and_rebuild(
    fs: &Filesystem,
    options: &ScrubOptions,
    progress: &Progress,
    rebuilding: &Rebuilding<'_>,
    observer: &dyn Observer,
    earlier: Option<&Earlier>,
) -> Result<(ScrubOutcome, RebuiltBytes), ScrubError> {
    let run = Run::new(fs, options, progress);
    Run { rebuilding: Some(rebuilding), observer: Some(observer), earlier, ..run }.run()
}

struct Run<'a> {
    fs: &'a Filesystem,
    options: &'a ScrubOptions,
    progress: &'a Progress,
    mending: Option<&'a Mending<'a>>,
    rebuilding: Option<&'a Rebuilding<'a>>,
    observer: Option<&'a dyn Observer>,
    earlier: Option<&'a Earlier>,
}

impl<'a> Run<'a> {
    fn new(fs: &'a Filesystem, options: &'a ScrubOptions, progress: &'a Progress) -> Self {
        Self { fs, options, progress, mending: None, rebuilding: None, observer: None, earlier: None }
    }

    fn run(self) -> Result<(ScrubOutcome, RebuiltBytes), ScrubError> {
        let (now, clock) = (SystemTime::now(), Instant::now());
        let mut extra = log_data::read(self.fs);
        let has_log = !extra.blocks.is_empty();
        let log_overflowed = extra.overflowed;
        extra.blocks.extend(self.fs.unlisted().iter().map(|(at, check)| ExtraBlock { at: *at, check: *check }));
        extra.blocks.sort_by_key(|block| block.at);
        let without_data = self.fs.superblock().is_metadump().then(|| without_data(self.options));
        let options = without_data.as_ref().unwrap_or(self.options);
        let engine = Engine::new(self.fs, options, self.progress, extra, self.mending, self.rebuilding)?;
        let places = self.mending.and_then(|mending| mending.places);
        let (selection, generation) = (&options.selection, self.fs.superblock().generation());
        let wanted = |chunk: &&Chunk| {
            places.is_none_or(|places| places.has_any_of(chunk.start()))
                && selection.wants_chunk(chunk, generation)
                && self.rebuilding.is_none_or(|rebuilding| rebuilding.concerns(chunk))
        };
        let chunks: Vec<Arc<Chunk>> = self.fs.chunks().iter().filter(wanted).cloned().map(Arc::new).collect();
        let groups = self.fs.block_groups();
        let expected = expected_bytes(self.fs, &groups, &chunks, selection.copies);
        let expected_sum = expected.values().fold(0, |sum: u64, bytes| sum.saturating_add(*bytes));
        self.progress.bytes_total.store(expected_sum, Ordering::Relaxed);

        let mut tally = self.earlier.map_or_else(|| Tally::new(self.options.max_findings), |e| self.recall(e));
        let bytes_before = tally.bytes;
        self.superblocks(&mut tally);
        tally.append(engine.run(chunks, &|part, tally| self.tell(part, tally)));
        engine.finish_rows(&mut tally);
        engine.judge_lost_roots(&mut tally);
        let has_lost_subtrees = engine.has_lost_subtrees();
        drop(engine);
        let unlisted = self.unlisted(&mut tally)?;
        let had_overflow = tally.links.overflowed();
        let is_partial = places.is_some() || !selection.is_everything() || self.rebuilding.is_some();
        report_broken_links(self.fs, is_partial, &mut tally);
        self.hold_against_each_other(&groups, &unlisted, &mut tally);
        if self.options.decompress {
            super::decompress::test(self.fs, self.options, self.progress, &mut tally);
        }

        let status = if self.progress.is_cancelled() { Status::Interrupted } else { Status::Finished };
        let mut notes = super::notes::of_filesystem(self.fs, has_log);
        if log_overflowed {
            notes.push("the log tree is too large to remember: not all of it was looked at".to_owned());
        }
        notes.extend(super::notes::of_tally(&tally, self.fs, status, had_overflow));
        notes.extend(super::notes::of_packed(self.fs, std::mem::take(&mut tally.unsummed)));
        notes.extend(self.options.selection.notes());
        if self.earlier.is_some() {
            notes.push("tree blocks that were read in different sittings were not held against each other".to_owned());
        }
        let expected_sum = expected_sum.saturating_add(bytes_before);
        let bytes_total = if status == Status::Finished { tally.bytes } else { expected_sum.max(tally.bytes) };
        let behind = behind(self.fs, &tally, status, is_partial);
        let is_of_findings = places.is_some() || selection.places.is_some();
        let selected = Selected { is_of_findings, ..selection.selected() };
        let devices = devices(self.fs, &tally, &expected, &selected);
        let mut totals = Counters::default();
        for device in &devices {
            totals.add(&device.counters);
        }
        let rebuilt = tally.rebuilt;
        // What is not known to be allocated was not made again.
        let lacks_some = self.rebuilding.is_some() && (has_lost_subtrees || tally.ignored_extents > 0);
        let (worst, bytes_scrubbed, unknown_extents) = (tally.worst, tally.bytes, tally.unknown_extents);
        let broken_links = std::mem::take(&mut tally.broken_links);
        let (mut findings, findings_omitted) = tally.findings.into_sorted();
        for finding in &mut findings {
            super::below::place_below(self.fs, finding);
        }
        notes.extend(super::doubtful_sums::notes(&findings));
        let before = self.earlier.map(|earlier| (earlier.started, earlier.duration));
        let outcome = ScrubOutcome {
            filesystem: describe(self.fs),
            selected,
            status,
            verdict: if lacks_some { Verdict::Uncorrectable } else { verdict(self.fs, worst) },
            started: before.map_or(now, |(started, _)| started),
            duration: before.map_or(Duration::ZERO, |(_, duration)| duration) + clock.elapsed(),
            bytes_total,
            bytes_scrubbed,
            totals,
            devices,
            findings,
            findings_omitted,
            broken_links,
            behind,
            unknown_extents,
            owners: OwnerTable::default(),
            notes,
        };
        Ok((outcome, rebuilt))
    }

    /// True where a look at everything was asked for, in one sitting or several.
    fn is_of_all(&self) -> bool {
        let places = self.mending.and_then(|mending| mending.places);
        let is_whole = places.is_none() && self.rebuilding.is_none() && !self.progress.is_cancelled();
        is_whole && self.options.selection.is_of_all()
    }

    /// Judges tree blocks that the extent tree does not list, where all others were seen.
    fn unlisted(&self, tally: &mut Tally) -> Result<Unlisted, ScrubError> {
        if !self.is_of_all() || !self.options.selection.sees_all_blocks() || self.earlier.is_some() {
            return Ok(Unlisted::default());
        }
        let unlisted = unlisted::find(self.fs, &mut tally.links);
        if unlisted.blocks.is_empty() {
            return Ok(unlisted);
        }
        self.fs.note_unlisted(unlisted.blocks.iter().map(|block| (block.at, block.check)).collect());
        let holds = |chunk: &&Chunk| {
            let first = unlisted.blocks.partition_point(|block| block.at < chunk.start());
            unlisted.blocks.get(first).is_some_and(|block| block.at < chunk.end())
        };
        let chunks = self.fs.chunks().iter().filter(holds).cloned().map(Arc::new).collect();
        let extra = LogContents { blocks: unlisted.blocks.clone(), ..LogContents::default() };
        let engine = Engine::new(self.fs, self.options, self.progress, extra, self.mending, None)?.of_extra_only();
        tally.append(engine.run(chunks, &|_, _| ()));
        let (count, first) = (unlisted.blocks.len(), unlisted.blocks.first().map(|block| block.at).unwrap_or_default());
        let blocks = if count == 1 { "tree block is" } else { "tree blocks are" };
        let text = "not in the extent tree, though the trees lead there: read and judged all the same";
        tally.notes.push(format!("{count} {blocks} {text}, the first at {first}"));
        Ok(unlisted)
    }

    /// Holds what was seen against what is said to be used, and the trees of chunks, devices and extents against each other.
    fn hold_against_each_other(&self, groups: &[BlockGroup], unlisted: &Unlisted, tally: &mut Tally) {
        let mut all = self.fs.knowledge().contradictions().to_vec();
        all.extend(std::mem::take(&mut tally.lost).into_iter().map(Contradiction::of_lost));
        all.extend(unlisted.unmapped.iter().cloned());
        // What moves under the scrub does not add up.
        let is_still = self.fs.generation_now() == self.fs.superblock().generation();
        if !self.is_of_all() || !is_still || self.fs.knowledge().is_older() {
            return tell_all(self.fs, &all, tally);
        }
        let blocks: Vec<Logical> = unlisted.blocks.iter().map(|block| block.at).collect();
        let accounts = std::mem::take(&mut tally.accounts);
        // The data of a metadata dump was not read.
        let is_dump = self.fs.superblock().is_metadump();
        let judged: Vec<BlockGroup> =
            groups.iter().filter(|group| !(is_dump && group.flags.contains(BlockGroupFlags::DATA))).cloned().collect();
        all.extend(accounts::of_groups(self.fs, &judged, &accounts, &blocks));
        all.extend(accounts::of_devices(self.fs));
        tell_all(self.fs, &all, tally);
        tell_of_superblock(self.fs, &accounts::of_superblock(self.fs, groups), tally);
    }

    /// The super blocks, unless an earlier sitting has seen the same ones.
    fn superblocks(&self, tally: &mut Tally) {
        let generation = self.fs.superblock().generation();
        if self.earlier.and_then(|earlier| earlier.superblocks_done) == Some(generation) {
            return;
        }
        let mut own = Tally::new(self.options.max_findings);
        scrub_supers(self.fs, &self.options.selection, self.mending.is_some(), &mut own);
        let mends = std::mem::take(&mut own.mends).into_list();
        if let Some(mending) = self.mending.filter(|_| !mends.is_empty()) {
            (mending.sink)(super::below::to_lower(self.fs, mends));
        }
        self.tell(Part::Superblocks, &own);
        tally.append(own);
    }

    /// The tally as the earlier sittings left it.
    fn recall(&self, earlier: &Earlier) -> Tally {
        let mut tally = Tally::new(self.options.max_findings);
        for finding in &earlier.findings {
            tally.recall(finding.clone());
        }
        tally.findings.omit(earlier.findings_omitted);
        tally.devices = earlier.counters.clone();
        tally.bytes = earlier.bytes;
        tally.unsummed_bytes = earlier.unsummed_bytes;
        tally.rebuilt = earlier.rebuilt;
        tally
    }

    fn tell(&self, part: Part, tally: &Tally) {
        let Some(observer) = self.observer else { return };
        let (findings, findings_omitted) = tally.findings.to_sorted();
        observer.part_done(PartDone {
            part,
            generation: self.fs.superblock().generation(),
            counters: tally.devices.clone(),
            findings,
            findings_omitted,
            bytes: tally.bytes,
            unsummed_bytes: tally.unsummed_bytes,
            sample: tally.sample.clone(),
            rebuilt: tally.rebuilt,
        });
    }
}

/// What keeps members that missed transactions from being called current, whatever is corrected.
fn behind(fs: &Filesystem, tally: &Tally, status: Status, is_partial: bool) -> BTreeMap<DeviceId, Behind> {
    let roots = fs.roots();
    let knows_all = fs.lost_roots().is_empty() && !tally.has_lost && roots.extent.is_some() && roots.csum.is_some();
    let why = |devid: DeviceId| match tally.left.get(&devid) {
        _ if status == Status::Interrupted || is_partial => Some(Behind::Unseen),
        _ if !knows_all => Some(Behind::LostTrees),
        Some(count) => Some(Behind::Blocks(*count)),
        None => None,
    };
    let stale = fs
        .members()
        .map(|member| member.devid())
        .filter(|devid| fs.standing(*devid).is_some_and(|standing| !standing.has_vote()));
    stale.filter_map(|devid| Some((devid, why(devid)?))).collect()
}

/// A metadata dump has no data, and so no parity that fits.
fn without_data(options: &ScrubOptions) -> ScrubOptions {
    let mut options = options.clone();
    options.selection.kinds.remove(Kinds::DATA | Kinds::PARITY);
    options
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
        lower: lower(fs),
    }
}

/// All files, where there are layers above some.
fn lower(fs: &Filesystem) -> Vec<LowerInfo> {
    let below = fs.members().find_map(|member| member.device().below());
    let info = |file: &LowerFile| LowerInfo { path: file.path.clone(), state: file.state, layers: file.layers.clone() };
    below.into_iter().flat_map(Below::files).map(info).collect()
}

/// A set with a missing member is never clean: what should be on it is not there.
fn verdict(fs: &Filesystem, worst: Option<RepairState>) -> Verdict {
    let found = match worst {
        None => Verdict::Clean,
        Some(RepairState::Done) => Verdict::Corrected,
        Some(RepairState::Possible) => Verdict::Correctable,
        Some(RepairState::Failed | RepairState::Impossible | RepairState::Undecidable) => Verdict::Uncorrectable,
    };
    // A member that is missing, of btrfs or of an array below it, has copies that nobody has looked at.
    let is_degraded = |member: &Arc<Member>| member.device().below().is_some_and(Below::is_degraded);
    let is_whole = fs.set().missing().is_empty() && !fs.members().any(is_degraded);
    if is_whole { found } else { found.max(Verdict::Correctable) }
}

/// One line per member, and one per missing member.
fn devices(
    fs: &Filesystem,
    tally: &Tally,
    expected: &BTreeMap<DeviceId, u64>,
    selected: &Selected,
) -> Vec<DeviceOutcome> {
    let outcome = |devid: DeviceId, path: PathBuf| {
        let counters = tally.devices.get(&devid).copied().unwrap_or_default();
        let scrubbed = counters.data_bytes_scrubbed + counters.tree_bytes_scrubbed;
        let bytes_total = expected.get(&devid).copied().unwrap_or(0).max(scrubbed);
        let is_read = fs.device(devid).is_some() && selected.has_any_of(devid);
        DeviceOutcome { devid, path, is_read, bytes_total, counters }
    };
    let present = fs.members().map(|member| outcome(member.devid(), member.path().to_owned()));
    let missing = fs.set().missing().iter().map(|item| outcome(item.devid, PathBuf::new()));
    let mut devices: Vec<DeviceOutcome> = present.chain(missing).collect();
    devices.sort_by_key(|device| device.devid);
    devices
}

/// Allocated bytes of data and trees on each present device in these chunks, as far as the block group items tell.
fn expected_bytes(
    fs: &Filesystem,
    groups: &[BlockGroup],
    chunks: &[Arc<Chunk>],
    copies: Copies,
) -> BTreeMap<DeviceId, u64> {
    let mut expected: BTreeMap<DeviceId, u64> = BTreeMap::new();
    let used: BTreeMap<Logical, u64> =
        groups.iter().map(|g| (g.start, g.used_bytes.unwrap_or(0).min(g.length_bytes))).collect();
    for chunk in chunks {
        let used = used.get(&chunk.start()).copied().unwrap_or(0);
        let stripes = chunk.stripes().len() as u64;
        let read_copies = if copies == Copies::One { 1 } else { chunk.mirrors() };
        let each = (u128::from(used) * u128::from(read_copies) / u128::from(stripes.max(1))) as u64;
        for stripe in chunk.stripes().iter().filter(|s| fs.device(s.devid).is_some()) {
            if matches!(copies, Copies::OnDevice(only) if only != stripe.devid) {
                continue;
            }
            let sum = expected.entry(stripe.devid).or_default();
            *sum = sum.saturating_add(each);
        }
    }
    expected
}
