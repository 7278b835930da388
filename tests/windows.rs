//! Maintenance windows and selections: a scrub in slices or killed and resumed says what one run says, a rate is kept,
//! and what a selection leaves out is left out, said, and nothing else.

// A failed unwrap is a failed test, also in the helpers.
#![allow(clippy::unwrap_used)]

mod common;

use common::fixture::{self, Images};
use common::mounted::{Mounted, skipped};
use common::program::{self, Report, Run, difference};
use common::recipe::{self, Finding};
use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// A request: what a device may be ahead of its rate, because the time of the last one is not waited for.
const REQUEST_BYTES: u64 = 1 << 20;

/// A set in a folder of its own, and a place for its state.
struct Bench {
    images: Images,
}

impl Bench {
    fn of_recipe(name: &str) -> Self {
        Self { images: recipe::named(name).apply() }
    }

    fn of_base(name: &str) -> Self {
        Self { images: fixture::copy(name) }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.images.scratch().join(name)
    }

    fn state(&self) -> String {
        self.file("state.json").display().to_string()
    }

    fn saved(&self) -> Value {
        serde_json::from_slice(&fs::read(self.file("state.json")).unwrap()).unwrap()
    }

    /// A scrub that remembers nothing.
    fn once(&self, options: &[impl AsRef<OsStr>]) -> Report {
        let all: Vec<&OsStr> =
            [OsStr::new("--no-state")].into_iter().chain(options.iter().map(AsRef::as_ref)).collect();
        program::scrub(&all, &self.images.paths).report().unwrap()
    }

    /// A scrub that remembers.
    fn remembered(&self, options: &[&str]) -> Run {
        let state = self.state();
        let all: Vec<&str> = ["--state", state.as_str()].into_iter().chain(options.iter().copied()).collect();
        program::scrub(&all, &self.images.paths)
    }

    /// A scrub that remembers, as a process of its own.
    fn started(&self, options: &[&str]) -> Child {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mirrortool"));
        command.args(["scrub", "--state", &self.state()]).args(options).args(&self.images.paths);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }
}

fn status(report: &Report) -> &str {
    report.0["status"].as_str().unwrap()
}

fn bytes(report: &Report) -> u64 {
    report.0["bytes_scrubbed"].as_u64().unwrap()
}

fn notes(report: &Report) -> String {
    report.0["notes"].to_string()
}

/// The most that one device has read.
fn most_on_a_device(report: &Report) -> u64 {
    let devices = report.0["devices"].as_array().unwrap();
    let read = |device: &Value| {
        let counter = |name: &str| device["counters"][name].as_u64().unwrap();
        counter("data_bytes_scrubbed") + counter("tree_bytes_scrubbed")
    };
    devices.iter().map(read).max().unwrap()
}

/// All that two runs must agree on.
fn assert_same(name: &str, have: &Report, expect: &Report) {
    assert_eq!(difference(&have.findings().unwrap(), &expect.findings().unwrap()), "", "{name}");
    for key in ["status", "verdict", "totals", "findings", "bytes_scrubbed"] {
        assert_eq!(have.0[key], expect.0[key], "{name}: {key}");
    }
    let counters = |report: &Report| -> Vec<Value> {
        report.0["devices"].as_array().unwrap().iter().map(|device| device["counters"].clone()).collect()
    };
    assert_eq!(counters(have), counters(expect), "{name}");
}

/// Slices of one second, each at twice the rate of the one before, so that the first ends early and there is an end.
fn in_slices(bench: &Bench, whole: &Report) -> (Report, usize) {
    let mut rate = most_on_a_device(whole) / 4;
    let mut slices = 0;
    loop {
        let limit = rate.to_string();
        let mut options = vec!["--time-limit", "1s", "--limit", limit.as_str()];
        if slices > 0 {
            options.push("--resume");
        }
        let report = bench.remembered(&options).report().unwrap();
        slices += 1;
        if status(&report) == "finished" {
            return (report, slices);
        }
        assert!(slices < 10, "no end at {rate} bytes per second");
        rate *= 2;
    }
}

