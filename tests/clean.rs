//! Healthy sets are silent: no finding, exit 0, the kernel's own counts, whatever the order, threads or engine,
//! and not one byte written.

// A failed unwrap is a failed test, also in the helpers.
#![allow(clippy::unwrap_used)]

mod common;

use common::check_all;
use common::fixture::{self, Facts, Images};
use common::program::{self, Report};
use serde_json::Value;
use std::path::PathBuf;

/// devid 2 of this one is behind: see the recipe stale-member.
const NOT_CLEAN: &str = "stale-raid1";

const WAYS: [&[&str]; 12] = [
    &[],
    &["--threads", "1"],
    &["--threads", "3"],
    &["--readahead", "off"],
    &["--readahead", "siblings"],
    &["--readahead", "pipeline:1"],
    &["--read-policy", "pid"],
    &["--read-policy", "round-robin:4096"],
    &["--io-engine", "auto"],
    &["--io-engine", "direct"],
    &["--io-engine", "buffered"],
    &["--io-engine", "mmap"],
];

fn clean_names() -> Vec<String> {
    fixture::names().into_iter().filter(|name| name != NOT_CLEAN).collect()
}

/// What must not depend on how the images were read: all but the clock and the paths.
fn timeless(report: &Report) -> Value {
    let mut value = report.0.clone();
    for key in ["started", "duration_seconds", "rate_bytes_per_second"] {
        value.as_object_mut().unwrap().remove(key);
    }
    value
}

fn check_clean(name: &String) -> Result<(), String> {
    let images = fixture::shared(name);
    let before = images.fingerprint();
    let mut first: Option<Value> = None;
    for way in WAYS {
        let report = scrub_clean(name, way, &images.paths)?;
        let same = timeless(&report);
        if let Some(first) = first.as_ref().filter(|first| **first != same) {
            return Err(format!("{name}: the report differs with {way:?}:\n{first}\n{same}"));
        }
        first = Some(same);
    }
    check_facts(name, first.as_ref().unwrap_or(&Value::Null), &images)?;
    let reversed: Vec<_> = images.paths.iter().rev().cloned().collect();
    if Some(timeless(&scrub_clean(name, &[], &reversed)?)) != first {
        return Err(format!("{name}: the report depends on the order of the images"));
    }
    if images.fingerprint() != before {
        return Err(format!("{name}: an image was written to"));
    }
    Ok(())
}

fn scrub_clean(name: &str, options: &[&str], paths: &[PathBuf]) -> Result<Report, String> {
    let run = program::scrub(options, paths);
    let report = run.report().map_err(|why| format!("{name} {options:?}: {why}"))?;
    let wrong = program::difference(&report.findings()?, &[]);
    if !wrong.is_empty() || run.exit != 0 || report.verdict() != "clean" {
        return Err(format!("{name} {options:?}: exit {} verdict {}\n{wrong}", run.exit, report.verdict()));
    }
    Ok(report)
}

/// The super block's facts, and the counts of the kernel's scrub of the same images.
fn check_facts(name: &str, report: &Value, images: &Images) -> Result<(), String> {
    let facts: Facts = fixture::facts(name);
    let fs = &report["filesystem"];
    let have = (&fs["fsid"], &fs["label"], &fs["generation"], &fs["csum_type"], &fs["sectorsize"], &fs["nodesize"]);
    let expect = (&facts.fsid, &facts.label, facts.generation, &facts.csum_type, facts.sectorsize, facts.nodesize);
    let same = have.0 == expect.0
        && have.1 == expect.1
        && have.2 == &Value::from(expect.2)
        && have.3 == expect.3
        && have.4 == &Value::from(expect.4)
        && have.5 == &Value::from(expect.5);
    if !same || facts.devices.len() != images.paths.len() {
        return Err(format!("{name}: have {have:?} expect {expect:?}"));
    }
    let report = Report(report.clone());
    for device in &facts.devices {
        for (counter, &expect) in &device.kernel_counters {
            let have = report.counter(device.devid, counter);
            if have != Some(expect) {
                return Err(format!(
                    "{name}: devid {} {counter}: have {have:?}, the kernel counts {expect}",
                    device.devid
                ));
            }
        }
    }
    Ok(())
}

#[test]
fn healthy_sets_are_silent_however_they_are_read() {
    check_all(&clean_names(), check_clean);
}

#[test]
fn a_live_log_tree_is_noted() {
    let images = fixture::shared("log-tree-raid1");
    assert!(fixture::facts("log-tree-raid1").log_tree);
    let report = scrub_clean("log-tree-raid1", &[], &images.paths).unwrap();
    let notes = report.0["notes"].to_string();
    assert!(notes.contains("log"), "no word of the log tree in {notes}");
}
