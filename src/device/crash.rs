//! Power cuts on purpose: members whose unsynced writes may be lost, all, some, or half of one.
//!
//! A disk promises nothing about writes before the flush: they are seen by reads at once, and after the cut any of
//! them may be missing. [`CrashDevice`] keeps them apart until `sync`, and [`CrashDevice::after_cut`] shows what a test
//! wants to have survived.

use super::{MemoryDevice, ReadDevice, WriteDevice, check_write};
use crate::units::Physical;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a disk writes as a whole or not at all.
const ATOM_BYTES: usize = 512;

/// The power of a whole machine: writes and syncs of all devices on it count, and after the last one that is allowed
/// every further one fails with `EIO`. Clones are the same supply.
#[derive(Clone, Debug)]
pub struct PowerSupply {
    steps_left: Arc<AtomicU64>,
}

impl PowerSupply {
    /// Never cut.
    pub fn steady() -> Self {
        Self::cut_after(u64::MAX)
    }

    /// Cut after so many writes and syncs.
    pub fn cut_after(steps: u64) -> Self {
        Self { steps_left: Arc::new(AtomicU64::new(steps)) }
    }

    /// Whether the cut has come: at least one write or sync was refused or the last allowed one is done.
    pub fn is_cut(&self) -> bool {
        self.steps_left.load(Ordering::SeqCst) == 0
    }

    fn step(&self) -> io::Result<()> {
        let left = self.steps_left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        left.map(drop).map_err(|_| io::Error::from_raw_os_error(libc::EIO))
    }
}

/// Which of the writes since the last sync reached the medium, in the order they were made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Survivors {
    /// None: all were in the disk's cache.
    None,
    /// All.
    All,
    /// The first so many.
    First(usize),
    /// The first so many, and of the next one only what lies in the first so many pieces of 512 bytes: a torn write.
    Torn {
        /// The writes that are whole.
        first: usize,
        /// The pieces of the one that is torn.
        pieces: usize,
    },
    /// Just these, by index: the disk reordered them.
    Only(Vec<usize>),
}

/// A member in memory that can lose power.
pub struct CrashDevice {
    power: PowerSupply,
    state: Mutex<State>,
    /// What reads see: all writes.
    current: MemoryDevice,
}

struct State {
    /// What is on the medium for certain.
    stable: Vec<u8>,
    unsynced: Vec<(usize, Vec<u8>)>,
    writes: u64,
    syncs: u64,
}

impl CrashDevice {
    /// A member with these contents on stable storage.
    pub fn new(image: Vec<u8>, power: PowerSupply) -> Self {
        let state = State { stable: image.clone(), unsynced: Vec::new(), writes: 0, syncs: 0 };
        Self { power, state: Mutex::new(state), current: MemoryDevice::new(image) }
    }

    /// The image that is found after a power cut now.
    pub fn after_cut(&self, survivors: &Survivors) -> Vec<u8> {
        let state = self.state();
        let mut image = state.stable.clone();
        for (index, (at, data)) in state.unsynced.iter().enumerate() {
            let survived = match survivors {
                Survivors::None => 0,
                Survivors::All => data.len(),
                Survivors::First(count) => whole(index < *count, data),
                Survivors::Torn { first, pieces } if index == *first => torn(*at, *pieces).min(data.len()),
                Survivors::Torn { first, .. } => whole(index < *first, data),
                Survivors::Only(indices) => whole(indices.contains(&index), data),
            };
            image[*at..*at + survived].copy_from_slice(&data[..survived]);
        }
        image
    }

    /// How many writes wait for a sync.
    pub fn unsynced_writes(&self) -> usize {
        self.state().unsynced.len()
    }

    /// How many writes were made.
    pub fn writes(&self) -> u64 {
        self.state().writes
    }

