//! Blocks that their parent describes otherwise: found by `links`, looked at again here, one by one.
//!
//! The block verifies in itself and against its extent item, so every copy says the same and no repair can help.

use super::finding::{Evidence, Finding, FindingKind, Problem, RepairState};
use super::sink::Tally;
use super::verify::classify;
use crate::filesystem::Filesystem;
use crate::format::types::object;
use crate::tree::{BadBlock, LostBlock, ParentCheck, TreeBlock, Visit, Visitor, walk};
use crate::units::{Generation, Logical, ObjectId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Adds findings for all copies of blocks whose parent promises something else. Where not all parents have been seen
/// (`is_partial`, or too many to remember), the blocks that are to be written are looked for in all trees.
pub(super) fn report_broken_links(fs: &Filesystem, is_partial: bool, tally: &mut Tally) {
    let links = std::mem::take(&mut tally.links);
    let mended = std::mem::take(&mut tally.mended_blocks);
    let unseen = if is_partial || links.overflowed() { mended } else { Vec::new() };
    let broken: BTreeSet<Logical> = links.broken().into_iter().chain(unseen).collect();
    if broken.is_empty() {
        return;
    }
    let newest = fs.superblock().generation();
    let mut promises = Promises { broken, found: BTreeMap::new(), newest, beyond: BTreeMap::new() };
    for root in fs.all_roots() {
        walk(fs, &root, &mut promises);
    }
    for (at, (check, why)) in promises.found {
        tally.broken_links.insert(at);
        report(fs, at, check.owner, classify(&why), tally);
    }
    for (at, (child, generation, owner)) in promises.beyond {
        let text = format!("the pointer to {child} promises generation {generation}, the super block's is {newest}");
        report(fs, at, Some(owner), (Problem::Structure, Evidence::Text(text.into())), tally);
    }
}

/// What parents promise of the broken blocks.
struct Promises {
    broken: BTreeSet<Logical>,
    found: BTreeMap<Logical, (ParentCheck, BadBlock)>,
    newest: Generation,
    /// Nodes that promise a generation which has not been yet: of which child, and by which tree.
    beyond: BTreeMap<Logical, (Logical, Generation, ObjectId)>,
}

impl Visitor for Promises {
    fn pointer(&mut self, at: Logical, check: &ParentCheck) -> Visit {
        if check.level == Some(0) && !self.broken.contains(&at) { Visit::Skip } else { Visit::Into }
    }

    fn block(&mut self, block: &Arc<TreeBlock>) -> Visit {
        let pointers = (0..block.len()).filter_map(|slot| block.key_ptr(slot));
        let beyond = pointers.filter(|ptr| ptr.generation > self.newest && block.header().owner != object::TREE_LOG);
        if let Some(ptr) = beyond.take(1).last() {
            self.beyond.insert(block.header().bytenr, (ptr.child, ptr.generation, block.header().owner));
        }
        Visit::Into
    }

    fn lost(&mut self, at: Logical, check: &ParentCheck, why: &LostBlock) {
        if let (true, LostBlock::Bad { why, .. }) = (self.broken.contains(&at), why) {
            self.found.insert(at, (*check, why.clone()));
        }
    }
}

fn report(
    fs: &Filesystem,
    at: Logical,
    owner: Option<ObjectId>,
    (problem, evidence): (Problem, Evidence),
    tally: &mut Tally,
) {
    let Ok(chunk) = fs.chunks().lookup(at) else { return };
    let sectors = u64::from(fs.geometry().nodesize() / fs.geometry().sectorsize());
    for copy in chunk.copies(at).iter().filter(|copy| fs.device(copy.place.devid).is_some()) {
        tally.device(copy.place.devid).verify_errors += sectors;
        let finding = Finding {
            kind: FindingKind::Metadata,
            problem,
            logical: at,
            length: fs.geometry().nodesize(),
            mirror: copy.mirror,
            devid: copy.place.devid,
            physical: copy.place.physical,
            profile: chunk.profile(),
            evidence: evidence.clone(),
            repair: RepairState::Impossible,
            owner: owner.map(ObjectId::raw),
            below: Vec::new(),
        };
        tally.find(finding, sectors);
    }
}
