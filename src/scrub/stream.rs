//! Device streams: each member has a queue of stripes to read, served in order by a few threads that share its pool of
//! buffers. Whoever brings in the last stripe of a window judges the window.
//!
//! A thread takes a buffer before it takes a task, so that the oldest window always gets its buffers and no two windows
//! can wait for each other.

use super::below::{self, BelowBlock, LowerSector};
use super::engine::Engine;
use super::group::Group;
use super::pace::Pace;
use super::selection::has_parity;
use super::verify::{CopyVerdict, Unreadable, verify};
use super::window::{WINDOW_BYTES, Window};
use crate::device::{BufferPool, Coalesce, FailedSector, Limits, PooledBuffer, ReadDevice, read_tolerant};
use crate::units::Physical;
use crate::volume::STRIPE_LEN_BYTES;
use crate::volume::read_policy::Selection;
use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// Buffers per device: 8 x 1 MiB.
const BUFFERS_PER_DEVICE: usize = 8;
/// Buffers of all devices together that a repair may hold until their bytes are written and read back: 64 x 1 MiB.
const HELD_BUFFERS: usize = 64;

/// What stands in for buffers that a repair holds.
pub(super) fn reserve() -> std::io::Result<BufferPool> {
    BufferPool::new(HELD_BUFFERS, WINDOW_BYTES as usize)
}

/// One stripe of one window, read and verified.
pub(super) struct StripeCopy {
    pub(super) stripe: usize,
    pub(super) verdict: CopyVerdict,
    pub(super) unreadable: Unreadable,
    /// What is wrong below the device, where it is put together from others.
    pub(super) below: Vec<BelowBlock>,
    /// Kept only where the columns of a row must be seen together, or bad copies are to be mended.
    pub(super) buffer: Option<Arc<PooledBuffer>>,
}

/// How much of a window is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// All stripes, and whole rows where there is parity: it can be judged.
    Whole,
    /// Some stripes, and only what is allocated: enough where nothing is bad.
    Part,
}

/// A window on its way.
pub(super) struct Job {
    pub(super) window: Arc<Window>,
    pub(super) group: Arc<Group>,
    pub(super) scope: Scope,
    copies: Mutex<Vec<StripeCopy>>,
    pending: AtomicUsize,
    spoiled: AtomicBool,
}

impl Job {
    /// A window whose `stripes` stripes are about to be queued.
    pub(super) fn new(window: Arc<Window>, group: Arc<Group>, scope: Scope, stripes: usize) -> Self {
        Self {
            window,
            group,
            scope,
            copies: Mutex::new(Vec::with_capacity(stripes)),
            pending: AtomicUsize::new(stripes),
            spoiled: AtomicBool::new(false),
        }
    }

    /// Takes in one stripe (`None`: the run was cancelled). Returns all of them to whoever brings the last one, in the
    /// order of their numbers; nothing where one of them was not read.
    #[allow(clippy::option_option, reason = "not the last; the last, all there or not")]
    fn arrive(&self, copy: Option<StripeCopy>) -> Option<Option<Vec<StripeCopy>>> {
        match copy {
            Some(copy) => self.copies.lock().unwrap_or_else(PoisonError::into_inner).push(copy),
            None => self.spoiled.store(true, Ordering::Relaxed),
        }
        if self.pending.fetch_sub(1, Ordering::AcqRel) != 1 {
            return None;
        }
        let mut copies = std::mem::take(&mut *self.copies.lock().unwrap_or_else(PoisonError::into_inner));
        copies.sort_by_key(|copy| copy.stripe);
        Some((!self.spoiled.load(Ordering::Relaxed)).then_some(copies))
    }
}

/// One stripe to read.
pub(super) struct Task {
    pub(super) job: Arc<Job>,
    pub(super) stripe: usize,
    /// Where the read policy picked the stripe: to be reported to it.
    pub(super) selection: Option<Selection>,
}

#[derive(Default)]
struct Pending {
    tasks: VecDeque<Task>,
    closed: bool,
}

/// The queue and the buffers of one member.
pub(super) struct Lane {
    device: Arc<dyn ReadDevice>,
    pace: Option<Pace>,
    pool: BufferPool,
    pending: Mutex<Pending>,
    arrived: Condvar,
}

impl Lane {
    /// A lane for `device`; fails where there is no memory for its buffers. With a reserve, what is read may be held for
    /// longer than a window.
    pub(super) fn new(
        device: Arc<dyn ReadDevice>,
        limit: Option<u64>,
        reserve: Option<&BufferPool>,
    ) -> std::io::Result<Self> {
        let pool = match reserve {
            Some(reserve) => BufferPool::with_reserve(BUFFERS_PER_DEVICE, reserve)?,
            None => BufferPool::new(BUFFERS_PER_DEVICE, WINDOW_BYTES as usize)?,
        };
        Ok(Self { device, pace: limit.map(Pace::new), pool, pending: Mutex::default(), arrived: Condvar::new() })
    }

    /// Threads that serve it: where several copies are read one after the other, so many more.
    pub(super) fn threads(&self, per_device: usize) -> usize {
        let per_device = per_device.max(1);
        let has_more = self.device.below().is_some_and(|below| below.has_copies() || !below.parities().is_empty());
        if has_more { per_device.saturating_mul(2) } else { per_device }
    }

