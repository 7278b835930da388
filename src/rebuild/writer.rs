//! Writes stripes as they come, and every so often syncs the device and reads back what was written, while the next are
//! being written. What is done is told only then.
//!
//! Of what was written a fingerprint is kept, so that as much as is liked can lie between two syncs.

use super::DeviceFailure;
use crate::device::BufferPool;
use crate::lease::{LeasedDevice, WriteLease};
use crate::repair::Fingerprint;
use crate::scrub::Progress;
use crate::scrub::earlier::PartDone;
use crate::scrub::lost::{RebuiltStripe, rebuild_buffers};
use crate::scrub::pace::Pace;
use crate::units::Physical;
use std::io;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Writes in flight, and reads of what was written.
const AT_A_TIME: usize = 4;
/// Synced and read back together at most, the last one at the end: a share of what is written that is small, and no long
/// wait.
const SYNC_BYTES: u64 = 64 << 20;
/// And at least this often while something is written.
const SYNC_INTERVAL: Duration = Duration::from_secs(5);

/// What comes from the threads that read.
pub(super) enum Message {
    /// To be written.
    Stripes(Vec<RebuiltStripe>),
    /// All stripes of this part have come before.
    Done(Box<PartDone>),
}

/// What was written and is not proved to be there yet.
struct Written {
    at: Physical,
    len: usize,
    fingerprint: Fingerprint,
}

/// What was written between two syncs, and the parts that it is the last of.
#[derive(Default)]
struct Batch {
    written: Vec<Written>,
    parts: Vec<PartDone>,
}

/// The new device, and how it is written.
pub(super) struct Writer<'a> {
    lease: &'a WriteLease,
    device: &'a LeasedDevice,
    pace: Option<Pace>,
    /// Cancelled where the device fails.
    progress: &'a Progress,
    failure: Mutex<Option<DeviceFailure>>,
    under_way: Mutex<UnderWay>,
    written: Condvar,
}

#[derive(Default)]
struct UnderWay {
    stripes: usize,
    written: Vec<Written>,
}

impl<'a> Writer<'a> {
    pub(super) fn new(
        lease: &'a WriteLease,
        device: &'a LeasedDevice,
        limit: Option<u64>,
        progress: &'a Progress,
    ) -> Self {
        let (failure, under_way, written) = (Mutex::default(), Mutex::default(), Condvar::new());
        Self { lease, device, pace: limit.map(Pace::new), progress, failure, under_way, written }
    }

    /// Why the device cannot be used any more.
    pub(super) fn into_failure(self) -> Option<DeviceFailure> {
        self.failure.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes all that comes; `done` is told of parts that are on stable storage and were read back.
    pub(super) fn run(&self, messages: Receiver<Message>, done: &(dyn Fn(Vec<PartDone>) + Sync)) -> io::Result<()> {
        let pool = rebuild_buffers(AT_A_TIME)?;
        let (to_write, stripes) = channel::<RebuiltStripe>();
        let (to_check, batches) = sync_channel::<Batch>(0);
        let stripes = Mutex::new(stripes);
        std::thread::scope(|scope| {
            for _ in 0..AT_A_TIME {
                scope.spawn(|| self.write_stripes(&stripes));
            }
            scope.spawn(|| {
                for batch in batches {
                    self.check(batch, &pool, done);
                }
            });
            self.receive(messages, &to_write, &to_check);
            drop((to_write, to_check));
        });
        Ok(())
    }

    fn receive(&self, messages: Receiver<Message>, to_write: &Sender<RebuiltStripe>, to_check: &SyncSender<Batch>) {
        let (mut parts, mut bytes, mut since) = (Vec::new(), 0, Instant::now());
        for message in messages {
            match message {
                Message::Stripes(stripes) => {
                    for stripe in stripes {
                        bytes += stripe.parts().map(|(_, part)| part.len() as u64).sum::<u64>();
                        self.under_way().stripes += 1;
                        // The writers end after this.
                        drop(to_write.send(stripe));
                    }
                }
                Message::Done(part) => parts.push(*part),
            }
            if self.lease.lost().is_some() {
                self.progress.cancel();
            }
            if bytes >= SYNC_BYTES || (since.elapsed() >= SYNC_INTERVAL && (bytes > 0 || !parts.is_empty())) {
                let written = self.drain();
                drop(to_check.send(Batch { written, parts: std::mem::take(&mut parts) }));
                (bytes, since) = (0, Instant::now());
            }
        }
        drop(to_check.send(Batch { written: self.drain(), parts }));
    }

    /// Waits for the writes that are under way. Returns what was written since the last time.
    fn drain(&self) -> Vec<Written> {
        let mut under_way = self.under_way();
        while under_way.stripes > 0 {
            under_way = self.written.wait(under_way).unwrap_or_else(PoisonError::into_inner);
        }
        std::mem::take(&mut under_way.written)
    }

    fn write_stripes(&self, stripes: &Mutex<Receiver<RebuiltStripe>>) {
        loop {
            let next = stripes.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(stripe) = next else { return };
            let mut written = Vec::new();
            for (at, bytes) in stripe.parts() {
                if self.has_failed() {
                    break;
                }
                self.wait(bytes.len());
                if let Err(error) = self.device.write_at(at, bytes) {
                    self.fail(DeviceFailure::Write { at, error });
                    break;
                }
                written.push(Written { at, len: bytes.len(), fingerprint: Fingerprint::of(bytes) });
            }
            drop(stripe);
            let mut under_way = self.under_way();
            under_way.stripes -= 1;
            under_way.written.append(&mut written);
            self.written.notify_all();
        }
    }

    /// Syncs, reads back, and tells of the parts.
    fn check(&self, batch: Batch, pool: &BufferPool, done: &(dyn Fn(Vec<PartDone>) + Sync)) {
        // Whoever asks the lease is told why.
        if self.has_failed() || self.lease.check_batch().is_err() {
            return self.progress.cancel();
        }
        if let Err(error) = self.device.sync() {
            return self.fail(DeviceFailure::Sync(error));
        }
        let mut written = batch.written;
        written.sort_by_key(|written| written.at);
        let waiting = Mutex::new(written.into_iter());
        std::thread::scope(|scope| {
            for _ in 0..AT_A_TIME {
                scope.spawn(|| self.read_back(&waiting, pool));
            }
        });
        if !self.has_failed() && !batch.parts.is_empty() {
            done(batch.parts);
        }
    }

    fn read_back(&self, waiting: &Mutex<std::vec::IntoIter<Written>>, pool: &BufferPool) {
        let mut buffer = pool.take();
        while !self.has_failed() {
            let next = waiting.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some(Written { at, len, fingerprint }) = next else { return };
            let Some(bytes) = buffer.get_mut(..len) else { return self.fail(DeviceFailure::Differs { at }) };
            self.wait(len);
            match self.device.read_at(at, bytes) {
                Ok(()) if Fingerprint::of(bytes) == fingerprint => {}
                Ok(()) => self.fail(DeviceFailure::Differs { at }),
                Err(error) => self.fail(DeviceFailure::ReadBack { at, error }),
            }
        }
    }

    fn wait(&self, bytes: usize) {
        if let Some(pace) = &self.pace {
            pace.wait(bytes as u64, self.progress);
        }
    }

    fn has_failed(&self) -> bool {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// The first failure is the one that is told.
    fn fail(&self, failure: DeviceFailure) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(failure);
        self.progress.cancel();
    }

    fn under_way(&self) -> MutexGuard<'_, UnderWay> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
