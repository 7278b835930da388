//! Three things at once: windows are read and proved, a batch is written, the batch before it is read back.

use super::apply::ApplyOptions;
use super::batch::{Write, Writer, Written, buffers, read_back};
use super::journal::Record;
use super::ledger::Ledger;
use super::outcome::Failure;
use super::plan::Step;
use crate::device::BufferPool;
use crate::filesystem::Filesystem;
use crate::scrub::finding::FindingKind;
use crate::scrub::mend::{Mend, Mending, Places, ProvenBytes};
use crate::scrub::outcome::ScrubOutcome;
use crate::scrub::{Progress, ScrubError, ScrubOptions, scrub_and_mend};
use crate::units::DeviceId;
use std::collections::BTreeMap;
use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Windows that wait to be written: as many as go into a batch, so that reading goes on while one is written. 16 x 1 MiB per
/// bad stripe, and as much again for old bytes that are not all the same.
const WINDOWS_AHEAD: usize = 16;
/// Batches that wait to be read back, beside the one that is and the one that is written: 3 x 16 MiB, and 16 MiB of old
/// bytes.
const BATCHES_UNREAD: usize = 1;

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
    pub(super) dropped: BTreeMap<DeviceId, Failure>,
    pub(super) log_error: Option<io::Error>,
}

impl Ended {
    fn without_memory(error: &io::Error) -> Self {
        let scrubbed = Some(Err(ScrubError::Memory(error.kind().into())));
        Self { scrubbed, early: false, dropped: BTreeMap::new(), log_error: None }
    }
}

/// Scrubs, and writes what the ledger admits. `cancel` ends it between two batches.
pub(super) fn run(reading: &Reading<'_>, ledger: &Ledger<'_>, writer: Writer<'_>, cancel: &Progress) -> Ended {
    let pool = match buffers() {
        Ok(pool) => pool,
        Err(error) => return Ended::without_memory(&error),
    };
    let (sender, receiver) = sync_channel::<Vec<Measured>>(WINDOWS_AHEAD);
    let (for_reading_back, written) = sync_channel::<Vec<Written>>(BATCHES_UNREAD);
    let mut run = Run {
        ledger,
        writer,
        pool: pool.clone(),
        cancel,
        batch: Vec::new(),
        batch_bytes: 0,
        full_bytes: reading.options.batch_bytes,
        superblocks: Vec::new(),
        log_error: None,
    };
    let scrubbed = std::thread::scope(|scope| {
        let reader = scope.spawn(move || {
            // After an early end nobody listens any more.
            let sink = |mends: Vec<Mend>| drop(sender.send(mends.into_iter().map(Measured::of).collect()));
            let Reading { fs, options, scrub, places, progress } = *reading;
            let mending = Mending { places, choice: options.choice, salvage: options.salvage, sink: &sink };
            scrub_and_mend(fs, scrub, progress, &mending)
        });
        scope.spawn(move || written.iter().for_each(|written| ledger.note(read_back(written, &pool))));
        run.receive(receiver, &for_reading_back);
        if run.must_end() {
            reading.progress.cancel();
        }
        drop(for_reading_back);
        run.superblocks();
        reader.join().ok()
    });
    Ended { scrubbed, early: run.must_end(), dropped: run.writer.into_dropped(), log_error: run.log_error }
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

struct Run<'a> {
    ledger: &'a Ledger<'a>,
    writer: Writer<'a>,
    pool: BufferPool,
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
    fn receive(&mut self, receiver: Receiver<Vec<Measured>>, for_reading_back: &SyncSender<Vec<Written>>) {
        for measured in receiver.into_iter().flatten() {
            self.take(measured);
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
        self.cancel.is_cancelled() || self.log_error.is_some()
    }

    fn take(&mut self, Measured { step, new, record }: Measured) {
        let is_superblock = step.kind == FindingKind::Superblock;
        let Some(step) = self.ledger.admit(step) else { return };
        let write = Write { step, new, record };
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
        match self.writer.commit(batch, &self.pool) {
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
        waiting.sort_by_key(|write| (write.place().physical, write.place().devid));
        while let Some(first) = waiting.first().map(|write| write.place().physical) {
            let is_other = |write: &Write| write.place().physical != first;
            let later = waiting.split_off(waiting.iter().position(is_other).unwrap_or(waiting.len()));
            let written = self.commit(std::mem::replace(&mut waiting, later));
            self.ledger.note(read_back(written, &self.pool));
        }
    }
}
