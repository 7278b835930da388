//! The trees of the block groups that are being planned, and of those that come next, read ahead of their cursors.
//!
//! A planner meets an extent leaf and a checksum leaf every few megabytes of data. Fetched one by one, each costs a disk
//! two seeks, there and back to the stream of data. So the cursors of a block group read through two streams of the
//! readahead pipeline, limited to the keys of the group, which are filled in batches: nothing is asked for until half of
//! a stream's window (up to 2 MiB, the checksums of gigabytes) is used up; then what fits is fetched in one ascending
//! sweep. The streams of the group that will follow on the same devices are opened, and filled, together with those of
//! this one, so that the pause between two groups costs no seeks either.

use crate::filesystem::Filesystem;
use crate::format::types::{key_type, object};
use crate::format::{BlockGroupFlags, Key};
use crate::tree::{BlockSource, Prefetch, Stream};
use crate::units::Logical;
use crate::volume::Chunk;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Cursors that read at the same time for each planner: extents and checksums of this block group and of the next.
pub(super) const CURSORS_PER_PLANNER: usize = 4;

/// What the two cursors of one block group read from.
pub(super) struct Sources<'p> {
    fs: &'p Filesystem,
    extents: Option<Stream<'p, 'p, Filesystem>>,
    sums: Option<Stream<'p, 'p, Filesystem>>,
}

impl Sources<'_> {
    /// For the extent tree.
    pub(super) fn extents(&self) -> &dyn BlockSource {
        self.extents.as_ref().map_or(self.fs, |stream| stream as &dyn BlockSource)
    }

    /// For the checksum tree.
    pub(super) fn sums(&self) -> &dyn BlockSource {
        self.sums.as_ref().map_or(self.fs, |stream| stream as &dyn BlockSource)
    }
}

/// The sources of all block groups of a run.
pub(super) struct Ahead<'p> {
    fs: &'p Filesystem,
    prefetch: Option<&'p Prefetch<'p, Filesystem>>,
    /// Of block groups that nobody plans yet: at most one for each that is being planned.
    prepared: Mutex<BTreeMap<Logical, Sources<'p>>>,
}

impl<'p> Ahead<'p> {
    /// Without a `prefetch` blocks are read when a cursor comes to them.
    pub(super) fn new(fs: &'p Filesystem, prefetch: Option<&'p Prefetch<'p, Filesystem>>) -> Self {
        Self { fs, prefetch, prepared: Mutex::default() }
    }

    /// What the cursors of a block group read from. The group behind it (`next`) is prepared as well.
    pub(super) fn sources(&self, chunk: &Chunk, next: Option<&Chunk>) -> Sources<'p> {
        let mut prepared = self.prepared.lock().unwrap_or_else(PoisonError::into_inner);
        let sources = prepared.remove(&chunk.start()).unwrap_or_else(|| self.open(chunk));
        if let (Some(next), Some(_)) = (next, self.prefetch) {
            prepared.entry(next.start()).or_insert_with(|| self.open(next));
        }
        sources
    }

    fn open(&self, chunk: &Chunk) -> Sources<'p> {
        let (start, end) = (chunk.start().raw(), chunk.end().raw());
        let sum = |at| Key::new(object::EXTENT_CSUM.raw(), key_type::EXTENT_CSUM, at);
        let follow = |root: Option<_>, keys| Some(self.prefetch?.follow(root?, keys));
        let roots = self.fs.roots();
        let extents = follow(roots.extent, Key::new(start, 0, 0)..Key::new(end, 0, 0));
        let sums =
            if chunk.flags().contains(BlockGroupFlags::DATA) { follow(roots.csum, sum(start)..sum(end)) } else { None };
        Sources { fs: self.fs, extents, sums }
    }
}
