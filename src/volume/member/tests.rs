//! Zoned devices in dumps: of the log of super blocks the newest speaks, wherever the ring has come to.

use super::*;
use crate::volume::testing::{SparseDevice, Super, opened};

const ZONED: u64 = 1 | 1 << 12;
const ZONE: u64 = 4 << 20;
const ENTRY: u64 = SUPERBLOCK_BYTES as u64;

/// A zoned file system of 128 MiB without super blocks.
fn device(pieces: Vec<(u64, Vec<u8>)>) -> SparseDevice {
    SparseDevice { len_bytes: 128 << 20, pieces }
}

/// Entries of a log from `start` on, of these generations. Each has the ordinary address in it.
fn log(start: u64, generations: impl IntoIterator<Item = u64>) -> Vec<(u64, Vec<u8>)> {
    let entry = |generation| Super { incompat: ZONED, generation, ..Super::new(0xf5, 1) }.bytes(64 << 10);
    let entries = generations.into_iter().enumerate();
    entries.map(|(number, generation)| (start + number as u64 * ENTRY, entry(generation))).collect()
}

fn probe(pieces: Vec<(u64, Vec<u8>)>) -> Member {
    Member::probe(opened("dump", device(pieces))).unwrap()
}

/// Where the entry is that speaks, and its generation.
fn newest(pieces: Vec<(u64, Vec<u8>)>) -> (u64, u64) {
    let member = probe(pieces);
    assert!(member.is_zone_dump());
    let copy = member.superblock_copies().first().unwrap();
    assert!(copy.state.is_ok());
    (copy.at.raw(), member.generation().raw())
}

#[test]
fn the_entry_at_the_ordinary_place_is_not_taken_for_the_newest() {
    let pieces = log(0, 100..120);
    assert!(pieces.iter().any(|(at, _)| *at == 64 << 10), "the trap is set");
    assert_eq!(newest(pieces.clone()), (19 * ENTRY, 119));
    assert_eq!(probe(pieces).superblock_copies().len(), 1);
}

#[test]
fn the_newest_is_found_wherever_the_ring_has_come_to() {
    let per_zone = ZONE / ENTRY;
    let whole = |start: u64, from: u64| log(start, from..from + per_zone);
    let both = |mut one: Vec<_>, two: Vec<_>| {
        one.extend(two);
        one
    };
    assert_eq!(newest(log(0, 7..8)), (0, 7), "one entry, as in a conventional zone");
    assert_eq!(newest(both(whole(0, 10), log(ZONE, 1034..1039))), (ZONE + 4 * ENTRY, 1038), "in the second zone");
    assert_eq!(newest(whole(ZONE, 10)), (2 * ZONE - ENTRY, 10 + per_zone - 1), "the first has been emptied");
    assert_eq!(newest(both(log(0, 2000..2003), whole(ZONE, 900))), (2 * ENTRY, 2002), "back in the first");
    assert_eq!(newest(both(whole(0, 10), whole(ZONE, 10 + per_zone))).1, 10 + 2 * per_zone - 1, "both full");
}

#[test]
fn a_damaged_newest_entry_is_told_and_the_one_before_it_speaks() {
    let mut pieces = log(0, 100..120);
    pieces.last_mut().unwrap().1[0x130] ^= 1;
    let member = probe(pieces);
    assert_eq!(member.generation().raw(), 118);
    let [speaks, damaged] = member.superblock_copies() else { panic!("two entries are told") };
    assert_eq!((speaks.at.raw(), damaged.at.raw()), (18 * ENTRY, 19 * ENTRY));
    assert!(matches!(damaged.state, Err(SuperblockDefect::Invalid(SuperblockError::Checksum { .. }))));
}

#[test]
fn a_zoned_file_system_on_an_ordinary_device_has_its_super_blocks_where_all_have_them() {
    let member = Member::probe(opened("file", Super { incompat: ZONED, ..Super::new(0xf5, 1) }.device())).unwrap();
    assert!(!member.is_zone_dump());
    assert_eq!(member.superblock_copies().len(), 2);
    // What stands at the start of another device is not looked at.
    let mut plain = Super::new(0xf5, 1).device();
    plain.pieces.extend(log(0, 900..901));
    let member = Member::probe(opened("plain", plain)).unwrap();
    assert_eq!((member.is_zone_dump(), member.generation().raw()), (false, 10));
}
