//! Steps that are settled and were let go of: a repair of very many scattered sectors keeps the first of its steps to list
//! them, and of the others what they add up to.

use super::outcome::StepState;
use super::plan::Step;
use crate::units::DeviceId;
use std::collections::BTreeMap;

/// What steps add up to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sum {
    pub(super) steps: u64,
    pub(super) findings: u64,
    pub(super) sectors: u64,
    pub(super) bytes: u64,
}

impl Sum {
    pub(super) fn of(step: &Step) -> Self {
        Self { steps: 1, findings: step.findings, sectors: step.sectors, bytes: step.len_bytes }
    }

    fn add(&mut self, other: Self) {
        self.steps += other.steps;
        self.findings += other.findings;
        self.sectors += other.sectors;
        self.bytes += other.bytes;
    }
}

/// The sums, by device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Folded {
    done: BTreeMap<DeviceId, Sum>,
    failed: BTreeMap<DeviceId, Sum>,
}

impl Folded {
    /// Takes a settled step.
    pub(super) fn add(&mut self, step: &Step, state: StepState) {
        let sums = match state {
            StepState::Pending => return,
            StepState::Done => &mut self.done,
            StepState::Failed(_) => &mut self.failed,
        };
        sums.entry(step.place.devid).or_default().add(Sum::of(step));
    }

    /// How many steps are not listed.
    pub fn steps(&self) -> u64 {
        self.done.values().chain(self.failed.values()).map(|sum| sum.steps).sum()
    }

    pub(super) fn done(&self) -> &BTreeMap<DeviceId, Sum> {
        &self.done
    }

    pub(super) fn failed(&self) -> &BTreeMap<DeviceId, Sum> {
        &self.failed
    }
}
