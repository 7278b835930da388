//! Reads every copy of everything allocated, judges the copies together, and reports. Never writes.
//!
//! Each device is read in order, each byte once (`engine`, `group`, `stream`); a copy is judged by itself where it is
//! read (`verify`), then all copies of a window together (`judge`, `parity`). The findings do not depend on threads,
//! engine or read policy.

mod accounts;
mod ahead;
mod allocation;
pub mod below;
pub mod commit;
mod compare;
mod contradictions;
mod decompress;
mod dispatch;
mod doubtful_sums;
pub mod earlier;
mod engine;
mod excerpt;
pub mod extent_sample;
mod extra;
mod fallback;
pub mod finding;
mod group;
pub mod history;
mod judge;
mod links;
mod log_data;
pub mod lost;
pub mod mend;
mod moved;
mod notes;
pub mod outcome;
pub(crate) mod pace;
mod parity;
mod progress;
mod relink;
pub(crate) mod reserved;
mod run;
mod schedule;
pub mod selection;
mod sink;
mod stale;
mod still;
mod stray;
mod stream;
mod supers;
pub mod tally;
mod unlisted;
mod verify;
mod whose;
mod window;

pub use notes::layers as layer_notes;
pub use progress::Progress;
pub use run::{describe, scrub, scrub_and_mend, scrub_and_rebuild, scrub_on};
pub use selection::{Copies, Kinds, Selected, Selection};
pub use still::{settle, settle_sittings};
pub use whose::owners_of;

use crate::tree::ReadaheadMode;
use thiserror::Error;

/// How to scrub.
#[derive(Clone, Debug)]
pub struct ScrubOptions {
    /// Threads that read each device.
    pub threads_per_device: usize,
    /// Findings that are listed; the rest is counted.
    pub max_findings: usize,
    /// What to look at.
    pub selection: Selection,
    /// The most bytes to read from each device per second.
    pub limit_bytes_per_second: Option<u64>,
    /// How the trees that say what to read are read themselves.
    pub readahead: ReadaheadMode,
    /// Whether compressed extents are unpacked.
    pub decompress: bool,
}

impl Default for ScrubOptions {
    /// Four threads keep a fast disk busy with requests of 1 MiB; 100,000 findings take about 20 MB.
    fn default() -> Self {
        Self {
            threads_per_device: 4,
            max_findings: 100_000,
            selection: Selection::default(),
            limit_bytes_per_second: None,
            readahead: ReadaheadMode::default(),
            decompress: false,
        }
    }
}

/// Threads that verify costly checksums: one per core.
fn hash_threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Why a scrub could not be done. What it finds is never an error.
#[derive(Debug, Error)]
pub enum ScrubError {
    /// No memory for the buffers.
    #[error("no memory for read buffers: {0}")]
    Memory(#[source] std::io::Error),
}
