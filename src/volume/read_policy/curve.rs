//! What a device's latency is at each depth of its queue, as measured, with forgetting.
//!
//! One figure per step of depth (1, 2, 3, 4, 6, 8, 12, ... reads in flight). Depth tells a device with many channels
//! (its latency stays as it is up to a depth of dozens) from one that serves reads one by one (it grows in proportion)
//! without being told which is which.
//!
//! A figure that is not refreshed halves every half-life. So a device that was found slow is tried again by itself once
//! its figure has faded below the others': after 4.3 half-lives for one that is 20 times slower, at once for one that
//! is hardly slower. The half-life grows with the figure, so that such a trial never costs more than some 1 % of the time.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Half-octave steps: 1, 2, 3, 4, 6, ... 4096; deeper queues share the last.
const STEPS: usize = 24;
/// A figure halves in this time at least ...
const HALF_LIFE_MIN_NS: u64 = 250_000_000;
/// ... or in this many times itself.
const HALF_LIFE_LATENCIES: u64 = 32;
/// Weights are fractions of this.
const ONE: u64 = 1 << 16;
/// A fresh sample counts for 1/16: random reads of a hard disk differ by half their mean, and their average must not
/// differ by much more than a tenth.
const WEIGHT_SHIFT: u32 = 4;

#[derive(Default)]
struct Figure {
    /// 0: never measured.
    latency_ns: AtomicU64,
    /// The mean distance of samples from the mean.
    deviation_ns: AtomicU64,
    stamp_ns: AtomicU64,
}

#[derive(Default)]
pub(super) struct Curve {
    figures: [Figure; STEPS],
}

/// What to expect of a read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Expectation {
    /// How long it will take; 0 where nothing is known.
    pub(super) latency_ns: u64,
    /// By how much single reads have differed from that.
    pub(super) deviation_ns: u64,
}

/// A step of the curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DepthStep(usize);

impl DepthStep {
    /// The step of `depth` reads in flight, this one included.
    pub(super) fn of(depth: u32) -> Self {
        let depth = depth.max(1);
        let octave = depth.ilog2() as usize;
        let step = match depth {
            1 => 0,
            _ if depth.is_power_of_two() => 2 * octave - 1,
            _ if depth <= (3 << octave) / 2 => 2 * octave,
            _ => 2 * octave + 1,
        };
        Self(step.min(STEPS - 1))
    }

    /// As a number below 32, for a ticket.
    pub(super) fn index(self) -> usize {
        self.0
    }

    /// The step with this number.
    pub(super) fn from_index(index: usize) -> Self {
        Self(index.min(STEPS - 1))
    }
}

impl Curve {
    /// What to expect at `step`. More in flight never means sooner done, so that the figures of all lower steps are lower
    /// bounds; a depth never tried is hoped to cost no more.
    pub(super) fn expected(&self, step: DepthStep, now_ns: u64) -> Expectation {
        self.figures[..=step.0].iter().map(|figure| figure.faded(now_ns)).max().unwrap_or_default()
    }

    /// A read at `step` has taken `latency_ns`.
    pub(super) fn learn(&self, step: DepthStep, latency_ns: u64, now_ns: u64) {
        self.figures[step.0].learn(latency_ns, now_ns);
    }
}

impl Figure {
    fn faded(&self, now_ns: u64) -> Expectation {
        let latency_ns = self.latency_ns.load(Relaxed);
        let age_ns = now_ns.saturating_sub(self.stamp_ns.load(Relaxed));
        let fade = |ns| fade(ns, half_life_ns(latency_ns), age_ns);
        Expectation { latency_ns: fade(latency_ns), deviation_ns: fade(self.deviation_ns.load(Relaxed)) }
    }

    fn learn(&self, latency_ns: u64, now_ns: u64) {
        let old_ns = self.latency_ns.load(Relaxed);
        let age_ns = now_ns.saturating_sub(self.stamp_ns.load(Relaxed));
        // The old figure keeps 15/16 of the weight it has not lost by age: after a long silence one sample says it all.
        let kept = if old_ns == 0 { 0 } else { fade(ONE - (ONE >> WEIGHT_SHIFT), half_life_ns(old_ns), age_ns) };
        let mix = |old: u64, new: u64| {
            ((u128::from(old) * u128::from(kept) + u128::from(new) * u128::from(ONE - kept)) >> 16) as u64
        };
        let distance_ns = if old_ns == 0 { 0 } else { latency_ns.abs_diff(old_ns) };
        self.deviation_ns.store(mix(self.deviation_ns.load(Relaxed), distance_ns), Relaxed);
        self.latency_ns.store(mix(old_ns, latency_ns).max(1), Relaxed);
        self.stamp_ns.store(now_ns, Relaxed);
    }
}

fn half_life_ns(latency_ns: u64) -> u64 {
    latency_ns.saturating_mul(HALF_LIFE_LATENCIES).max(HALF_LIFE_MIN_NS)
}

/// `value` halved for each half-life of age, linear in between: integers only, the same on every machine.
fn fade(value: u64, half_life_ns: u64, age_ns: u64) -> u64 {
    let halvings = age_ns / half_life_ns;
    if halvings >= 63 {
        return 0;
    }
    let rest = u128::from(age_ns % half_life_ns);
    let value = value >> halvings;
    value - (u128::from(value / 2) * rest / u128::from(half_life_ns)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_grow_with_depth_and_never_skip() {
        let depths =
            [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096];
        for (index, depth) in depths.into_iter().enumerate() {
            assert_eq!(DepthStep::of(depth), DepthStep(index), "depth {depth}");
        }
        assert_eq!(DepthStep::of(5), DepthStep::of(6));
        assert_eq!(DepthStep::of(7), DepthStep::of(8));
        assert_eq!(DepthStep::of(u32::MAX), DepthStep(STEPS - 1));
    }

    #[test]
    fn a_figure_halves_per_half_life_and_a_late_sample_replaces_it() {
        let curve = Curve::default();
        curve.learn(DepthStep(0), 2_000_000, 0);
        assert_eq!(curve.expected(DepthStep(5), 0).latency_ns, 2_000_000);
        assert_eq!(curve.expected(DepthStep(0), HALF_LIFE_MIN_NS).latency_ns, 1_000_000);
        assert_eq!(curve.expected(DepthStep(0), 2 * HALF_LIFE_MIN_NS).latency_ns, 500_000);
        curve.learn(DepthStep(0), 100_000, 20 * HALF_LIFE_MIN_NS);
        assert!(curve.expected(DepthStep(0), 20 * HALF_LIFE_MIN_NS).latency_ns < 101_000);
    }

    #[test]
    fn a_shallow_figure_bounds_the_deeper_ones_from_below() {
        let curve = Curve::default();
        curve.learn(DepthStep(3), 80_000, 0);
        curve.learn(DepthStep(0), 2_000_000, 1);
        assert_eq!(curve.expected(DepthStep(3), 1).latency_ns, 2_000_000);
    }
}
