//! A file system that moves on while it is read is noticed at the next block group; without a kernel: its super block is
//! changed once it is open.

// A failed unwrap is a failed test, also in the helpers.
#![allow(clippy::unwrap_used)]

mod common;

use common::fixture;
use common::library::open;
use mirrortool::scrub::{Progress, ScrubOptions, scrub};
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

const SUPERBLOCK_AT: u64 = 64 << 10;
/// Of the generation in a super block, behind checksum, fsid, bytenr, flags and magic.
const GENERATION_AT: usize = 32 + 16 + 8 + 8 + 8;

/// As if one more transaction had been committed.
fn commit(image: &Path, generation: u64) {
    let file = OpenOptions::new().read(true).write(true).open(image).unwrap();
    let mut block = [0; 4096];
    file.read_exact_at(&mut block, SUPERBLOCK_AT).unwrap();
    block[GENERATION_AT..GENERATION_AT + 8].copy_from_slice(&generation.to_le_bytes());
    let sum = crc32c::crc32c(&block[32..]);
    block[..4].copy_from_slice(&sum.to_le_bytes());
    file.write_all_at(&block, SUPERBLOCK_AT).unwrap();
}

#[test]
fn a_commit_during_a_scrub_is_noticed_between_block_groups() {
    let images = fixture::copy("raid1-crc32c");
    let fs = open(&images.paths);
    let notes = || scrub(&fs, &ScrubOptions::default(), &Progress::default()).unwrap().notes;
    let is_said = |notes: &[String]| notes.iter().any(|note| note.contains("was written to while it was read"));
    assert!(!is_said(&notes()));

    let generation = fs.superblock().generation().raw();
    commit(images.device(1), generation + 1);
    let notes = notes();
    assert!(is_said(&notes), "{notes:?}");
    let moved = format!("its generation had gone from {generation} to {}", generation + 1);
    assert!(notes.iter().any(|note| note.ends_with(&moved)), "{notes:?}");
}
