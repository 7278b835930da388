//! What is healed, what is not, and what it costs.

use super::bit::MAX_SEARCHED_BYTES;
use super::splice::MAX_COMBINATIONS;
use super::*;
use crate::checksum::{BitPosition, ChecksumType};
use crate::scrub::finding::FindingKind;
use crate::units::Logical;
use proptest::prelude::*;
use std::ops::Range;

const SECTOR: usize = 4096;
const NODE: usize = 16 << 10;

/// Numbers that look random and are the same each time.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % end
    }

    fn fill(&mut self, bytes: &mut [u8]) {
        for byte in bytes {
            *byte = self.below(256) as u8;
        }
    }

    fn block(&mut self, len: usize) -> Vec<u8> {
        let mut block = vec![0; len];
        self.fill(&mut block);
        block
    }
}

/// A right block and how it is checked.
struct Block {
    csum_type: ChecksumType,
    right: Vec<u8>,
    stored: Option<Digest>,
}

impl Block {
    fn sector(csum_type: ChecksumType) -> Self {
        let right = Random(7).block(SECTOR);
        let stored = Some(csum_type.digest(&right));
        Self { csum_type, right, stored }
    }

    fn node(csum_type: ChecksumType) -> Self {
        let mut right = Random(9).block(NODE);
        let digest = csum_type.digest(&right[CSUM_FIELD_BYTES..]);
        right[..CSUM_FIELD_BYTES].fill(0);
        right[..csum_type.digest_len()].copy_from_slice(digest.as_bytes());
        Self { csum_type, right, stored: None }
    }

    /// A copy with other bytes there.
    fn harmed(&self, seed: u64, at: Range<usize>) -> Vec<u8> {
        let mut copy = self.right.clone();
        Random(seed).fill(&mut copy[at]);
        copy
    }

    /// A copy with these bits turned; a place that comes twice is taken once.
    fn flipped(&self, bits: &[(usize, u8)]) -> Vec<u8> {
        let mut copy = self.right.clone();
        let bits: std::collections::BTreeSet<_> = bits.iter().collect();
        for (byte, bit) in bits {
            BitPosition { byte: *byte, bit: *bit }.turn(&mut copy);
        }
        copy
    }

    fn is_right(&self, bytes: &[u8]) -> bool {
        match &self.stored {
            Some(stored) => self.csum_type.matches(bytes, stored.as_bytes()),
            None => self.csum_type.matches(bytes.get(CSUM_FIELD_BYTES..).unwrap_or_default(), bytes),
        }
    }

