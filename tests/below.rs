//! btrfs on md and LVM, on sets that the kernel made (`fixtures/below-*`): what is bad in one place is found there, put
//! right from the others, and taken back. Places come from `places.yaml`, which was made by content and not by geometry.

// Everything here is a test or helps one; clippy.toml covers only functions marked #[test].
#![allow(clippy::unwrap_used)]

mod common;

use common::fixture::{self, Images};
use common::program::{Run, mirrortool, scrub};
use serde_json::Value;
use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// A member from 1, an offset in it, and what is there.
type Place = (u64, u64, String);

#[derive(serde::Deserialize)]
struct Places {
    data: Vec<Place>,
}

fn places(name: &str) -> Places {
    let text = fs::read_to_string(fixture::directory().join(name).join("places.yaml")).unwrap();
    serde_yaml::from_str(&text).unwrap()
}

/// Turns all bits of a few bytes.
fn damage(path: &Path, at: u64) {
    let file = File::options().read(true).write(true).open(path).unwrap();
    let mut bytes = [0; 16];
    file.read_exact_at(&mut bytes, at).unwrap();
    file.write_all_at(&bytes.map(|byte| !byte), at).unwrap();
}

fn json(run: &Run) -> Value {
    serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {}{}", run.stdout, run.stderr))
}

fn findings(images: &[PathBuf]) -> (i32, Vec<Value>) {
    let run = scrub(&[] as &[&str], images);
    let found = json(&run)["findings"].as_array().unwrap().clone();
    (run.exit, found)
}

/// The kind of a finding and the places below it: (kind, [(image from 1, offset)]).
fn said(finding: &Value, images: &Images) -> (String, Vec<(u64, u64)>) {
    let image = |path: &Value| images.paths.iter().position(|own| own.to_str() == path.as_str()).unwrap() as u64 + 1;
    let below = finding["below"].as_array().unwrap();
    let places = below.iter().map(|place| {
        assert_eq!(place["kind"], "md");
        (image(&place["path"]), place["physical"].as_u64().unwrap())
    });
    (finding["kind"].as_str().unwrap().to_owned(), places.collect())
}

fn repair(images: &Images, log: &Path) -> Run {
    let mut arguments: Vec<OsString> =
        ["repair", "--yes", "--no-progress", "--undo-log"].into_iter().map(OsString::from).collect();
    arguments.push(log.into());
    arguments.extend(images.paths.iter().map(OsString::from));
    mirrortool(arguments)
}

/// Damages places, expects each to be named, repairs, expects the set as it was, undoes, expects the damage back.
fn damaged_named_repaired_and_undone(name: &str, damaged: &[&Place]) {
    let images = fixture::copy(name);
    let whole = images.fingerprint();
    for (member, at, _) in damaged {
        damage(images.device(*member), *at);
    }
    let bad = images.fingerprint();
    let (exit, found) = findings(&images.paths);
    assert_eq!(exit, 4, "{name} {damaged:?}: {found:?}");
    let mut have: Vec<_> = found.iter().map(|finding| said(finding, &images)).collect();
    have.sort();
    let kind = |what: &str| if what == "data" { "data" } else { "parity" };
    let mut expect: Vec<_> =
        damaged.iter().map(|(member, at, what)| (kind(what).to_owned(), vec![(*member, *at)])).collect();
    expect.sort();
    assert_eq!(have, expect, "{name}");
    let log = images.scratch().join("undo.log");
    let run = repair(&images, &log);
    assert_eq!(run.exit, 0, "{name} {damaged:?}: {}{}", run.stdout, run.stderr);
    assert!(images.fingerprint() == whole, "{name} {damaged:?}: not as it was");
    assert_eq!(scrub(&[] as &[&str], &images.paths).exit, 0, "{name}");
    let undo = mirrortool([OsString::from("repair"), "undo".into(), log.into()]);
    assert_eq!(undo.exit, 0, "{name}: {}{}", undo.stdout, undo.stderr);
    assert!(images.fingerprint() == bad, "{name} {damaged:?}: undone, and not as before");
}

