//! What does not agree, as findings: nothing can correct them, and a file system that has one is not clean.

use super::finding::{Evidence, Finding, FindingKind, Problem, RepairState};
use super::sink::Tally;
use crate::filesystem::{Contradiction, Filesystem};
use crate::format::{SUPERBLOCK_BYTES, SUPERBLOCK_OFFSETS};
use crate::units::{DevicePhysical, Logical, MirrorNum, ObjectId};
use crate::volume::{Chunk, Profile};
use std::collections::BTreeMap;

/// Adds a finding for all that contradicts itself about one place, unless a finding tells that the block there is bad.
pub(super) fn tell_all(fs: &Filesystem, contradictions: &[Contradiction], tally: &mut Tally) {
    let mut by_place: BTreeMap<(Logical, DevicePhysical), (ObjectId, Vec<String>)> = BTreeMap::new();
    for Contradiction { at, place, tree, conflict } in contradictions {
        let chunk = fs.chunks().lookup(*at).ok();
        let place = place.or_else(|| Some(chunk?.copies(*at).first()?.place)).unwrap_or_else(|| first_place(fs));
        let text = conflict.to_string();
        let (_, texts) = by_place.entry((*at, place)).or_insert_with(|| (*tree, Vec::new()));
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    for ((at, place), (tree, texts)) in by_place {
        if !tally.findings.has_block(at) {
            tally.find(finding(fs, at, place, tree, &texts.join("; ")), 0);
        }
    }
}

fn finding(fs: &Filesystem, at: Logical, place: DevicePhysical, tree: ObjectId, text: &str) -> Finding {
    let chunk = fs.chunks().lookup(at).ok();
    Finding {
        kind: FindingKind::Metadata,
        problem: Problem::Contradiction,
        logical: at,
        length: fs.geometry().nodesize(),
        mirror: MirrorNum::new(1),
        devid: place.devid,
        physical: place.physical,
        profile: chunk.map_or(Profile::Single, Chunk::profile),
        evidence: Evidence::Text(text.into()),
        repair: RepairState::Undecidable,
        owner: Some(tree.raw()),
        below: Vec::new(),
    }
}

/// Where what has no place at all is told of.
fn first_place(fs: &Filesystem) -> DevicePhysical {
    let devid = fs.members().map(|member| member.devid()).min().unwrap_or_default();
    DevicePhysical { devid, physical: SUPERBLOCK_OFFSETS[0] }
}

/// Adds one finding for all that the super block says of the whole set and the trees do not.
pub(super) fn tell_of_superblock(fs: &Filesystem, odd: &[String], tally: &mut Tally) {
    if odd.is_empty() {
        return;
    }
    let place = first_place(fs);
    tally.device(place.devid).super_errors += 1;
    let finding = Finding {
        kind: FindingKind::Superblock,
        problem: Problem::Contradiction,
        logical: Logical::new(place.physical.raw()),
        length: SUPERBLOCK_BYTES as u32,
        mirror: MirrorNum::new(1),
        devid: place.devid,
        physical: place.physical,
        profile: Profile::Single,
        evidence: Evidence::Text(odd.join("; ").into()),
        repair: RepairState::Undecidable,
        owner: None,
        below: Vec::new(),
    };
    tally.find(finding, 0);
}
