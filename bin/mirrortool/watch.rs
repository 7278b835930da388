//! Watches a run from outside: a progress bar on a terminal, and signals that ask it to end. The run only bumps numbers.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use mirrortool::scrub::Progress;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use std::io::{self, IsTerminal as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// How often the bar looks at the numbers.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Makes Ctrl-C, SIGTERM and SIGHUP set `told`. The second such signal kills.
pub(crate) fn end_on_signals(told: &Arc<AtomicBool>) -> io::Result<()> {
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        flag::register_conditional_default(signal, Arc::clone(told))?;
        flag::register(signal, Arc::clone(told))?;
    }
    Ok(())
}

/// Runs `job`, and asks it to end when `limit` has passed.
pub(crate) fn with_limit<T>(progress: &Progress, limit: Option<Duration>, job: impl FnOnce() -> T) -> T {
    let Some(limit) = limit else { return job() };
    if limit.is_zero() {
        progress.cancel();
    }
    thread::scope(|scope| {
        let (running, ended) = channel::<()>();
        scope.spawn(move || {
            if ended.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                progress.cancel();
            }
        });
        let result = job();
        drop(running);
        result
    })
}

/// Runs `job` with a bar beside it, where `show` is true and stderr is a terminal.
pub(crate) fn with_bar<T>(progress: &Progress, show: bool, job: impl FnOnce() -> T) -> T {
    if !show || !io::stderr().is_terminal() {
        return job();
    }
    thread::scope(|scope| {
        // Dropped when the job is done, or unwinds: that ends the bar.
        let (running, ended) = channel::<()>();
        scope.spawn(move || draw(progress, &ended));
        let result = job();
        drop(running);
        result
    })
}

fn draw(progress: &Progress, ended: &Receiver<()>) {
    let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr());
    let template =
        "{percent:>3} % {bar:12} {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec} {eta} left, {wide_msg}";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    while ended.recv_timeout(POLL_INTERVAL) == Err(RecvTimeoutError::Timeout) {
        let done = progress.bytes_done.load(Ordering::Relaxed);
        bar.set_length(progress.bytes_total.load(Ordering::Relaxed).max(done));
        bar.set_position(done);
        bar.set_message(message(progress.errors.load(Ordering::Relaxed), progress.is_cancelled()));
    }
    bar.finish_and_clear();
}

fn message(errors: u64, is_ending: bool) -> String {
    let ending = if is_ending { ", ending" } else { "" };
    match errors {
        0 => format!("no errors so far{ending}"),
        1 => format!("1 error{ending}"),
        n => format!("{n} errors{ending}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_asked_to_end_at_its_limit() {
        let progress = Progress::default();
        with_limit(&progress, Some(Duration::from_millis(1)), || {
            while !progress.is_cancelled() {
                thread::yield_now();
            }
        });
        let in_time = Progress::default();
        with_limit(&in_time, Some(Duration::from_secs(3600)), || ());
        assert!(!in_time.is_cancelled());
    }

    #[test]
    fn the_bar_says_how_many_errors_there_are_so_far() {
        assert_eq!(message(0, false), "no errors so far");
        assert_eq!(message(1, true), "1 error, ending");
        assert_eq!(message(2, false), "2 errors");
    }
}