const WHOLE: [(&str, &str); 8] = [
    ("below-md-raid1", "md raid1, 2 of 2, events 2 > btrfs"),
    ("below-md-raid1-v10", "md raid1, 2 of 2, events 2 > btrfs"),
    ("below-md-raid1-v090", "md raid1, 2 of 2, events 1 > btrfs"),
    ("below-md-raid5", "md raid5 left-symmetric 64KiB, 3 of 3, events 2 > btrfs"),
    ("below-md-raid6-asymmetric", "md raid6 left-asymmetric 64KiB, 4 of 4, events 2 > btrfs"),
    ("below-md-raid10-far", "md raid10 f2 64KiB, 3 of 3, events 2 > btrfs"),
    ("below-md-raid10-offset", "md raid10 o2 64KiB, 3 of 3, events 2 > btrfs"),
    (
        "below-lvm-over-md",
        "(md raid5 left-symmetric 64KiB, 3 of 3, events 2 + md raid1, 2 of 2, events 2) > lvm vg1/volume_1 > btrfs",
    ),
];

#[test]
fn whole_sets_are_clean_in_any_order_and_show_prints_their_chain() {
    for (name, chain) in WHOLE {
        let images = fixture::shared(name);
        let before = images.fingerprint();
        let mut paths = images.paths.clone();
        paths.reverse();
        let run = scrub(&[] as &[&str], &paths);
        assert_eq!(run.exit, 0, "{name}: {}{}", run.stdout, run.stderr);
        let show = mirrortool([OsString::from("show")].into_iter().chain(paths.iter().map(OsString::from)));
        assert!(show.exit == 0 && show.stdout.contains(chain), "{name}: {}", show.stdout);
        assert!(images.fingerprint() == before, "{name} was written to");
    }
}

#[test]
fn each_copy_and_each_parity_that_is_bad_is_named_repaired_and_undone() {
    for (name, _) in WHOLE {
        let places = places(name);
        for place in places.data.iter().filter(|(.., what)| what != "free") {
            damaged_named_repaired_and_undone(name, &[place]);
        }
    }
}

#[test]
fn any_two_columns_of_an_asymmetric_raid6_row_come_back() {
    let name = "below-md-raid6-asymmetric";
    let data = places(name).data;
    for (nth, one) in data.iter().enumerate() {
        for other in &data[nth + 1..] {
            damaged_named_repaired_and_undone(name, &[one, other]);
        }
    }
}

#[test]
fn without_members_an_array_is_read_and_is_never_clean() {
    for (name, missing) in [
        ("below-md-raid1", &[1][..]),
        ("below-md-raid5", &[2]),
        ("below-md-raid6-asymmetric", &[1, 4]),
        ("below-md-raid6-asymmetric", &[2, 3]),
        ("below-md-raid10-far", &[1]),
        ("below-lvm-over-md", &[3, 5]),
    ] {
        let images = fixture::shared(name);
        let here = (1..).zip(&images.paths).filter(|(number, _)| !missing.contains(number));
        let here: Vec<_> = here.map(|(_, path)| path.clone()).collect();
        let (exit, found) = findings(&here);
        assert!(exit == 4 && found.is_empty(), "{name} without {missing:?}: {exit} {found:?}");
    }
}

#[test]
fn a_raid5_without_a_member_has_nothing_to_correct_from() {
    let name = "below-md-raid5";
    let images = fixture::copy(name);
    let data = places(name).data;
    damage(images.device(data[0].0), data[0].1);
    let here = [images.paths[0].clone(), images.paths[1].clone()];
    let (exit, found) = findings(&here);
    assert!(exit == 3 && !found.is_empty(), "{exit} {found:?}");
    assert!(found.iter().all(|finding| finding["repair"] == "impossible"), "{found:?}");
    assert!(found.iter().any(|finding| finding["files"][0]["path"] == "seq"), "{found:?}");
    let too_few = scrub(&[] as &[&str], &here[..1]);
    assert!(too_few.exit == 1 && too_few.stderr.contains("only 1 members"), "{}", too_few.stderr);
}

#[test]
fn a_stale_member_has_no_vote_and_is_not_written() {
    let name = "below-md-raid1-stale";
    let images = fixture::copy(name);
    let run = scrub(&[] as &[&str], &images.paths);
    let report = json(&run);
    assert!(run.exit == 4 && report["findings"].as_array().unwrap().is_empty(), "{}", run.stdout);
    let states: Vec<_> = report["members"].as_array().unwrap().iter().map(|member| &member["state"]).collect();
    assert_eq!(states, ["in-sync", "stale"]);
    // The stale leg has the right bytes there; it is no source all the same.
    let data = places(name).data;
    damage(images.device(1), data[0].1);
    let bad = images.fingerprint();
    let run = repair(&images, &images.scratch().join("undo.log"));
    assert_eq!(run.exit, 3, "{}{}", run.stdout, run.stderr);
    assert!(images.fingerprint() == bad, "something was written");
}

