//! The run: which block group when, the threads that serve the devices, and where the results come together.
//!
//! Work is one block group at a time per device: a group is planned when none of its devices has another group being
//! planned, so every device is read in long sequential stretches, and several groups are on their way while devices
//! are free.

mod hand_over;

use super::accounts;
use super::ahead::{Ahead, CURSORS_PER_PLANNER};
use super::allocation::{Allocation, Older};
use super::below;
use super::below::rows::Rows;
use super::doubtful_sums::note_of_lost_sums;
use super::earlier::Part;
use super::extra::{ExtraBlock, NothingLost};
use super::fallback::Fallback;
use super::finding::{Evidence, Finding, FindingKind, Problem, RepairState};
use super::group::{Group, Planner};
use super::judge::{Bench, judge_mirrors};
use super::log_data::{LogContents, LogSums};
use super::lost::{Rebuilding, StripeBuilder, fill_mirrored};
use super::mend::{Mending, Places};
use super::moved::MoveWatch;
use super::parity::judge_rows;
use super::progress::Progress;
use super::schedule::Schedule;
use super::selection::{Selection, has_parity};
use super::sink::Tally;
use super::stray::judge_stray;
use super::stream::{Job, Lane, Scope, StripeCopy, Task, last_physical, reserve};
use super::window::{Run, RunKind, WINDOW_BYTES, Window};
use super::{ScrubError, ScrubOptions};
use crate::content::sums::Sums;
use crate::filesystem::Filesystem;
use crate::format::types::tree_name;
use crate::owners::Unwritten;
use crate::tree::{BlockSource, LostSubtree, Prefetch, TreeGeometry, prefetch};
use crate::units::{DeviceId, Generation, Logical, LogicalRange};
use crate::volume::read_policy::{Completion, Request, Selection as Picked};
use crate::volume::{Chunk, Layout, Member, Standing};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// Everything the threads of one run share.
pub(super) struct Engine<'a> {
    fs: &'a Filesystem,
    options: &'a ScrubOptions,
    progress: &'a Progress,
    mending: Option<&'a Mending<'a>>,
    rebuilding: Option<&'a Rebuilding<'a>>,
    lanes: BTreeMap<DeviceId, Lane>,
    standings: BTreeMap<DeviceId, Standing>,
    /// What the extent tree does not list: the blocks and the data of log trees, and blocks known from an earlier run.
    extra: LogContents,
    /// Nothing else is looked at.
    is_extra_only: bool,
    accounted: Mutex<BTreeMap<Logical, bool>>,
    fallback: Fallback<'a>,
    unwritten: Unwritten<'a>,
    lost: Mutex<BTreeMap<Logical, LostSubtree>>,
    moved: MoveWatch,
    is_known: Option<Box<dyn Fn(Logical, Generation) -> bool + Sync + 'a>>,
    rows: Rows,
}

impl<'a> Engine<'a> {
    pub(super) fn new(
        fs: &'a Filesystem,
        options: &'a ScrubOptions,
        progress: &'a Progress,
        extra: LogContents,
        mending: Option<&'a Mending<'a>>,
        rebuilding: Option<&'a Rebuilding<'a>>,
    ) -> Result<Self, ScrubError> {
        let reserve = mending.map(|_| reserve()).transpose().map_err(ScrubError::Memory)?;
        let lanes = fs
            .members()
            .map(|member| {
                Lane::new(Arc::clone(member.device()), options.limit_bytes_per_second, reserve.as_ref())
                    .map(|lane| (member.devid(), lane))
            })
            .collect::<Result<_, _>>()
            .map_err(ScrubError::Memory)?;
        let (fallback, unwritten, lost) = (Fallback::new(fs), Unwritten::new(fs), Mutex::default());
        let moved = MoveWatch::new(fs.superblock().generation(), Instant::now());
        let is_known = options.selection.seen.is_some().then(|| {
            let is_known = |start, generation| options.selection.may_have_seen(start, generation);
            Box::new(is_known) as Box<dyn Fn(Logical, Generation) -> bool + Sync + 'a>
        });
        let standing = |member: &Arc<Member>| Some((member.devid(), fs.standing(member.devid())?));
        let standings = fs.members().filter_map(standing).collect();
        let accounted = Mutex::default();
        let is_extra_only = false;
        Ok(Self {
            fs,
            options,
            progress,
            mending,
            rebuilding,
            lanes,
            standings,
            extra,
            is_extra_only,
            accounted,
            fallback,
            unwritten,
            lost,
            moved,
            is_known,
            rows: Rows::default(),
        })
    }

