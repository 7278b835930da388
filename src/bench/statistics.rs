//! Numbers about numbers: median with its spread over rounds, and a latency histogram.

/// The median of several rounds with the extremes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spread {
    /// The middle value; of an even number of rounds the mean of the two middle ones.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The greatest.
    pub max: f64,
}

impl Spread {
    /// Of these values; all zero where there are none.
    pub fn of(values: &[f64]) -> Self {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (Some(&min), Some(&max)) = (sorted.first(), sorted.last()) else { return Self::default() };
        let (low, high) = (sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
        Self { median: f64::midpoint(low, high), min, max }
    }
}

/// Buckets per doubling: a percentile is exact to 1/32, some 3 %.
const STEPS_PER_OCTAVE_LOG2: u32 = 5;
const STEPS: u64 = 1 << STEPS_PER_OCTAVE_LOG2;

/// What became of many latencies, in bounded memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Latencies {
    count: u64,
    sum_ns: u128,
    sum_squares: f64,
    min_ns: u64,
    max_ns: u64,
    buckets: Vec<u64>,
}

impl Latencies {
    /// Adds one.
    pub fn add(&mut self, latency_ns: u64) {
        self.min_ns = if self.count == 0 { latency_ns } else { self.min_ns.min(latency_ns) };
        self.max_ns = self.max_ns.max(latency_ns);
        self.count += 1;
        self.sum_ns += u128::from(latency_ns);
        self.sum_squares += (latency_ns as f64).powi(2);
        let bucket = bucket_of(latency_ns);
        if self.buckets.len() <= bucket {
            self.buckets.resize(bucket + 1, 0);
        }
        self.buckets[bucket] += 1;
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        self.min_ns = if self.count == 0 { other.min_ns } else { self.min_ns.min(other.min_ns) };
        self.max_ns = self.max_ns.max(other.max_ns);
        self.count += other.count;
        self.sum_ns += other.sum_ns;
        self.sum_squares += other.sum_squares;
        if self.buckets.len() < other.buckets.len() {
            self.buckets.resize(other.buckets.len(), 0);
        }
        self.buckets.iter_mut().zip(&other.buckets).for_each(|(mine, its)| *mine += its);
    }

    /// How many.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The shortest, in ns.
    pub fn min_ns(&self) -> u64 {
        self.min_ns
    }

    /// The longest, in ns.
    pub fn max_ns(&self) -> u64 {
        self.max_ns
    }

    /// The mean, in ns; 0 of none.
    pub fn mean_ns(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum_ns as f64 / self.count as f64 }
    }

    /// The standard deviation, in ns.
    pub fn stdev_ns(&self) -> f64 {
        if self.count == 0 {
            return 0.0;
        }
        (self.sum_squares / self.count as f64 - self.mean_ns().powi(2)).max(0.0).sqrt()
    }

    /// The latency that `percent` of all do not exceed, in ns, to some 3 % (never outside of what was seen).
    pub fn percentile_ns(&self, percent: f64) -> u64 {
        let rank = (self.count as f64 * percent / 100.0).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (bucket, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return upper_edge(bucket).clamp(self.min_ns, self.max_ns);
            }
        }
        self.max_ns
    }
}

/// Values below `STEPS` have a bucket each; above, the leading bits choose.
fn bucket_of(latency_ns: u64) -> usize {
    if latency_ns < STEPS {
        return latency_ns as usize;
    }
    let shift = latency_ns.ilog2() - STEPS_PER_OCTAVE_LOG2;
    (u64::from(shift) * STEPS + (latency_ns >> shift)) as usize
}

/// The greatest value of a bucket.
fn upper_edge(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < STEPS {
        return bucket;
    }
    let shift = bucket / STEPS - 1;
    let lead = u128::from(bucket - shift * STEPS + 1);
    u64::try_from((lead << shift) - 1).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_lies_between_the_extremes() {
        assert_eq!(Spread::of(&[]), Spread::default());
        assert_eq!(Spread::of(&[3.0, 1.0, 2.0]), Spread { median: 2.0, min: 1.0, max: 3.0 });
        assert_eq!(Spread::of(&[4.0, 1.0, 2.0, 3.0]), Spread { median: 2.5, min: 1.0, max: 4.0 });
    }

    #[test]
    fn moments_are_exact_and_percentiles_to_their_bucket() {
        let mut latencies = Latencies::default();
        (1..=100).for_each(|value| latencies.add(value * 1000));
        assert_eq!((latencies.count(), latencies.min_ns(), latencies.max_ns()), (100, 1000, 100_000));
        assert!((latencies.mean_ns() - 50_500.0).abs() < 1e-6);
        assert!((latencies.stdev_ns() - 28_866.07).abs() < 0.01, "{}", latencies.stdev_ns());
        for (percent, exact) in [(50.0, 50_000), (99.0, 99_000), (100.0, 100_000), (1.0, 1000)] {
            let found = latencies.percentile_ns(percent);
            assert!((exact..=exact + exact / 32).contains(&found), "p{percent}: {found}");
        }
    }

    #[test]
    fn merging_equals_adding_all() {
        let (mut all, mut left, mut right) = (Latencies::default(), Latencies::default(), Latencies::default());
        for value in [5, 70, 900, 11_000, 130_000] {
            all.add(value);
            if value < 1000 { left.add(value) } else { right.add(value) }
        }
        left.merge(&right);
        left.merge(&Latencies::default());
        assert_eq!(left, all);
    }

    #[test]
    fn every_value_lies_in_the_bucket_whose_edge_is_next_above() {
        for value in (0..5000).chain([u64::MAX, u64::MAX - 1, 1 << 40]) {
            let bucket = bucket_of(value);
            assert!(value <= upper_edge(bucket), "{value}");
            assert!(bucket == 0 || value > upper_edge(bucket - 1), "{value}");
        }
    }
}
