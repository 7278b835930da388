//! One block group: from its extents to windows, and from windows to the queues of its devices. A section of a block
//! group is the least that is done or not done when a scrub is ended early.
//!
//! Where a device holds more than one stripe of the group (DUP), windows are queued in batches, first one stripe of all
//! of them, then the other, so that the device does not seek between the copies for every window.

use super::accounts::Account;
use super::ahead::Sources;
use super::allocation::{Extent, ExtentKind};
use super::dispatch::Pick;
use super::engine::Engine;
use super::selection::Kinds;
use super::sink::Tally;
use super::stream::{Job, Task};
use super::window::{Run, RunKind, WINDOW_BYTES, Window};
use crate::content::sums::{Part, Sums};
use crate::tree::{BlockSource, ParentCheck};
use crate::units::{DeviceId, Generation, Logical, LogicalRange};
use crate::volume::Chunk;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// Windows of a batch where one device holds several stripes: 64 MiB of each.
const DUP_BATCH: usize = 64;
/// The same where buffers are kept until both copies are there: half of a device's buffers.
const DUP_BATCH_MENDING: usize = 4;
/// Windows of a batch elsewhere: a few, so that reading starts soon.
const BATCH: usize = 4;
/// Batches on their way at once, per block group.
const BATCHES_IN_FLIGHT: usize = 2;
/// Windows on their way at once, per block group, where batches are small.
const MIN_IN_FLIGHT: usize = 32;

/// What the windows of one section share.
pub(super) struct Group {
    /// Where the section starts.
    pub(super) start: Logical,
    tally: Mutex<Tally>,
    in_flight: Mutex<usize>,
    finished: Condvar,
    spoiled: AtomicBool,
}

impl Group {
    pub(super) fn new(start: Logical, cap: usize) -> Self {
        Self {
            start,
            tally: Mutex::new(Tally::new(cap)),
            in_flight: Mutex::new(0),
            finished: Condvar::new(),
            spoiled: AtomicBool::new(false),
        }
    }

    /// Adds the result of a window.
    pub(super) fn add(&self, tally: Tally) {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner).append(tally);
    }

    /// A window was not read to its end.
    pub(super) fn spoil(&self) {
        self.spoiled.store(true, Ordering::Relaxed);
    }

    /// A window that is on its way goes round once more.
    pub(super) fn enter_again(&self) {
        *self.in_flight.lock().unwrap_or_else(PoisonError::into_inner) += 1;
    }

    /// A window is through.
    pub(super) fn done(&self) {
        *self.in_flight.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.finished.notify_all();
    }

    /// Waits until no more than `others` windows are on their way, then counts `more`.
    fn enter(&self, others: usize, more: usize) {
        let mut in_flight = self.in_flight.lock().unwrap_or_else(PoisonError::into_inner);
        while *in_flight > others {
            in_flight = self.finished.wait(in_flight).unwrap_or_else(PoisonError::into_inner);
        }
        *in_flight += more;
    }

    /// Waits for all windows. Returns the result, and whether it is whole.
    pub(super) fn finish(&self) -> (Tally, bool) {
        self.enter(0, 0);
        let tally = std::mem::take(&mut *self.tally.lock().unwrap_or_else(PoisonError::into_inner));
        (tally, !self.spoiled.load(Ordering::Relaxed))
    }
}

/// Cuts a block group into windows and queues them.
pub(super) struct Planner<'e, 'd> {
    engine: &'e Engine<'e>,
    group: Arc<Group>,
    /// The section before, whose last windows may still be on their way.
    draining: Option<Arc<Group>>,
    /// Takes a section whose windows are all queued, waits for them and adds it up.
    done: &'d dyn Fn(&Group),
    chunk: Arc<Chunk>,
    sources: &'e Sources<'e>,
    sums: Sums<'e, dyn BlockSource + 'e>,
    window: Option<(u64, Window)>,
    batch: Vec<Window>,
    batch_windows: usize,
    /// The first stripe offset that no present device reaches.
    reach_bytes: u64,
    /// Only windows that hold something this new are queued.
    since: Option<Generation>,
    has_new: bool,
    /// Is there anything that data without checksum is held against?
    is_compared: bool,
    local: Tally,
}