    /// Queues a task behind all others.
    pub(super) fn push(&self, task: Task) {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner).tasks.push_back(task);
        self.arrived.notify_one();
    }

    /// Lets the threads end once the queue is empty.
    pub(super) fn close(&self) {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner).closed = true;
        self.arrived.notify_all();
    }

    fn next(&self) -> Option<(Task, PooledBuffer)> {
        let buffer = self.pool.take();
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(task) = pending.tasks.pop_front() {
                return Some((task, buffer));
            }
            if pending.closed {
                return None;
            }
            pending = self.arrived.wait(pending).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// What one reader thread does until the lane is closed. Where there are `hashers`, they verify.
    pub(super) fn serve<'scope>(&'scope self, engine: &'scope Engine<'scope>, hashers: Option<&rayon::Scope<'scope>>) {
        while let Some((task, mut buffer)) = self.next() {
            if engine.is_cancelled() {
                finish(engine, &task.job, None);
                continue;
            }
            let started_ns = engine.clock_ns();
            let mut lower = Vec::new();
            let unreadable = self.read(&task, &mut buffer, &mut lower, engine);
            engine.report(task.selection, started_ns, unreadable.is_empty());
            let read = ReadStripe { device: &*self.device, buffer, unreadable, lower };
            match hashers {
                Some(hashers) => hashers.spawn(move |_| judge_stripe(engine, &task, read)),
                None => judge_stripe(engine, &task, read),
            }
        }
    }

    /// Reads the task's parts of the window into the same places of the buffer.
    fn read(&self, task: &Task, buffer: &mut [u8], lower: &mut Vec<LowerSector>, engine: &Engine<'_>) -> Unreadable {
        let sectorsize = engine.geometry().sectorsize() as usize;
        let window = &task.job.window;
        let base = window.chunk.stripes().get(task.stripe).map(|s| s.offset + window.from_bytes).unwrap_or_default();
        let mut unreadable = Vec::new();
        let mut failed: Vec<FailedSector> = Vec::new();
        let pieces = needed(window, task.stripe, task.job.scope).into_iter().map(|r| base + r.start..base + r.end);
        for request in Coalesce::new(pieces, Limits::default()) {
            let offset = (request.start - base) as usize;
            let len = (request.end - request.start) as usize;
            let Some(buffer) = buffer.get_mut(offset..offset + len) else { continue };
            if let Some(pace) = &self.pace {
                pace.wait(len as u64, engine.progress());
            }
            let first = offset / sectorsize;
            if let Some(layers) = self.device.below() {
                let mut into = below::Into { buffer, first, sectorsize, unreadable: &mut unreadable, lower };
                below::read(&*self.device, layers, request.start, &mut into);
                continue;
            }
            read_tolerant(&*self.device, request.start, buffer, sectorsize, &mut failed);
            unreadable.extend(failed.drain(..).map(|f| (first + f.index, f.errno)));
        }
        unreadable
    }
}

/// The parts of stripe number `stripe` that are needed to judge the window, as offsets into it, ascending. Where there is
/// parity, every row with something allocated is needed whole.
pub(super) fn needed(window: &Window, stripe: usize, scope: Scope) -> Vec<Range<u64>> {
    if scope == Scope::Part || !has_parity(&window.chunk) {
        return window
            .runs
            .iter()
            .flat_map(|run| window.pieces_on(run, stripe))
            .map(|(piece, offset)| offset as u64..offset as u64 + piece.len_bytes)
            .collect();
    }
    let rows: BTreeSet<u64> = window.rows().collect();
    rows.into_iter()
        .map(|row| row * STRIPE_LEN_BYTES - window.from_bytes)
        .map(|offset| offset..offset + STRIPE_LEN_BYTES)
        .collect()
}

/// One stripe of a window as it was read.
struct ReadStripe<'a> {
    device: &'a dyn ReadDevice,
    buffer: PooledBuffer,
    unreadable: Unreadable,
    lower: Vec<LowerSector>,
}

fn judge_stripe(engine: &Engine<'_>, task: &Task, read: ReadStripe<'_>) {
    let ReadStripe { device, mut buffer, mut unreadable, lower } = read;
    let window = &task.job.window;
    let compare = task.job.scope == Scope::Whole && engine.compares(&window.chunk);
    let mut verdict = verify(window, task.stripe, &buffer, &unreadable, engine.geometry(), compare);
    let mut wrong_below = Vec::new();
    if let Some(below) = device.below().filter(|_| !verdict.bad.is_empty() || !lower.is_empty()) {
        let (number, geometry) = (task.stripe, engine.geometry());
        let stripe = below::Stripe { window, number, device, below, geometry, compare };
        wrong_below = below::resolve(&stripe, &mut buffer, &mut unreadable, &mut verdict, lower);
    }
    let bytes = verdict.counters.data_bytes_scrubbed + verdict.counters.tree_bytes_scrubbed;
    engine.progress().advance(bytes, (verdict.bad.len() + wrong_below.len()) as u64);
    let keep = engine.keeps_buffers()
        || device.below().is_some()
        || (task.job.scope == Scope::Whole && has_parity(&window.chunk));
    let buffer = keep.then(|| Arc::new(buffer));
    finish(
        engine,
        &task.job,
        Some(StripeCopy { stripe: task.stripe, verdict, unreadable, below: wrong_below, buffer }),
    );
}

fn finish(engine: &Engine<'_>, job: &Arc<Job>, copy: Option<StripeCopy>) {
    if let Some(copies) = job.arrive(copy) {
        match copies {
            Some(copies) => engine.judge(job, copies),
            None => job.group.spoil(),
        }
        job.group.done();
    }
}

/// The highest byte that a stripe's part of a window reaches on its device.
pub(super) fn last_physical(window: &Window, stripe: usize) -> Physical {
    let base = window.chunk.stripes().get(stripe).map(|s| s.offset + window.from_bytes).unwrap_or_default();
    needed(window, stripe, Scope::Part).last().map_or(base, |range| base + range.end)
}
