//! What the benches print, byte for byte in virtual time: the names and units of keys and columns, in every form; and
//! that emulation delays real reads and changes nothing else.

// A failed unwrap is a failed test, also in the helpers.
#![allow(clippy::unwrap_used)]

mod common;

use common::fixture;
use common::program::{Run, mirrortool};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// A bench with a name for its golden files, how it is called, and what its picture must name.
struct Bench {
    name: &'static str,
    arguments: Vec<String>,
    drawn: &'static [&'static str],
}

fn words(typed: &str) -> Vec<String> {
    typed.split(' ').map(ToOwned::to_owned).collect()
}

fn benches() -> [Bench; 3] {
    let images = fixture::shared("raid1-crc32c").paths.into_iter().map(|path| path.display().to_string());
    let walk = "readahead-bench --modes off,pipeline:32 --simulate --model hdd --scrub";
    [
        Bench {
            name: "policy-bench",
            arguments: words("policy-bench --model ssd,nvme --size 16M --policies pid,devid:2,auto --rounds 2"),
            drawn: &["random-4k over ssd+nvme", "pid", "devid:2", "auto", "MiB/s"],
        },
        Bench {
            name: "layout-bench",
            arguments: words("layout-bench --size 16M --chunks 64K,2M"),
            drawn: &[
                "2 x hdd-2005",
                "n2 read",
                "f2 read",
                "o2 read",
                "n2 write",
                "f2 write",
                "o2 write",
                "KiB",
                "MB/s",
            ],
        },
        Bench {
            name: "readahead-bench",
            arguments: words(walk).into_iter().chain(images).collect(),
            drawn: &["model hdd", "walk, off", "walk, pipeline:32", "scrub, off", "scrub, pipeline:32", "seconds"],
        },
    ]
}

impl Bench {
    fn run(&self, more: &[&str]) -> String {
        let run = mirrortool(self.arguments.iter().map(String::as_str).chain(more.iter().copied()));
        assert_eq!((run.exit, run.stderr.as_str()), (0, ""), "{}", self.name);
        run.stdout.replace(&format!("\"{}\"", env!("CARGO_PKG_VERSION")), "\"VERSION\"")
    }

    fn golden(&self, form: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{}.{form}", self.name))
    }
}

/// With `UPDATE=1` in the environment the files are rewritten instead.
#[test]
fn figures_of_models_are_the_same_bytes_everywhere_in_every_form() {
    for bench in benches() {
        for (form, format) in [("txt", "text"), ("json", "json"), ("csv", "csv")] {
            let printed = bench.run(&["--format", format]);
            let golden = bench.golden(form);
            if std::env::var_os("UPDATE").is_some() {
                fs::write(&golden, &printed).unwrap();
            }
            let expected = fs::read_to_string(&golden).unwrap_or_default();
            assert_eq!(printed, expected, "{}: UPDATE=1 cargo test --test benches", golden.display());
        }
    }
}

#[test]
fn yaml_says_what_json_says() {
    let matrix = "policy-bench --matrix --policies pid --rounds 1";
    let matrix = Bench { name: "matrix", arguments: words(matrix), drawn: &[] };
    for bench in benches().into_iter().chain([matrix]) {
        // JSON is YAML, and one parser rounds all figures the same.
        let [json, yaml] = ["json", "yaml"].map(|format| {
            let mut document: Value = serde_yaml::from_str(&bench.run(&["--format", format])).unwrap();
            // YAML does not quote the version.
            document.as_object_mut().unwrap().remove("tool");
            document
        });
        assert_eq!(yaml, json, "{}", bench.name);
    }
}

#[test]
fn the_matrix_has_a_row_per_scenario_and_policy() {
    let run =
        |format: &str| mirrortool(words(&format!("policy-bench --matrix --policies pid --rounds 1 --format {format}")));
    let document: Value = serde_json::from_str(&run("json").stdout).unwrap();
    let csv = run("csv").stdout;
    let mut rows = csv.lines();
    assert_eq!(rows.next(), Some("scenario,policy,bytes_per_second"));
    let scenarios = document["scenarios"].as_array().unwrap();
    assert!(scenarios.len() >= 20);
    for (scenario, row) in scenarios.iter().zip(rows.by_ref()) {
        let policy = &scenario["policies"][0];
        let rate = policy["bytes_per_second"]["median"].as_f64().unwrap();
        let (name, policy) = (scenario["scenario"].as_str().unwrap(), policy["policy"].as_str().unwrap());
        assert_eq!(row, format!("{name},{policy},{rate:.0}"));
    }
    assert_eq!(rows.next(), None);
}