    fn salvage(&self, copies: &[LostCopy<'_>]) -> Option<(Vec<u8>, Guess)> {
        self.salvage_where(copies, &|bytes| self.is_right(bytes))
    }

    fn salvage_where(&self, copies: &[LostCopy<'_>], accept: &dyn Fn(&[u8]) -> bool) -> Option<(Vec<u8>, Guess)> {
        FromBadCopies.salvage(&LostCopies {
            logical: Logical::new(1 << 20),
            kind: if self.stored.is_some() { FindingKind::Data } else { FindingKind::Metadata },
            copies,
            accept,
            csum_type: self.csum_type,
            stored: self.stored.as_ref().map(Digest::as_bytes),
        })
    }

    /// Salvages whole copies; the method, where the right bytes come out.
    fn method(&self, copies: &[Vec<u8>]) -> Option<GuessMethod> {
        let (bytes, guess) = self.salvage(&whole(copies))?;
        assert!(bytes == self.right, "{}: wrong bytes from {:?}", self.csum_type, guess.method);
        Some(guess.method)
    }
}

fn whole(copies: &[Vec<u8>]) -> Vec<LostCopy<'_>> {
    copies.iter().map(|copy| LostCopy { bytes: copy.into(), unreadable: Vec::new() }).collect()
}

fn sectors(from: usize, to: usize) -> Range<usize> {
    from * SECTOR..to * SECTOR
}

#[test]
fn a_node_bad_in_sector_1_of_copy_1_and_in_sector_3_of_copy_2_is_healed() {
    for csum_type in ChecksumType::ALL {
        let node = Block::node(csum_type);
        let copies = [node.harmed(1, sectors(1, 2)), node.harmed(2, sectors(3, 4))];
        assert_eq!(node.method(&copies), Some(GuessMethod::Splice), "{csum_type}");
    }
}

#[test]
fn a_sector_bad_in_different_parts_of_512_bytes_is_healed() {
    for csum_type in ChecksumType::ALL {
        let sector = Block::sector(csum_type);
        let copies = [sector.harmed(1, 512..1024), sector.harmed(2, 3584..4096)];
        assert_eq!(sector.method(&copies), Some(GuessMethod::Splice), "{csum_type}");
    }
}

#[test]
fn a_node_bad_in_many_parts_is_healed_by_whole_sectors() {
    let node = Block::node(ChecksumType::Crc32c);
    let copies = [node.harmed(1, sectors(0, 2)), node.harmed(2, sectors(2, 4))];
    let (bytes, guess) = node.salvage(&whole(&copies)).unwrap();
    assert!(bytes == node.right);
    assert!(guess.tries <= 2 * 32 + 16, "checksum bits of both copies, and 2^4 combinations: {guess:?}");
}

#[test]
fn a_node_that_can_be_read_in_different_sectors_is_healed() {
    let node = Block::node(ChecksumType::Sha256);
    let copies = [node.harmed(1, sectors(0, 1)), node.harmed(2, sectors(2, 4))];
    let mut copies = whole(&copies);
    copies[0].unreadable = vec![sectors(0, 1)];
    copies[1].unreadable = vec![sectors(2, 3), sectors(3, 4)];
    let (bytes, guess) = node.salvage(&copies).unwrap();
    assert!(bytes == node.right);
    assert_eq!((guess.method, guess.tries), (GuessMethod::Splice, 1));
    copies[1].unreadable.insert(0, sectors(0, 1));
    assert_eq!(node.salvage(&copies), None, "nobody has sector 0");
}

#[test]
fn one_flipped_bit_is_found_with_each_checksum() {
    for csum_type in ChecksumType::ALL {
        let (sector, node) = (Block::sector(csum_type), Block::node(csum_type));
        for bit in [(0, 0), (1234, 5), (SECTOR - 1, 7)] {
            assert_eq!(sector.method(&[sector.flipped(&[bit])]), Some(GuessMethod::OneBit), "{csum_type} {bit:?}");
        }
        let copies = [node.harmed(1, 0..NODE), node.flipped(&[(CSUM_FIELD_BYTES + 99, 1)])];
        let [rubbish, flipped] = copies;
        assert_eq!(node.method(&[flipped.clone(), flipped]), Some(GuessMethod::OneBit), "{csum_type}: equal copies");
        if csum_type == ChecksumType::Crc32c {
            let flipped = node.flipped(&[(NODE - 1, 7)]);
            assert_eq!(node.method(&[rubbish, flipped]), Some(GuessMethod::OneBit), "in the second copy");
        }
    }
}

#[test]
fn one_flipped_bit_of_the_stored_checksum_is_mended_in_a_node_and_left_in_data() {
    for csum_type in ChecksumType::ALL {
        let node = Block::node(csum_type);
        let last = csum_type.digest_len() - 1;
        assert_eq!(node.method(&[node.flipped(&[(last, 7)])]), Some(GuessMethod::ChecksumBit), "{csum_type}");
        let mut sector = Block::sector(csum_type);
        let mut stored = sector.csum_type.digest(&sector.right).as_bytes().to_vec();
        stored[last] ^= 1;
        sector.stored = Some(Digest::new(&stored));
        assert_eq!(sector.method(&[sector.right.clone()]), None, "{csum_type}");
    }
}

#[test]
fn three_flipped_bits_are_not_healed() {
    let mut random = Random(3);
    let mut never = |block: &Block, rounds: usize| {
        for _ in 0..rounds {
            let mut bit = || (random.below(block.right.len()), random.below(8) as u8);
            let bits = [bit(), bit(), bit()];
            let copy = block.flipped(&bits);
            // Of a tree block the bytes behind a short checksum are not looked at.
            let found = block
                .salvage(&whole(&[copy]))
                .filter(|(bytes, _)| bytes.get(CSUM_FIELD_BYTES..) != block.right.get(CSUM_FIELD_BYTES..));
            assert!(found.is_none(), "{}: {bits:?} became {:?}", block.csum_type, found.map(|(_, guess)| guess));
        }
    };
    never(&Block::sector(ChecksumType::Crc32c), 4000);
    never(&Block::node(ChecksumType::Crc32c), 200);
    for csum_type in [ChecksumType::Xxhash64, ChecksumType::Sha256, ChecksumType::Blake2b] {
        never(&Block::sector(csum_type), 2);
    }
}

#[test]
fn three_copies_that_are_bad_everywhere_are_healed_by_majority() {
    for csum_type in ChecksumType::ALL {
        let sector = Block::sector(csum_type);
        let mut copies = vec![sector.right.clone(); 3];
        for byte in (0..SECTOR).step_by(64) {
            copies[byte / 64 % 3][byte] ^= 0xff;
        }
        assert_eq!(sector.method(&copies), Some(GuessMethod::Majority), "{csum_type}");
        // Each copy has another bit of the same byte wrong: no two agree on the byte, two agree on each bit.
        for (nth, copy) in copies.iter_mut().enumerate() {
            copy[777] ^= 1 << nth;
        }
        assert_eq!(sector.method(&copies), Some(GuessMethod::Majority), "{csum_type}: bits");
    }
}

#[test]
fn a_copy_that_verifies_but_is_not_wanted_costs_nothing() {
    let node = Block::node(ChecksumType::Blake2b);
    let copies = [node.right.clone()];
    let asked = std::cell::Cell::new(0);
    let refuse = |_: &[u8]| {
        asked.set(asked.get() + 1);
        false
    };
    assert_eq!(node.salvage_where(&whole(&copies), &refuse), None);
    assert_eq!(asked.get(), 1, "as a splice of itself");
}

#[test]
fn the_work_is_bounded() {
    let sector = Block::sector(ChecksumType::Crc32c);
    let rubbish: Vec<Vec<u8>> = (1..=4).map(|seed| sector.harmed(seed, 0..SECTOR)).collect();
    let tries = |block: &Block, copies: &[Vec<u8>]| {
        let copies = whole(copies);
        let lost = LostCopies {
            logical: Logical::new(0),
            kind: FindingKind::Data,
            copies: &copies,
            accept: &|_| false,
            csum_type: block.csum_type,
            stored: block.stored.as_ref().map(Digest::as_bytes),
        };
        let mut trial = Trial { lost: &lost, tries: 0 };
        let damaged: Vec<&[u8]> = copies.iter().map(|copy| &*copy.bytes).collect();
        assert_eq!(splice::search(&copies, &mut trial), None);
        let spliced = trial.tries;
        assert_eq!(bit::in_block(&damaged, &mut trial), None);
        (spliced, trial.tries - spliced)
    };
    assert_eq!(tries(&sector, &rubbish), (MAX_COMBINATIONS, 4 * SECTOR as u64 * 8));
    let node = Block { csum_type: ChecksumType::Xxhash64, right: vec![1; 64 << 10], stored: None };
    let rubbish: Vec<Vec<u8>> = (1..=4).map(|seed| node.harmed(seed, 0..64 << 10)).collect();
    assert_eq!(tries(&node, &rubbish[..1]), (1, MAX_SEARCHED_BYTES as u64 * 8), "a large node is searched in part");
    assert_eq!(splice::search(&whole(&rubbish), &mut Trial { tries: 0, lost: &nothing() }), None, "4^16 are too many");
}

fn nothing() -> LostCopies<'static> {
    LostCopies {
        logical: Logical::new(0),
        kind: FindingKind::Metadata,
        copies: &[],
        accept: &|_| panic!("nothing is to be tried"),
        csum_type: ChecksumType::Crc32c,
        stored: None,
    }
}

