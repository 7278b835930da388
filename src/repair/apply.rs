//! Carries a plan out. The right bytes are proved once more, window by window, while earlier ones are being written; what
//! comes out differently than planned is left alone.

use super::batch::{Write, Writer, Written, read_back};
use super::fingerprint::Fingerprint;
use super::journal::Journal;
use super::outcome::{Failure, RepairSummary, StepState, settle};
use super::plan::{PlanOptions, Planned, RepairPlan};
use super::target::Target;
use crate::filesystem::Filesystem;
use crate::scrub::finding::FindingKind;
use crate::scrub::mend::{Choice, Mend, Mending, Salvage};
use crate::scrub::outcome::Status;
use crate::scrub::{Progress, ScrubOptions, scrub_and_mend};
use crate::units::DeviceId;
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// The usual size of a batch.
const BATCH_BYTES: usize = 16 << 20;
/// Windows that wait to be written, with old and new bytes: 4 x 2 MiB per bad stripe.
const WINDOWS_AHEAD: usize = 4;
/// Batches that wait to be read back, beside the one that is and the one that is written: 3 x 16 MiB, and 16 MiB of old
/// bytes.
const BATCHES_UNREAD: usize = 1;

/// How to carry out; the same choices as the plan was made with.
#[derive(Clone, Copy)]
pub struct ApplyOptions<'a> {
    /// How to read.
    pub scrub: &'a ScrubOptions,
    /// Who wins where nothing can be verified.
    pub choice: Choice,
    /// What is tried where every copy is bad.
    pub salvage: Option<&'a dyn Salvage>,
    /// A batch is written when it has so many bytes: one sync of the log and one of each device for it.
    pub batch_bytes: usize,
}

impl<'a> ApplyOptions<'a> {
    /// The choices of the plan, and batches of 16 MiB.
    pub fn of(plan: &PlanOptions<'a>) -> Self {
        Self { scrub: plan.scrub, choice: plan.choice, salvage: plan.salvage, batch_bytes: BATCH_BYTES }
    }
}

/// Writes what the plan says and nothing else. `planned.outcome` becomes that of the repair. Ends early, between two
/// batches, when `progress` is cancelled or the log cannot be written.
///
/// Three things go on at once: windows are read and proved, a batch is written, the batch before it is read back.
pub fn apply(
    fs: &Filesystem,
    planned: &mut Planned,
    options: &ApplyOptions<'_>,
    target: &Target,
    journal: &mut Journal,
    progress: &Progress,
) -> RepairSummary {
    let clock = Instant::now();
    let Planned { outcome, plan } = planned;
    progress.bytes_done.store(0, Ordering::Relaxed);
    progress.bytes_total.store(plan.bytes(), Ordering::Relaxed);
    let places = plan.places(fs);
    let reading = Progress::default();
    let (sender, receiver) = sync_channel::<Vec<Mend>>(WINDOWS_AHEAD);
    let (for_reading_back, written) = sync_channel::<Vec<Written>>(BATCHES_UNREAD);
    let ledger = Ledger::new(plan, progress);
    let mut run = Run::new(&ledger, Writer::new(target, journal), options.batch_bytes);
    std::thread::scope(|scope| {
        let (reading, ledger) = (&reading, &ledger);
        scope.spawn(move || {
            // After an early end nobody listens any more.
            let sink = |mends: Vec<Mend>| drop(sender.send(mends));
            let mending =
                Mending { places: Some(&places), choice: options.choice, salvage: options.salvage, sink: &sink };
            let read_options = ScrubOptions { max_findings: 0, ..options.scrub.clone() };
            // A failure to read leaves steps that were not proved, and they are told as such.
            drop(scrub_and_mend(fs, &read_options, reading, &mending));
        });
        scope.spawn(move || written.iter().for_each(|written| ledger.note(read_back(&written))));
        run.receive(receiver, &for_reading_back);
        drop(for_reading_back);
        reading.cancel();
        run.superblocks();
    });
    let (ended_early, dropped, log_error) = run.finish();
    let mut summary = ledger.summary(ended_early);
    (summary.dropped, summary.log_error, summary.duration) = (dropped, log_error, clock.elapsed());
    if summary.is_interrupted {
        outcome.status = Status::Interrupted;
    }
    settle(outcome, plan, &summary);
    summary
}

/// What has become of each step so far; both threads that settle steps write here.
struct Ledger<'a> {
    plan: &'a RepairPlan,
    progress: &'a Progress,
    states: Mutex<Vec<StepState>>,
}

impl<'a> Ledger<'a> {
    fn new(plan: &'a RepairPlan, progress: &'a Progress) -> Self {
        Self { plan, progress, states: Mutex::new(vec![StepState::Pending; plan.steps().len()]) }
    }

