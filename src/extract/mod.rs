//! Takes files out of a set that is not mounted, into a folder: each sector proved, from whichever copy or parity is right.
//!
//! The walk goes through the directories (`walk`, `tree`), the content of files is read and written by a few threads
//! (`batch`, `content`), and everything that touches the folder stands in `folder` and `attributes`. Nothing that is there
//! is overwritten, nothing outside of the folder is touched, and no member is ever written. Kernel: what a read-only mount
//! shows; where that gives an error, the manifest says "damaged".

mod attributes;
mod batch;
mod content;
mod entry;
mod folder;
mod selection;
mod tree;
mod walk;

pub use entry::{Counts, Entry, EntryKind, EntryState, ExtractOutcome, FileVersion, Fingerprint, Trouble};
pub use folder::Folder;
pub use selection::{PathPatterns, PatternError};
pub use walk::extract;

use std::collections::HashSet;
use std::io;
use thiserror::Error;

/// What to take out, and how.
#[derive(Clone, Debug, Default)]
pub struct ExtractOptions {
    /// The subvolume to start from, by its path from the top of the file system; `None` for the top itself.
    pub subvolume: Option<Vec<u8>>,
    /// Which paths below it; none for all.
    pub patterns: PathPatterns,
    /// Files that are not whole are written too, as NAME.damaged.
    pub with_damaged: bool,
    /// Subvolumes below that are snapshots of another one stay empty folders.
    pub skip_snapshots: bool,
    /// What an earlier manifest calls whole.
    pub known: HashSet<Fingerprint>,
}

/// Who writes the manifest.
pub trait Observer: Sync {
    /// These are done and on stable storage.
    fn entries_done(&self, entries: &[Entry]) -> io::Result<()>;
}

/// Why an extraction could not go on. Damage is never an error.
#[derive(Debug, Error)]
pub enum ExtractError {
    /// There is no subvolume at that path.
    #[error("no subvolume {0} in this file system")]
    NoSubvolume(String),
    /// The tree that was asked for has no readable root.
    #[error("the top folder of what was asked for cannot be read")]
    NoTop,
    /// The folder cannot be used.
    #[error("{path}: {source}")]
    Folder {
        /// Where.
        path: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Something cannot be written, and neither could what follows: the disk is full, or broken.
    #[error("cannot write {path}: {source}")]
    Write {
        /// The path below the folder.
        path: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The manifest cannot be written.
    #[error("cannot write the manifest: {0}")]
    Manifest(#[source] io::Error),
    /// No threads.
    #[error("cannot start threads: {0}")]
    Threads(#[source] rayon::ThreadPoolBuildError),
}