#[test]
fn wiped_copies_are_not_searched_bit_by_bit() {
    let sector = Block::sector(ChecksumType::Blake2b);
    let copies = whole(&[]);
    let lost = LostCopies { copies: &copies, stored: sector.stored.as_ref().map(Digest::as_bytes), ..nothing() };
    let mut trial = Trial { lost: &lost, tries: 0 };
    assert_eq!(bit::in_block(&[&[0; SECTOR], &[0xff; SECTOR]], &mut trial), None);
    assert_eq!(trial.tries, 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Any copies, also of different lengths: no panic, and nothing that the check refuses.
    #[test]
    fn only_what_the_check_takes_comes_out(
        copies in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..600), 0..5),
        lost in prop::option::of((0_usize..700, 0_usize..700)),
        which in 0_usize..4,
        of_data in any::<bool>(),
    ) {
        let csum_type = ChecksumType::ALL[which];
        let stored = of_data.then(|| csum_type.digest(&[1, 2, 3]));
        let block = Block { csum_type, right: Vec::new(), stored };
        let mut copies = whole(&copies);
        if let (Some(copy), Some((from, len))) = (copies.first_mut(), lost) {
            copy.unreadable = vec![Range { start: from, end: from + len }];
        }
        if let Some((bytes, _)) = block.salvage(&copies) {
            prop_assert!(block.is_right(&bytes));
        }
    }
}