    /// How many syncs were made.
    pub fn syncs(&self) -> u64 {
        self.state().syncs
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn whole(survives: bool, data: &[u8]) -> usize {
    if survives { data.len() } else { 0 }
}

/// How many bytes of a write at `at` lie in the first `atoms` atoms that it touches.
fn torn(at: usize, atoms: usize) -> usize {
    (atoms * ATOM_BYTES).saturating_sub(at % ATOM_BYTES)
}

impl ReadDevice for CrashDevice {
    fn len(&self) -> u64 {
        self.current.len()
    }

    fn read_at(&self, at: Physical, buf: &mut [u8]) -> io::Result<()> {
        self.current.read_at(at, buf)
    }
}

impl WriteDevice for CrashDevice {
    fn write_at(&self, at: Physical, data: &[u8]) -> io::Result<()> {
        check_write(at, data.len(), self.len())?;
        let mut state = self.state();
        self.power.step()?;
        state.writes += 1;
        state.unsynced.push((at.raw() as usize, data.to_vec()));
        self.current.write_at(at, data)
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.state();
        self.power.step()?;
        state.syncs += 1;
        state.stable = self.current.to_bytes();
        state.unsynced.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{CrashDevice, PowerSupply, Survivors};
    use crate::device::{ReadDevice, WriteDevice};
    use crate::units::Physical;

    fn written(power: PowerSupply) -> CrashDevice {
        let device = CrashDevice::new(vec![0; 4096], power);
        for (at, value) in [(0, 1), (1024, 2), (2048, 3)] {
            device.write_at(Physical::new(at), &[value; 1024]).unwrap();
        }
        device
    }

    fn quarters(image: &[u8]) -> Vec<u8> {
        image.chunks(512).map(|half| half[0]).collect()
    }

    #[test]
    fn each_policy_keeps_what_it_names() {
        let device = written(PowerSupply::steady());
        let after = |survivors| quarters(&device.after_cut(&survivors));
        assert_eq!(after(Survivors::None), [0; 8]);
        assert_eq!(after(Survivors::All), [1, 1, 2, 2, 3, 3, 0, 0]);
        assert_eq!(after(Survivors::First(2)), [1, 1, 2, 2, 0, 0, 0, 0]);
        assert_eq!(after(Survivors::Torn { first: 1, pieces: 1 }), [1, 1, 2, 0, 0, 0, 0, 0]);
        assert_eq!(after(Survivors::Torn { first: 1, pieces: 9 }), [1, 1, 2, 2, 0, 0, 0, 0]);
        assert_eq!(after(Survivors::Only(vec![2, 0])), [1, 1, 0, 0, 3, 3, 0, 0]);
    }

    #[test]
    fn what_was_synced_survives_and_what_was_not_is_still_read() {
        let device = written(PowerSupply::steady());
        device.sync().unwrap();
        device.write_at(Physical::new(0), &[9; 512]).unwrap();
        let mut now = vec![0; 4096];
        device.read_at(Physical::new(0), &mut now).unwrap();
        assert_eq!(quarters(&now), [9, 1, 2, 2, 3, 3, 0, 0]);
        assert_eq!(quarters(&device.after_cut(&Survivors::None)), [1, 1, 2, 2, 3, 3, 0, 0]);
        assert_eq!((device.writes(), device.syncs(), device.unsynced_writes()), (4, 1, 1));
    }

    #[test]
    fn a_torn_write_tears_at_a_512_byte_boundary_of_the_disk() {
        let device = CrashDevice::new(vec![0; 2048], PowerSupply::steady());
        device.write_at(Physical::new(500), &[1; 1024]).unwrap();
        let image = device.after_cut(&Survivors::Torn { first: 0, pieces: 1 });
        let written: Vec<usize> = image.iter().enumerate().filter(|(_, byte)| **byte == 1).map(|(at, _)| at).collect();
        assert_eq!(written, (500..512).collect::<Vec<_>>());
    }

    #[test]
    fn a_supply_is_shared_and_ends_after_its_steps() {
        let power = PowerSupply::cut_after(5);
        let one = written(power.clone());
        let other = CrashDevice::new(vec![0; 4096], power.clone());
        one.sync().unwrap();
        assert!(!power.is_cut());
        other.write_at(Physical::new(0), &[1]).unwrap();
        assert!(power.is_cut());
        assert_eq!(one.write_at(Physical::new(0), &[1]).unwrap_err().raw_os_error(), Some(5));
        assert_eq!(other.sync().unwrap_err().raw_os_error(), Some(5));
        assert_eq!(other.after_cut(&Survivors::None), [0; 4096]);
    }
}
