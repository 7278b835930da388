//! Repairs against the kernel: random damage to sets of every redundant layout is healed so that the kernel's scrub counts
//! nothing, `btrfs check` is content and every file is what it was; a member that was away is brought up to date; halves
//! that were both written alone, and members in use, are refused. And rebuilds: a lost member of every redundant layout is made
//! again so that the kernel mounts the set without `degraded` and has nothing to say.
//!
//! Needs root, loop devices, btrfs in the kernel, btrfs-progs and python3; says so and passes where one is missing.

// A failed unwrap is a failed test, also in the helpers.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod common;
#[path = "kernel_repair/stale.rs"]
mod stale;

use common::check_all;
use common::fixture;
use common::layouts::{LAYOUTS, Layout, kernel_scrub, make};
use common::library;
use common::mounted::{Mounted, detach, skipped, succeed, tool};
use common::program::{self, Run, mirrortool};
use common::recipe::Recipe;
use mirrortool::format::items::DevReplaceItem;
use mirrortool::tree::{BlockSource as _, Cursor, ParentCheck};
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Blocks that are harmed per set, of each kind.
const DAMAGES: &str = "25";

/// Error counters of the kernel that must be 0 after a repair.
const ERROR_COUNTERS: [&str; 5] =
    ["csum_errors", "verify_errors", "super_errors", "read_errors", "uncorrectable_errors"];

fn repair(options: &[&str], images: &[PathBuf]) -> Run {
    let fixed = ["repair", "--format", "json", "--yes"].into_iter().map(PathBuf::from);
    mirrortool(fixed.chain(options.iter().map(PathBuf::from)).chain(images.iter().cloned()))
}

/// The sha256 of every file.
fn contents(images: &[PathBuf], directory: &Path) -> Result<String, String> {
    let mnt = directory.join("mnt");
    let _mounted = Mounted::new(images, &mnt, true)?;
    let sums = r#"cd "$0" && find . -type f -print0 | sort -z | xargs -0 -r sha256sum"#;
    succeed(tool("sh", &["-c", sums]).arg(&mnt))
}

/// The kernel's scrub finds nothing, and neither does `btrfs check`.
fn kernel_is_content(images: &[PathBuf], directory: &Path) -> Result<(), String> {
    for (devid, counters) in kernel_scrub(images, directory)? {
        for name in ERROR_COUNTERS {
            if counters.get(name).copied() != Some(0) {
                return Err(format!("devid {devid}: the kernel counts {:?} {name}", counters.get(name)));
            }
        }
    }
    let loops = Loops::new(images)?;
    let first = loops.0.first().ok_or("no loop device")?;
    succeed(&mut tool("btrfs", &["check", "--readonly", first])).map(drop)
}

/// Images as read-only block devices that btrfs knows of; detached with the value.
struct Loops(Vec<String>);

impl Loops {
    fn new(images: &[PathBuf]) -> Result<Self, String> {
        let mut this = Self(Vec::new());
        for image in images {
            this.0.push(succeed(tool("losetup", &["--find", "--show", "--read-only"]).arg(image))?.trim().to_owned());
        }
        succeed(tool("btrfs", &["device", "scan"]).args(&this.0))?;
        Ok(this)
    }
}

impl Drop for Loops {
    fn drop(&mut self) {
        for device in &self.0 {
            let _ = succeed(&mut tool("btrfs", &["device", "scan", "--forget", device]));
            detach(device);
        }
    }
}

fn check_damaged(images: &[PathBuf], directory: &Path, seed: &str) -> Result<(), String> {
    let files = contents(images, directory)?;
    let generator = fixture::directory().join("make/random_recipe.py");
    let text = succeed(tool("python3", &[]).arg(generator).args([seed, DAMAGES]).args(images))?;
    let recipe: Recipe = serde_yaml::from_str(&text).map_err(|e| e.to_string())?;
    let images = recipe.apply_to(images);
    let damaged = images.fingerprint();
    let log = images.scratch().join("undo.log");
    let run = repair(&["--undo-log", log.to_str().unwrap()], &images.paths);
    let hopeless: Vec<_> = recipe.findings().into_iter().filter(|finding| finding.repair != "possible").collect();
    let expected = if hopeless.is_empty() { 0 } else { 3 };
    if run.exit != expected {
        return Err(format!("seed {seed}: exit {}, expected {expected}: {}", run.exit, run.stderr));
    }
    let left = program::scrub(&[""; 0], &images.paths).report()?.findings()?;
    if left != hopeless {
        return Err(format!("seed {seed}: {}", program::difference(&left, &hopeless)));
    }
    if hopeless.is_empty() {
        kernel_is_content(&images.paths, images.scratch()).map_err(|why| format!("seed {seed}: {why}"))?;
        if contents(&images.paths, images.scratch())? != files {
            return Err(format!("seed {seed}: a file is not what it was"));
        }
    }
    let undone = mirrortool([&["repair".into(), "undo".into(), log], &images.paths[..]].concat());
    if undone.exit != 0 || images.fingerprint() != damaged {
        return Err(format!("seed {seed}: not undone: {}", undone.stderr));
    }
    Ok(())
}

