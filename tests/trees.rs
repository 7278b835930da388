//! What is known only in part, of an earlier time, or in two ways is never written by, in no order of the members; and
//! what the trees hold is read, whoever lists it. The crafted fixtures (fixtures/make/crafted.py) show the same for each
//! finding; here are the variants that no recipe can state.

// A failed unwrap is a failed test, also in the helpers.
#![allow(clippy::unwrap_used)]

mod common;

use common::fixture::{self, Images};
use common::library;
use common::program::{Report, Run, mirrortool, scrub};
use common::recipe;
use mirrortool::checksum::ChecksumType;
use mirrortool::format::SUPERBLOCK_OFFSETS;
use mirrortool::format::items::{FileExtent, FileExtentItem};
use mirrortool::format::types::key_type;
use mirrortool::tree::{BlockSource as _, Cursor, TreeBlock};
use mirrortool::units::{Logical, LogicalRange};
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

const FIRST: u64 = SUPERBLOCK_OFFSETS[0].raw();
const SUPER_LOG_ROOT: usize = 0x60;
const SUPER_LOG_LEVEL: usize = 0xc8;

fn bytes_at(path: &Path, at: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    OpenOptions::new().read(true).open(path).unwrap().read_exact_at(&mut bytes, at).unwrap();
    bytes
}

fn write_at(path: &Path, at: u64, bytes: &[u8]) {
    OpenOptions::new().write(true).open(path).unwrap().write_all_at(bytes, at).unwrap();
}

fn turn(path: &Path, at: u64, len: usize) {
    let turned: Vec<u8> = bytes_at(path, at, len).iter().map(|byte| !byte).collect();
    write_at(path, at, &turned);
}

fn places(images: &Images, at: Logical) -> Vec<(PathBuf, u64)> {
    let fs = library::open(&images.paths);
    let copies = fs.chunks().lookup(at).unwrap().copies(at);
    copies.iter().map(|c| (images.device(c.place.devid.raw()).to_owned(), c.place.physical.raw())).collect()
}

fn both_orders(images: &Images) -> [Vec<PathBuf>; 2] {
    [images.paths.clone(), images.paths.iter().rev().cloned().collect()]
}

fn repair(images: &[PathBuf]) -> Run {
    let fixed = ["repair", "--yes", "--no-undo-log", "--no-paths", "--format", "json"].map(PathBuf::from);
    mirrortool(fixed.into_iter().chain(images.iter().cloned()))
}

fn has(report: &Report, kind: &str, devid: u64, physical: u64) -> bool {
    report.findings().unwrap().iter().any(|f| (f.kind.as_str(), f.devid, f.physical) == (kind, devid, physical))
}

/// The root of the log of the fixture with one, and its level.
fn log_root(image: &Path) -> (Vec<u8>, u8) {
    let first = bytes_at(image, FIRST, 4096);
    (first[SUPER_LOG_ROOT..SUPER_LOG_ROOT + 8].to_vec(), first[SUPER_LOG_LEVEL])
}

#[test]
fn a_first_super_block_is_made_with_the_log_that_any_other_member_has() {
    for lost in [1, 2] {
        for reversed in [0, 1] {
            let images = fixture::copy("log-tree-raid1");
            let expect = log_root(images.device(1));
            assert_ne!(expect.0, [0; 8]);
            write_at(images.device(lost), 0, &vec![0; 1 << 20]);
            let run = repair(&both_orders(&images)[reversed]);
            assert_eq!(run.exit, 0, "devid {lost}, order {reversed}: {}", run.stderr);
            assert_eq!(log_root(images.device(lost)), expect, "devid {lost}, order {reversed}");
            let second = bytes_at(images.device(lost), SUPERBLOCK_OFFSETS[1].raw(), 4096);
            assert_eq!(second[SUPER_LOG_ROOT..SUPER_LOG_ROOT + 8], [0; 8], "only first copies are written with a log");
        }
    }
}

