//! Holds one device's reads to a rate: each request takes its time on the clock, one behind the other.

use super::progress::Progress;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A wait is cut into pieces of this length, so that a cancelled run ends soon.
const LONGEST_SLEEP: Duration = Duration::from_millis(100);
/// A device that was idle may be this far ahead: nothing is saved up beyond it.
const BURST: Duration = Duration::from_millis(50);

/// When the next request may start.
pub(crate) struct Pace {
    bytes_per_second: u64,
    next: Mutex<Instant>,
}

impl Pace {
    /// At most so many bytes per second (0 counts as 1).
    pub(crate) fn new(bytes_per_second: u64) -> Self {
        Self { bytes_per_second: bytes_per_second.max(1), next: Mutex::new(Instant::now()) }
    }

    /// Returns when `bytes` may be read, or the run is cancelled.
    pub(crate) fn wait(&self, bytes: u64, progress: &Progress) {
        let start = self.reserve(bytes, Instant::now());
        while !progress.is_cancelled() {
            let left = start.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            std::thread::sleep(left.min(LONGEST_SLEEP));
        }
    }

    /// The start of the next request of `bytes`.
    fn reserve(&self, bytes: u64, now: Instant) -> Instant {
        let takes = Duration::from_secs_f64(bytes as f64 / self.bytes_per_second as f64);
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let start = (*next).max(now.checked_sub(BURST).unwrap_or(now));
        *next = start + takes;
        start
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_follow_each_other_at_the_rate() {
        let pace = Pace::new(1000);
        let now = Instant::now();
        let first = pace.reserve(500, now);
        assert_eq!(pace.reserve(500, now) - first, Duration::from_millis(500));
        assert_eq!(pace.reserve(1, now) - first, Duration::from_secs(1));
    }

    #[test]
    fn an_idle_device_saves_up_no_more_than_a_burst() {
        let pace = Pace::new(1000);
        let later = Instant::now() + Duration::from_secs(60);
        assert_eq!(later - pace.reserve(1, later), BURST);
    }
}
