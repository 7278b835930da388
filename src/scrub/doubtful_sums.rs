//! Where the checksum may be what is wrong, and not the data: all copies are alike and none has the checksum that is stored,
//! or the stored one differs from that of the data in one bit. And how much data cannot be verified, for its checksums are
//! lost. Says so and decides nothing: what does not verify stays uncorrectable.

use super::finding::{Evidence, Finding, FindingKind, Problem, RepairState};
use crate::checksum::Digest;
use crate::filesystem::Filesystem;
use crate::format::Key;
use crate::format::items::ExtentItem;
use crate::format::types::{key_type, object};
use crate::tree::{Cursor, LostSubtree};
use crate::units::Logical;
use crate::volume::Layout;
use std::collections::BTreeMap;

/// Blocks of one kind that are in doubt, and the first of them.
#[derive(Default)]
struct Doubt {
    count: u64,
    first: Option<Logical>,
}

impl Doubt {
    fn add(&mut self, at: Logical) {
        self.count += 1;
        self.first.get_or_insert(at);
    }

    fn note(&self, (one, several): (&str, &str), text: &str) -> Option<String> {
        let first = self.first?;
        let (unit, number) = if self.count == 1 { (one, "1".to_owned()) } else { (several, self.count.to_string()) };
        Some(format!("{number} {unit}, the first at {first}: {text}"))
    }
}

/// Bad copies of one block: the checksum that each has, and the one that is stored.
type Copies<'f> = Vec<(&'f Finding, Digest, Digest)>;

/// What the findings, which are in report order, say together of blocks that no copy gives.
pub(super) fn notes(findings: &[Finding]) -> Vec<String> {
    let mut blocks: BTreeMap<(FindingKind, Logical), Copies<'_>> = BTreeMap::new();
    for finding in findings.iter().filter(|f| f.problem == Problem::Checksum && f.repair == RepairState::Impossible) {
        if let Evidence::Checksum { have, expect } = finding.evidence {
            blocks.entry((finding.kind, finding.logical)).or_default().push((finding, have, expect));
        }
    }
    let (mut data, mut bits, mut trees) = (Doubt::default(), Doubt::default(), Doubt::default());
    for ((kind, at), copies) in &blocks {
        let Some((finding, have, expect)) = copies.first() else { continue };
        let row = finding.profile.row();
        let are_all = copies.len() >= usize::from(row.ncopies);
        let are_alike = copies.iter().all(|(_, other, stored)| other == have && stored == expect);
        let is_one_bit = copies.iter().any(|(_, have, expect)| differing_bits(have, expect) == 1);
        // Where there is one copy there is nothing that it could be like.
        let is_repeated = row.ncopies > 1 && row.layout != Layout::Parity;
        match kind {
            FindingKind::Data if is_one_bit => bits.add(*at),
            FindingKind::Data if are_all && are_alike && is_repeated => data.add(*at),
            FindingKind::Metadata if are_all && are_alike && is_repeated && !is_one_bit => trees.add(*at),
            FindingKind::Metadata if is_one_bit => bits.add(*at),
            _ => {}
        }
    }
    let units = (
        "block whose stored checksum differs in one bit from that of its content",
        "blocks whose stored checksums differ in one bit from those of their content",
    );
    let bits = bits.note(units, "the content is right, most likely, and the stored checksum was hit");
    let units = (
        "sector that is alike in all copies and has another checksum than is stored",
        "sectors that are alike in all copies and have other checksums than are stored",
    );
    let data = data.note(units, "the data may be right and the checksum stale");
    let units = (
        "tree block that is alike in all copies and has another checksum than it carries",
        "tree blocks that are alike in all copies and have other checksums than they carry",
    );
    let trees = trees.note(units, "it was written so to all of them, so that it was wrong before it was written");
    [bits, data, trees].into_iter().flatten().collect()
}

fn differing_bits(have: &Digest, expect: &Digest) -> u32 {
    have.as_bytes().iter().zip(expect.as_bytes()).map(|(one, other)| (one ^ other).count_ones()).sum()
}

/// How much data cannot be verified because a part of the checksum tree is lost.
pub(super) fn note_of_lost_sums(fs: &Filesystem, lost: &LostSubtree) -> Option<String> {
    if lost.check.owner != Some(object::CSUM_TREE) {
        return None;
    }
    let from = if lost.first.objectid == object::EXTENT_CSUM { lost.first.offset } else { 0 };
    let to = lost.end.filter(|end| end.objectid == object::EXTENT_CSUM).map_or(u64::MAX, |end| end.offset);
    let bytes = data_bytes(fs, from, to)?;
    let end = if to == u64::MAX { "the end".to_owned() } else { to.to_string() };
    Some(format!("checksums of data from {from} to {end} are lost: {bytes} bytes of data there cannot be verified"))
}

/// Bytes of data extents between two addresses.
fn data_bytes(fs: &Filesystem, from: u64, to: u64) -> Option<u64> {
    let mut cursor = Cursor::new(fs, fs.roots().extent?);
    cursor.seek_floor(&Key::new(from, u8::MAX, u64::MAX));
    let mut bytes = 0_u64;
    while let Some((key, item)) = cursor.item().filter(|(key, _)| key.objectid.raw() < to) {
        let is_data = key.item_type == key_type::EXTENT_ITEM
            && ExtentItem::parse(&key, item).is_ok_and(|item| !item.is_tree_block());
        if is_data {
            let range = ExtentItem::range(&key, fs.geometry().nodesize());
            let inside = range.end.raw().min(to).saturating_sub(range.start.raw().max(from));
            bytes = bytes.saturating_add(inside);
        }
        cursor.advance();
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{DeviceId, MirrorNum, Physical};
    use crate::volume::Profile;

    fn finding(logical: u64, mirror: u8, profile: Profile, have: [u8; 4], expect: [u8; 4]) -> Finding {
        Finding {
            kind: FindingKind::Data,
            problem: Problem::Checksum,
            logical: Logical::new(logical),
            length: 4096,
            mirror: MirrorNum::new(mirror),
            devid: DeviceId::new(u64::from(mirror)),
            physical: Physical::new(logical),
            profile,
            evidence: Evidence::Checksum { have: Digest::new(&have), expect: Digest::new(&expect) },
            repair: RepairState::Impossible,
            owner: None,
            below: Vec::new(),
        }
    }

    #[test]
    fn alike_copies_put_their_checksum_in_doubt_and_others_do_not() {
        let copy = |mirror, have| finding(4096, mirror, Profile::Raid1, have, [9, 0, 3, 0]);
        let alike = notes(&[copy(1, [1, 2, 3, 4]), copy(2, [1, 2, 3, 4])]);
        assert!(alike.len() == 1 && alike[0].contains("may be right and the checksum stale"), "{alike:?}");
        assert_eq!(notes(&[copy(1, [1, 2, 3, 4]), copy(2, [5, 2, 3, 4])]), [""; 0]);
        assert_eq!(notes(&[copy(1, [1, 2, 3, 4])]), [""; 0], "the other copy has another problem");
        assert_eq!(notes(&[finding(4096, 1, Profile::Single, [1, 2, 3, 4], [9, 0, 3, 0])]), [""; 0]);
    }

    #[test]
    fn one_bit_of_the_checksum_is_said_also_of_a_single_copy() {
        let bit = notes(&[finding(8192, 1, Profile::Single, [1, 2, 3, 4], [1, 2, 3, 5])]);
        assert!(bit.len() == 1 && bit[0].contains("in one bit") && bit[0].contains("8192"), "{bit:?}");
    }
}
