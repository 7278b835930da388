//! Four things at once: windows are read and proved, a batch is logged, the one before it is written, and the one before
//! that is read back.

use super::apply::ApplyOptions;
use super::batch::{Logged, Write, Writer, Written, buffers, log, read_back};
use super::journal::{Journal, Record};
use super::ledger::Ledger;
use super::outcome::{Failure, StepState};
use super::plan::Step;
use crate::device::BufferPool;
use crate::filesystem::Filesystem;
use crate::scrub::finding::FindingKind;
use crate::scrub::mend::{Mend, Mending, Places, ProvenBytes};
use crate::scrub::outcome::ScrubOutcome;
use crate::scrub::{Progress, ScrubError, ScrubOptions, scrub_and_mend};
use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Windows that wait to be written: as many as go into a batch, so that reading goes on while one is logged. 8 x 1 MiB per
/// bad stripe, and as much again for old bytes that are not all the same.
const WINDOWS_AHEAD: usize = 8;
/// Batches that wait for the next to be done with them: none. Four are under way, 8 MiB each, and the old bytes of two.
const BATCHES_WAITING: usize = 0;

/// What is read, and who can stop it.
pub(super) struct Reading<'a> {
    pub(super) fs: &'a Filesystem,
    pub(super) options: &'a ApplyOptions<'a>,
    pub(super) scrub: &'a ScrubOptions,
    pub(super) places: Option<&'a Places>,
    pub(super) progress: &'a Progress,
}

/// How a run ended.
pub(super) struct Ended {
    pub(super) scrubbed: Option<Result<ScrubOutcome, ScrubError>>,
    /// Steps were left out on purpose.
    pub(super) early: bool,
    pub(super) log_error: Option<io::Error>,
}

/// Scrubs, and writes what the ledger admits. `cancel` ends it between two batches.
pub(super) fn run(
    reading: &Reading<'_>,
    ledger: &Ledger<'_>,
    journal: &mut Journal,
    writer: &Writer<'_>,
    cancel: &Progress,
) -> Ended {
    let pool = match buffers() {
        Ok(pool) => pool,
        Err(error) => return Ended { scrubbed: Some(Err(ScrubError::Memory(error))), early: false, log_error: None },
    };
    let (to_log, proved) = sync_channel::<Vec<Measured>>(WINDOWS_AHEAD);
    let (to_write, logged) = sync_channel::<Vec<Logged>>(BATCHES_WAITING);
    let (to_read_back, written) = sync_channel::<Vec<Written>>(BATCHES_WAITING);
    let mut run = Run {
        ledger,
        journal,
        writer,
        cancel,
        batch: Vec::new(),
        batch_bytes: 0,
        full_bytes: reading.options.batch_bytes,
        superblocks: Vec::new(),
        log_error: None,
    };
    // Whoever sends finds the other end there, but for the reader after an early end: then nobody listens any more.
    let scrubbed = std::thread::scope(|scope| {
        let reader = scope.spawn(move || {
            let sink = |mends: Vec<Mend>| drop(to_log.send(mends.into_iter().map(Measured::of).collect()));
            let Reading { fs, options, scrub, places, progress } = *reading;
            let mending = Mending { places, choice: options.choice, salvage: options.salvage, sink: &sink };
            scrub_and_mend(fs, scrub, progress, &mending)
        });
        let pool = &pool;
        scope.spawn(move || {
            for batch in logged {
                drop(to_read_back.send(writer.write(batch, ledger, pool)));
            }
        });
        scope.spawn(move || written.iter().for_each(|written| ledger.note(read_back(written, pool))));
        run.receive(proved, &to_write);
        if run.must_end() {
            reading.progress.cancel();
        }
        drop(to_write);
        reader.join().ok()
    });
    run.superblocks(reading.fs, &pool);
    Ended { scrubbed, early: run.must_end(), log_error: run.log_error }
}

/// Right bytes with all that must be known of them, worked out by whoever has just proved them: there they are still in
/// the processor's cache.
struct Measured {
    step: Step,
    new: ProvenBytes,
    record: Record,
}

impl Measured {
    fn of(mend: Mend) -> Self {
        let step = Step::of(&mend);
        let Mend { place, before, bytes: mut new, .. } = mend;
        let record = Record::new(place, before, &new);
        new.hold();
        Self { step, new, record }
    }
}

/// What is done here while the others read and write: gathers batches, and logs them.
struct Run<'a> {
    ledger: &'a Ledger<'a>,
    journal: &'a mut Journal,
    writer: &'a Writer<'a>,
    cancel: &'a Progress,
    batch: Vec<Write>,
    batch_bytes: usize,
    full_bytes: usize,
    /// Written last, one copy of every device at a time.
    superblocks: Vec<Write>,
    log_error: Option<io::Error>,
}

impl Run<'_> {
    /// Takes what is proved until there is no more, or until the run has to end. The receiver ends with it.
    fn receive(&mut self, proved: Receiver<Vec<Measured>>, to_write: &SyncSender<Vec<Logged>>) {
        for measured in proved.into_iter().flatten() {
            self.take(measured);
            if self.batch_bytes >= self.full_bytes {
                self.flush(to_write);
            }
            if self.must_end() {
                return;
            }
        }
        self.flush(to_write);
    }

    fn must_end(&self) -> bool {
        self.cancel.is_cancelled() || self.log_error.is_some() || self.writer.is_lost()
    }

    fn take(&mut self, Measured { step, new, record }: Measured) {
        let is_superblock = step.kind == FindingKind::Superblock;
        let Some(step) = self.ledger.admit(step) else { return };
        if let Some(failure) = self.writer.refusal(record.place.devid) {
            return self.ledger.note(vec![(step, StepState::Failed(failure))]);
        }
        let write = Write { step, new, record };
        if is_superblock {
            self.superblocks.push(write);
        } else {
            self.batch_bytes += write.new.len();
            self.batch.push(write);
        }
    }

    fn flush(&mut self, to_write: &SyncSender<Vec<Logged>>) {
        self.batch_bytes = 0;
        let batch = std::mem::take(&mut self.batch);
        drop(to_write.send(self.log(batch)));
    }

    /// Nothing where the log cannot be written, or the run has to end.
    fn log(&mut self, batch: Vec<Write>) -> Vec<Logged> {
        if self.must_end() {
            return Vec::new();
        }
        log(self.journal, batch).unwrap_or_else(|error| {
            self.log_error = Some(error);
            Vec::new()
        })
    }

    /// A copy is read back before the next one of the same device is touched.
    fn superblocks(&mut self, fs: &Filesystem, pool: &BufferPool) {
        let is_stale = |devid| fs.standing(devid).is_some_and(|standing| !standing.has_vote());
        let waiting = std::mem::take(&mut self.superblocks).into_iter();
        let (behind, mut waiting): (Vec<Write>, Vec<Write>) = waiting.partition(|write| {
            let devid = write.place().devid;
            is_stale(devid) && self.ledger.is_behind(devid)
        });
        let not_written = |write: Write| (write.step, StepState::Failed(Failure::NotCaughtUp));
        if !self.must_end() {
            self.ledger.note(behind.into_iter().map(not_written).collect());
        }
        waiting.sort_by_key(|write| (write.place().physical, write.place().devid));
        while let Some(first) = waiting.first().map(|write| write.place().physical) {
            let is_other = |write: &Write| write.place().physical != first;
            let later = waiting.split_off(waiting.iter().position(is_other).unwrap_or(waiting.len()));
            let logged = self.log(std::mem::replace(&mut waiting, later));
            self.ledger.note(read_back(self.writer.write(logged, self.ledger, pool), pool));
        }
    }
}
