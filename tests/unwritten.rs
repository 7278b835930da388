//! Space that was preallocated and never written has no content: whatever its copies and its parity hold, no finding
//! may come of it; what was written beside it is judged as ever.

// A failed unwrap is a failed test, also in the helpers.
#![allow(clippy::unwrap_used)]

mod common;

use common::fixture::{self, Images};
use common::library::{open, scrubbed};
use mirrortool::filesystem::{Filesystem, find_root};
use mirrortool::format::Key;
use mirrortool::format::items::{FileExtent, FileExtentItem};
use mirrortool::format::types::{key_type, object};
use mirrortool::scrub::finding::{Finding, FindingKind, RepairState};
use mirrortool::scrub::outcome::Verdict;
use mirrortool::tree::Cursor;
use mirrortool::units::{DevicePhysical, Logical, LogicalRange};
use std::fs::OpenOptions as FileOptions;
use std::os::unix::fs::FileExt;

const SECTOR: u64 = 4096;

/// The parts of the first preallocated extent of the top-level subvolume that were written, and those that were not.
fn prealloc(fs: &Filesystem) -> (Vec<LogicalRange>, Vec<LogicalRange>) {
    let (mut written, mut unwritten) = (Vec::new(), Vec::new());
    let mut cursor = Cursor::new(fs, find_root(fs, fs.roots().root, object::FS_TREE).unwrap());
    cursor.seek(&Key::MIN);
    let mut extent = None;
    while let Some((key, bytes)) = cursor.item() {
        if key.item_type == key_type::EXTENT_DATA
            && let Ok(item) = FileExtentItem::parse(bytes)
            && let Some(pointer) = item.pointer().filter(|pointer| !pointer.is_hole())
        {
            let start = pointer.disk_bytenr + pointer.offset;
            let range = start..start + pointer.num_bytes;
            match item.extent {
                FileExtent::Prealloc(_) if extent.is_none_or(|e| e == pointer.disk_bytenr) => {
                    extent = Some(pointer.disk_bytenr);
                    unwritten.push(range);
                }
                _ if extent == Some(pointer.disk_bytenr) => written.push(range),
                _ => {}
            }
        }
        cursor.advance();
    }
    (written, unwritten)
}

fn place(fs: &Filesystem, at: Logical) -> DevicePhysical {
    fs.chunks().lookup(at).unwrap().copies(at).first().unwrap().place
}

/// Changes one copy of each sector of `ranges`.
fn damage(images: &Images, fs: &Filesystem, ranges: &[LogicalRange]) {
    for range in ranges {
        for nth in 0..(range.end - range.start) / SECTOR {
            let place = place(fs, range.start + nth * SECTOR);
            let image = FileOptions::new().read(true).write(true).open(images.device(place.devid.raw())).unwrap();
            let mut bytes = [0; SECTOR as usize];
            image.read_exact_at(&mut bytes, place.physical.raw()).unwrap();
            for byte in &mut bytes {
                *byte ^= 0xa5;
            }
            image.write_all_at(&bytes, place.physical.raw()).unwrap();
        }
    }
}

#[test]
fn what_lies_in_space_never_written_is_no_finding() {
    for name in ["raid1-crc32c", "dup-xxhash", "raid1c4-sha256"] {
        let images = fixture::copy(name);
        let fs = open(&images.paths);
        let (_, unwritten) = prealloc(&fs);
        assert!(!unwritten.is_empty(), "{name} has a preallocated extent");
        damage(&images, &fs, &unwritten);
        let outcome = scrubbed(&images.paths);
        assert_eq!(outcome.findings, [], "{name}");
        assert_eq!((outcome.verdict, outcome.totals.nodatasum_mismatch), (Verdict::Clean, 0), "{name}");
    }
}

#[test]
fn parity_of_space_never_written_is_judged_only_where_other_data_needs_it() {
    let images = fixture::copy("raid5-3dev-crc32c");
    let fs = open(&images.paths);
    let (written, unwritten) = prealloc(&fs);
    assert!(!written.is_empty() && !unwritten.is_empty());
    damage(&images, &fs, &unwritten);
    let outcome = scrubbed(&images.paths);
    let undecided: Vec<&Finding> = outcome
        .findings
        .iter()
        .filter(|f| f.repair == RepairState::Undecidable || f.kind != FindingKind::Parity)
        .collect();
    assert_eq!(undecided, [] as [&Finding; 0], "the other column verifies, so parity can be made anew");
    assert!(outcome.verdict <= Verdict::Correctable);
}

#[test]
fn the_written_part_of_a_preallocated_extent_is_judged() {
    let images = fixture::copy("raid1-crc32c");
    let fs = open(&images.paths);
    let (written, _) = prealloc(&fs);
    damage(&images, &fs, &written);
    let outcome = scrubbed(&images.paths);
    let sectors = written.iter().map(|range| (range.end - range.start) / SECTOR).sum::<u64>();
    assert_eq!(outcome.totals.csum_errors, sectors);
}