    /// Looks at the extra blocks and at nothing else.
    pub(super) fn of_extra_only(mut self) -> Self {
        self.is_extra_only = true;
        self
    }

    pub(super) fn geometry(&self) -> &TreeGeometry {
        self.fs.geometry()
    }

    pub(super) fn progress(&self) -> &Progress {
        self.progress
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.progress.is_cancelled()
    }

    pub(super) fn selection(&self) -> &Selection {
        &self.options.selection
    }

    pub(super) fn clock_ns(&self) -> u64 {
        self.fs.clock_ns()
    }

    /// Lets the read policy pick one of the devices.
    pub(super) fn select(&self, candidates: &[DeviceId], request: &Request) -> Option<Picked> {
        self.fs.selector().select(candidates, request, self.clock_ns())
    }

    /// Tells the read policy how a read that it picked has ended.
    pub(super) fn report(&self, picked: Option<Picked>, started_ns: u64, ok: bool) {
        if let Some(picked) = picked {
            let now_ns = self.clock_ns();
            let latency_ns = now_ns.saturating_sub(started_ns);
            let done = Completion { latency_ns, bytes: WINDOW_BYTES, ok, now_ns };
            self.fs.selector().report(picked, &done);
        }
    }

    pub(super) fn is_mending(&self) -> bool {
        self.mending.is_some()
    }

    /// Are right bytes wanted of what is read?
    pub(super) fn keeps_buffers(&self) -> bool {
        self.is_mending() || self.rebuilding.is_some()
    }

    /// Is this window one of those to be looked at?
    pub(super) fn wants(&self, window: &Window) -> bool {
        let number = window.from_bytes / WINDOW_BYTES;
        let has = |places: &Places| places.has(window.chunk.start(), number);
        self.mending.and_then(|m| m.places).is_none_or(has) && self.selection().places.as_ref().is_none_or(has)
    }

    pub(super) fn is_present(&self, devid: DeviceId) -> bool {
        self.lanes.contains_key(&devid)
    }

    /// Does a member that missed transactions hold a part of the chunk?
    pub(super) fn has_stale(&self, chunk: &Chunk) -> bool {
        let is_stale = |devid| self.standings.get(&devid).is_some_and(|standing| !standing.has_vote());
        chunk.stripes().iter().any(|stripe| is_stale(stripe.devid))
    }

    /// The last transaction.
    pub(super) fn newest(&self) -> Generation {
        self.fs.superblock().generation()
    }

    /// Is there a second copy, or parity, that data without checksum can be held against?
    pub(super) fn can_compare(&self, chunk: &Chunk) -> bool {
        let missing = chunk.stripes().iter().filter(|stripe| !self.is_present(stripe.devid)).count() as u64;
        let mirrors = u64::from(chunk.mirrors());
        let several = mirrors > 1 && (chunk.profile().row().layout != Layout::Mirrored || mirrors > 1 + missing);
        several || has_parity(chunk)
    }

    /// Are copies held against each other, or against what a current member would have?
    pub(super) fn compares(&self, chunk: &Chunk) -> bool {
        chunk.mirrors() > 1 || (!has_parity(chunk) && self.has_stale(chunk))
    }

    pub(super) fn cap(&self) -> usize {
        self.options.max_findings
    }

    pub(super) fn queue(&self, task: Task) {
        let devid = task.job.window.chunk.stripes().get(task.stripe).map(|s| s.devid);
        if let Some(lane) = devid.and_then(|devid| self.lanes.get(&devid)) {
            lane.push(task);
        }
    }

