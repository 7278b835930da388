//! What the integration tests share: fixtures, recipes, and running the program. See fixtures/README.md.

// Each test binary uses its own part of this.
#![allow(dead_code, unreachable_pub)]
// A failed unwrap is a failed test, also in the helpers.
#![allow(clippy::unwrap_used)]

pub mod fixture;
pub mod layouts;
pub mod library;
pub mod mounted;
pub mod overlay;
pub mod program;
pub mod random;
pub mod recipe;
pub mod terminal;

use std::sync::Mutex;
use std::thread;

/// Runs `check` over all items on a few threads and fails with every complaint, not just the first.
pub fn check_all<T: Sync>(items: &[T], check: impl Fn(&T) -> Result<(), String> + Sync) {
    let next = Mutex::new(items.iter());
    let complaints = Mutex::new(Vec::new());
    let workers = thread::available_parallelism().map_or(2, usize::from);
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let Some(item) = next.lock().unwrap().next() else { return };
                    if let Err(complaint) = check(item) {
                        complaints.lock().unwrap().push(complaint);
                    }
                }
            });
        }
    });
    let complaints = complaints.into_inner().unwrap();
    assert!(complaints.is_empty(), "{} of {} failed:\n{}", complaints.len(), items.len(), complaints.join("\n"));
}