    fn note(&self, settled: Vec<(usize, StepState)>) {
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        for (number, state) in settled {
            let (Some(slot), Some(step)) = (states.get_mut(number), self.plan.steps().get(number)) else { continue };
            *slot = state;
            if matches!(state, StepState::Failed(_)) {
                self.progress.errors.fetch_add(step.findings, Ordering::Relaxed);
            }
            self.progress.bytes_done.fetch_add(step.len_bytes, Ordering::Relaxed);
        }
    }

    fn summary(self, ended_early: bool) -> RepairSummary {
        let mut states = self.states.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut is_interrupted = false;
        for state in states.iter_mut().filter(|state| **state == StepState::Pending) {
            is_interrupted |= ended_early;
            if !ended_early {
                *state = StepState::Failed(Failure::NotProved);
            }
        }
        let pairs = self.plan.steps().iter().zip(&states);
        let done = pairs.filter(|(_, state)| **state == StepState::Done);
        let bytes_repaired = done.map(|(step, _)| step.len_bytes).sum();
        RepairSummary { states, bytes_repaired, is_interrupted, ..RepairSummary::default() }
    }
}

struct Run<'a> {
    ledger: &'a Ledger<'a>,
    writer: Writer<'a>,
    batch: Vec<Write>,
    batch_bytes: usize,
    full_bytes: usize,
    /// Written last, one copy of every device at a time.
    superblocks: Vec<Write>,
    log_error: Option<io::Error>,
}

impl<'a> Run<'a> {
    fn new(ledger: &'a Ledger<'a>, writer: Writer<'a>, full_bytes: usize) -> Self {
        let (batch, superblocks) = (Vec::new(), Vec::new());
        Self { ledger, writer, batch, batch_bytes: 0, full_bytes, superblocks, log_error: None }
    }

    /// Takes what is proved until there is no more, or until the run has to end. The receiver ends with it.
    fn receive(&mut self, receiver: Receiver<Vec<Mend>>, for_reading_back: &SyncSender<Vec<Written>>) {
        for mend in receiver.into_iter().flatten() {
            self.take(mend);
            if self.batch_bytes >= self.full_bytes {
                self.flush(for_reading_back);
            }
            if self.must_end() {
                return;
            }
        }
        self.flush(for_reading_back);
    }

    fn must_end(&self) -> bool {
        self.ledger.progress.is_cancelled() || self.log_error.is_some()
    }

    fn take(&mut self, mend: Mend) {
        let plan = self.ledger.plan;
        let is_superblock = mend.kind == FindingKind::Superblock;
        let Some(number) = plan.position(mend.place, is_superblock) else { return };
        let Some(step) = plan.steps().get(number) else { return };
        let new = mend.bytes.into_vec();
        if new.len() as u64 != step.len_bytes || Fingerprint::of(&new) != step.after {
            return;
        }
        let write = Write { step: number, place: mend.place, new, old: mend.before };
        if is_superblock {
            self.superblocks.push(write);
        } else {
            self.batch_bytes += write.new.len();
            self.batch.push(write);
        }
    }

    fn flush(&mut self, for_reading_back: &SyncSender<Vec<Written>>) {
        self.batch_bytes = 0;
        let batch = std::mem::take(&mut self.batch);
        let written = self.commit(batch);
        // The other end is there as long as this run is.
        drop(for_reading_back.send(written));
    }

    fn commit(&mut self, batch: Vec<Write>) -> Vec<Written> {
        if batch.is_empty() || self.must_end() {
            return Vec::new();
        }
        match self.writer.commit(batch) {
            Ok(committed) => {
                self.ledger.note(committed.states);
                committed.written
            }
            Err(error) => {
                self.log_error = Some(error);
                Vec::new()
            }
        }
    }

    /// A copy is read back before the next one of the same device is touched.
    fn superblocks(&mut self) {
        let mut waiting = std::mem::take(&mut self.superblocks);
        waiting.sort_by_key(|write| (write.place.physical, write.place.devid));
        while let Some(first) = waiting.first().map(|write| write.place.physical) {
            let is_other = |write: &Write| write.place.physical != first;
            let later = waiting.split_off(waiting.iter().position(is_other).unwrap_or(waiting.len()));
            let written = self.commit(std::mem::replace(&mut waiting, later));
            self.ledger.note(read_back(&written));
        }
    }

    /// Whether steps were left out on purpose, the devices that failed, and the error of the log.
    fn finish(self) -> (bool, BTreeMap<DeviceId, Failure>, Option<io::Error>) {
        (self.must_end(), self.writer.into_dropped(), self.log_error)
    }
}
