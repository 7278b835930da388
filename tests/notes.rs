//! What is said beside the findings: enough to understand them, and nothing that is not so.

// A failed unwrap is a failed test, also in the helpers.
#![allow(clippy::unwrap_used)]

mod common;

use common::library::{UnsummedExtent, open, scrubbed, unsummed_extent};
use common::program::mirrortool;
use common::{fixture, recipe};
use mirrortool::scrub::finding::{Finding, FindingKind, Problem, RepairState};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

#[test]
fn what_lies_past_the_end_of_every_device_is_lost_data_and_no_left_over_checksum() {
    let images = fixture::copy("dup-xxhash");
    let end = {
        let fs = open(&images.paths);
        let chunk = fs.chunks().iter().find(|chunk| chunk.holds_data()).unwrap();
        chunk.stripes().iter().map(|stripe| stripe.offset).min().unwrap().raw() + (1 << 20)
    };
    let image = std::fs::OpenOptions::new().write(true).open(images.device(1)).unwrap();
    image.set_len(end).unwrap();
    let outcome = scrubbed(&images.paths);
    assert!(outcome.findings.iter().any(|finding| finding.repair == RepairState::Impossible));
    assert!(outcome.findings.iter().all(|finding| finding.problem == Problem::ReadError));
    let notes = outcome.notes.join("\n");
    assert!(notes.contains(&format!("devid 1 is {end} bytes long")), "{notes}");
    assert!(notes.contains(&format!("the device at {end}")), "{notes}");
    assert!(!notes.contains("left over"), "{notes}");
}

#[test]
fn several_profiles_are_told_with_their_devices() {
    let notes = scrubbed(&fixture::shared("profiles-raid1-single").paths).notes.join("\n");
    assert!(notes.contains("data exists in profiles single (1 block group, 3145728 bytes, on devid 1)"), "{notes}");
    assert!(notes.contains("on devid 1 and 2): not all of it has the same redundancy"), "{notes}");
}

#[test]
fn a_log_tree_and_data_without_checksums_are_told() {
    let notes = scrubbed(&fixture::shared("log-tree-raid1").paths).notes.join("\n");
    assert!(notes.contains("a log tree is present"), "{notes}");
    let notes = scrubbed(&fixture::shared("raid1-crc32c").paths).notes.join("\n");
    assert!(notes.contains("bytes of data have no checksum"), "{notes}");
}

#[test]
fn a_compressed_extent_without_checksum_is_named_and_no_damage() {
    let images = fixture::copy("raid1-crc32c");
    let fs = open(&images.paths);
    let UnsummedExtent { leaf, offset, inode, .. } = unsummed_extent(&fs);
    for copy in fs.chunks().lookup(leaf).unwrap().copies(leaf) {
        let (path, at) = (images.device(copy.place.devid.raw()), copy.place.physical.raw());
        let image = std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
        let mut node = vec![0; fs.geometry().nodesize() as usize];
        image.read_exact_at(&mut node, at).unwrap();
        node[offset + COMPRESSION_AT] = 3;
        let sum = crc32c::crc32c(&node[32..]);
        node[..4].copy_from_slice(&sum.to_le_bytes());
        image.write_all_at(&node, at).unwrap();
    }
    let outcome = scrubbed(&images.paths);
    assert_eq!(outcome.findings, []);
    let notes = outcome.notes.join("\n");
    assert!(notes.contains(&format!("root 5 inode {inode}: compressed extent at")), "{notes}");
}

/// Of a file extent item: generation and unpacked size, eight bytes each, come first.
const COMPRESSION_AT: usize = 16;

#[test]
fn a_super_block_in_an_allocated_place_names_the_block() {
    let images = recipe::named("superblock-allocated").apply();
    let findings = scrubbed(&images.paths).findings;
    let is_of_block = |finding: &&Finding| finding.problem != Problem::Contradiction;
    let of_kind = |kind| findings.iter().filter(is_of_block).find(|finding| finding.kind == kind).unwrap();
    let block = of_kind(FindingKind::Metadata).logical;
    let said = of_kind(FindingKind::Superblock).evidence.strings().0.unwrap();
    assert_eq!(said, format!("the extent at {block} is allocated over its place"));
}

#[test]
fn a_subvolume_that_cannot_be_seen_whole_is_named() {
    let show = |images: &fixture::Images| {
        let arguments = ["show", "--subvolumes"].map(PathBuf::from);
        mirrortool(arguments.into_iter().chain(images.paths.clone())).stdout
    };
    let lost = show(&recipe::named("node-both-copies").apply());
    for subvolume in ["/", "/snapshot"] {
        let note = format!("note: {subvolume}: 1 tree block is lost, and what lies below is not counted\n");
        assert!(lost.contains(&note), "{lost}");
    }
    let whole = show(&fixture::shared("raid1-crc32c"));
    assert!(!whole.contains("not counted"), "{whole}");
}

/// The notes of a recipe that is applied.
fn notes_of(recipe: &str) -> String {
    scrubbed(&recipe::named(recipe).apply().paths).notes.join("\n")
}

#[test]
fn what_is_odd_and_no_damage_is_told_by_name() {
    let dump = notes_of("dump-restored");
    assert!(dump.contains("this is a metadata dump"), "{dump}");
    assert!(dump.contains("the first super block alone: 2 copies are not there"), "{dump}");
    let outcome = scrubbed(&recipe::named("dump-restored").apply().paths);
    assert_eq!(outcome.totals.data_bytes_scrubbed, 0, "data of a dump is not read");
    let synology = notes_of("synology-flags");
    for flag in ["0x100000000 (bit 32, HIDE", "0x400000000 (bit 34, CMPR_RATIO", "0x40000000 (bit 30, UQ_REF_USED"] {
        assert!(synology.contains(flag), "{flag} in {synology}");
    }
    assert!(synology.contains(" of Synology DSM)"), "{synology}");
    assert!(!notes_of("uuid-tree-inode").contains("mainline"));
    let zoned = notes_of("zoned-dump");
    assert!(zoned.contains("devid 1 is the dump of a zoned device"), "{zoned}");
    assert!(zoned.contains("(at 77824, generation 8)"), "{zoned}");
    assert!(!notes_of("zoned-on-a-file").contains("zoned"));
}

#[test]
fn what_is_no_place_to_write_to_is_not_repaired_and_what_is_one_is() {
    for (recipe, exit) in
        [("dump-bad-node", 1), ("zoned-dump", 1), ("uuid-tree-inode-and-bad", 0), ("synology-flags-and-bad", 0)]
    {
        let images = recipe::named(recipe).apply();
        let before = images.fingerprint();
        let mut arguments = vec!["repair".into(), "--yes".into(), "--no-undo-log".into()];
        arguments.extend(images.paths.iter().map(|path| path.clone().into_os_string()));
        let run = mirrortool(arguments);
        assert_eq!(run.exit, exit, "{recipe}: {}{}", run.stdout, run.stderr);
        assert_eq!(images.fingerprint() == before, exit == 1, "{recipe}");
    }
}