#[test]
fn a_log_tree_is_read_in_every_order_of_the_members() {
    for lost in [1, 2] {
        let images = fixture::copy("log-tree-raid1");
        let log = Logical::new(u64::from_le_bytes(log_root(images.device(1)).0.try_into().unwrap()));
        let (path, at) = places(&images, log).pop().unwrap();
        turn(&path, at + 200, 8);
        write_at(images.device(lost), 0, &vec![0; 1 << 20]);
        let devid = if path == images.device(1) { 1 } else { 2 };
        for order in both_orders(&images) {
            let run = scrub(&["--no-paths"], &order);
            assert!(has(&run.report().unwrap(), "metadata", devid, at), "{}", run.stdout);
        }
    }
}

/// A data extent that only a log knows.
fn log_data(images: &Images) -> LogicalRange {
    let fs = library::open(&images.paths);
    for root in fs.log_roots() {
        let mut cursor = Cursor::new(&fs, root);
        cursor.seek(&mirrortool::format::Key::MIN);
        while let Some((key, bytes)) = cursor.item() {
            let is_file = key.item_type == key_type::EXTENT_DATA;
            match is_file.then(|| FileExtentItem::parse(bytes).unwrap().extent) {
                Some(FileExtent::Regular(pointer)) if !pointer.is_hole() => return pointer.disk_range(),
                _ => {}
            }
            cursor.advance();
        }
    }
    panic!("the log has no data");
}

#[test]
fn the_data_of_a_log_is_verified_and_healed() {
    let images = fixture::copy("log-tree-raid1");
    let data = log_data(&images);
    let before = images.fingerprint();
    for (number, (path, at)) in places(&images, data.start).into_iter().enumerate() {
        turn(&path, at + 100, 4);
        for order in both_orders(&images) {
            let report = scrub(&["--no-paths"], &order).report().unwrap();
            let findings = report.findings().unwrap();
            let problems: Vec<_> =
                findings.iter().map(|f| (f.logical, f.problem.as_str(), f.repair.as_str())).collect();
            assert_eq!(problems, [(data.start.raw(), "checksum", "possible")], "copy {number}");
        }
        assert_eq!(repair(&images.paths).exit, 0);
        assert_eq!(images.fingerprint(), before);
    }
}

#[test]
fn nothing_is_written_where_a_backup_root_stands_in() {
    // The newest member has lost the root of its root tree, the stale one has an older one: its time is not now.
    let images = fixture::copy("stale-raid1");
    let root = library::open(&images.paths).superblock().root().bytenr;
    for (path, at) in places(&images, root) {
        if path == images.device(1) {
            turn(&path, at + 300, 64);
        }
    }
    let before = images.fingerprint();
    for order in both_orders(&images) {
        let run = repair(&order);
        assert_eq!(run.exit, 3, "{}", run.stderr);
        assert_eq!(images.fingerprint(), before);
        assert_eq!(scrub(&["--no-paths"], &order).exit, 3);
    }
    // The same with a plan of which a part could be carried out.
    let images = recipe::named("root-tree-lost").apply();
    let fs = library::open(&images.paths);
    let data = fs.chunks().iter().find(|chunk| chunk.holds_data()).unwrap().start();
    drop(fs);
    let (path, at) = places(&images, data).pop().unwrap();
    turn(&path, at, 8 << 20);
    let before = images.fingerprint();
    assert_eq!(repair(&images.paths).exit, 3);
    assert_eq!(images.fingerprint(), before);
}

