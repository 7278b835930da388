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

/// The first sitting of a scrub of these images, ended early.
fn first_sitting(bench: &Bench, options: &[&str], images: &[PathBuf]) {
    let limit = (most_on_a_device(&bench.once(&[""; 0])) / 4).to_string();
    let state = bench.state();
    let all = ["--state", state.as_str(), "--time-limit", "1s", "--limit", limit.as_str()];
    let all: Vec<&str> = all.into_iter().chain(options.iter().copied()).collect();
    let report = program::scrub(&all, images).report().unwrap();
    assert_eq!(status(&report), "interrupted");
}

#[test]
fn what_a_sitting_did_not_read_for_a_device_was_missing_is_read_once_it_is_there() {
    for go_on in ["--resume", "--continue"] {
        let bench = Bench::of_recipe("data-raid1");
        let whole = bench.once(&[""; 0]);
        first_sitting(&bench, &["--degraded"], &bench.images.paths[..1]);
        let report = bench.remembered(&[go_on]).report().unwrap();
        assert!(notes(&report).contains("begun anew: devid 2 was not there"), "{}", notes(&report));
        assert_same(go_on, &report, &whole);
    }
}

#[test]
fn a_sitting_goes_on_where_a_device_is_missing_as_before() {
    let bench = Bench::of_base("raid1-crc32c");
    first_sitting(&bench, &["--degraded"], &bench.images.paths[..1]);
    let state = bench.state();
    let run = program::scrub(&["--state", &state, "--degraded", "--resume"], &bench.images.paths[..1]);
    let report = run.report().unwrap();
    assert_eq!((run.exit, status(&report)), (4, "finished"));
    assert!(!notes(&report).contains("begun anew"), "{}", notes(&report));
}

/// Makes the state what the first version of the format wrote.
fn as_of_version_1(bench: &Bench) {
    let mut state = bench.saved();
    state["version"] = 1.into();
    for part in ["finished", "sitting"] {
        if let Some(part) = state[part].as_object_mut() {
            for key in ["commit", "extents"].into_iter().chain((part.contains_key("parts")).then_some("generation")) {
                part.remove(key);
            }
        }
    }
    state.as_object_mut().unwrap().remove("runs");
    fs::write(bench.file("state.json"), serde_json::to_vec(&state).unwrap()).unwrap();
}

#[test]
fn nothing_is_built_on_a_state_that_does_not_say_what_was_there() {
    let bench = Bench::of_base("raid1-crc32c");
    let whole = bench.remembered(&[]).report().unwrap();
    as_of_version_1(&bench);
    let report = bench.remembered(&["--since-last"]).report().unwrap();
    assert_eq!(bytes(&report), bytes(&whole));
    assert!(notes(&report).contains("everything is looked at, not only"), "{}", notes(&report));
    assert_eq!(bytes(&bench.remembered(&["--since-last"]).report().unwrap()), 0, "now it is known");

    first_sitting(&bench, &[], &bench.images.paths);
    as_of_version_1(&bench);
    let report = bench.remembered(&["--resume"]).report().unwrap();
    assert_eq!((status(&report), bytes(&report)), ("finished", bytes(&whole)));
    assert!(notes(&report).contains("is begun anew: which roots there were is not remembered"), "{}", notes(&report));
}

#[test]
fn what_was_corrected_between_two_sittings_is_no_finding_of_their_scrub() {
    let bench = Bench::of_recipe("demo");
    let whole = bench.once(&[""; 0]);
    assert!(whole.0["findings"].as_array().unwrap().iter().any(|f| f["repair"] == "possible"));
    let mut rate = most_on_a_device(&whole) / 4;
    while bench.saved_sitting_findings() == 0 {
        let run = bench.remembered(&["--time-limit", "1s", "--limit", &rate.to_string()]);
        assert_eq!(run.exit, 5, "ended before anything was found: {}", run.stderr);
        rate += rate / 3;
    }
    let images = bench.images.paths.iter().map(|path| path.display().to_string());
    let repair = ["repair", "--yes", "--no-undo-log", "--quiet"].into_iter().map(str::to_owned).chain(images);
    let repaired = program::mirrortool(repair);
    let report = bench.remembered(&["--continue"]).report().unwrap();
    let left = bench.once(&[""; 0]);
    assert_eq!(difference(&report.findings().unwrap(), &left.findings().unwrap()), "", "{}", repaired.stderr);
    assert_eq!((report.verdict(), &report.0["totals"]["correctable_errors"]), (left.verdict(), &0.into()));
    assert!(notes(&report).contains("may have been corrected"), "{}", notes(&report));
}

impl Bench {
    /// Findings of the scrub that was ended early; of none 0.
    fn saved_sitting_findings(&self) -> usize {
        let state: Value = match fs::read(self.file("state.json")) {
            Ok(bytes) => serde_json::from_slice(&bytes).unwrap(),
            Err(_) => return 0,
        };
        state["sitting"]["findings"].as_array().map_or(0, Vec::len)
    }
}