fn check(layout: &Layout) -> Result<(), String> {
    let directory: TempDir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).map_err(|e| e.to_string())?;
    let outcome = make(layout, directory.path())
        .and_then(|images| ["1", "2"].iter().try_for_each(|seed| check_damaged(&images, directory.path(), seed)));
    outcome.map_err(|why| format!("{}: {why}", layout.0))
}

#[test]
fn random_damage_to_every_redundant_layout_is_healed_to_the_kernels_content() {
    if skipped("random_damage_to_every_redundant_layout_is_healed_to_the_kernels_content") {
        return;
    }
    let redundant: Vec<Layout> =
        LAYOUTS.into_iter().filter(|layout| !["single", "raid0"].contains(&layout.0)).collect();
    check_all(&redundant, check);
}

/// A RAID1 of two with a file.
fn mirror(directory: &Path) -> Vec<PathBuf> {
    let images: Vec<_> = (1..=2).map(|n| directory.join(format!("d{n}.img"))).collect();
    for image in &images {
        File::create(image).unwrap().set_len(256 << 20).unwrap();
    }
    succeed(tool("mkfs.btrfs", &["-q", "-f", "-d", "raid1", "-m", "raid1"]).args(&images)).unwrap();
    let mounted = Mounted::new(&images, &directory.join("mnt"), false).unwrap();
    fs::write(directory.join("mnt/both"), vec![7; 300_000]).unwrap();
    drop(mounted);
    images
}

/// Writes to one half while the other is away, one transaction per file.
fn write_alone(image: &Path, directory: &Path, name: &str, transactions: usize) {
    let device = succeed(tool("losetup", &["--find", "--show"]).arg(image)).unwrap().trim().to_owned();
    let mnt = directory.join("mnt");
    succeed(tool("mount", &["-t", "btrfs", "-o", "degraded,noatime", &device]).arg(&mnt)).unwrap();
    for number in 0..transactions {
        fs::write(mnt.join(format!("{name}{number}")), format!("{name}{number}").repeat(20_000)).unwrap();
        succeed(tool("btrfs", &["filesystem", "sync"]).arg(&mnt)).unwrap();
    }
    succeed(tool("umount", &[]).arg(&mnt)).unwrap();
    succeed(&mut tool("btrfs", &["device", "scan", "--forget", &device])).unwrap();
    detach(&device);
}

#[test]
fn a_half_that_was_away_is_brought_up_to_date_by_one_command() {
    if skipped("a_half_that_was_away_is_brought_up_to_date_by_one_command") {
        return;
    }
    for transactions in [1, 9] {
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let images = mirror(directory.path());
        write_alone(&images[0], directory.path(), "late", transactions);
        let run = repair(&["--no-undo-log"], &images);
        assert_eq!((run.exit, run.report().unwrap().verdict()), (0, "corrected"), "{}", run.stderr);
        assert!(run.stdout.contains("is stale, devid 2"), "the member is named as stale");
        kernel_is_content(&images, directory.path()).unwrap();
    }
}

#[test]
fn halves_that_were_both_written_alone_are_refused() {
    if skipped("halves_that_were_both_written_alone_are_refused") {
        return;
    }
    for (first, second) in [(1, 1), (1, 9), (6, 2)] {
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let images = mirror(directory.path());
        write_alone(&images[0], directory.path(), "a", first);
        write_alone(&images[1], directory.path(), "b", second);
        let before = fixture::fingerprints(&images);
        let run = repair(&["--no-undo-log"], &images);
        assert_eq!(run.exit, 1, "{first} and {second}: {}", run.stdout);
        assert!(run.stderr.contains("split brain"), "{}", run.stderr);
        assert_eq!(fixture::fingerprints(&images), before);
    }
}

#[test]
fn members_that_are_mounted_or_behind_a_loop_device_are_refused() {
    if skipped("members_that_are_mounted_or_behind_a_loop_device_are_refused") {
        return;
    }
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let images = mirror(directory.path());
    let mounted = Mounted::new(&images, &directory.path().join("mnt"), true).unwrap();
    let run = repair(&["--no-undo-log"], &images);
    assert_eq!((run.exit, run.stdout.as_str()), (1, ""), "{}", run.stderr);
    assert!(run.stderr.contains("is mounted at") || run.stderr.contains("backing file of"), "{}", run.stderr);
    drop(mounted);
    let loops = Loops::new(&images[..1]).unwrap();
    let run = repair(&["--no-undo-log"], &images);
    assert_eq!(run.exit, 1);
    assert!(run.stderr.contains("backing file of"), "{}", run.stderr);
    drop(loops);
    assert_eq!(repair(&["--no-undo-log"], &images).exit, 0);
}

