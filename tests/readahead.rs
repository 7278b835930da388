//! What a walk sees does not depend on how it reads ahead: healthy sets, sets with bad copies, and a simulation that
//! gives the same bytes on every machine.

// A failed unwrap is a failed test, also in the helpers.
#![allow(clippy::unwrap_used)]

mod common;

use common::program::{Run, mirrortool};
use common::{check_all, fixture};
use serde_json::Value;
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// Runs `readahead-bench` with one round of every mode.
fn bench(options: &[&str], images: &[PathBuf]) -> Run {
    let fixed = ["readahead-bench", "--rounds", "1", "--modes", "off,siblings,pipeline:1,pipeline:32"];
    let images = images.iter().map(|path| path.to_str().unwrap());
    mirrortool(fixed.into_iter().chain(options.iter().copied()).chain(images))
}

fn check_fixture(name: &String) -> Result<(), String> {
    let images = fixture::shared(name);
    let run = bench(&["--format", "json", "--scrub"], &images.paths);
    let value: Value = serde_json::from_str(&run.stdout).map_err(|e| format!("{name}: {e}: {}", run.stderr))?;
    let blocks: Vec<_> = value["modes"].as_array().unwrap().iter().map(|mode| &mode["tree_blocks"]).collect();
    let is_same = blocks.len() == 4 && blocks.iter().all(|count| *count == blocks[0] && count.as_u64() > Some(3));
    if run.exit == 0 && is_same { Ok(()) } else { Err(format!("{name}: {} {blocks:?} {}", run.exit, run.stderr)) }
}

#[test]
fn all_modes_see_the_same_in_every_set() {
    check_all(&fixture::names(), check_fixture);
}

/// Inverts every second stretch of 16 KiB of a member, but for its super blocks.
fn damage_half(path: &Path) {
    let file = File::options().read(true).write(true).open(path).unwrap();
    let mut bytes = vec![0; 16 << 10];
    for at in ((1 << 20)..file.metadata().unwrap().len()).step_by(32 << 10).filter(|at| *at != 64 << 20) {
        if file.read_exact_at(&mut bytes, at).is_ok() && bytes.iter().any(|byte| *byte != 0) {
            for byte in &mut bytes {
                *byte = !*byte;
            }
            file.write_all_at(&bytes, at).unwrap();
        }
    }
}

#[test]
fn bad_copies_change_nothing_of_what_the_walker_sees() {
    for name in ["raid1-crc32c", "raid10-4dev-crc32c"] {
        let images = fixture::copy(name);
        let count = |images: &[PathBuf]| {
            let run = bench(&["--format", "json"], images);
            assert_eq!(run.exit, 0, "{name}: {}", run.stderr);
            let value: Value = serde_json::from_str(&run.stdout).unwrap();
            value["modes"][0]["tree_blocks"].as_u64().unwrap()
        };
        let healthy = count(&images.paths);
        damage_half(images.device(1));
        assert_eq!(count(&images.paths), healthy, "{name}");
    }
}

/// With `UPDATE=1` in the environment the file is rewritten instead.
#[test]
fn a_simulation_gives_the_same_bytes_on_every_machine() {
    let images = fixture::shared("raid10-4dev-crc32c");
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/readahead-raid10-hdd.json");
    let run = bench(&["--format", "json", "--scrub", "--simulate", "--model", "hdd"], &images.paths);
    assert_eq!(run.exit, 0, "{}", run.stderr);
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&golden, &run.stdout).unwrap();
    }
    assert_eq!(run.stdout, fs::read_to_string(golden).unwrap_or_default());
}

#[test]
fn the_picture_and_the_table_name_every_mode() {
    let images = fixture::shared("raid1-crc32c");
    let folder = tempfile::tempdir().unwrap();
    let picture = folder.path().join("modes.svg");
    let run = bench(&["--format", "csv", "--plot", picture.to_str().unwrap()], &images.paths);
    assert_eq!(run.exit, 0, "{}", run.stderr);
    let picture = fs::read_to_string(picture).unwrap();
    assert!(picture.starts_with("<svg"));
    for mode in ["off", "siblings", "pipeline:1", "pipeline:32"] {
        assert!(run.stdout.contains(&format!("walk,{mode},")), "{}", run.stdout);
        assert!(picture.contains(&format!("walk, {mode}")), "{mode}");
    }
}

#[test]
fn the_text_speaks_as_btrfs_scrub_status() {
    let images = fixture::shared("raid1-crc32c");
    let run = bench(&["--simulate", "--model", "nvme", "--trees", "extent"], &images.paths);
    for label in [
        "Duration:         0:00:00",
        "Total to scrub:   ",
        "Rate:             ",
        "Tree blocks:",
        "In flight:",
        "Seeks:",
        "Ratio to off:",
    ] {
        assert!(run.stdout.contains(label), "{label}: {}", run.stdout);
    }
}
