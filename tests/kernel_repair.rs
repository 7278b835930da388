//! Repairs against the kernel: random damage to sets of every redundant layout is healed so that the kernel's scrub counts
//! nothing, `btrfs check` is content and every file is what it was; a member that was away is brought up to date; halves
//! that were both written alone, and members in use, are refused.
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
use common::mounted::{Mounted, detach, skipped, succeed, tool};
use common::program::{self, Run, mirrortool};
use common::recipe::Recipe;
use std::fs::{self, File};
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
