//! Several policies, several rounds each, side by side.

use rayon::prelude::*;

use super::{DeviceCount, Outcome, Scenario, Setup, simulate};
use crate::bench::model::UnknownModel;
use crate::bench::statistics::{Latencies, Spread};
use crate::volume::read_policy::PolicyKind;

/// What came of one policy.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyRow {
    /// Which.
    pub policy: PolicyKind,
    /// Bytes read per second, over the rounds.
    pub bytes_per_second: Spread,
    /// Reads per second, over the rounds.
    pub iops: Spread,
    /// Of the reads of all rounds.
    pub latencies: Latencies,
    /// Per device, of the round in the middle.
    pub devices: Vec<DeviceCount>,
    /// Reads that no copy could serve, of all rounds.
    pub lost: u64,
}

/// Several policies over the same work.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// In the order asked for.
    pub rows: Vec<PolicyRow>,
}

impl PolicyRow {
    /// Sums up the rounds of a policy.
    pub fn of(policy: PolicyKind, rounds: &[Outcome]) -> Self {
        let rates: Vec<f64> = rounds.iter().map(Outcome::bytes_per_second).collect();
        let iops: Vec<f64> = rounds.iter().map(Outcome::iops).collect();
        let mut by_rate: Vec<&Outcome> = rounds.iter().collect();
        by_rate.sort_by(|a, b| a.bytes_per_second().total_cmp(&b.bytes_per_second()));
        let mut latencies = Latencies::default();
        for round in rounds {
            latencies.merge(&round.latencies);
        }
        Self {
            policy,
            bytes_per_second: Spread::of(&rates),
            iops: Spread::of(&iops),
            latencies,
            devices: by_rate.get(rounds.len() / 2).map(|round| round.devices.clone()).unwrap_or_default(),
            lost: rounds.iter().map(|round| round.lost).sum(),
        }
    }
}

impl Comparison {
    /// The row of `policy`.
    pub fn row(&self, policy: PolicyKind) -> Option<&PolicyRow> {
        self.rows.iter().find(|row| row.policy == policy)
    }

    /// The rate of `row` over that of `pid`; `None` where `pid` was not run or read nothing.
    pub fn ratio_to_pid(&self, row: &PolicyRow) -> Option<f64> {
        let pid = self.row(PolicyKind::Pid)?.bytes_per_second.median;
        (pid > 0.0).then(|| row.bytes_per_second.median / pid)
    }

    /// The rate of `auto` over the best of all others; `None` where one of the two was not run.
    pub fn auto_to_best(&self) -> Option<f64> {
        let auto = self.row(PolicyKind::Auto)?.bytes_per_second.median;
        let others = self.rows.iter().filter(|row| row.policy != PolicyKind::Auto);
        let best = others.map(|row| row.bytes_per_second.median).max_by(f64::total_cmp)?;
        (best > 0.0).then(|| auto / best)
    }
}

/// Runs each policy for `rounds` rounds over the models of `setup`; round N has the seed N.
pub fn compare(setup: &Setup, policies: &[PolicyKind], rounds: u64) -> Comparison {
    let row = |&policy: &PolicyKind| {
        let rounds: Vec<Outcome> = (1..=rounds.max(1)).map(|seed| simulate(setup, policy, seed)).collect();
        PolicyRow::of(policy, &rounds)
    };
    Comparison { rows: policies.par_iter().map(row).collect() }
}

/// Every policy in every scenario.
pub fn matrix(policies: &[PolicyKind], rounds: u64) -> Result<Vec<(&'static Scenario, Comparison)>, UnknownModel> {
    super::SCENARIOS.iter().map(|scenario| Ok((scenario, compare(&scenario.setup()?, policies, rounds)))).collect()
}
