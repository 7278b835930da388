//! Members that remember what was written to them, over images that stay as they are, and that can lose power: what was
//! not synced survives as a test says. `mirrortool::device::CrashDevice` does the same with whole images in memory.

use mirrortool::device::{ReadDevice, Survivors, WriteDevice};
use mirrortool::repair::LogStore;
use mirrortool::units::Physical;
use std::io;
use std::sync::{Arc, Mutex};

/// What a disk writes as a whole or not at all.
const ATOM_BYTES: usize = 512;

/// Writes in the order they were made.
pub type Writes = Vec<(u64, Vec<u8>)>;

/// An image with writes over it.
pub struct Overlay {
    base: Arc<dyn ReadDevice>,
    power: Power,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    stable: Writes,
    unsynced: Writes,
}

/// The power of a whole machine, in steps: a write or a sync each.
#[derive(Clone, Default)]
pub struct Power(Arc<Mutex<(u64, Option<u64>)>>);

impl Power {
    /// Cut after so many steps.
    pub fn cut_after(steps: u64) -> Self {
        Self(Arc::new(Mutex::new((0, Some(steps)))))
    }

    /// Steps that were asked for so far.
    pub fn steps(&self) -> u64 {
        self.0.lock().unwrap().0
    }

    fn step(&self) -> io::Result<()> {
        let mut state = self.0.lock().unwrap();
        state.0 += 1;
        if state.1.is_some_and(|most| state.0 > most) { Err(io::Error::from_raw_os_error(5)) } else { Ok(()) }
    }
}

impl Overlay {
    pub fn new(base: Arc<dyn ReadDevice>, written: Writes, power: Power) -> Self {
        Self { base, power, state: Mutex::new(State { stable: written, unsynced: Vec::new() }) }
    }

    /// How many writes wait for a sync.
    pub fn unsynced(&self) -> usize {
        self.state.lock().unwrap().unsynced.len()
    }

    /// All writes there would be after a power cut now.
    pub fn after_cut(&self, survivors: &Survivors) -> Writes {
        let state = self.state.lock().unwrap();
        let mut writes = state.stable.clone();
        writes.extend(surviving(&state.unsynced, survivors));
        writes
    }
}

fn surviving(unsynced: &Writes, survivors: &Survivors) -> Writes {
    let keep = |index: usize, data: &Vec<u8>| match survivors {
        Survivors::All => data.len(),
        Survivors::First(count) if index < *count => data.len(),
        Survivors::Torn { first, .. } if index < *first => data.len(),
        Survivors::Torn { first, pieces } if index == *first => (pieces * ATOM_BYTES).min(data.len()),
        Survivors::Only(indices) if indices.contains(&index) => data.len(),
        _ => 0,
    };
    let kept = unsynced.iter().enumerate().map(|(index, (at, data))| (*at, data[..keep(index, data)].to_vec()));
    kept.collect()
}

impl ReadDevice for Overlay {
    fn len(&self) -> u64 {
        self.base.len()
    }

    fn read_at(&self, at: Physical, buf: &mut [u8]) -> io::Result<()> {
        self.base.read_at(at, buf)?;
        let state = self.state.lock().unwrap();
        for (start, data) in state.stable.iter().chain(&state.unsynced) {
            let (from, to) = (at.raw().max(*start), (at.raw() + buf.len() as u64).min(start + data.len() as u64));
            if from < to {
                let source = &data[(from - start) as usize..(to - start) as usize];
                buf[(from - at.raw()) as usize..(to - at.raw()) as usize].copy_from_slice(source);
            }
        }
        Ok(())
    }
}

impl WriteDevice for Overlay {
    fn write_at(&self, at: Physical, data: &[u8]) -> io::Result<()> {
        assert!(at.raw() + data.len() as u64 <= self.len(), "a write past the end");
        self.power.step()?;
        self.state.lock().unwrap().unsynced.push((at.raw(), data.to_vec()));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.power.step()?;
        let mut state = self.state.lock().unwrap();
        let unsynced = std::mem::take(&mut state.unsynced);
        state.stable.extend(unsynced);
        Ok(())
    }
}

/// A log in memory on the same power.
#[derive(Clone)]
pub struct MemoryLog {
    power: Power,
    state: Arc<Mutex<(Vec<u8>, Vec<u8>)>>,
}

impl MemoryLog {
    pub fn new(power: Power) -> Self {
        Self { power, state: Arc::default() }
    }

    /// What is left of it after a power cut: all that was synced, and of the rest the first `pieces` of 512 bytes.
    pub fn after_cut(&self, pieces: usize) -> Vec<u8> {
        let state = self.state.lock().unwrap();
        let rest = &state.1[..(pieces.saturating_mul(ATOM_BYTES)).min(state.1.len())];
        [&state.0, rest].concat()
    }
}

impl LogStore for MemoryLog {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.power.step()?;
        self.state.lock().unwrap().1.extend_from_slice(bytes);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.power.step()?;
        let mut state = self.state.lock().unwrap();
        let rest = std::mem::take(&mut state.1);
        state.0.extend(rest);
        Ok(())
    }
}
