//! What looks whether the members are still what they were, and stands between every write and its device.
//!
//! A look has two parts. Names, lengths and users are asked of the kernel's memory, at every look: before the first
//! write, before each batch, and by a write after [`FRESH`]. The super blocks are read from the members around the page
//! cache, which on a spinning disk costs a seek for each: before the first write always, then at every look too, unless
//! that would take more than one part in [`SHARE`] of the time; every [`AT_LEAST`] in any case.

use super::LeaseError;
use super::superblocks::Superblocks;
use crate::device::{HeldDevice, Identity, WriteDevice, kernel_users};
use crate::units::{DeviceId, Physical};
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long one look lasts for the writes that follow.
const FRESH: Duration = Duration::from_millis(20);
/// The super blocks are not read again before so many times as long has gone by as reading them took.
const SHARE: u32 = 50;
/// But for this long at the most.
pub(super) const AT_LEAST: Duration = Duration::from_secs(1);

/// One member.
pub(super) struct Watched {
    pub(super) devid: DeviceId,
    pub(super) path: PathBuf,
    pub(super) device: Arc<dyn WriteDevice>,
    pub(super) superblocks: Superblocks,
}

/// All members.
pub(super) struct Guard {
    members: Vec<(DeviceId, PathBuf, Arc<dyn WriteDevice>)>,
    /// The files and block devices below them; none where they are simulated.
    parts: Vec<HeldDevice>,
    started: Instant,
    /// Up to when writes need not look, in microseconds from `started`.
    fresh_until: AtomicU64,
    state: Mutex<State>,
}

struct State {
    superblocks: Vec<Superblocks>,
    superblocks_due: Option<Instant>,
    lost: Option<LeaseError>,
}

impl Guard {
    pub(super) fn new(watched: Vec<Watched>, parts: Vec<HeldDevice>) -> Self {
        let split = watched.into_iter().map(|w| ((w.devid, w.path, w.device), w.superblocks));
        let (members, superblocks) = split.unzip();
        let state = State { superblocks, superblocks_due: None, lost: None };
        let (started, fresh_until) = (Instant::now(), AtomicU64::new(0));
        Self { members, parts, started, fresh_until, state: Mutex::new(state) }
    }

    pub(super) fn number_of(&self, devid: DeviceId) -> Option<usize> {
        self.members.iter().position(|(own, ..)| *own == devid)
    }

    pub(super) fn device(&self, number: usize) -> Option<&Arc<dyn WriteDevice>> {
        self.members.get(number).map(|(_, _, device)| device)
    }

    pub(super) fn lost(&self) -> Option<LeaseError> {
        self.state().lost.clone()
    }

    /// Looks at everything now.
    pub(super) fn check(&self) -> Result<(), LeaseError> {
        let mut state = self.state();
        state.superblocks_due = None;
        self.look(&mut state)
    }

    /// Looks now, at what costs no more than it may.
    pub(super) fn check_batch(&self) -> Result<(), LeaseError> {
        self.look(&mut self.state())
    }

    /// Writes, having looked not long ago.
    pub(super) fn write_at(&self, number: usize, at: Physical, data: &[u8]) -> io::Result<()> {
        if self.now() >= self.fresh_until.load(Ordering::Acquire) {
            self.look_if_nobody_did()?;
        }
        let device = self.device(number).ok_or(io::ErrorKind::NotFound)?;
        if !Superblocks::touches(at, data.len()) {
            return device.write_at(at, data);
        }
        // What we write there ourselves is no change by others, and nobody looks meanwhile.
        let mut state = self.state();
        let result = device.write_at(at, data);
        if let Some(superblocks) = state.superblocks.get_mut(number) {
            superblocks.forget(at, data.len());
        }
        result
    }

    fn look_if_nobody_did(&self) -> io::Result<()> {
        let mut state = self.state();
        if self.now() < self.fresh_until.load(Ordering::Acquire) {
            return Ok(());
        }
        self.look(&mut state).map_err(io::Error::other)
    }

    fn look(&self, state: &mut State) -> Result<(), LeaseError> {
        if let Some(lost) = &state.lost {
            return Err(lost.clone());
        }
        let result = self.look_at_parts().and_then(|()| self.look_at_superblocks(state));
        match &result {
            Ok(()) => self.fresh_until.store(self.now() + FRESH.as_micros() as u64, Ordering::Release),
            Err(error) => {
                self.fresh_until.store(0, Ordering::Release);
                state.lost = Some(error.clone());
            }
        }
        result
    }

    fn look_at_parts(&self) -> Result<(), LeaseError> {
        self.parts.iter().try_for_each(HeldDevice::check)?;
        let identities: Vec<Identity> = self.parts.iter().map(HeldDevice::identity).collect();
        // A kernel that cannot be asked now could not be asked before either; it counts as no use there too.
        let users = kernel_users(&identities).unwrap_or_default();
        for (part, users) in self.parts.iter().zip(users) {
            if let Some(user) = users.into_iter().next() {
                return Err(LeaseError::InUse { path: part.path().to_owned(), user });
            }
        }
        Ok(())
    }

    fn look_at_superblocks(&self, state: &mut State) -> Result<(), LeaseError> {
        let start = Instant::now();
        if state.superblocks_due.is_some_and(|due| start < due) {
            return Ok(());
        }
        for ((_, path, device), superblocks) in self.members.iter().zip(&mut state.superblocks) {
            superblocks.compare(&**device, path)?;
        }
        let end = Instant::now();
        state.superblocks_due = Some(end + ((end - start) * SHARE).min(AT_LEAST));
        Ok(())
    }

    fn now(&self) -> u64 {
        self.started.elapsed().as_micros() as u64
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