#[test]
fn a_repair_from_a_report_that_ended_early_is_not_finished() {
    let bench = Bench::of_recipe("data-raid1");
    let report = bench.file("early.json");
    let whole = program::scrub(&["--no-state", "--report", report.to_str().unwrap()], &bench.images.paths);
    assert_eq!(whole.exit, 4);
    let early = fs::read_to_string(&report).unwrap().replace(r#""status": "finished""#, r#""status": "interrupted""#);
    fs::write(&report, early).unwrap();
    let run = |options: &[&str]| {
        let fixed = ["repair", "--no-undo-log", "--format", "json", "--from", report.to_str().unwrap()];
        let images = bench.images.paths.iter().map(|path| path.to_str().unwrap());
        program::mirrortool(fixed.into_iter().chain(options.iter().copied()).chain(images))
    };
    assert_eq!(run(&["--dry-run"]).exit, 4, "there is something to do");
    let done = run(&["--yes"]);
    let told = done.report().unwrap();
    assert_eq!((done.exit, status(&told), told.verdict()), (5, "interrupted", "corrected"), "{}", done.stderr);
    assert!(notes(&told).contains("ended early"), "{}", notes(&told));
}

#[test]
fn a_part_does_not_look_like_the_whole() {
    let bench = Bench::of_base("raid1c3-xxhash");
    let verdicts = |options: &[&str]| {
        let (metrics, status) = (bench.file("m.prom"), bench.file("status"));
        fs::create_dir_all(&status).unwrap();
        let files = [format!("--metrics={}", metrics.display()), format!("--btrfs-status={}", status.display())];
        let all: Vec<&str> = files.iter().map(String::as_str).chain(options.iter().copied()).collect();
        let report = bench.once(&all);
        let file = fs::read_dir(&status).unwrap().next().unwrap().unwrap().path();
        let lines = |path: &Path, start: &str| -> Vec<String> {
            let text = fs::read_to_string(path).unwrap();
            text.lines().filter(|line| line.starts_with(start)).map(ToOwned::to_owned).collect()
        };
        (lines(&metrics, "mirrortool_"), lines(&file, "")[1..].to_vec(), report)
    };
    let (metrics, status, report) = verdicts(&[]);
    assert!(metrics.iter().any(|line| line.contains("verdict=\"clean\"} 1")), "{metrics:?}");
    assert!(status.len() == 3 && status.iter().all(|line| line.ends_with("|finished:1")), "{status:?}");
    assert_eq!(report.0["selection"], Value::Null);
    for (options, finished) in [
        (&["--devid", "2"][..], vec![":2|"]),
        (&["--only", "super"], vec![]),
        (&["--only", "data,metadata"], vec![]),
        (&["--coverage", "one"], vec![]),
        (&["--since-generation", "1"], vec![]),
        (&["--devid", "2", "--only", "data"], vec![]),
    ] {
        let (metrics, status, report) = verdicts(options);
        for wrong in ["verdict=\"clean\"} 1", "selection=\"everything\"", "mirrortool_complete"] {
            let is_so = |line: &&String| line.contains(wrong) && line.ends_with(" 1");
            assert_eq!(metrics.iter().find(is_so), None, "{options:?}");
        }
        assert!(metrics.iter().any(|line| line.contains("verdict=\"partial\"} 1")), "{options:?}");
        let told: Vec<_> = status.iter().filter(|line| line.ends_with("|finished:1")).collect();
        assert!(told.len() == finished.len() && finished.iter().all(|f| told[0].contains(f)), "{options:?} {told:?}");
        assert_ne!(report.0["selection"], Value::Null, "{options:?}");
        let unread = if options[0] == "--devid" { vec![1, 3] } else { vec![] };
        for devid in [1, 2, 3] {
            let device = &report.0["devices"][devid - 1];
            assert_eq!(device["read"], !unread.contains(&devid), "{options:?}");
            assert_eq!(device["counters"].is_null(), unread.contains(&devid), "{options:?}");
            let has_errors = metrics.iter().any(|line| line.contains(&format!("devid=\"{devid}\",kind")));
            assert_eq!(has_errors, !unread.contains(&devid), "{options:?}");
        }
    }
}

#[test]
fn the_text_says_nothing_good_of_a_device_that_was_not_read() {
    let bench = Bench::of_base("raid1c3-xxhash");
    let images = bench.images.paths.iter().map(|path| path.to_str().unwrap());
    let text = program::mirrortool(["scrub", "--no-state", "-d", "--devid", "2"].into_iter().chain(images)).stdout;
    for devid in [1, 3] {
        assert!(text.contains(&format!("(id {devid}) not read\n")), "{text}");
    }
    assert_eq!(text.matches("no errors found in what was selected").count(), 1, "{text}");
    assert!(text.contains("Selected:         copies on devid 2\n"), "{text}");
}

#[test]
fn a_member_of_another_file_system_is_refused_whatever_the_order() {
    let (one, other) = (fixture::copy("raid1-crc32c"), fixture::copy("single-crc32c"));
    for degraded in [&[][..], &["--degraded"]] {
        for at in 0..=one.paths.len() {
            let mut images = one.paths.clone();
            images.insert(at, other.paths[0].clone());
            let run = program::scrub(&[&["--no-state"], degraded].concat(), &images);
            assert_eq!((run.exit, run.stdout.as_str()), (1, ""), "{degraded:?} {at}");
            assert!(run.stderr.contains("belongs to file system"), "{}", run.stderr);
        }
    }
}
