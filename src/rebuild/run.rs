//! One rebuild from start to super blocks.

use super::superblocks::{superblocks_of, write_superblocks};
use super::target::{is_between, look_at, make_room};
use super::writer::{Message, Writer};
use super::{Found, RebuildError, RebuildState, StateStore};
use crate::device::ReadDevice;
use crate::filesystem::Filesystem;
use crate::lease::{LeasedDevice, WriteLease};
use crate::scrub::earlier::{Observer, PartDone};
use crate::scrub::history::Look;
use crate::scrub::lost::{Rebuilding, RebuiltBytes, RebuiltStripe, rebuild_buffers};
use crate::scrub::outcome::{ScrubOutcome, Status, Verdict};
use crate::scrub::{Progress, ScrubError, ScrubOptions, scrub_and_rebuild};
use crate::volume::LostMember;
use std::path::Path;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Instant, SystemTime};

/// Stripes on their way to the new device: 16 x 1 MiB.
const STRIPES_UNDER_WAY: usize = 16;

/// What is to be made of what.
#[derive(Clone, Copy)]
pub struct Rebuild<'a> {
    /// The members that are there.
    pub fs: &'a Filesystem,
    /// The one that is not.
    pub lost: &'a LostMember,
    /// How to read. What to look at is decided here.
    pub options: &'a ScrubOptions,
    /// How far it is, and who can stop it.
    pub progress: &'a Progress,
}

/// How it ended.
#[derive(Debug)]
pub struct Rebuilt {
    /// What was seen of the members that are there, all runs of this rebuild together.
    pub outcome: ScrubOutcome,
    /// What became of the lost member's bytes.
    pub bytes: RebuiltBytes,
    /// The new device is a member now.
    pub is_member: bool,
}