#[test]
fn slices_give_the_findings_and_totals_of_one_run() {
    let names = ["data-raid1", "raid6-two-columns", "node-dup", "nodatasum-raid1", "demo", "truncated-member"];
    common::check_all(&names, |name| {
        let bench = Bench::of_recipe(name);
        let whole = bench.once(&[""; 0]);
        let (report, slices) = in_slices(&bench, &whole);
        assert!(slices > 1, "{name}: the first slice was long enough for all");
        assert_same(name, &report, &whole);
        assert!(bench.saved()["sitting"].is_null(), "{name}: nothing is left to resume");
        Ok(())
    });
}

#[test]
fn an_unfinished_run_is_never_0_and_says_how_far_it_came() {
    let bench = Bench::of_base("raid1-crc32c");
    let limit = (most_on_a_device(&bench.once(&[""; 0])) / 4).to_string();
    let run = bench.remembered(&["--time-limit", "1s", "--limit", &limit]);
    let report = run.report().unwrap();
    assert_eq!((run.exit, status(&report), report.verdict()), (5, "interrupted", "clean"));
    assert!(bytes(&report) < report.0["bytes_total"].as_u64().unwrap());
}

/// Waits until the state file says so.
fn until(bench: &Bench, child: &mut Child, what: &str, is_so: impl Fn(&Value) -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let state = fs::read(bench.file("state.json")).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
        if state.as_ref().is_some_and(&is_so) {
            return;
        }
        assert!(child.try_wait().unwrap().is_none(), "the scrub ended before {what}");
        assert!(Instant::now() < deadline, "no {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

fn kill(mut child: Child) {
    // SIGKILL: nothing is tidied up.
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_scrub_killed_at_any_moment_is_gone_on_with() {
    let bench = Bench::of_recipe("data-raid1");
    let whole = bench.once(&[""; 0]);
    let limit = (most_on_a_device(&whole) / 4).to_string();
    for (nth, more) in [0, 70, 310, 530].into_iter().enumerate() {
        let options: &[&str] = if nth == 0 { &["--limit", &limit] } else { &["--limit", &limit, "--resume"] };
        let mut child = bench.started(options);
        until(&bench, &mut child, "state", |state| state["sitting"].is_object());
        thread::sleep(Duration::from_millis(more));
        kill(child);
    }
    assert_same("killed four times", &bench.remembered(&["--resume"]).report().unwrap(), &whole);
}

#[test]
fn a_killed_scrub_loses_no_more_than_the_last_checkpoint_interval() {
    let bench = Bench::of_recipe("nodatasum-raid1");
    let whole = bench.once(&[""; 0]);
    let limit = (most_on_a_device(&whole) / 40).to_string();
    let mut child = bench.started(&["--limit", &limit]);
    let has_group = |state: &Value| state["block_groups"].as_array().is_some_and(|groups| !groups.is_empty());
    until(&bench, &mut child, "checkpoint", has_group);
    kill(child);
    let before = bench.saved()["sitting"]["bytes_scrubbed"].as_u64().unwrap();
    assert!(before > 0 && before < bytes(&whole), "{before}");
    assert_same("killed after a checkpoint", &bench.remembered(&["--resume"]).report().unwrap(), &whole);
}

#[test]
fn where_nothing_was_ended_early_there_is_nothing_to_resume() {
    let bench = Bench::of_base("raid1-crc32c");
    let run = bench.remembered(&["--resume"]);
    assert_eq!((run.exit, run.stdout.as_str()), (2, ""), "{}", run.stderr);
    assert!(run.stderr.contains("nothing to resume"), "{}", run.stderr);
    assert_eq!(bench.remembered(&[]).exit, 0);
    assert_eq!(bench.remembered(&["--resume"]).exit, 2, "the last scrub got to its end");
}

#[test]
fn a_scrub_for_every_night_goes_on_or_begins() {
    let bench = Bench::of_base("raid1-crc32c");
    let whole = bench.remembered(&["--continue"]);
    assert_eq!(whole.exit, 0, "{}", whole.stderr);
    let first = bench.remembered(&["--continue", "--time-limit", "0s"]);
    assert_eq!(first.exit, 5, "{}", first.stderr);
    let second = bench.remembered(&["--continue"]);
    assert_eq!((second.exit, second.stderr.as_str()), (0, ""));
    assert_same("in two sittings", &second.report().unwrap(), &whole.report().unwrap());
    assert_eq!(bench.remembered(&["--continue"]).exit, 0, "the next one begins");
}

#[test]
fn the_state_of_another_file_system_is_refused_and_kept() {
    let (bench, other) = (Bench::of_base("raid1-crc32c"), Bench::of_base("dup-xxhash"));
    assert_eq!(bench.remembered(&[]).exit, 0);
    fs::copy(bench.state(), other.state()).unwrap();
    let run = other.remembered(&[]);
    assert_eq!((run.exit, run.stdout.as_str()), (1, ""));
    for fsid in [fixture::facts("raid1-crc32c").fsid, fixture::facts("dup-xxhash").fsid] {
        assert!(run.stderr.contains(&fsid), "{fsid} is not in: {}", run.stderr);
    }
    assert_eq!(other.saved(), bench.saved());
}

#[test]
fn a_scrub_that_is_begun_anew_says_that_it_forgets_the_one_that_was_ended_early() {
    let bench = Bench::of_base("raid1-crc32c");
    assert_eq!(bench.remembered(&["--time-limit", "0s"]).exit, 5);
    let anew = bench.remembered(&[]);
    assert_eq!((anew.exit, anew.stderr.lines().count()), (0, 1), "{}", anew.stderr);
    assert!(anew.stderr.contains(" was ended early and is forgotten: --resume goes on with one\n"), "{}", anew.stderr);
    assert_eq!(bench.remembered(&[]).stderr, "", "the last one got to its end");
}

#[test]
fn only_a_whole_look_or_a_sample_makes_block_groups_younger() {
    let bench = Bench::of_base("raid1-crc32c");
    let ages = |options: &[&str]| {
        assert_eq!(bench.remembered(options).exit, 0);
        let groups = bench.saved()["block_groups"].as_array().unwrap().clone();
        groups.iter().filter(|group| !group["checked"].is_null()).count()
    };
    assert_eq!(ages(&["--only", "data"]), 0);
    let of_sample = ages(&["--sample", "1%"]);
    assert!(of_sample > 0 && of_sample < ages(&[]), "{of_sample}");
}

#[test]
fn all_sittings_of_a_scrub_look_at_the_same_parts() {
    let bench = Bench::of_base("raid1-crc32c");
    let limit = (most_on_a_device(&bench.once(&[""; 0])) / 4).to_string();
    let first = bench.remembered(&["--only", "data", "--time-limit", "1s", "--limit", &limit]);
    assert_eq!(first.exit, 5, "{}", first.stderr);
    let run = bench.remembered(&["--resume"]);
    assert_eq!(run.exit, 1);
    assert!(run.stderr.contains("looks at --only data, not at all"), "{}", run.stderr);
    assert_eq!(bench.remembered(&["--only", "data", "--resume"]).exit, 0);
    assert!(bench.saved()["finished"].is_null(), "metadata was not looked at");
}

#[test]
fn a_limit_is_kept_on_each_device() {
    let bench = Bench::of_base("raid1-crc32c");
    let limit = 1 << 20;
    let report = bench.once(&["--limit", "1M"]);
    let most = most_on_a_device(&report);
    let seconds = report.0["duration_seconds"].as_f64().unwrap();
    let at_least = (most - REQUEST_BYTES) as f64 / f64::from(limit);
    assert!(seconds > at_least * 0.95, "{most} bytes in {seconds} s");
    assert!(seconds < most as f64 / f64::from(limit) * 1.05 + 1.0, "{most} bytes in {seconds} s");
}

#[test]
fn since_last_reads_nothing_of_an_unchanged_set_and_says_what_it_cannot_see() {
    let recipe = recipe::named("data-raid1");
    let bench = Bench::of_base(&recipe.base);
    let run = bench.remembered(&["--since-last"]);
    assert_eq!(run.exit, 1, "there is no last one");
    assert!(run.stderr.contains("no finished scrub"), "{}", run.stderr);
    assert_eq!(bench.remembered(&[]).exit, 0);

    recipe.harm(&bench.images);
    let run = bench.remembered(&["--since-last"]);
    let report = run.report().unwrap();
    assert_eq!((run.exit, bytes(&report)), (0, 0));
    assert_eq!(report.findings().unwrap(), []);
    assert!(notes(&report).contains("damage to older ones is out of sight"), "{}", notes(&report));
    assert_eq!(bench.once(&[""; 0]).findings().unwrap(), recipe.findings(), "a whole scrub sees it");
}

#[test]
fn the_later_a_generation_the_less_is_read() {
    let bench = Bench::of_base("raid1-crc32c");
    let generation = fixture::facts("raid1-crc32c").generation;
    let read: Vec<u64> = [0, generation - 3, generation, generation + 1]
        .into_iter()
        .map(|since| bytes(&bench.once(&["--since-generation", &since.to_string()])))
        .collect();
    assert_eq!(read[0], bytes(&bench.once(&[""; 0])));
    assert!(read[0] > read[1] && read[1] >= read[2] && read[2] > read[3], "{read:?}");
    assert_eq!(read[3], 0);
}

/// Written between two scrubs.
const NEW_BYTES: u64 = 256 << 10;

#[test]
fn since_last_reads_in_proportion_to_what_the_kernel_changed() {
    if skipped("since_last_reads_in_proportion_to_what_the_kernel_changed") {
        return;
    }
    let bench = Bench::of_base("raid1-3dev-blake2b");
    assert_eq!(bench.remembered(&[]).exit, 0);
    {
        let at = bench.file("mnt");
        let _mounted = Mounted::new(&bench.images.paths, &at, false).unwrap();
        fs::write(at.join("new"), vec![0x5a; NEW_BYTES as usize]).unwrap();
    }
    let whole = bytes(&bench.once(&[""; 0]));
    let run = bench.remembered(&["--since-last"]);
    let report = run.report().unwrap();
    assert_eq!((run.exit, report.verdict()), (0, "clean"), "{}", run.stderr);
    let read = bytes(&report);
    assert!(read >= 2 * NEW_BYTES && read < whole, "{read} of {whole}");
    let again = bench.remembered(&["--since-last"]).report().unwrap();
    assert_eq!(bytes(&again), 0, "what was looked at is not new any more");
}

#[test]
fn a_scrub_is_gone_on_with_after_the_file_system_moved_on() {
    if skipped("a_scrub_is_gone_on_with_after_the_file_system_moved_on") {
        return;
    }
    let bench = Bench::of_base("raid1-crc32c");
    let limit = (most_on_a_device(&bench.once(&[""; 0])) / 4).to_string();
    let first = bench.remembered(&["--time-limit", "1s", "--limit", &limit]).report().unwrap();
    assert_eq!(status(&first), "interrupted");
    let generation = fixture::facts("raid1-crc32c").generation;
    {
        let at = bench.file("mnt");
        let _mounted = Mounted::new(&bench.images.paths, &at, false).unwrap();
        fs::write(at.join("new"), vec![0x5a; 64 << 10]).unwrap();
    }
    let run = bench.remembered(&["--resume"]);
    let report = run.report().unwrap();
    assert_eq!((run.exit, status(&report), report.verdict()), (0, "finished", "clean"));
    let moved = format!("the file system moved on between the sittings, from generation {generation} to");
    assert!(notes(&report).contains(&moved), "{}", notes(&report));
    assert!(bytes(&report) >= bytes(&bench.once(&[""; 0])), "what changed was looked at again");
}

#[test]
fn one_copy_of_each_block_is_half_of_a_mirror() {
    let bench = Bench::of_base("raid1-crc32c");
    let (all, one) = (bench.once(&[""; 0]), bench.once(&["--coverage", "one"]));
    assert_eq!(bytes(&one) * 2, bytes(&all));
    assert_eq!(one.verdict(), "clean");
    assert!(notes(&one).contains("other copies and parity were not looked at"), "{}", notes(&one));
}

#[test]
fn one_copy_is_read_from_the_mirror_that_the_policy_picks() {
    let bench = Bench::of_recipe("data-raid1");
    let all = bench.once(&[""; 0]).findings().unwrap();
    for (devid, other) in [(1, 2), (2, 1)] {
        let policy = format!("devid:{devid}");
        let one = bench.once(&["--coverage", "one", "--read-policy", &policy]);
        let read = |devid| one.counter(devid, "data_bytes_scrubbed").unwrap();
        assert!(read(devid) > 0, "{policy}");
        // A bad copy is a reason to read the others, of that block group's window and no further.
        let is_hit = all.iter().any(|finding| finding.devid == devid && finding.kind == "data");
        assert_eq!(read(other) > 0, is_hit, "{policy}");
        assert!(notes(&one).contains("other copies and parity were not looked at"), "{}", notes(&one));
    }
    let clean = Bench::of_base("raid1-crc32c");
    let one = clean.once(&["--only", "data,metadata", "--coverage", "one", "--read-policy", "devid:2"]);
    let read = |devid, what: &str| one.counter(devid, what).unwrap();
    for what in ["data_bytes_scrubbed", "tree_bytes_scrubbed"] {
        assert!(read(2, what) > 0 && read(1, what) == 0, "{what}");
    }
}

#[test]
fn a_policy_or_device_that_is_not_there_is_refused_with_those_that_are() {
    let images = fixture::shared("raid1-crc32c");
    for command in ["scrub", "repair", "readahead-bench"] {
        let with = |policy: &str| {
            let words = [command, "--read-policy", policy].map(OsStr::new);
            program::mirrortool(words.into_iter().chain(images.paths.iter().map(|path| path.as_os_str())))
        };
        for (policy, words) in [
            ("best", "expect pid, round-robin[:MIN_CONTIG], devid:N, latency[:SAMPLES] or auto"),
            ("devid:9", "no devid 9 among the images, there are 1, 2"),
        ] {
            let run = with(policy);
            assert_eq!((run.exit, run.stdout.as_str()), (1, ""), "{command}");
            assert!(run.stderr.contains(words), "{command}: {}", run.stderr);
        }
    }
}

/// By address and length, what shows that a block is bad.
fn by_window(findings: &[Finding]) -> BTreeMap<(String, u64), Vec<Finding>> {
    let mut windows: BTreeMap<(String, u64), Vec<Finding>> = BTreeMap::new();
    for finding in findings {
        windows.entry((finding.kind.clone(), finding.logical)).or_default().push(finding.clone());
    }
    windows
}

#[test]
fn damage_on_the_copy_that_was_read_is_found_with_all_its_copies() {
    for name in ["data-both-copies", "node-newer-than-parent", "raid6-three-columns", "data-raid0"] {
        let bench = Bench::of_recipe(name);
        let (all, one) = (bench.once(&[""; 0]), bench.once(&["--coverage", "one"]));
        assert_eq!(one.findings().unwrap(), all.findings().unwrap(), "{name}");
        assert_eq!(one.verdict(), all.verdict(), "{name}");
    }
    let bench = Bench::of_recipe("data-raid1c4");
    let (all, one) = (bench.once(&[""; 0]).findings().unwrap(), bench.once(&["--coverage", "one"]).findings().unwrap());
    let all = by_window(&all);
    for (block, findings) in by_window(&one) {
        assert_eq!(Some(&findings), all.get(&block), "some copies of a block are not told of");
    }
}

#[test]
fn a_device_is_looked_at_alone() {
    let bench = Bench::of_recipe("data-raid1");
    let all = bench.once(&[""; 0]).findings().unwrap();
    for devid in [1, 2] {
        let report = bench.once(&["--devid", &devid.to_string()]);
        let expect: Vec<Finding> = all.iter().filter(|finding| finding.devid == devid).cloned().collect();
        assert!(!expect.is_empty());
        assert_eq!(difference(&report.findings().unwrap(), &expect), "", "devid {devid}");
        assert!(notes(&report).contains(&format!("only copies on devid {devid} were read")), "{}", notes(&report));
    }
    let run = program::scrub(&["--no-state", "--devid", "9"], &bench.images.paths);
    assert_eq!(run.exit, 1);
    assert!(run.stderr.contains("no devid 9 among the images, there are 1, 2"), "{}", run.stderr);
}

#[test]
fn each_kind_is_looked_at_alone() {
    let bench = Bench::of_recipe("demo");
    let all = bench.once(&[""; 0]).findings().unwrap();
    let kinds = [("data", "data"), ("metadata", "metadata"), ("super", "superblock"), ("parity", "parity")];
    for (typed, kind) in kinds {
        let report = bench.once(&["--only", typed]);
        let expect: Vec<Finding> = all.iter().filter(|finding| finding.kind == kind).cloned().collect();
        assert!(!expect.is_empty(), "{kind}");
        assert_eq!(difference(&report.findings().unwrap(), &expect), "", "--only {typed}");
        assert!(notes(&report).contains("not looked at, as asked"), "{}", notes(&report));
    }
    let two = bench.once(&["--only", "data,super"]).findings().unwrap();
    assert!(two.iter().all(|finding| finding.kind == "data" || finding.kind == "superblock"));
}

#[test]
fn an_earlier_report_leads_to_the_same_findings() {
    let names = ["data-raid1", "demo", "node-one-copy", "raid6-p-and-q", "stale-member", "superblock-zeroed"];
    common::check_all(&names, |name| {
        let bench = Bench::of_recipe(name);
        let path = bench.file("report.json");
        let all = bench.once(&[OsStr::new("--report"), path.as_os_str()]);
        let again = bench.once(&[OsStr::new("--errors-from"), path.as_os_str()]);
        assert_eq!(difference(&again.findings().unwrap(), &all.findings().unwrap()), "", "{name}");
        assert!(bytes(&again) <= bytes(&all), "{name}");
        assert!(notes(&again).contains("only the surroundings of earlier findings"), "{name}");
        Ok(())
    });
}

#[test]
fn a_report_that_cannot_be_used_is_refused() {
    let bench = Bench::of_recipe("data-raid1");
    let other = Bench::of_recipe("node-dup");
    let path = other.file("report.json");
    other.once(&[OsStr::new("--report"), path.as_os_str()]);
    let refused = |path: &Path| {
        let run = program::scrub(&[OsStr::new("--errors-from"), path.as_os_str()], &bench.images.paths);
        assert_eq!((run.exit, run.stdout.as_str()), (1, ""));
        run.stderr
    };
    assert!(refused(&path).contains("it is about file system"));
    assert!(refused(&bench.file("d1.img")).contains("cannot use report"));
}

/// When each block group was last looked at, by its start.
fn visits(bench: &Bench) -> BTreeMap<u64, String> {
    let state = bench.saved();
    let groups = state["block_groups"].as_array().unwrap().iter();
    groups.map(|group| (group["start"].as_u64().unwrap(), group["checked"].as_str().unwrap().to_owned())).collect()
}

#[test]
fn a_sample_takes_the_block_groups_that_waited_longest() {
    let bench = Bench::of_base("raid1-crc32c");
    assert_eq!(bench.remembered(&["--sample", "100%"]).exit, 0);
    let groups = visits(&bench).len();
    assert!(groups > 2);
    for _ in 0..2 * groups {
        let before = visits(&bench);
        let run = bench.remembered(&["--sample", "0.01%"]);
        assert!(notes(&run.report().unwrap()).contains("only 1 block group was looked at"));
        let after = visits(&bench);
        let oldest = before.iter().min_by_key(|(start, checked)| ((*checked).clone(), **start)).unwrap().0;
        let looked_at: Vec<&u64> =
            after.iter().filter(|(start, checked)| before[*start] != **checked).map(|g| g.0).collect();
        assert_eq!(looked_at, [oldest]);
    }
    assert!(bench.saved()["finished"].is_null(), "a sample is not all");
}

#[test]
fn a_sample_of_one_kind_takes_block_groups_that_hold_it() {
    let bench = Bench::of_base("raid1-crc32c");
    for (kind, counter) in [("data", "data_bytes_scrubbed"), ("metadata", "tree_bytes_scrubbed")] {
        let report = bench.remembered(&["--sample", "0.01%", "--only", kind]).report().unwrap();
        assert!(report.total(counter).is_some_and(|bytes| bytes > 0), "{kind}");
    }
}

#[test]
fn two_scrubs_of_one_file_system_do_not_write_one_state_file() {
    let bench = Bench::of_base("raid1-crc32c");
    let mut first = bench.started(&["--limit", "1"]);
    until(&bench, &mut first, "state", |state| state["sitting"].is_object());
    let second = bench.remembered(&[]);
    assert_eq!((second.exit, second.stdout.as_str()), (1, ""));
    assert!(
        second.stderr.contains("another scrub keeps it") && second.stderr.contains("--no-state"),
        "{}",
        second.stderr
    );
    kill(first);
    assert_eq!(bench.remembered(&["--continue"]).exit, 0, "the lock ends with its process");
}

#[test]
fn known_damage_stays_in_the_sight_of_since_last() {
    let bench = Bench::of_recipe("data-raid1");
    assert_eq!(bench.remembered(&[]).exit, 4);
    let run = bench.remembered(&["--since-last"]);
    assert_eq!(run.exit, 1, "a scrub that found damage is none to start from");
    assert!(run.stderr.contains("found nothing bad"), "{}", run.stderr);
}
