//! What reading ahead is worth: the same walk over commit roots in every mode, over devices (`walk`) or over models
//! (`shape`, `simulate`).
//!
//! Every mode must see the same blocks in the same order; a digest over all of them tells.

mod meter;
mod script;
mod shape;
mod simulate;
mod simulate_scrub;
mod walk;

pub use meter::{Meter, MeteredDevice, Traffic};
pub use script::Script;
pub use shape::{Shape, Shaped};
pub use simulate::{bound_ns, simulate_walk};
pub use simulate_scrub::simulate_scrub;
pub use walk::{Seen, Trees, UnknownTrees, walk_trees};

use super::statistics::Spread;
use crate::tree::ReadaheadMode;
use std::time::Duration;

/// One run in one mode.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// How long it took, in real or virtual time.
    pub duration: Duration,
    /// What the walker saw.
    pub seen: Seen,
    /// What it cost the devices.
    pub traffic: Traffic,
}

/// All rounds of one mode.
#[derive(Clone, Debug, PartialEq)]
pub struct ModeResult {
    /// The mode.
    pub mode: ReadaheadMode,
    /// Its rounds, at least one.
    pub samples: Vec<Sample>,
}

impl ModeResult {
    /// Seconds over the rounds.
    pub fn seconds(&self) -> Spread {
        self.spread(|sample| sample.duration.as_secs_f64())
    }

    /// Bytes of what the walker saw, per second, over the rounds.
    pub fn bytes_per_second(&self) -> Spread {
        self.spread(|sample| sample.seen.bytes as f64 / sample.duration.as_secs_f64().max(1e-9))
    }

    /// Reads that were in flight on average, over the rounds.
    pub fn mean_in_flight(&self) -> f64 {
        self.spread(|sample| sample.traffic.busy_ns as f64 / sample.duration.as_nanos().max(1) as f64).median
    }

    /// Of the last round.
    pub fn last(&self) -> Option<&Sample> {
        self.samples.last()
    }

    fn spread(&self, of: impl Fn(&Sample) -> f64) -> Spread {
        Spread::of(&self.samples.iter().map(of).collect::<Vec<_>>())
    }
}

/// The modes that were compared.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// In the order in which they were asked for.
    pub modes: Vec<ModeResult>,
}

impl Comparison {
    /// How many times as fast as `off` a mode is, by medians; 0 where `off` was not run.
    pub fn ratio_to_off(&self, mode: &ModeResult) -> f64 {
        let off = self.modes.iter().find(|result| result.mode == ReadaheadMode::Off);
        off.map_or(0.0, |off| off.seconds().median / mode.seconds().median.max(1e-9))
    }

    /// Whether all rounds of all modes saw the same.
    pub fn agrees(&self) -> bool {
        let mut all = self.modes.iter().flat_map(|mode| &mode.samples).map(|sample| sample.seen);
        let first = all.next();
        all.all(|seen| Some(seen) == first)
    }
}

#[cfg(test)]
mod tests;