/// The sectors of a row of RAID5/6 that hold data without checksums, with their place.
fn unsummed_sector(images: &Images) -> (Logical, PathBuf, u64) {
    let recipe = recipe::named("nodatasum-raid5");
    let finding = recipe.findings().into_iter().find(|f| f.kind == "parity").unwrap();
    let fs = library::open(&images.paths);
    let chunk = fs.chunks().lookup(Logical::new(finding.logical)).unwrap();
    let sums = fs.roots().csum.unwrap();
    let is_summed = |at: Logical| {
        let mut cursor = Cursor::new(&fs, sums);
        let key = mirrortool::format::Key::new(
            mirrortool::format::types::object::EXTENT_CSUM.raw(),
            key_type::EXTENT_CSUM,
            at.raw(),
        );
        cursor.seek_floor(&key);
        let digest = fs.geometry().csum_type().digest_len();
        cursor.item().is_some_and(|(key, bytes)| {
            key.item_type == key_type::EXTENT_CSUM
                && (key.offset..key.offset + (bytes.len() / digest) as u64 * 4096).contains(&at.raw())
        })
    };
    let row = (finding.logical..finding.logical + chunk.data_columns() * 65536).step_by(4096).map(Logical::new);
    let at = row.into_iter().find(|at| !is_summed(*at)).unwrap();
    let copy = chunk.copies(at)[0];
    (at, images.device(copy.place.devid.raw()).to_owned(), copy.place.physical.raw())
}

#[test]
fn parity_is_left_alone_where_the_extent_tree_does_not_list_all_that_is_used() {
    // A sector without checksum is bad; only the parity of its row still knows the right bytes.
    let images = fixture::copy("raid5-3dev-crc32c");
    let (_, path, at) = unsummed_sector(&images);
    turn(&path, at, 4096);
    let fs = library::open(&images.paths);
    let root = fs.roots().extent.unwrap();
    let block = fs.read_block(root.at, &root.check()).unwrap();
    // The parity that could give the root back, at the same offset into its stripe unit.
    let chunk = fs.chunks().lookup(root.at).unwrap();
    let full = chunk.full_stripe(root.at).unwrap();
    let p = (full.p.place.devid.raw(), full.p.place.physical.raw() + (root.at - full.logical) % 65536);
    drop(fs);
    let whole = images.fingerprint();
    assert_eq!(repair(&images.paths).exit, 3);
    assert_eq!(images.fingerprint(), whole, "data without checksum decides nothing");

    for damage in ["root lost", "root empty"] {
        let leaf = match damage {
            "root lost" => vec![0x5a; block.bytes().len()],
            _ => emptied(&block),
        };
        write_at(images.device(p.0), p.1, &vec![0x77; block.bytes().len()]);
        for (path, at) in places(&images, root.at) {
            write_at(&path, at, &leaf);
        }
        let before = images.fingerprint();
        let run = repair(&images.paths);
        assert_eq!(run.exit, 3, "{damage}: {}", run.stderr);
        let changed: Vec<String> = run.report().unwrap().0["repair"]["steps"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|step| step["kind"] == "parity")
            .map(ToString::to_string)
            .collect();
        assert_eq!(changed, [""; 0], "{damage}");
        assert_eq!(images.fingerprint(), before, "{damage}");
    }
}

/// A leaf in the place of a block, without any item and with the checksum that fits.
fn emptied(block: &TreeBlock) -> Vec<u8> {
    let mut leaf = vec![0; block.bytes().len()];
    leaf[..101].copy_from_slice(&block.bytes()[..101]);
    leaf[96..100].fill(0);
    leaf[100] = 0;
    signed(leaf, ChecksumType::Crc32c)
}

fn signed(mut block: Vec<u8>, kind: ChecksumType) -> Vec<u8> {
    let digest = kind.digest(&block[32..]);
    block[..32].fill(0);
    block[..digest.as_bytes().len()].copy_from_slice(digest.as_bytes());
    block
}

