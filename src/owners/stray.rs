//! Where the extent tree cannot say who uses an address, all subvolumes are walked for it, once for all addresses.

use super::files::Use;
use super::pieces;
use crate::filesystem::Filesystem;
use crate::format::types::key_type;
use crate::tree::block::is_subvolume;
use crate::tree::{LostBlock, ParentCheck, TreeBlock, Visit, Visitor, walk};
use crate::units::{Logical, LogicalRange, ObjectId};
use std::sync::Arc;

/// Adds the uses of `ranges`, which are ascending and carry the numbers of their extents; stops at `most` uses.
pub(super) fn uses_by_walk(fs: &Filesystem, ranges: &[(LogicalRange, usize)], most: usize, uses: &mut Vec<Use>) {
    for root in fs.all_roots().into_iter().filter(|root| is_subvolume(root.id)) {
        let mut search = Search { root: root.id, ranges, most, uses };
        if !walk(fs, &root, &mut search) {
            return;
        }
    }
}

struct Search<'a> {
    root: ObjectId,
    ranges: &'a [(LogicalRange, usize)],
    most: usize,
    uses: &'a mut Vec<Use>,
}

impl Visitor for Search<'_> {
    fn block(&mut self, block: &Arc<TreeBlock>) -> Visit {
        let items = (0..block.len()).filter_map(|slot| block.item(slot));
        for (key, bytes) in items.filter(|(key, _)| key.item_type == key_type::EXTENT_DATA) {
            let Some((piece, _, _)) = pieces::parse(block.header().bytenr, &key, bytes) else { continue };
            let from = self.ranges.partition_point(|(range, _)| range.end <= piece.range.start);
            let hit = self.ranges.iter().skip(from).take_while(|(range, _)| range.start < piece.range.end);
            let (root, piece) = (self.root, &piece);
            self.uses.extend(hit.map(|(_, extent)| Use { extent: *extent, root, piece: piece.clone() }));
        }
        if self.uses.len() >= self.most { Visit::Stop } else { Visit::Into }
    }

    fn lost(&mut self, _: Logical, _: &ParentCheck, _: &LostBlock) {}
}
