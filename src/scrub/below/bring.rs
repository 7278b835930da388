//! Brings the blocks of a judged stripe to the rows of the arrays below it.

use super::rows::{Block, Judging, Rows, State};
use crate::scrub::sink::Tally;
use crate::scrub::stream::StripeCopy;
use crate::scrub::window::{RunKind, Window};
use crate::units::{DevicePhysical, Logical, LogicalRange};

/// Brings what one stripe of a window holds. What is bad on it and good on another stripe comes as it should be.
pub(in crate::scrub) fn bring(
    rows: &Rows,
    judging: Judging<'_>,
    window: &Window,
    copies: &[StripeCopy],
    copy: &StripeCopy,
    tally: &mut Tally,
) {
    let Some(buffer) = &copy.buffer else { return };
    let base = window.chunk.stripes().get(copy.stripe);
    let Some((devid, base)) = base.map(|stripe| (stripe.devid, stripe.offset + window.from_bytes)) else { return };
    for (number, run) in window.runs.iter().enumerate() {
        for (piece, offset) in window.pieces_on(run, copy.stripe) {
            let Some(bytes) = buffer.get(offset..offset + piece.len_bytes as usize) else { continue };
            let good = if matches!(run.kind, RunKind::Unsummed) { State::Unproved } else { State::Proved };
            // Stretches of good blocks go as one; each bad block goes by itself.
            let mut at = piece.logical;
            let bad = copy.verdict.bad.iter().filter(|bad| bad.run == number);
            let end = piece.logical + piece.len_bytes;
            let inside = bad.filter(|bad| bad.logical >= piece.logical && bad.logical < end);
            let mut cut: Vec<(LogicalRange, State)> = Vec::new();
            for bad in inside {
                if bad.logical > at {
                    cut.push((at..bad.logical, good));
                }
                at = bad.logical + bad.len_bytes;
                cut.push((bad.logical..at, State::Lost));
            }
            if at < end {
                cut.push((at..end, good));
            }
            for (range, state) in cut {
                let from = (range.start - piece.logical) as usize;
                let len = (range.end - range.start) as usize;
                let Some(own) = bytes.get(from..from + len) else { continue };
                let other = if state == State::Lost { elsewhere(window, copies, copy, range.start, len) } else { None };
                let state = if other.is_some() { good } else { state };
                let physical = base + (offset + from) as u64;
                let block = Block {
                    logical: range.start,
                    member: DevicePhysical { devid, physical },
                    profile: window.chunk.profile(),
                    bytes: other.unwrap_or(own),
                    state,
                };
                rows.take(judging, &block, tally);
            }
        }
    }
}

/// The same block on a stripe where it is good.
fn elsewhere<'a>(
    window: &Window,
    copies: &'a [StripeCopy],
    not: &StripeCopy,
    at: Logical,
    len: usize,
) -> Option<&'a [u8]> {
    let mirrors = window.chunk.copies(at);
    mirrors.iter().filter(|mirror| mirror.stripe != not.stripe).find_map(|mirror| {
        let copy = copies.iter().find(|copy| copy.stripe == mirror.stripe)?;
        if copy.verdict.bad.iter().any(|bad| bad.logical == at) {
            return None;
        }
        let base = window.chunk.stripes().get(mirror.stripe)?.offset + window.from_bytes;
        let offset = (mirror.place.physical - base) as usize;
        copy.buffer.as_ref()?.get(offset..offset + len)
    })
}