#[test]
fn an_empty_extent_tree_hides_nothing_and_is_not_clean() {
    let images = fixture::copy("mixed-raid1-crc32c");
    let fs = library::open(&images.paths);
    let root = fs.roots().extent.unwrap();
    let subvolume =
        mirrortool::filesystem::find_root(&fs, fs.roots().root, mirrortool::format::types::object::FS_TREE).unwrap();
    let block = fs.read_block(root.at, &root.check()).unwrap();
    let mut leaf = emptied(&block);
    leaf[100] = block.level();
    let leaf = if block.level() == 0 { leaf } else { signed(leaf, ChecksumType::Crc32c) };
    drop(fs);
    for (path, at) in places(&images, root.at) {
        write_at(&path, at, &leaf);
    }
    let (path, at) = places(&images, subvolume.at).pop().unwrap();
    turn(&path, at + 1000, 16);
    let devid = if path == images.device(1) { 1 } else { 2 };
    for order in both_orders(&images) {
        let run = scrub(&["--no-paths"], &order);
        assert_eq!(run.exit, 3, "{}", run.stderr);
        let report = run.report().unwrap();
        assert!(has(&report, "metadata", devid, at), "a block that the trees lead to was not read");
        assert!(report.findings().unwrap().iter().any(|f| f.problem == "contradiction"));
    }
}

#[test]
fn a_sector_whose_checksum_is_lost_is_not_taken_for_one_without() {
    // Both copies differ, nothing says which is right, and not even the user's word makes one of them.
    let recipe = recipe::named("checksum-tree-lost");
    let images = recipe.apply();
    let fs = library::open(&fixture::shared(&recipe.base).paths);
    let data = recipe::named("data-raid1").findings().remove(0);
    let copies = fs.chunks().lookup(Logical::new(data.logical)).unwrap().copies(Logical::new(data.logical));
    turn(images.device(copies[0].place.devid.raw()), copies[0].place.physical.raw(), 4096);
    let before = images.fingerprint();
    let fixed = ["repair", "--yes", "--no-undo-log", "--no-paths", "--prefer-devid", "1"].map(PathBuf::from);
    let run = mirrortool(fixed.into_iter().chain(images.paths.iter().cloned()));
    assert_eq!(run.exit, 3, "{}", run.stderr);
    assert_eq!(images.fingerprint(), before);
}

/// Damages every copy of the chunk tree's root.
fn without_chunk_tree(name: &str) -> Images {
    let images = fixture::copy(name);
    let root = library::open(&images.paths).roots().chunk.at;
    for (path, at) in places(&images, root) {
        turn(&path, at + 300, 64);
    }
    images
}

#[test]
fn a_chunk_tree_that_is_lost_in_all_copies_is_looked_for_and_never_written_by() {
    for name in ["raid1-crc32c", "raid1c4-sha256", "dup-xxhash"] {
        let images = without_chunk_tree(name);
        let before = images.fingerprint();
        for order in both_orders(&images) {
            let run = scrub(&["--no-paths"], &order);
            assert_eq!(run.exit, 3, "{name}: {}", run.stderr);
            assert_eq!(repair(&order).exit, 3, "{name}");
        }
        assert_eq!(images.fingerprint(), before, "{name}");
    }
    // All of the chunks that the tree lies in: nothing is left to look for.
    let images = without_chunk_tree("raid1-crc32c");
    let fs = library::open(&fixture::shared("raid1-crc32c").paths);
    for chunk in fs.chunks().iter().filter(|chunk| chunk.is_system()) {
        for stripe in chunk.stripes() {
            write_at(images.device(stripe.devid.raw()), stripe.offset.raw(), &vec![0; chunk.stripe_bytes() as usize]);
        }
    }
    let run = scrub(&["--no-paths"], &images.paths);
    assert_eq!(run.exit, 3, "{}", run.stderr);
    assert!(run.stderr.contains("chunk-recover"), "{}", run.stderr);
}

#[test]
fn what_contradicts_itself_is_never_written_by() {
    for name in ["system-array-everywhere", "system-array-of-one-member", "system-chunk-item", "chunk-on-no-device"] {
        let images = recipe::named(name).apply();
        // A bad copy of a tree block of the chunk tree, and of data, that would be healed otherwise.
        let before = images.fingerprint();
        for order in both_orders(&images) {
            let run = repair(&order);
            assert_eq!((run.exit, images.fingerprint() == before), (3, true), "{name}: {}", run.stderr);
        }
    }
}