    pub(super) fn sums<'s>(&self, source: &'s dyn BlockSource, from: Logical) -> Sums<'s, dyn BlockSource + 's> {
        let geometry = self.geometry();
        let sizes = (geometry.sectorsize(), geometry.csum_type().digest_len());
        Sums::new(source, self.fs.roots().csum, from, sizes, self.selection().is_everything())
    }

    pub(super) fn allocation<'s>(
        &'s self,
        source: &'s dyn BlockSource,
        chunk: &Chunk,
    ) -> Allocation<'s, dyn BlockSource + 's> {
        let geometry = self.geometry();
        let LogContents { blocks, data, .. } = &self.extra;
        let from = blocks.partition_point(|b| b.at < chunk.start());
        let extra = blocks.iter().skip(from).take_while(|b| b.at < chunk.end());
        let extra: VecDeque<ExtraBlock> = extra.copied().collect();
        let from = data.partition_point(|range| range.start < chunk.start());
        let data = data.iter().skip(from).take_while(|range| range.start < chunk.end());
        let data: VecDeque<LogicalRange> = data.map(|range| range.start..range.end.min(chunk.end())).collect();
        let sizes = (geometry.nodesize(), geometry.sectorsize());
        // To judge parity, old blocks of a row have to be known as well as new ones.
        let than = self.selection().since_in(chunk).filter(|_| !has_parity(chunk));
        let older = Older { than, is_known: self.is_known.as_deref() };
        let root = self.fs.roots().extent;
        if self.is_extra_only {
            return Allocation::new(source, root, chunk, sizes, older, VecDeque::new(), &NothingLost).of_extra(extra);
        }
        Allocation::new(source, root, chunk, sizes, older, extra, &self.fallback).with_data(data)
    }

    /// Checksums that only log trees have.
    pub(super) fn log_sums(&self) -> &LogSums {
        &self.extra.sums
    }

    /// Does the extent tree list all that the block group says is used? Read once, where it matters.
    fn is_accounted(&self, chunk: &Chunk) -> bool {
        let mut known = self.accounted.lock().unwrap_or_else(PoisonError::into_inner);
        *known.entry(chunk.start()).or_insert_with(|| accounts::is_accounted(self.fs, chunk))
    }

    /// How far into its stripes the chunk can be read at all.
    pub(super) fn reach_bytes(&self, chunk: &Chunk) -> u64 {
        let stripes = chunk.stripes().iter();
        let reach = stripes.filter_map(|s| Some(self.fs.device(s.devid)?.len().saturating_sub(s.offset.raw())));
        // Where all devices are missing nothing is read, and the judge says so window by window.
        reach.max().unwrap_or(chunk.stripe_bytes())
    }

    /// Whether a lost member is being made again, for which what is not known of is not there.
    pub(super) fn is_rebuilding(&self) -> bool {
        self.rebuilding.is_some()
    }

    /// Whether a part of the trees that say what is allocated was lost.
    pub(super) fn has_lost_subtrees(&self) -> bool {
        !self.lost.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    pub(super) fn note_lost(&self, subtrees: Vec<LostSubtree>) {
        let mut lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
        lost.extend(subtrees.into_iter().map(|subtree| (subtree.at, subtree)));
    }

    /// Judges a window whose stripes have all come in.
    pub(super) fn judge(&self, job: &Arc<Job>, copies: Vec<StripeCopy>) {
        if job.scope == Scope::Part && copies.iter().any(|copy| !copy.verdict.bad.is_empty()) {
            return self.queue_whole(job);
        }
        let window = &job.window;
        let mut tally = Tally::new(self.cap());
        if self.is_mending() {
            tally.mends.share(copies.iter().filter_map(|copy| copy.buffer.clone()));
        }
        for copy in &copies {
            let stripe = window.chunk.stripes().get(copy.stripe).filter(|s| self.selection().wants_device(s.devid));
            let Some(stripe) = stripe else { continue };
            let counters = tally.device(stripe.devid);
            counters.add(&copy.verdict.counters);
            counters.last_physical = counters.last_physical.max(last_physical(window, copy.stripe).raw());
            let verdict = &copy.verdict.counters;
            tally.bytes += verdict.data_bytes_scrubbed + verdict.tree_bytes_scrubbed;
        }
        if let Some(rebuilding) = self.rebuilding {
            tally.stripes = StripeBuilder::all(window, rebuilding);
        }
        self.with_bench(|bench| {
            below::tell(self.fs, window, &copies, bench, &mut tally);
            match job.scope {
                Scope::Part => {}
                Scope::Whole if has_parity(&window.chunk) => judge_rows(window, &copies, bench, &mut tally),
                Scope::Whole => judge_mirrors(window, &copies, bench, &mut tally),
            }
            for run in &window.strays {
                judge_stray(self.fs, window, run, bench, &mut tally);
            }
            if !has_parity(&window.chunk) {
                for builder in &mut tally.stripes {
                    tally.rebuilt.add(&fill_mirrored(window, &copies, bench, builder));
                }
            }
        });
        self.hand_over_stripes(window, &mut tally);
        if job.scope == Scope::Whole {
            self.take_rows(window, &copies, &mut tally);
        }
        self.hand_over(&mut tally);
        let mut seen = BTreeSet::new();
        for (at, marks) in copies.iter().flat_map(|copy| &copy.verdict.marks) {
            if seen.insert(*at) {
                tally.marks.append(marks);
            }
        }
        seen.clear();
        for link in copies.into_iter().flat_map(|copy| copy.verdict.links) {
            if seen.insert(link.at) {
                tally.links.note(link);
            }
        }
        job.group.add(tally);
    }

    /// Calls `judge` with what the judges need to know.
    fn with_bench(&self, judge: impl FnOnce(&Bench<'_>)) {
        let standing = |devid| self.standings.get(&devid).copied();
        let (geometry, mending, selection) = (self.geometry(), self.mending, self.selection());
        let is_unwritten = |at| self.unwritten.is_unwritten(at, u64::from(geometry.sectorsize()));
        judge(&Bench {
            geometry,
            standing: &standing,
            is_unwritten: &is_unwritten,
            is_sum_lost: &|at| accounts::is_sum_lost(self.fs, at),
            is_accounted: &|chunk| self.is_accounted(chunk),
            judges_parity: !self.is_extra_only,
            mending,
            selection,
        });
    }

    /// Judges root blocks that could not be used: where a backup root stands in, its extent tree need not know them.
    pub(super) fn judge_lost_roots(&self, tally: &mut Tally) {
        for (at, check) in self.fs.lost_roots() {
            if tally.findings.has_block(*at) {
                continue;
            }
            let Ok(chunk) = self.fs.chunks().lookup(*at) else { continue };
            let number = Window::number_of(chunk, *at);
            let window = Window::new(Arc::new(chunk.clone()), number * WINDOW_BYTES);
            let len_bytes = u64::from(self.geometry().nodesize());
            let run = Run { logical: *at, len_bytes, kind: RunKind::Tree(*check), continues: false };
            self.with_bench(|bench| judge_stray(self.fs, &window, &run, bench, tally));
        }
    }

    /// Tells of a range that lies behind the end of every device of its chunk, without going through it.
    pub(super) fn beyond(&self, chunk: &Chunk, range: LogicalRange, is_tree: bool, tally: &mut Tally) {
        let sectorsize = u64::from(self.geometry().sectorsize());
        let step = if is_tree { range.end - range.start } else { sectorsize };
        let (kind, sectors_each) =
            if is_tree { (FindingKind::Metadata, step / sectorsize) } else { (FindingKind::Data, 1) };
        let wanted = |devid| self.is_present(devid) && self.selection().wants_finding(kind, devid);
        if let Some(rebuilding) = self.rebuilding {
            tally.rebuilt.lost += rebuilding.bytes_of(chunk, &range);
        }
        let blocks = (range.end - range.start) / step.max(1);
        let listed = blocks.min(self.cap() as u64);
        for nth in 0..listed {
            let logical = range.start + nth * step;
            for copy in chunk.copies(logical).iter().filter(|c| wanted(c.place.devid)) {
                tally.device(copy.place.devid).read_errors += sectors_each;
                let finding = Finding {
                    kind,
                    problem: Problem::ReadError,
                    logical,
                    length: step as u32,
                    mirror: copy.mirror,
                    devid: copy.place.devid,
                    physical: copy.place.physical,
                    profile: chunk.profile(),
                    evidence: Evidence::Errno(None),
                    repair: RepairState::Impossible,
                    owner: None,
                    below: Vec::new(),
                };
                tally.find(finding, sectors_each);
            }
        }
        for copy in chunk.copies(range.start).iter().filter(|c| wanted(c.place.devid)) {
            let rest = (blocks - listed).saturating_mul(sectors_each);
            tally.note_prospect(copy.place.devid, RepairState::Impossible, blocks - listed);
            let counters = tally.device(copy.place.devid);
            counters.read_errors = counters.read_errors.saturating_add(rest);
            counters.uncorrectable_errors = counters.uncorrectable_errors.saturating_add(rest);
            tally.findings.omit(blocks - listed);
        }
    }

    /// Runs all block groups. `finished` is called with each part that was read to its end, from the threads that do the
    /// work. Returns the sum of all, whole or not.
    pub(super) fn run(&'a self, chunks: Vec<Arc<Chunk>>, finished: &(dyn Fn(Part, &Tally) + Sync)) -> Tally {
        let total = Mutex::new(Tally::new(self.cap()));
        let schedule = Schedule::new(chunks);
        let hashers = rayon::ThreadPoolBuilder::new().num_threads(super::hash_threads()).build();
        let limits = self.options.readahead.for_cursors(CURSORS_PER_PLANNER * self.lanes.len());
        let planners = |prefetch: Option<&Prefetch<'_, Filesystem>>| {
            let ahead = Ahead::new(self.fs, prefetch);
            std::thread::scope(|planners| {
                for _ in 0..self.lanes.len().max(1) {
                    planners.spawn(|| self.plan(&schedule, &ahead, &total, finished));
                }
            });
        };
        let work = |scope: Option<&rayon::Scope<'a>>| {
            std::thread::scope(|threads| {
                for lane in self.lanes.values() {
                    for _ in 0..lane.threads(self.options.threads_per_device) {
                        threads.spawn(|| lane.serve(self, scope));
                    }
                }
                match limits {
                    Some(limits) => prefetch(self.fs, limits, |prefetch| planners(Some(prefetch))),
                    None => planners(None),
                }
                self.lanes.values().for_each(Lane::close);
            });
        };
        match &hashers {
            Ok(pool) if !self.geometry().csum_type().is_cheap() => pool.in_place_scope(|scope| work(Some(scope))),
            _ => work(None),
        }
        let mut total = total.into_inner().unwrap_or_else(PoisonError::into_inner);
        let lost = std::mem::take(&mut *self.lost.lock().unwrap_or_else(PoisonError::into_inner));
        total.has_lost |= !lost.is_empty();
        total.notes.extend(lost.values().map(note_of_lost));
        total.notes.extend(lost.values().filter_map(|lost| note_of_lost_sums(self.fs, lost)));
        total.lost.extend(lost.into_values());
        total.notes.extend(self.moved.note());
        total
    }

    /// What one planner thread does: takes the next block group whose devices are free, until there is none.
    fn plan(
        &self,
        schedule: &Schedule,
        ahead: &Ahead<'_>,
        total: &Mutex<Tally>,
        finished: &(dyn Fn(Part, &Tally) + Sync),
    ) {
        while let Some(chunk) = schedule.take() {
            let add = |group: &Group| -> bool {
                let (tally, whole) = group.finish();
                let is_done = whole && !self.is_cancelled();
                if is_done {
                    finished(Part::Section(group.start), &tally);
                }
                total.lock().unwrap_or_else(PoisonError::into_inner).append(tally);
                is_done
            };
            let sources = ahead.sources(&chunk, schedule.following(&chunk).as_deref());
            let draining = Planner::new(self, &sources, Arc::clone(&chunk), &|group| {
                add(group);
            })
            .run();
            schedule.release(&chunk);
            // All of them are added, also behind one that is not done.
            let undone = draining.iter().filter(|group| !add(group)).count();
            if undone == 0 {
                finished(Part::BlockGroup(chunk.range()), &Tally::new(0));
            }
            let bytes_done = self.progress.bytes_done.load(Ordering::Relaxed);
            self.moved.look(Instant::now(), bytes_done, || self.fs.generation_now());
        }
    }
}

fn note_of_lost(lost: &LostSubtree) -> String {
    let tree = lost.check.owner.map_or_else(String::new, |owner| format!("{}: ", tree_name(owner)));
    let end = lost.end.map_or_else(|| "the end".to_owned(), |key| key.to_string());
    format!(
        "{tree}keys from {} to {end} are lost with block {} (level {}): {}",
        lost.first, lost.at, lost.level, lost.why
    )
}