/// Puts a member into the one partition of a disk with an MBR.
fn into_partition(member: &Path, disk: &Path) {
    let bytes = fs::read(member).unwrap();
    let mut out = vec![0; 1 << 20];
    out[446 + 4] = 0xfd;
    out[446 + 8..446 + 12].copy_from_slice(&2048_u32.to_le_bytes());
    out[446 + 12..446 + 16].copy_from_slice(&((bytes.len() / 512) as u32).to_le_bytes());
    out[510..512].copy_from_slice(&[0x55, 0xaa]);
    out.extend_from_slice(&bytes);
    fs::write(disk, out).unwrap();
}

#[test]
fn whole_disks_stand_in_for_their_partitions() {
    let name = "below-md-raid5";
    let images = fixture::copy(name);
    let data = places(name).data;
    damage(images.device(data[1].0), data[1].1);
    let disks: Vec<PathBuf> = images.paths.iter().map(|path| path.with_extension("disk")).collect();
    for (member, disk) in images.paths.iter().zip(&disks) {
        into_partition(member, disk);
    }
    let (exit, found) = findings(&disks);
    assert!(exit == 4 && found.len() == 1, "{exit} {found:?}");
    let place = &found[0]["below"][0];
    assert_eq!(place["path"].as_str(), disks[1].to_str());
    assert_eq!(place["physical"].as_u64(), Some(data[1].1 + (1 << 20)));
    let as_they_are = scrub(&["--layers", "none"], &disks);
    assert!(as_they_are.exit == 1 && as_they_are.stderr.contains("partition table"), "{}", as_they_are.stderr);
}

/// Sets feature bits in the super block (1.2) of a member.
fn set_features(path: &Path, bits: u32) {
    let file = File::options().read(true).write(true).open(path).unwrap();
    let mut sb = vec![0; 4096];
    file.read_exact_at(&mut sb, 4096).unwrap();
    let word = |sb: &[u8], at: usize| u32::from_le_bytes(sb[at..at + 4].try_into().unwrap());
    let features = word(&sb, 8) | bits;
    sb[8..12].copy_from_slice(&features.to_le_bytes());
    sb[216..220].fill(0);
    let len = 256 + 2 * word(&sb, 220) as usize;
    let sum: u64 = sb[..len].chunks(4).map(|w| w.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte))).sum();
    let sum = (sum as u32).wrapping_add((sum >> 32) as u32);
    sb[216..220].copy_from_slice(&sum.to_le_bytes());
    file.write_all_at(&sb, 4096).unwrap();
}

#[test]
fn a_reshape_a_journal_and_a_partial_parity_log_are_read_and_not_repaired() {
    for (bits, word) in [(4, "reshaped"), (512, "journal"), (1024, "partial parity log")] {
        let images = fixture::copy("below-md-raid5");
        for path in &images.paths {
            set_features(path, bits);
        }
        let run = scrub(&[] as &[&str], &images.paths);
        assert!(run.exit == 0 && run.stdout.contains(word), "{word}: {}{}", run.stdout, run.stderr);
        let before = images.fingerprint();
        let run = repair(&images, &images.scratch().join("undo.log"));
        assert!(run.exit == 1 && run.stderr.contains(word), "{word}: {}{}", run.stdout, run.stderr);
        assert!(images.fingerprint() == before);
    }
}

#[test]
fn a_super_block_that_is_bad_on_one_leg_is_written_to_that_leg() {
    let images = fixture::copy("below-md-raid1");
    let whole = images.fingerprint();
    // The data of version 1.2 begins 1 MiB in.
    for member in [1, 2] {
        damage(images.device(member), (1 << 20) + 65536 + 64);
        let bad = images.fingerprint();
        let (exit, found) = findings(&images.paths);
        assert!(exit == 4 && found.len() == 1 && found[0]["kind"] == "superblock", "{exit} {found:?}");
        let log = images.scratch().join(format!("undo{member}.log"));
        let run = repair(&images, &log);
        assert_eq!(run.exit, 0, "{}{}", run.stdout, run.stderr);
        assert!(images.fingerprint() == whole);
        let undo = mirrortool([OsString::from("repair"), "undo".into(), log.into()]);
        assert!(undo.exit == 0 && images.fingerprint() == bad, "{}{}", undo.stdout, undo.stderr);
        damage(images.device(member), (1 << 20) + 65536 + 64);
    }
}
