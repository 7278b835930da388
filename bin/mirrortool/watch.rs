//! Watches a run from outside: draws a progress bar on a terminal, and hands signals on. The run only bumps numbers.

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

/// How often the watcher looks.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// A flag that Ctrl-C, SIGTERM or SIGHUP sets. The second such signal kills.
pub(crate) fn told_to_end() -> io::Result<Arc<AtomicBool>> {
    let told = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        flag::register_conditional_default(signal, Arc::clone(&told))?;
        flag::register(signal, Arc::clone(&told))?;
    }
    Ok(told)
}

/// Runs `job`, which ends early after a signal; with a bar where `show_bar` is true and stderr is a terminal.
pub(crate) fn watched<T>(progress: &Progress, show_bar: bool, job: impl FnOnce() -> T) -> io::Result<T> {
    let told = told_to_end()?;
    let bar = if show_bar && io::stderr().is_terminal() { visible_bar() } else { ProgressBar::hidden() };
    Ok(thread::scope(|scope| {
        // Dropped when the job is done, or unwinds: that ends the watcher.
        let (running, ended) = channel::<()>();
        scope.spawn(move || watch(progress, &told, &bar, &ended));
        let result = job();
        drop(running);
        result
    }))
}

fn visible_bar() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr());
    let template =
        "{bar:24} {percent:>3} %  {binary_bytes}/{binary_total_bytes}  {binary_bytes_per_sec}  {eta} left  {msg}";
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

fn watch(progress: &Progress, told: &AtomicBool, bar: &ProgressBar, ended: &Receiver<()>) {
    while ended.recv_timeout(POLL_INTERVAL) == Err(RecvTimeoutError::Timeout) {
        if told.load(Ordering::Relaxed) {
            progress.cancel();
        }
        bar.set_length(progress.bytes_total().max(progress.bytes_done()));
        bar.set_position(progress.bytes_done());
        bar.set_message(message(progress.errors(), progress.is_cancelled()));
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
    fn the_bar_says_how_many_errors_there_are_so_far() {
        assert_eq!(message(0, false), "no errors so far");
        assert_eq!(message(1, true), "1 error, ending");
        assert_eq!(message(2, false), "2 errors");
    }

    #[test]
    fn a_watched_job_hands_its_result_back() {
        assert_eq!(watched(&Progress::default(), false, || 7).expect("signals can be handled"), 7);
    }
}
