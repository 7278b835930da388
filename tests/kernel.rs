//! The program against the kernel: sets that the running kernel has just written are clean and counted alike, and after
//! random damage the findings are what was harmed and the error counters are those of `btrfs scrub -r`.
//!
//! Needs root, loop devices, btrfs in the kernel, btrfs-progs and python3; says so and passes where one is missing.
//! The kernel sees the images through read-only loop devices, so that its scrub cannot repair what we are to find.

mod common;

use common::check_all;
use common::fixture;
use common::mounted::{Mounted, lacking, succeed, tool};
use common::program::{self, Report, difference};
use common::recipe::Recipe;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Blocks that are harmed per set, of each kind.
const DAMAGES: &str = "12";
/// Random damages per set.
const SEEDS: [&str; 2] = ["1", "2"];

/// What is made: name, data profile, metadata profile, members, checksum, node size in bytes.
type Layout = (&'static str, &'static str, &'static str, usize, &'static str, &'static str);

const LAYOUTS: [Layout; 13] = [
    ("single", "single", "single", 1, "sha256", "16384"),
    ("dup", "dup", "dup", 1, "crc32c", "65536"),
    ("raid0", "raid0", "raid0", 3, "xxhash", "4096"),
    ("raid1", "raid1", "raid1", 2, "blake2", "16384"),
    ("raid1 of 3", "raid1", "raid1", 3, "crc32c", "4096"),
    ("raid1c3", "raid1c3", "raid1c3", 3, "crc32c", "65536"),
    ("raid1c4", "raid1c4", "raid1c4", 4, "xxhash", "16384"),
    ("raid10 of 4", "raid10", "raid10", 4, "crc32c", "16384"),
    ("raid10 of 6", "raid10", "raid10", 6, "sha256", "65536"),
    ("raid5 of 3", "raid5", "raid5", 3, "xxhash", "65536"),
    ("raid5 of 5", "raid5", "raid1c3", 5, "crc32c", "16384"),
    ("raid6 of 4", "raid6", "raid6", 4, "sha256", "4096"),
    ("raid6 of 6", "raid6", "raid1c4", 6, "crc32c", "16384"),
];

/// Counters of which ours and the kernel's must be equal.
const CLEAN_COUNTERS: [&str; 5] =
    ["data_extents_scrubbed", "tree_extents_scrubbed", "data_bytes_scrubbed", "tree_bytes_scrubbed", "no_csum"];
const ERROR_COUNTERS: [&str; 4] = ["csum_errors", "verify_errors", "super_errors", "uncorrectable_errors"];

/// Makes and fills a set.
fn make(layout: &Layout, directory: &Path) -> Result<Vec<PathBuf>, String> {
    let &(name, data, metadata, members, checksum, nodesize) = layout;
    let size_bytes: u64 = if members == 1 { 320 << 20 } else { 160 << 20 };
    let images: Vec<_> = (1..=members).map(|n| directory.join(format!("d{n}.img"))).collect();
    for image in &images {
        File::create(image).and_then(|file| file.set_len(size_bytes)).map_err(|e| e.to_string())?;
    }
    let options = ["-q", "-f", "-d", data, "-m", metadata, "--csum", checksum, "-n", nodesize];
    succeed(tool("mkfs.btrfs", &options).args(&images))?;
    let mnt = directory.join("mnt");
    let mounted = Mounted::new(&images, &mnt, false)?;
    let mut fill = tool("python3", &[]);
    fill.arg(fixture::directory().join("make/fill.py")).arg(&mnt);
    succeed(fill.args([&name.len().to_string(), "8", "nodatasum", "prealloc", "share", "churn"]))?;
    succeed(tool("sync", &["-f"]).arg(&mnt))?;
    drop(mounted);
    Ok(images)
}

/// The counters of the kernel's scrub, by devid.
fn kernel_scrub(images: &[PathBuf], directory: &Path) -> Result<BTreeMap<u64, BTreeMap<String, u64>>, String> {
    let mounted = Mounted::new(images, &directory.join("mnt"), true)?;
    // exits with 3 where it finds something uncorrectable
    let output = tool("btrfs", &["scrub", "start", "-B", "-d", "-R", "-r"]).arg(directory.join("mnt")).output();
    let text = String::from_utf8_lossy(&output.map_err(|e| e.to_string())?.stdout).into_owned();
    drop(mounted);
    let mut devices = BTreeMap::new();
    let mut devid = 0;
    for line in text.lines() {
        if let Some((_, rest)) = line.split_once("(id ") {
            devid = rest.split(')').next().and_then(|id| id.parse().ok()).unwrap_or(0);
            if !line.ends_with(" done") {
                return Err(format!("the kernel did not finish: {text}"));
            }
        } else if let Some((name, value)) = line.trim().split_once(": ")
            && let Ok(value) = value.parse()
        {
            devices.entry(devid).or_insert_with(BTreeMap::new).insert(name.to_owned(), value);
        }
    }
    if devices.len() == images.len() { Ok(devices) } else { Err(format!("not all devices in: {text}")) }
}

fn compare_counters(report: &Report, images: &[PathBuf], directory: &Path, names: &[&str]) -> Result<(), String> {
    for (devid, counters) in kernel_scrub(images, directory)? {
        for &name in names {
            let (have, kernel) = (report.counter(devid, name), counters.get(name).copied());
            if have != kernel {
                return Err(format!("devid {devid}: {name} {have:?}, the kernel counts {kernel:?}"));
            }
        }
    }
    Ok(())
}

fn check_clean(images: &[PathBuf], directory: &Path) -> Result<(), String> {
    let before = fixture::fingerprints(images);
    let run = program::scrub(&[""; 0], images);
    let report = run.report()?;
    let wrong = difference(&report.findings()?, &[]);
    if !wrong.is_empty() || run.exit != 0 {
        return Err(format!("clean: exit {}\n{wrong}", run.exit));
    }
    if fixture::fingerprints(images) != before {
        return Err("an image was written to".to_owned());
    }
    compare_counters(&report, images, directory, &CLEAN_COUNTERS).map_err(|why| format!("clean: {why}"))
}

fn check_damaged(images: &[PathBuf], seed: &str) -> Result<(), String> {
    let generator = fixture::directory().join("make/random_recipe.py");
    let text = succeed(tool("python3", &[]).arg(generator).args([seed, DAMAGES]).args(images))?;
    let recipe: Recipe = serde_yaml::from_str(&text).map_err(|e| e.to_string())?;
    let images = recipe.apply_to(images);
    let run = program::scrub(&[""; 0], &images.paths);
    let report = run.report().map_err(|why| format!("seed {seed}: {why}"))?;
    let wrong = difference(&report.findings()?, &recipe.findings());
    if !wrong.is_empty() || run.exit != recipe.expect.exit {
        return Err(format!("seed {seed}: exit {}, expected {}\n{wrong}", run.exit, recipe.expect.exit));
    }
    compare_counters(&report, &images.paths, images.scratch(), &ERROR_COUNTERS)
        .map_err(|why| format!("seed {seed}: {why}"))
}

fn check(layout: &Layout) -> Result<(), String> {
    let directory: TempDir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).map_err(|e| e.to_string())?;
    let outcome = make(layout, directory.path()).and_then(|images| {
        check_clean(&images, directory.path())?;
        SEEDS.iter().try_for_each(|seed| check_damaged(&images, seed))
    });
    outcome.map_err(|why| format!("{}: {why}", layout.0))
}

#[test]
fn sets_of_every_layout_are_judged_and_counted_as_the_kernel_does() {
    if let Some(what) = lacking() {
        println!("skipped: needs root, loop devices, btrfs and python3; {what} is missing");
        return;
    }
    check_all(&LAYOUTS, check);
}
