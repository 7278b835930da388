//! Is the content of a sector defined at all? Space that was preallocated and never written, and the part of an extent
//! that no file refers to any more, hold whatever was there before: no two copies need be equal, and nobody can read it.

use super::pieces::{self, Piece};
use super::references::References;
use super::trees::Trees;
use crate::filesystem::Filesystem;
use crate::units::{Logical, LogicalRange};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Extents remembered; beyond it all are forgotten. Questions come in ascending order, so a few would do.
const MAX_EXTENTS: usize = 1024;

/// Answers for one file system; may be asked from several threads. Reads trees only when asked.
pub struct Unwritten<'f> {
    fs: &'f Filesystem,
    known: Mutex<BTreeMap<Logical, Defined>>,
}

/// The part of one extent that some file can read.
struct Defined {
    end: Logical,
    /// In no order; they may overlap.
    ranges: Vec<LogicalRange>,
}

impl<'f> Unwritten<'f> {
    /// Nothing is read yet.
    pub fn new(fs: &'f Filesystem) -> Self {
        Self { fs, known: Mutex::default() }
    }

    /// True where every use of the data extent at `at` is known and none of them can read the `len_bytes` from there.
    pub fn is_unwritten(&self, at: Logical, len_bytes: u64) -> bool {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.range(..=at).next_back().is_none_or(|(_, extent)| extent.end <= at) {
            if known.len() >= MAX_EXTENTS {
                known.clear();
            }
            let (start, defined) = self.look_up(at, len_bytes);
            known.insert(start, defined);
        }
        let covering = known.range(..=at).next_back().map(|(_, extent)| extent).filter(|extent| at < extent.end);
        covering.is_some_and(|extent| !extent.ranges.iter().any(|r| r.start < at + len_bytes && at < r.end))
    }

    /// The extent around `at`. Where not everything about it is known, all of it is defined.
    fn look_up(&self, at: Logical, len_bytes: u64) -> (Logical, Defined) {
        let whole = |range: LogicalRange| (range.start, Defined { end: range.end, ranges: vec![range] });
        let Some(extent) = References::new(self.fs).data(at) else { return whole(at..at + len_bytes) };
        // What a log tree refers to is not in the extent tree yet.
        if !extent.is_whole() || !self.fs.log().is_none() {
            return whole(extent.range);
        }
        let mut trees = Trees::new(self.fs);
        let mut found: Vec<Piece> = Vec::new();
        let all = extent.refs.iter().all(|r| pieces::find(self.fs, &mut trees, &extent.range, r, &mut found));
        if !all {
            return whole(extent.range);
        }
        let ranges = found.into_iter().filter(|piece| !piece.is_unwritten).map(|piece| piece.range).collect();
        (extent.range.start, Defined { end: extent.range.end, ranges })
    }
}