#[test]
fn pictures_are_well_formed_and_name_what_they_show() {
    let folder = tempfile::tempdir().unwrap();
    for bench in benches() {
        let path = folder.path().join(bench.name);
        bench.run(&["--plot", path.to_str().unwrap()]);
        let picture = fs::read_to_string(path).unwrap();
        assert!(picture.starts_with("<svg") && picture.contains("xmlns"), "{}", bench.name);
        assert_eq!(unclosed(&picture), Ok(vec![]), "{}", bench.name);
        for name in bench.drawn {
            assert!(picture.contains(name), "{}: no {name:?}", bench.name);
        }
    }
}

/// The elements that are open at the end; `Err` with the tag that closes another than the last one.
fn unclosed(xml: &str) -> Result<Vec<&str>, &str> {
    let mut open = Vec::new();
    for tag in xml.split('<').skip(1) {
        let (tag, text) = tag.split_once('>').ok_or(tag)?;
        let is_sound = tag.matches('"').count() % 2 == 0 && !text.replace("&lt;", "").contains("&<");
        match tag.strip_prefix('/') {
            _ if !is_sound => return Err(tag),
            Some(closed) if open.pop() != Some(closed) => return Err(tag),
            None if !tag.ends_with('/') => open.push(tag.split_whitespace().next().unwrap_or(tag)),
            _ => {}
        }
    }
    Ok(open)
}

#[test]
fn the_model_file_of_the_examples_is_a_disk_behind_a_controller_that_both_mirrors_share() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/man/examples/model.yaml");
    let rate = |models: &str| {
        let run = format!("policy-bench --model {models} --workload sequential --size 1G --policies pid --rounds 1");
        let run = mirrortool(words(&format!("{run} --jobs 2 --format json")));
        let document: Value = serde_json::from_str(&run.stdout).unwrap_or_else(|e| panic!("{e}: {}", run.stderr));
        document["policies"][0]["bytes_per_second"]["median"].as_f64().unwrap()
    };
    let (shared, alone) = (rate(&format!("{file},{file}")), rate("hdd,hdd"));
    assert!((395e6..401e6).contains(&shared) && alone > 500e6, "{shared} {alone}");
}

/// A policy-bench over the members of a set, with `devid:1` and `devid:2`.
fn over_members(options: &str) -> Run {
    let images = fixture::shared("raid1-crc32c").paths.into_iter().map(|path| path.display().to_string());
    let fixed =
        words("policy-bench --io-engine buffered --size 1M --policies devid:1,devid:2 --rounds 1 --format json");
    let options = options.split_whitespace().map(ToOwned::to_owned);
    mirrortool(fixed.into_iter().chain(options).chain(images))
}

#[test]
fn emulation_changes_who_waits_and_not_who_reads() {
    for (options, model) in [("", None), ("--emulate --model ssd,nvme", Some("ssd+nvme"))] {
        let run = over_members(options);
        let document: Value = serde_json::from_str(&run.stdout).unwrap_or_else(|e| panic!("{e}: {}", run.stderr));
        assert_eq!(document["model"].as_str(), model, "{options}");
        for (policy, reads) in [(0, [256, 0]), (1, [0, 256])] {
            let devices = document["policies"][policy]["devices"].as_array().unwrap();
            let counts: Vec<_> = devices.iter().map(|device| device["reads"].as_u64().unwrap()).collect();
            assert_eq!(counts, reads, "{options}");
        }
    }
}

#[test]
fn a_model_and_real_devices_need_a_word_on_how_they_go_together() {
    for (options, words) in
        [("--model ssd", "needs --emulate"), ("--emulate", "--model"), ("--emulate --model floppy", "hdd-smr")]
    {
        let run = over_members(options);
        assert_eq!((run.exit, run.stdout.as_str()), (1, ""), "{options}");
        assert!(run.stderr.contains(words), "{options}: {}", run.stderr);
    }
}
