//! What is to be checked in one window: the same part of every stripe of a block group, 1 MiB long.
//!
//! A window is plain data. Offsets in a stripe's buffer and offsets in the window's part of the stripe are the same
//! numbers, so a sector is found by arithmetic in whichever copy it is looked for.

use super::finding::FindingKind;
use crate::tree::ParentCheck;
use crate::units::{Logical, LogicalRange, MirrorNum};
use crate::volume::{Chunk, Layout, Piece, STRIPE_LEN_BYTES};
use std::sync::Arc;

/// Bytes of one stripe in one window: 16 rows of 64 KiB.
pub(super) const WINDOW_BYTES: u64 = 1 << 20;

/// Windows that are done or not done together when a scrub is ended early: 64 MiB of each stripe.
pub(super) const SECTION_WINDOWS: u64 = 64;

/// What kind of blocks a run is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RunKind {
    /// Sectors with checksums, which start at this byte of [`Window::sums`].
    Summed(usize),
    /// Sectors without checksums.
    Unsummed,
    /// One tree block, and what is promised of it.
    Tree(ParentCheck),
}

/// A part of one extent inside one window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Run {
    /// Where it starts.
    pub(super) logical: Logical,
    /// In bytes: a multiple of the sector size, or the node size for a tree block.
    pub(super) len_bytes: u64,
    /// Sectors or a tree block.
    pub(super) kind: RunKind,
    /// True where the run before it belongs to the same extent (for the count of extents).
    pub(super) continues: bool,
}

impl Run {
    /// What a finding in it is about.
    pub(super) fn finding_kind(&self) -> FindingKind {
        match self.kind {
            RunKind::Tree(_) => FindingKind::Metadata,
            RunKind::Summed(_) | RunKind::Unsummed => FindingKind::Data,
        }
    }

    /// The address behind the last byte.
    pub(super) fn end(&self) -> Logical {
        self.logical + self.len_bytes
    }
}

/// The runs of one window, in the order of their addresses.
#[derive(Clone, Debug)]
pub(super) struct Window {
    /// The block group.
    pub(super) chunk: Arc<Chunk>,
    /// Where the window starts in each stripe, in bytes.
    pub(super) from_bytes: u64,
    /// What is allocated.
    pub(super) runs: Vec<Run>,
    /// Tree blocks that cross a stripe unit or the end of the window: read one by one, behind the others.
    pub(super) strays: Vec<Run>,
    /// The checksums of all summed runs.
    pub(super) sums: Vec<u8>,
}

impl Window {
    /// An empty window.
    pub(super) fn new(chunk: Arc<Chunk>, from_bytes: u64) -> Self {
        Self { chunk, from_bytes, runs: Vec::new(), strays: Vec::new(), sums: Vec::new() }
    }

    /// True where nothing is allocated.
    pub(super) fn is_empty(&self) -> bool {
        self.runs.is_empty() && self.strays.is_empty()
    }

    /// The number of the window that holds `at`.
    pub(super) fn number_of(chunk: &Chunk, at: Logical) -> u64 {
        let offset = at - chunk.start();
        match chunk.profile().row().layout {
            Layout::Mirrored => offset / WINDOW_BYTES,
            Layout::Striped | Layout::Parity => {
                let row = offset / STRIPE_LEN_BYTES / chunk.data_columns();
                row / (WINDOW_BYTES / STRIPE_LEN_BYTES)
            }
        }
    }

    /// Where the section of window `number` starts.
    pub(super) fn section_start(chunk: &Chunk, number: u64) -> Logical {
        Self::logical_range(chunk, number - number % SECTION_WINDOWS).start
    }

    /// The logical addresses of window `number`.
    pub(super) fn logical_range(chunk: &Chunk, number: u64) -> LogicalRange {
        let from = number.saturating_mul(WINDOW_BYTES).min(chunk.stripe_bytes());
        chunk.logical_window(from, (from + WINDOW_BYTES).min(chunk.stripe_bytes()))
    }

    /// The parts of `run` that lie on stripe number `stripe`, each with its offset in the stripe's buffer.
    pub(super) fn pieces_on<'a>(&'a self, run: &'a Run, stripe: usize) -> impl Iterator<Item = (Piece, usize)> + 'a {
        let base = self.chunk.stripes().get(stripe).map(|s| s.offset + self.from_bytes).unwrap_or_default();
        let mirror = mirror_on(&self.chunk, stripe);
        self.chunk
            .pieces(run.logical..run.end(), mirror)
            .filter(move |piece| piece.stripe == stripe)
            .map(move |piece| (piece, (piece.place.physical - base) as usize))
    }

    /// The rows that hold something, ascending, some more than once.
    pub(super) fn rows(&self) -> impl Iterator<Item = u64> + '_ {
        let row_bytes = STRIPE_LEN_BYTES * self.chunk.data_columns();
        self.runs.iter().flat_map(move |run| {
            let offset = run.logical - self.chunk.start();
            offset / row_bytes..(offset + run.len_bytes).div_ceil(row_bytes)
        })
    }

    /// True where a tree block at `at` lies in one piece on every copy and inside one window.
    pub(super) fn holds_whole(chunk: &Chunk, at: Logical, nodesize: u64) -> bool {
        chunk.contiguous_bytes(at) >= nodesize
            && Self::number_of(chunk, at) == Self::number_of(chunk, at + (nodesize - 1))
    }
}

/// Which copy the data of stripe number `stripe` is.
pub(super) fn mirror_on(chunk: &Chunk, stripe: usize) -> MirrorNum {
    let row = chunk.profile().row();
    let nth = match row.layout {
        Layout::Mirrored => stripe,
        Layout::Striped => stripe % usize::from(row.sub_stripes.max(1)),
        Layout::Parity => 0,
    };
    MirrorNum::new(nth as u8 + 1)
}
