//! The lost member's part of a mirrored or striped window.

use super::{RebuiltBytes, StripeBuilder};
use crate::scrub::judge::Bench;
use crate::scrub::stream::StripeCopy;
use crate::scrub::window::{Run, RunKind, Window};
use crate::units::{Logical, LogicalRange};
use crate::volume::{Chunk, Layout, Piece};

/// Fills the builder's stripe from the other copies. Returns what became of its allocated bytes.
pub(in crate::scrub) fn fill_mirrored(
    window: &Window,
    copies: &[StripeCopy],
    bench: &Bench<'_>,
    builder: &mut StripeBuilder,
) -> RebuiltBytes {
    let mut sources: Vec<Source<'_>> = copies
        .iter()
        .filter(|copy| holds_the_same(&window.chunk, copy.stripe, builder.stripe))
        .filter_map(|copy| Source::of(window, copy, bench))
        .collect();
    // Of several that verify it does not matter which; where nothing can, the current ones are asked alone.
    sources.sort_by_key(|source| (!source.has_vote, source.copy.stripe));
    let sectorsize = u64::from(bench.geometry.sectorsize());
    let mut bytes = RebuiltBytes::default();
    for run in &window.runs {
        for (piece, offset) in window.pieces_on(run, builder.stripe) {
            fill_piece(&sources, run, &piece, offset, sectorsize, builder, &mut bytes);
        }
    }
    bytes
}

fn fill_piece(
    sources: &[Source<'_>],
    run: &Run,
    piece: &Piece,
    offset: usize,
    sectorsize: u64,
    builder: &mut StripeBuilder,
    bytes: &mut RebuiltBytes,
) {
    let mut take = |at: Logical, offset: usize, len: u64| {
        let range = at..at + len;
        let source = sources.iter().find(|source| source.is_good(run, &range));
        let right = source.and_then(|source| source.bytes(offset, len as usize));
        right.is_some_and(|right| builder.put(offset, right))
    };
    let is_unproved = run.kind == RunKind::Unsummed;
    let mut count = |len: u64, is_there: bool| {
        if is_there {
            bytes.from_copies += len;
            bytes.unproved += if is_unproved { len } else { 0 };
        } else {
            bytes.lost += len;
        }
    };
    if take(piece.logical, offset, piece.len_bytes) {
        return count(piece.len_bytes, true);
    }
    let step = if matches!(run.kind, RunKind::Tree(_)) { run.len_bytes } else { sectorsize };
    for from in (0..piece.len_bytes).step_by(step.max(1) as usize) {
        let len = step.min(piece.len_bytes - from);
        count(len, take(piece.logical + from, offset + from as usize, len));
    }
}

/// Whether two stripes of a chunk are copies of each other.
fn holds_the_same(chunk: &Chunk, one: usize, other: usize) -> bool {
    let row = chunk.profile().row();
    match row.layout {
        Layout::Mirrored => one != other,
        Layout::Striped => {
            let copies = usize::from(row.sub_stripes.max(1));
            one != other && one / copies == other / copies
        }
        Layout::Parity => false,
    }
}

/// Another copy, as it was read and verified.
struct Source<'a> {
    copy: &'a StripeCopy,
    has_vote: bool,
}

impl<'a> Source<'a> {
    fn of(window: &Window, copy: &'a StripeCopy, bench: &Bench<'_>) -> Option<Self> {
        let devid = window.chunk.stripes().get(copy.stripe)?.devid;
        Some(Self { copy, has_vote: bench.has_vote(devid) })
    }

    /// Whether all that it has of the range is right.
    fn is_good(&self, run: &Run, range: &LogicalRange) -> bool {
        let bad = &self.copy.verdict.bad;
        let from = bad.partition_point(|bad| bad.logical + bad.len_bytes <= range.start);
        let mut hits = bad.iter().skip(from).take_while(|bad| bad.logical < range.end);
        let is_believed = run.kind != RunKind::Unsummed || self.has_vote;
        // A tree block that is what was written, though its content cannot be right, was like that on the lost member.
        is_believed && hits.all(|bad| bad.is_odd_block(run))
    }

    fn bytes(&self, offset: usize, len: usize) -> Option<&'a [u8]> {
        self.copy.buffer.as_ref()?.get(offset..offset + len)
    }
}
