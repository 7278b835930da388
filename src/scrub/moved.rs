//! Notices between block groups that somebody writes to the file system that is read: its generation grows. What that
//! means for the findings is for `still` to say, when all has been read.

use crate::units::Generation;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A super block of each member is read no more often than this.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Looks until it has seen the first move.
pub(super) struct MoveWatch {
    opened: Generation,
    state: Mutex<State>,
}

struct State {
    next_look: Instant,
    seen: Option<Move>,
}

/// The first move that was noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Move {
    to: Generation,
    bytes_done: u64,
}

impl MoveWatch {
    /// Of a file system that was opened at this generation; the first look may be had at `now`.
    pub(super) fn new(opened: Generation, now: Instant) -> Self {
        Self { opened, state: Mutex::new(State { next_look: now, seen: None }) }
    }

    /// Between two block groups, with so much read: looks where it is time to.
    pub(super) fn look(&self, now: Instant, bytes_done: u64, generation_now: impl FnOnce() -> Generation) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.seen.is_some() || now < state.next_look {
            return;
        }
        state.next_look = now + LOOK_INTERVAL;
        let to = generation_now();
        if to > self.opened {
            state.seen = Some(Move { to, bytes_done });
        }
    }

    /// What the report says of it.
    pub(super) fn note(&self) -> Option<String> {
        let seen = self.state.lock().unwrap_or_else(PoisonError::into_inner).seen?;
        let (from, Move { to, bytes_done }) = (self.opened, seen);
        Some(format!(
            "the file system was written to while it was read: {bytes_done} bytes into it, its generation had gone from \
             {from} to {to}"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_move_is_noticed_once_and_no_look_comes_before_its_time() {
        let start = Instant::now();
        let watch = MoveWatch::new(Generation::new(9), start);
        let still = || Generation::new(9);
        let moved = || Generation::new(10);
        let never = || unreachable!("not yet");
        watch.look(start, 0, still);
        watch.look(start + LOOK_INTERVAL / 2, 1, never);
        assert_eq!(watch.note(), None);
        watch.look(start + LOOK_INTERVAL, 2, moved);
        watch.look(start + LOOK_INTERVAL * 2, 3, never);
        let note = watch.note().unwrap();
        assert!(note.contains("2 bytes into it") && note.ends_with("from 9 to 10"), "{note}");
    }
}
