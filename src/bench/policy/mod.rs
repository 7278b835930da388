//! Read policies against each other: one workload over modelled mirrors, once per policy, in virtual time.
//!
//! The policies are the real ones, behind their back-off filter; only the devices and the clock are not.

mod compare;
mod event;
mod real;
mod run;
mod scenario;
#[cfg(test)]
mod tests;

use smallvec::SmallVec;

pub use compare::{Comparison, PolicyRow, compare, matrix};
pub use event::{BadEvent, Event};
pub use real::{data_extents, measure};
pub use scenario::{SCENARIOS, Scenario};

use super::model::DeviceModel;
use super::statistics::Latencies;
use super::workload::Workload;
use crate::units::{DeviceId, Logical, Physical};
use crate::volume::read_policy::PolicyKind;

/// Chunks are this long: which devices hold the copies changes from one to the next.
const CHUNK_BYTES: u64 = 1 << 30;
/// Stripes of the striped layout, as in RAID10.
const STRIPE_BYTES: u64 = 64 << 10;

/// How copies lie on the modelled devices, at the same offset on each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// So many copies of each chunk, on devices in turn: RAID1, RAID1C3, RAID1C4.
    Mirrored(usize),
    /// Stripes over pairs of devices: RAID10.
    StripedPairs,
}

/// A piece of a request that lies in one piece on each of its devices.
#[derive(Clone, Debug)]
struct Piece {
    logical: Logical,
    len_bytes: u64,
    /// The offset on each of the devices.
    at: Physical,
    /// The devices that hold it, by index.
    copies: SmallVec<[usize; 4]>,
}

impl Layout {
    /// The part of a request up to the end of its chunk or stripe.
    fn piece(self, devices: usize, logical: Logical, len_bytes: u64) -> Piece {
        let (raw, unit_bytes) = (logical.raw(), if self == Self::StripedPairs { STRIPE_BYTES } else { CHUNK_BYTES });
        let (number, within) = (raw / unit_bytes, raw % unit_bytes);
        let (first, copies, at) = match self {
            Self::Mirrored(copies) => (number as usize * copies, copies, raw),
            Self::StripedPairs => {
                let pairs = (devices as u64 / 2).max(1);
                ((number % pairs) as usize * 2, 2, number / pairs * STRIPE_BYTES + within)
            }
        };
        Piece {
            logical,
            len_bytes: len_bytes.min(unit_bytes - within),
            at: Physical::new(at),
            copies: (0..copies.min(devices)).map(|copy| (first + copy) % devices).collect(),
        }
    }
}

/// Everything that stays the same from policy to policy.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The devices; devid 1 is the first.
    pub models: Vec<DeviceModel>,
    /// How copies lie on them.
    pub layout: Layout,
    /// What is asked.
    pub workload: Workload,
    /// What goes wrong.
    pub events: Vec<Event>,
}

/// What one device did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceCount {
    /// Its id.
    pub devid: DeviceId,
    /// Reads that it answered.
    pub reads: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Reads that failed.
    pub errors: u64,
}

/// What came of one run.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// From the first request to the last completion.
    pub elapsed_ns: u64,
    /// Bytes read (not those written).
    pub read_bytes: u64,
    /// Reads as the jobs see them: retried ones count once.
    pub reads: u64,
    /// Reads that no copy could serve.
    pub lost: u64,
    /// Of reads, retries included.
    pub latencies: Latencies,
    /// Per device, by devid.
    pub devices: Vec<DeviceCount>,
}

impl Outcome {
    /// Bytes read per second.
    pub fn bytes_per_second(&self) -> f64 {
        self.read_bytes as f64 * 1e9 / self.elapsed_ns.max(1) as f64
    }

    /// Reads per second.
    pub fn iops(&self) -> f64 {
        self.reads as f64 * 1e9 / self.elapsed_ns.max(1) as f64
    }
}

/// Runs the workload of `setup` once under a policy. The same seed gives the same outcome.
pub fn simulate(setup: &Setup, kind: PolicyKind, seed: u64) -> Outcome {
    run::Run::new(setup, kind, seed).complete()
}