fn rebuild(options: &[&str], onto: &Path, survivors: &[PathBuf]) -> Run {
    let fixed = ["rebuild", "--format", "json", "--yes", "--onto"].into_iter().map(PathBuf::from);
    let options = options.iter().map(PathBuf::from);
    mirrortool(fixed.chain([onto.to_owned()]).chain(options).chain(survivors.iter().cloned()))
}

/// Loses these members, makes them again one after the other, and asks the kernel.
fn lose_and_rebuild(images: &[PathBuf], lost: &[usize], directory: &Path) -> Result<(), String> {
    let files = contents(images, directory)?;
    let before = fixture::fingerprints(images);
    for devid in lost {
        fs::remove_file(&images[devid - 1]).map_err(|e| e.to_string())?;
    }
    for devid in lost {
        let survivors: Vec<_> = images.iter().filter(|image| image.exists()).cloned().collect();
        let run = rebuild(&["--devid", &devid.to_string()], &images[devid - 1], &survivors);
        if run.exit != 0 {
            return Err(format!("devid {devid}: exit {}: {}{}", run.exit, run.stderr, run.stdout));
        }
    }
    let after = fixture::fingerprints(images);
    if (0..images.len()).any(|nth| !lost.contains(&(nth + 1)) && before[nth] != after[nth]) {
        return Err("a survivor was written".to_owned());
    }
    kernel_is_content(images, directory)?;
    let loops = Loops::new(images)?;
    let first = loops.0.first().ok_or("no loop device")?;
    succeed(&mut tool("btrfs", &["check", "--readonly", "--check-data-csum", first]))?;
    drop(loops);
    if contents(images, directory)? == files { Ok(()) } else { Err("a file is not what it was".to_owned()) }
}

/// Layouts by name, and the members that are lost.
const LOSSES: [(&str, &[usize]); 9] = [
    ("raid1", &[2]),
    ("raid1 of 3", &[1]),
    ("raid1c3", &[3, 1]),
    ("raid1c4", &[2, 4, 1]),
    ("raid10 of 4", &[3]),
    ("raid10 of 6", &[5]),
    ("raid5 of 3", &[1]),
    ("raid6 of 4", &[2, 3]),
    ("raid6 of 6", &[6]),
];

#[test]
fn a_rebuilt_member_of_every_redundant_layout_is_as_good_to_the_kernel_as_the_lost_one() {
    if skipped("a_rebuilt_member_of_every_redundant_layout_is_as_good_to_the_kernel_as_the_lost_one") {
        return;
    }
    check_all(&LOSSES, |(name, lost)| {
        let layout = LAYOUTS.iter().find(|layout| layout.0 == *name).unwrap();
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).map_err(|e| e.to_string())?;
        let images = make(layout, directory.path())?;
        lose_and_rebuild(&images, lost, directory.path()).map_err(|why| format!("{name} without {lost:?}: {why}"))
    });
}

#[test]
fn seven_devices_of_unequal_sizes_and_a_metadata_uuid_are_rebuilt_in_the_middle() {
    if skipped("seven_devices_of_unequal_sizes_and_a_metadata_uuid_are_rebuilt_in_the_middle") {
        return;
    }
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let images: Vec<_> = (1..=7).map(|n| directory.path().join(format!("d{n}.img"))).collect();
    for (nth, image) in images.iter().enumerate() {
        File::create(image).unwrap().set_len((160 << 20) + nth as u64 * ((24 << 20) + 4096)).unwrap();
    }
    succeed(tool("mkfs.btrfs", &["-q", "-f", "-d", "raid5", "-m", "raid1"]).args(&images)).unwrap();
    let attach = |image| succeed(tool("losetup", &["--find", "--show"]).arg(image)).unwrap().trim().to_owned();
    let nodes: Vec<String> = images.iter().map(attach).collect();
    succeed(tool("btrfs", &["device", "scan"]).args(&nodes)).unwrap();
    let tuned = succeed(&mut tool("btrfstune", &["-f", "-m", &nodes[0]]));
    for node in &nodes {
        succeed(&mut tool("btrfs", &["device", "scan", "--forget", node])).unwrap();
        detach(node);
    }
    tuned.unwrap();
    let mounted = Mounted::new(&images, &directory.path().join("mnt"), false).unwrap();
    let mut fill = tool("python3", &[]);
    fill.arg(fixture::directory().join("make/fill.py")).arg(directory.path().join("mnt"));
    succeed(fill.args(["7", "24", "nodatasum", "prealloc", "share", "churn"])).unwrap();
    drop(mounted);
    lose_and_rebuild(&images, &[4], directory.path()).unwrap();
}