impl<'e, 'd> Planner<'e, 'd> {
    pub(super) fn new(
        engine: &'e Engine<'e>,
        sources: &'e Sources<'e>,
        chunk: Arc<Chunk>,
        done: &'d dyn Fn(&Group),
    ) -> Self {
        let devids: BTreeSet<DeviceId> = chunk.stripes().iter().map(|s| s.devid).collect();
        let several = devids.len() < chunk.stripes().len();
        let sums = engine.sums(sources.sums(), chunk.start());
        let reach_bytes = engine.reach_bytes(&chunk);
        let since = engine.selection().since_in(&chunk);
        Self {
            engine,
            group: Arc::new(Group::new(chunk.start(), engine.cap())),
            draining: None,
            done,
            sources,
            sums,
            window: None,
            batch: Vec::new(),
            batch_windows: match (several, engine.keeps_buffers()) {
                (true, false) => DUP_BATCH,
                (true, true) => DUP_BATCH_MENDING,
                (false, _) => BATCH,
            },
            reach_bytes,
            since,
            has_new: false,
            is_compared: engine.can_compare(&chunk),
            local: Tally::new(engine.cap()),
            chunk,
        }
    }

    /// Plans and queues the whole block group; returns when the last window is queued, or the run cancelled, with what is
    /// still on its way.
    pub(super) fn run(mut self) -> Vec<Arc<Group>> {
        let selection = self.engine.selection();
        let tree_blocks = selection.includes(Kinds::METADATA, &self.chunk);
        let data = selection.includes(Kinds::DATA, &self.chunk);
        let mut allocation = self.engine.allocation(self.sources.extents(), &self.chunk);
        while let Some(extent) = allocation.next_extent() {
            if self.engine.is_cancelled() {
                self.group.spoil();
                break;
            }
            if let Some(generation) = extent.generation {
                self.local.sample.note(extent.range.start, generation);
            }
            match extent.kind {
                ExtentKind::Tree(check) if tree_blocks => self.tree_block(&extent, check),
                ExtentKind::Data if data => self.data(&extent, true),
                ExtentKind::Unknown if data => self.data(&extent, false),
                _ => {}
            }
        }
        self.sums.skip_to(self.chunk.end());
        self.flush_window();
        self.flush_batch();
        self.local.ignored_extents += allocation.ignored();
        self.local.unknown_extents += allocation.unknown();
        let listed_bytes = allocation.listed_bytes().filter(|_| !self.engine.is_cancelled());
        self.local.accounts.extend(listed_bytes.map(|listed_bytes| Account {
            start: self.chunk.start(),
            listed_bytes,
            ignored: allocation.ignored(),
        }));
        self.local.orphan_sums += self.sums.orphan_sectors();
        let lost = [allocation.take_lost(), self.sums.take_lost()].concat();
        if self.engine.is_rebuilding() && !lost.is_empty() {
            // Not done: whoever goes on is to know of it as well.
            self.group.spoil();
        }
        self.engine.note_lost(lost);
        self.group.add(self.local);
        self.draining.into_iter().chain([self.group]).collect()
    }

    /// The section of window `number` begins; the one before is all queued.
    fn enter_section(&mut self, number: u64) {
        let start = Window::section_start(&self.chunk, number);
        if start == self.group.start {
            return;
        }
        self.flush_batch();
        let local = std::mem::replace(&mut self.local, Tally::new(self.engine.cap()));
        self.group.add(local);
        let ended = std::mem::replace(&mut self.group, Arc::new(Group::new(start, self.engine.cap())));
        if let Some(group) = self.draining.replace(ended) {
            (self.done)(&group);
        }
    }

    /// Is there anything about the part of the extent in this window that was not seen before?
    fn is_new(&mut self, extent: &Extent, window: u64) -> bool {
        let (section, selection) = (Window::section_start(&self.chunk, window), self.engine.selection());
        if self.engine.is_rebuilding() && selection.done_sections.contains_key(&section) {
            return false;
        }
        let since = self.since.max(selection.since_section(section));
        let Some(generation) = extent.generation.filter(|generation| Some(*generation) < since) else { return true };
        let is_unknown = !selection.may_have_seen(extent.range.start, generation);
        self.local.unknown_extents += u64::from(is_unknown);
        is_unknown
    }

    fn tree_block(&mut self, extent: &Extent, check: ParentCheck) {
        let promised = check.generation;
        let check = check.believable(self.engine.newest());
        self.local.beyond_newest += u64::from(check.generation != promised);
        let range = extent.range.clone();
        let (at, nodesize) = (range.start, range.end - range.start);
        let run = Run { logical: at, len_bytes: nodesize, kind: RunKind::Tree(check), continues: false };
        let number = Window::number_of(&self.chunk, at);
        let is_new = self.is_new(extent, number);
        if number * WINDOW_BYTES >= self.reach_bytes {
            if is_new {
                self.engine.beyond(&self.chunk, range, true, &mut self.local);
            }
            return;
        }
        let whole = Window::holds_whole(&self.chunk, at, nodesize);
        let window = self.window(number, is_new);
        if whole { window.runs.push(run) } else { window.strays.push(run) }
    }

