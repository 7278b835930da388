//! The program against the kernel: sets that the running kernel has just written are clean and counted alike, and after
//! random damage the findings are what was harmed and the error counters are those of `btrfs scrub -r`.
//!
//! Needs root, loop devices, btrfs in the kernel, btrfs-progs and python3; says so and passes where one is missing.
//! The kernel sees the images through read-only loop devices, so that its scrub cannot repair what we are to find.

mod common;

use common::check_all;
use common::fixture;
use common::layouts::{LAYOUTS, Layout, kernel_scrub, make};
use common::mounted::{skipped, succeed, tool};
use common::program::{self, Report, difference};
use common::recipe::Recipe;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Blocks that are harmed per set, of each kind.
const DAMAGES: &str = "12";
/// Random damages per set.
const SEEDS: [&str; 2] = ["1", "2"];

/// Counters of which ours and the kernel's must be equal.
const CLEAN_COUNTERS: [&str; 5] =
    ["data_extents_scrubbed", "tree_extents_scrubbed", "data_bytes_scrubbed", "tree_bytes_scrubbed", "no_csum"];
const ERROR_COUNTERS: [&str; 4] = ["csum_errors", "verify_errors", "super_errors", "uncorrectable_errors"];

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
    if skipped("sets_of_every_layout_are_judged_and_counted_as_the_kernel_does") {
        return;
    }
    check_all(&LAYOUTS, check);
}