#[test]
fn what_was_written_while_a_member_was_missing_is_rebuilt_and_named_where_it_has_one_copy() {
    if skipped("what_was_written_while_a_member_was_missing_is_rebuilt_and_named_where_it_has_one_copy") {
        return;
    }
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let layout = LAYOUTS.iter().find(|layout| layout.0 == "raid1").unwrap();
    let images = make(layout, directory.path()).unwrap();
    fs::remove_file(&images[1]).unwrap();
    let (survivor, mnt) = (&images[..1], directory.path().join("mnt"));
    let node = succeed(tool("losetup", &["--find", "--show"]).arg(&survivor[0])).unwrap().trim().to_owned();
    succeed(tool("mount", &["-t", "btrfs", "-o", "degraded,noatime", &node]).arg(&mnt)).unwrap();
    let write = r#"for n in 1 2 3 4 5 6 7 8; do head -c 4M /dev/urandom > "$0/late$n"; done; sync -f "$0""#;
    succeed(tool("sh", &["-c", write]).arg(&mnt)).unwrap();
    succeed(tool("umount", &[]).arg(&mnt)).unwrap();
    succeed(&mut tool("btrfs", &["device", "scan", "--forget", &node])).unwrap();
    detach(&node);
    let run = rebuild(&[], &images[1], survivor);
    assert_eq!(run.exit, 0, "{}", run.stderr);
    kernel_is_content(&images, directory.path()).unwrap();
    let single = succeed(tool("btrfs", &["inspect-internal", "dump-tree", "-t", "chunk"]).arg(&images[0])).unwrap();
    let has_single = single.lines().any(|line| line.contains("num_stripes 1"));
    assert_eq!(has_single, run.stdout.contains("have no second copy on another device"), "{}", run.stdout);
}

#[test]
fn a_device_replace_that_the_kernel_has_not_ended_is_refused() {
    if skipped("a_device_replace_that_the_kernel_has_not_ended_is_refused") {
        return;
    }
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let layout = LAYOUTS.iter().find(|layout| layout.0 == "raid1 of 3").unwrap();
    let images = make(layout, directory.path()).unwrap();
    let target = directory.path().join("target.img");
    File::create(&target).unwrap().set_len(fs::metadata(&images[1]).unwrap().len()).unwrap();
    let mnt = directory.path().join("mnt");
    let mounted = Mounted::new(&images, &mnt, false).unwrap();
    let node = succeed(tool("losetup", &["--find", "--show"]).arg(&target)).unwrap().trim().to_owned();
    succeed(tool("btrfs", &["replace", "start", "-B", "-f", "2", &node]).arg(&mnt)).unwrap();
    drop(mounted);
    succeed(&mut tool("btrfs", &["device", "scan", "--forget", &node])).unwrap();
    detach(&node);
    let whole = [&images[..1], &[target], &images[2..]].concat();
    set_replace_state(&whole, 1);
    let (new, survivors) = (directory.path().join("new.img"), [whole[0].clone(), whole[2].clone()]);
    let run = rebuild(&[], &new, &survivors);
    assert!(run.exit == 1 && run.stderr.contains("a device replace of devid"), "{}", run.stderr);
    assert!(!new.exists());
    set_replace_state(&whole, 2);
    let run = rebuild(&[], &new, &survivors);
    assert_eq!(run.exit, 0, "{}", run.stderr);
}

/// Writes the state of a device replace into every copy of its item.
fn set_replace_state(images: &[PathBuf], state: u8) {
    let fs = library::open(images);
    let mut cursor = Cursor::new(&fs, fs.roots().dev.unwrap());
    cursor.seek(&DevReplaceItem::KEY);
    let (key, item) = cursor.item().unwrap();
    assert_eq!(key, DevReplaceItem::KEY);
    let leaf = cursor.leaf_at().unwrap();
    let mut bytes = fs.read_block(leaf, &ParentCheck::default()).unwrap().bytes().to_vec();
    let at = bytes.windows(item.len()).position(|window| window == item).unwrap();
    bytes[at + 32] = state;
    let digest = fs.superblock().csum_type().digest(&bytes[32..]);
    bytes[..digest.as_bytes().len()].copy_from_slice(digest.as_bytes());
    for copy in fs.chunks().lookup(leaf).unwrap().copies(leaf) {
        let member = fs.volume().member(copy.place.devid).unwrap();
        let file = fs::OpenOptions::new().write(true).open(member.path()).unwrap();
        file.write_all_at(&bytes, copy.place.physical.raw()).unwrap();
    }
}