impl Rebuild<'_> {
    /// Looks whether the member can be made on `device`. With the `state` of an earlier run also what that one has left is
    /// known, at whatever moment it ended.
    pub fn look_at(
        &self,
        device: &dyn ReadDevice,
        path: &Path,
        overwrite: bool,
        state: Option<&RebuildState>,
    ) -> Result<Found, RebuildError> {
        let superblocks = superblocks_of(self.fs, self.lost)?;
        if let (Some(state), Some(first)) = (state, superblocks.last()) {
            let is_long_enough = device.len() >= self.lost.item().total_bytes;
            if is_long_enough && is_between(device, &state.marker(), first) {
                return Ok(Found::Half(state.marker()));
            }
        }
        Ok(look_at(device, path, self.fs.superblock().fsid(), self.lost, overwrite)?)
    }

    /// Makes the member on the device that the lease has for it, and [`Rebuild::look_at`] has found fit for it; goes on where `state` says, if the device
    /// is the one that the state is about. Ends early when the progress is cancelled.
    pub fn run(
        &self,
        lease: &WriteLease,
        found: Found,
        state: RebuildState,
        store: &dyn StateStore,
    ) -> Result<Rebuilt, RebuildError> {
        let device = &lease.device(self.lost.devid()).ok_or(RebuildError::NotOpen)?;
        let superblocks = superblocks_of(self.fs, self.lost)?;
        let state = self.begin(device, found, state, store)?;
        let (done, sections) = (state.history.done(), state.history.sections.clone());
        let is_begun = !done.is_empty() || !sections.is_empty();
        let earlier = state.history.sitting.clone().filter(|_| is_begun);
        let before = earlier.as_ref().map(|earlier| earlier.duration).unwrap_or_default();
        let (clock, state) = (Instant::now(), Mutex::new(state));
        let keep = |parts: Vec<PartDone>| {
            let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
            for part in &parts {
                state.history.add(part, Look::Whole, SystemTime::now(), before + clock.elapsed());
            }
            store.keep(&state);
        };
        let mut options = self.options.clone();
        options.selection.done = done;
        options.selection.done_sections = sections;
        let writer = Writer::new(lease, device, options.limit_bytes_per_second, self.progress);
        let scrubbed = self.copy(&options, &writer, &keep, earlier.as_ref());
        if let Some(lost) = lease.lost() {
            return Err(lost.into());
        }
        if let Some(failure) = writer.into_failure() {
            return Err(failure.into());
        }
        let (outcome, bytes) = scrubbed?;
        let is_whole = outcome.status == Status::Finished;
        if is_whole {
            lease.check()?;
            if self.fs.generation_now() != self.fs.superblock().generation() {
                return Err(RebuildError::Moved);
            }
            write_superblocks(device, &superblocks)?;
        }
        Ok(Rebuilt { is_member: is_whole, ..settled(outcome, bytes) })
    }

    /// The state to go by: the one given where the device carries its marker, else that of a beginning.
    fn begin(
        &self,
        device: &LeasedDevice,
        found: Found,
        state: RebuildState,
        store: &dyn StateStore,
    ) -> Result<RebuildState, RebuildError> {
        if found == Found::Half(state.marker()) {
            return Ok(state);
        }
        let state = RebuildState::new(self.fs, self.lost, state.run, SystemTime::now());
        make_room(device, found, state.marker())?;
        store.keep(&state);
        Ok(state)
    }

    /// Reads, and writes what comes out.
    fn copy(
        &self,
        options: &ScrubOptions,
        writer: &Writer<'_>,
        keep: &(dyn Fn(Vec<PartDone>) + Sync),
        earlier: Option<&crate::scrub::earlier::Earlier>,
    ) -> Result<(ScrubOutcome, RebuiltBytes), ScrubError> {
        let buffers = rebuild_buffers(STRIPES_UNDER_WAY).map_err(ScrubError::Memory)?;
        let (to_write, messages) = channel::<Message>();
        let (scrubbed, written) = std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let told = Told(Mutex::new(to_write));
                let sink = |stripes: Vec<RebuiltStripe>| told.send(Message::Stripes(stripes));
                let rebuilding = Rebuilding { lost: self.lost, buffers: &buffers, sink: &sink };
                scrub_and_rebuild(self.fs, options, self.progress, &rebuilding, &told, earlier)
            });
            let written = writer.run(messages, keep);
            (reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)), written)
        });
        written.map_err(ScrubError::Memory)?;
        scrubbed
    }
}

/// Passes on to the writer, in order.
struct Told(Mutex<Sender<Message>>);

impl Told {
    fn send(&self, message: Message) {
        // Where nobody listens the writer had no memory, and says so.
        drop(self.0.lock().unwrap_or_else(PoisonError::into_inner).send(message));
    }
}

impl Observer for Told {
    fn part_done(&self, done: PartDone) {
        self.send(Message::Done(Box::new(done)));
    }
}

/// What a rebuild would do, found out by reading all that it would read. Writes nothing.
pub fn survey(rebuild: &Rebuild<'_>) -> Result<Rebuilt, RebuildError> {
    superblocks_of(rebuild.fs, rebuild.lost)?;
    let buffers = rebuild_buffers(STRIPES_UNDER_WAY).map_err(ScrubError::Memory)?;
    let rebuilding = Rebuilding { lost: rebuild.lost, buffers: &buffers, sink: &drop };
    let Rebuild { fs, options, progress, .. } = *rebuild;
    let (outcome, bytes) = scrub_and_rebuild(fs, options, progress, &rebuilding, &Nobody, None)?;
    Ok(settled(outcome, bytes))
}

struct Nobody;

impl Observer for Nobody {
    fn part_done(&self, _: PartDone) {}
}

/// The verdict about what was to be done: a bad copy on a survivor that another one can replace is no part of it.
fn settled(mut outcome: ScrubOutcome, bytes: RebuiltBytes) -> Rebuilt {
    let is_lost = outcome.verdict == Verdict::Uncorrectable || bytes.lost > 0;
    outcome.verdict = if is_lost { Verdict::Uncorrectable } else { Verdict::Corrected };
    Rebuilt { outcome, bytes, is_member: false }
}
