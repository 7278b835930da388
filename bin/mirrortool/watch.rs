//! Watches a run from outside: a progress bar on a terminal, and signals that ask it to end. The run only bumps atomics.

use indicatif::{ProgressBar, ProgressStyle};
use mirrortool::scrub::progress::Progress;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use std::io::{self, IsTerminal as _};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// How often the bar looks at the counters.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Makes the first Ctrl-C, SIGTERM or SIGHUP ask the run to end; the second one kills.
pub(crate) fn end_on_signals(progress: &Progress) -> io::Result<()> {
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        flag::register_conditional_default(signal, Arc::clone(&progress.cancel))?;
        flag::register(signal, Arc::clone(&progress.cancel))?;
    }
    Ok(())
}

/// Runs `job`, with a bar beside it where `show` is true and stderr is a terminal.
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
    let bar = ProgressBar::new(0);
    let template =
        "{bar:30} {percent:>3} %  {binary_bytes}/{binary_total_bytes}  {binary_bytes_per_sec}  {eta} left  {msg}";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    while ended.recv_timeout(POLL_INTERVAL) == Err(RecvTimeoutError::Timeout) {
        bar.set_length(progress.bytes_total.load(Ordering::Relaxed));
        bar.set_position(progress.bytes_done.load(Ordering::Relaxed));
        bar.set_message(message(progress));
    }
    bar.finish_and_clear();
}

fn message(progress: &Progress) -> String {
    let errors = progress.errors.load(Ordering::Relaxed);
    let ending = if progress.is_cancelled() { ", ending" } else { "" };
    match errors {
        0 => format!("no errors so far{ending}"),
        1 => format!("1 error{ending}"),
        n => format!("{n} errors{ending}"),
    }
}
