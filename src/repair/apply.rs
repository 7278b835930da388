//! Carries a plan out. The right bytes are proved once more, window by window, while earlier ones are being written; what
//! comes out differently than planned is left alone.

use super::batch::{Write, Writer};
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
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Instant;

/// The usual size of a batch.
const BATCH_BYTES: usize = 16 << 20;
/// Windows that wait to be written: with a batch of old and new bytes, 4 x 1 MiB per bad stripe + 2 x 16 MiB.
const WINDOWS_AHEAD: usize = 4;

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
    let mut run = Run::new(plan, Writer::new(target, journal), progress, options.batch_bytes);
    std::thread::scope(|scope| {
        let reading = &reading;
        scope.spawn(move || {
            // After an early end nobody listens any more.
            let sink = |mends: Vec<Mend>| drop(sender.send(mends));
            let mending =
                Mending { places: Some(&places), choice: options.choice, salvage: options.salvage, sink: &sink };
            let read_options = ScrubOptions { max_findings: 0, ..options.scrub.clone() };
            // A failure to read leaves steps that were not proved, and they are told as such.
            drop(scrub_and_mend(fs, &read_options, reading, &mending));
        });
        run.receive(receiver);
        reading.cancel();
    });
    let mut summary = run.finish();
    summary.duration = clock.elapsed();
    if summary.is_interrupted {
        outcome.status = Status::Interrupted;
    }
    settle(outcome, plan, &summary);
    summary
}

struct Run<'a> {
    plan: &'a RepairPlan,
    writer: Writer<'a>,
    progress: &'a Progress,
    batch: Vec<Write>,
    full_bytes: usize,
    batch_bytes: usize,
    /// Written last, one copy of every device at a time.
    superblocks: Vec<Write>,
    summary: RepairSummary,
}

impl<'a> Run<'a> {
    fn new(plan: &'a RepairPlan, writer: Writer<'a>, progress: &'a Progress, full_bytes: usize) -> Self {
        let states = vec![StepState::Pending; plan.steps().len()];
        let summary = RepairSummary { states, ..RepairSummary::default() };
        let (batch, superblocks) = (Vec::new(), Vec::new());
        Self { plan, writer, progress, batch, full_bytes, batch_bytes: 0, superblocks, summary }
    }

    /// Takes what is proved until there is no more, or until the run has to end.
    #[expect(clippy::needless_pass_by_value, reason = "the receiver ends with it, so that senders do not wait")]
    fn receive(&mut self, receiver: Receiver<Vec<Mend>>) {
        for mend in receiver.iter().flatten() {
            self.take(mend);
            if self.batch_bytes >= self.full_bytes {
                self.flush();
            }
            if self.must_end() {
                return;
            }
        }
    }

    fn must_end(&self) -> bool {
        self.progress.is_cancelled() || self.summary.log_error.is_some()
    }

    fn take(&mut self, mend: Mend) {
        let is_superblock = mend.kind == FindingKind::Superblock;
        let Some(number) = self.plan.position(mend.place, is_superblock) else { return };
        let Some(step) = self.plan.steps().get(number) else { return };
        let bytes = mend.bytes.into_vec();
        if bytes.len() as u64 != step.len_bytes || Fingerprint::of(&bytes) != step.after {
            return;
        }
        let write = Write { step: number, place: mend.place, new: bytes };
        if is_superblock {
            self.superblocks.push(write);
        } else {
            self.batch_bytes += write.new.len();
            self.batch.push(write);
        }
    }

    fn flush(&mut self) {
        self.batch_bytes = 0;
        let batch = std::mem::take(&mut self.batch);
        self.commit(batch);
    }

    fn commit(&mut self, batch: Vec<Write>) {
        if batch.is_empty() || self.must_end() {
            return;
        }
        match self.writer.commit(batch) {
            Ok(states) => states.into_iter().for_each(|(step, state)| self.note(step, state)),
            Err(error) => self.summary.log_error = Some(error),
        }
    }

    fn note(&mut self, number: usize, state: StepState) {
        let Some(step) = self.plan.steps().get(number) else { return };
        if let Some(slot) = self.summary.states.get_mut(number) {
            *slot = state;
        }
        match state {
            StepState::Done => self.summary.bytes_repaired += step.len_bytes,
            StepState::Failed(_) => drop(self.progress.errors.fetch_add(step.findings, Ordering::Relaxed)),
            StepState::Pending => {}
        }
        self.progress.bytes_done.fetch_add(step.len_bytes, Ordering::Relaxed);
    }

    fn finish(mut self) -> RepairSummary {
        self.flush();
        let mut superblocks = std::mem::take(&mut self.superblocks);
        superblocks.sort_by_key(|write| (write.place.physical, write.place.devid));
        while let Some(first) = superblocks.first().map(|write| write.place.physical) {
            let is_other = |write: &Write| write.place.physical != first;
            let later = superblocks.split_off(superblocks.iter().position(is_other).unwrap_or(superblocks.len()));
            self.commit(std::mem::replace(&mut superblocks, later));
        }
        let ended_early = self.must_end();
        let pending = self.summary.states.iter_mut().filter(|state| **state == StepState::Pending);
        if ended_early {
            self.summary.is_interrupted = pending.count() > 0;
        } else {
            pending.for_each(|state| *state = StepState::Failed(Failure::NotProved));
        }
        self.summary.dropped = self.writer.into_dropped();
        self.summary
    }
}