    /// Queues the sectors of a data extent; where nothing says that it is one, only those with checksums.
    fn data(&mut self, extent: &Extent, is_extent: bool) {
        let range = &extent.range;
        let mut at = range.start;
        while at < range.end {
            let number = Window::number_of(&self.chunk, at);
            if number * WINDOW_BYTES >= self.reach_bytes {
                if is_extent && self.is_new(extent, number) {
                    self.engine.beyond(&self.chunk, at..range.end, false, &mut self.local);
                }
                return self.sums.pass(at..range.end);
            }
            let end = Window::logical_range(&self.chunk, number).end.min(range.end);
            if end <= at {
                return;
            }
            let is_new = self.is_new(extent, number);
            self.window(number, is_new);
            self.data_in_window(at..end, at > range.start, is_extent);
            at = end;
        }
    }

    fn data_in_window(&mut self, range: LogicalRange, mut continues: bool, is_extent: bool) {
        let Self { sums, window: Some((_, window)), local, engine, is_compared, .. } = self else { return };
        let mut push = |range: LogicalRange, sums: Option<&[u8]>| {
            let kind = match sums {
                Some(sums) => {
                    let first = window.sums.len();
                    window.sums.extend_from_slice(sums);
                    RunKind::Summed(first)
                }
                None if is_extent => {
                    local.unsummed_bytes += range.end - range.start;
                    local.uncompared_bytes += if *is_compared { 0 } else { range.end - range.start };
                    if !continues {
                        local.note_unsummed(range.start);
                    }
                    RunKind::Unsummed
                }
                None => return,
            };
            window.runs.push(Run { logical: range.start, len_bytes: range.end - range.start, kind, continues });
            continues = true;
        };
        let in_logs = engine.log_sums();
        sums.cover(range, &mut |part| match part {
            Part::Summed(range, sums) => push(range, Some(sums)),
            Part::Unsummed(range) if in_logs.is_empty() => push(range, None),
            Part::Unsummed(range) => in_logs.cover(range, &mut push),
        });
    }

    /// The window with this number; the one before it is complete.
    fn window(&mut self, number: u64, is_new: bool) -> &mut Window {
        if self.window.as_ref().is_none_or(|(have, _)| *have != number) {
            self.flush_window();
            self.enter_section(number);
        }
        self.has_new |= is_new;
        let chunk = &self.chunk;
        let (_, window) =
            self.window.get_or_insert_with(|| (number, Window::new(Arc::clone(chunk), number * WINDOW_BYTES)));
        window
    }

    fn flush_window(&mut self) {
        let has_new = std::mem::take(&mut self.has_new);
        let window = self.window.take().map(|(_, window)| window);
        self.batch.extend(window.filter(|w| has_new && !w.is_empty() && self.engine.wants(w)));
        if self.batch.len() >= self.batch_windows {
            self.flush_batch();
        }
    }

    fn flush_batch(&mut self) {
        let batch = std::mem::take(&mut self.batch);
        let most = (self.batch_windows * BATCHES_IN_FLIGHT).max(MIN_IN_FLIGHT);
        self.group.enter(most.saturating_sub(batch.len()), batch.len());
        let jobs: Vec<(Arc<Job>, Vec<Pick>)> = batch.into_iter().map(|window| self.job(window)).collect();
        for nth in 0..self.chunk.stripes().len() {
            for (job, picks) in &jobs {
                if let Some((stripe, selection)) = picks.iter().find(|(stripe, _)| *stripe == nth) {
                    self.engine.queue(Task { job: Arc::clone(job), stripe: *stripe, selection: *selection });
                }
            }
        }
        for (job, _) in jobs.iter().filter(|(_, picks)| picks.is_empty()) {
            self.engine.judge(job, Vec::new());
            self.group.done();
        }
    }

    /// The window as a job, with the stripes that are to be read.
    fn job(&self, window: Window) -> (Arc<Job>, Vec<Pick>) {
        let (scope, picks) = self.engine.picks(&window);
        (Arc::new(Job::new(Arc::new(window), Arc::clone(&self.group), scope, picks.len())), picks)
    }
}

/// The devices of a chunk, each once.
pub(super) fn devices_of(chunk: &Chunk) -> BTreeSet<DeviceId> {
    chunk.stripes().iter().map(|s| s.devid).collect()
}
