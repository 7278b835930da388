//! What a judged window gives away: right bytes to whoever writes them, stripes of a lost member, blocks to the rows of the
//! arrays below. Decides nothing: who may be written was decided by the judges.

use super::Engine;
use crate::scrub::below;
use crate::scrub::below::rows::Judging;
use crate::scrub::finding::FindingKind;
use crate::scrub::lost::{StripeBuilder, fill_stray};
use crate::scrub::sink::Tally;
use crate::scrub::stream::StripeCopy;
use crate::scrub::window::Window;

impl Engine<'_> {
    /// Passes on what the lost member has to hold in the window.
    pub(super) fn hand_over_stripes(&self, window: &Window, tally: &mut Tally) {
        let Some(rebuilding) = self.rebuilding else { return };
        let builders = std::mem::take(&mut tally.stripes);
        let mut stripes: Vec<_> = builders.into_iter().filter_map(StripeBuilder::finish).collect();
        if !stripes.is_empty() {
            (rebuilding.sink)(std::mem::take(&mut stripes));
        }
        for run in &window.strays {
            let (stripes, bytes) = fill_stray(self.fs, window, run, rebuilding);
            tally.rebuilt.add(&bytes);
            if !stripes.is_empty() {
                (rebuilding.sink)(stripes);
            }
        }
    }

    /// Gives away the right bytes that have been collected, each for the file where it is to be written.
    pub(super) fn hand_over(&self, tally: &mut Tally) {
        let mut mends = std::mem::take(&mut tally.mends).into_list();
        mends.retain(|mend| !self.standings.get(&mend.member.devid).is_some_and(|standing| standing.is_apart()));
        if let Some(mending) = self.mending.filter(|_| !mends.is_empty()) {
            let nodesize = self.geometry().nodesize() as usize;
            for mend in mends.iter().filter(|mend| mend.kind == FindingKind::Metadata) {
                let blocks = (0..mend.bytes.len()).step_by(nodesize);
                tally.mended_blocks.extend(blocks.map(|offset| mend.logical + offset as u64));
            }
            (mending.sink)(below::to_lower(self.fs, mends));
        }
    }

    /// Brings the blocks of a window that has been judged to the rows of the arrays below.
    pub(super) fn take_rows(&self, window: &Window, copies: &[StripeCopy], tally: &mut Tally) {
        for copy in copies {
            let Some(devid) = window.chunk.stripes().get(copy.stripe).map(|stripe| stripe.devid) else { continue };
            let Some(below) = self.fs.device(devid).and_then(|device| device.below()) else { continue };
            if !below.parities().is_empty() {
                let judging = Judging { fs: self.fs, below, wants_mends: self.is_mending() };
                below::bring(&self.rows, judging, window, copies, copy, tally);
            }
        }
    }

    /// Judges the rows that have not been complete before the end.
    pub(in crate::scrub) fn finish_rows(&self, tally: &mut Tally) {
        let device = self.fs.members().find_map(|member| member.device().below().filter(|b| !b.parities().is_empty()));
        if let Some(below) = device.filter(|_| !self.is_cancelled()) {
            self.rows.finish(Judging { fs: self.fs, below, wants_mends: self.is_mending() }, tally);
            self.hand_over(tally);
        }
    }
}
