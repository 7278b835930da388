//! The lost member's part of a tree block that lies on several devices or windows.

use super::{Rebuilding, RebuiltBytes, RebuiltStripe, StripeBuilder};
use crate::filesystem::Filesystem;
use crate::scrub::window::{Run, RunKind, Window};
use crate::tree::BlockSource;
use crate::units::MirrorNum;
use crate::volume::Layout;

/// Stripes for all pieces of the block in `run` on the lost member, and what became of their bytes.
pub(in crate::scrub) fn fill_stray(
    fs: &Filesystem,
    window: &Window,
    run: &Run,
    rebuilding: &Rebuilding<'_>,
) -> (Vec<RebuiltStripe>, RebuiltBytes) {
    let RunKind::Tree(check) = run.kind else { return (Vec::new(), RebuiltBytes::default()) };
    let mut bytes = RebuiltBytes::default();
    if window.chunk.profile().row().layout == Layout::Parity {
        // No kernel makes chunks of rows that a block could straddle; their P and Q would have to be known as well.
        bytes.lost += run.len_bytes;
        return (Vec::new(), bytes);
    }
    let block = fs.read_block(run.logical, &check).ok();
    let mirrors = (1..=window.chunk.mirrors()).map(MirrorNum::new);
    let pieces = mirrors.flat_map(|mirror| window.chunk.pieces(run.logical..run.end(), mirror));
    let mut stripes = Vec::new();
    for piece in pieces.filter(|piece| piece.place.devid == rebuilding.devid()) {
        let offset = (piece.logical - run.logical) as usize;
        let right = block.as_ref().and_then(|block| block.bytes().get(offset..offset + piece.len_bytes as usize));
        let mut builder = StripeBuilder::new(piece.stripe, piece.place.physical, rebuilding.buffers);
        if right.is_some_and(|right| builder.put(0, right)) {
            bytes.from_copies += piece.len_bytes;
        } else {
            bytes.lost += piece.len_bytes;
        }
        stripes.extend(builder.finish());
    }
    (stripes, bytes)
}
