//! A lost member is made again: of every fixture that can lose one, with the others untouched, so that the set scrubs as it
//! did before; what nobody has is told and the rest goes on; a run that was killed is gone on with to the same bytes; and
//! whatever must not be done is refused by name, with nothing written.

// A failed unwrap is a failed test, also in the helpers.
#![allow(clippy::unwrap_used)]

mod common;

use common::fixture::{self, Images};
use common::program::{self, Run, mirrortool};
use common::{check_all, recipe};
use serde_json::Value;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::Read as _;
use std::os::unix::fs::{FileExt as _, symlink};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// `mirrortool rebuild --format json OPTION... --onto NEW SURVIVOR...`
fn rebuild(options: &[&str], onto: &Path, survivors: &[PathBuf]) -> Run {
    mirrortool(arguments(options, onto, survivors))
}

fn arguments(options: &[&str], onto: &Path, survivors: &[PathBuf]) -> Vec<OsString> {
    let fixed = ["rebuild", "--format", "json", "--onto"].into_iter().map(OsString::from);
    let options = options.iter().map(OsString::from);
    fixed.chain([onto.into()]).chain(options).chain(survivors.iter().map(OsString::from)).collect()
}

/// The images without these members; theirs are put aside.
fn without(images: &Images, lost: &[u64]) -> Vec<PathBuf> {
    for devid in lost {
        fs::rename(images.device(*devid), original(images, *devid)).unwrap();
    }
    images.paths.iter().filter(|path| path.exists()).cloned().collect()
}

fn original(images: &Images, devid: u64) -> PathBuf {
    images.scratch().join(format!("original-{devid}.img"))
}

fn bytes_of(report: &Value, name: &str) -> u64 {
    report["rebuilt"][format!("bytes_{name}")].as_u64().unwrap()
}

/// Where the second super block is; a sync of a file's log writes the first alone, and a rebuilt member has it in all places.
const SECOND_SUPERBLOCK: u64 = 64 << 20;

/// Whether each block of the new member is that of the lost one, or a hole.
fn is_part_of(new: &Path, lost: &Path) -> Result<(), String> {
    let lost = File::open(lost).unwrap();
    if fs::metadata(new).unwrap().len() != lost.metadata().unwrap().len() {
        return Err("the new member has another length".to_owned());
    }
    let mut wrong = None;
    fixture::for_each_block(new, |at, bytes| {
        let mut expect = vec![0; bytes.len()];
        lost.read_exact_at(&mut expect, at)?;
        let blocks = bytes.chunks(4096).zip(expect.chunks(4096)).enumerate();
        for (nth, (have, expect)) in blocks {
            let place = at + nth as u64 * 4096;
            if have != expect && place != SECOND_SUPERBLOCK && have.iter().any(|byte| *byte != 0) {
                wrong.get_or_insert(place);
            }
        }
        Ok(())
    })
    .unwrap();
    wrong.map_or(Ok(()), |at| Err(format!("other bytes than on the lost member at {at}")))
}

/// Fixture, and the members that are lost, in the order they are made again.
const LOSSES: [(&str, &[u64]); 24] = [
    ("raid1-crc32c", &[1]),
    ("raid1-crc32c", &[2]),
    ("raid1-3dev-blake2b", &[2]),
    ("raid1c3-xxhash", &[1, 3]),
    ("raid1c3-xxhash", &[3, 1]),
    ("raid1c4-sha256", &[1, 4, 2]),
    ("raid10-4dev-crc32c", &[1]),
    ("raid10-4dev-crc32c", &[4]),
    ("raid10-6dev-xxhash", &[3]),
    ("raid5-3dev-crc32c", &[1]),
    ("raid5-3dev-crc32c", &[2]),
    ("raid5-3dev-crc32c", &[3]),
    ("raid5-5dev-sha256", &[4]),
    ("raid6-4dev-crc32c", &[1, 2]),
    ("raid6-4dev-crc32c", &[4, 3]),
    ("raid6-6dev-blake2b", &[5, 2]),
    ("raid6-6dev-blake2b", &[2, 5]),
    ("bgt-raid1-crc32c", &[1]),
    ("bgt-raid6-blake2b", &[3]),
    ("mixed-raid1-crc32c", &[2]),
    ("log-tree-raid1", &[1]),
    ("profiles-raid1-single", &[2]),
    ("raid5-rubbish", &[1]),
    ("raid5-rubbish", &[3]),
];

#[test]
fn a_lost_member_of_every_layout_comes_back_byte_for_byte_where_something_is_allocated() {
    check_all(&LOSSES, |(name, lost)| come_back(name, lost).map_err(|why| format!("{name} without {lost:?}: {why}")));
}

fn come_back(name: &str, lost: &[u64]) -> Result<(), String> {
    let images = fixture::copy(name);
    let whole = program::scrub(&["--no-state"], &images.paths);
    let before = images.fingerprint();
    without(&images, lost);
    for devid in lost {
        let devid_text = devid.to_string();
        let survivors: Vec<_> = images.paths.iter().filter(|path| path.exists()).cloned().collect();
        let options: &[&str] = if lost.len() > 1 { &["--yes", "--devid", &devid_text] } else { &["--yes"] };
        let run = rebuild(options, images.device(*devid), &survivors);
        let report = run.report()?.0;
        if run.exit != 0 || report["verdict"] != "corrected" || report["command"] != "rebuild" {
            return Err(format!("exit {}, {}: {}", run.exit, report["verdict"], run.stderr));
        }
        if report["rebuilt"]["devid"] != *devid || bytes_of(&report, "lost") != 0 {
            return Err(format!("{}", report["rebuilt"]));
        }
    }
    for devid in lost {
        is_part_of(images.device(*devid), &original(&images, *devid)).map_err(|why| format!("devid {devid}: {why}"))?;
    }
    let again = program::scrub(&["--no-state"], &images.paths);
    let (have, expect) = (again.report()?.findings()?, whole.report()?.findings()?);
    if again.exit != whole.exit || have != expect {
        return Err(format!("exit {} after: {}", again.exit, program::difference(&have, &expect)));
    }
    let after = images.fingerprint();
    let touched = images.paths.iter().zip(before.iter().zip(&after)).enumerate();
    for (number, (path, (before, after))) in touched {
        if !lost.contains(&(number as u64 + 1)) && before != after {
            return Err(format!("{} was written", path.display()));
        }
    }
    Ok(())
}

#[test]
fn what_only_the_lost_member_had_is_listed_and_the_rest_is_made_again() {
    let images = fixture::copy("raid0-sha256");
    let survivors = without(&images, &[2]);
    let run = rebuild(&["--yes"], images.device(2), &survivors);
    let report = run.report().unwrap().0;
    assert_eq!((run.exit, report["verdict"].as_str()), (3, Some("uncorrectable")), "{}", run.stderr);
    assert!(bytes_of(&report, "lost") > 0);
    let findings = report["findings"].as_array().unwrap();
    let lost: u64 = findings.iter().filter(|f| f["devid"] == 2).map(|f| f["length"].as_u64().unwrap()).sum();
    assert_eq!(lost, bytes_of(&report, "lost"));
    assert!(findings.iter().all(|finding| finding["problem"] == "missing" && finding["repair"] == "impossible"));
    assert!(findings.iter().any(|finding| !finding["files"].as_array().unwrap().is_empty()), "owners are named");
    assert!(report["rebuilt"]["is_member"].as_bool().unwrap());
    is_part_of(images.device(2), &original(&images, 2)).unwrap();
}

#[test]
fn a_bad_sector_of_the_only_copy_stays_a_hole_and_is_told_with_its_file() {
    let images = recipe::named("data-both-copies").apply();
    let whole = program::scrub(&["--no-state"], &images.paths).report().unwrap().findings().unwrap();
    let survivors = without(&images, &[2]);
    let run = rebuild(&["--yes"], images.device(2), &survivors);
    let report = run.report().unwrap().0;
    assert_eq!(run.exit, 3, "{}", run.stderr);
    assert!(bytes_of(&report, "lost") >= 4096);
    let bad_on_survivor: u64 = whole.iter().filter(|f| f.devid == 1).map(|f| f.length).sum();
    assert_eq!(bytes_of(&report, "lost"), bad_on_survivor);
    assert!(report["findings"].as_array().unwrap().iter().any(|f| !f["files"].as_array().unwrap().is_empty()));
    assert_eq!(mirrortool([Path::new("show"), images.device(1), images.device(2)]).exit, 0);
}

#[test]
fn a_bad_sector_of_a_survivor_that_the_others_make_up_for_is_told_and_left_alone() {
    // Members 6 and 1 have a bad sector each in one row: with 6 lost, Q alone is left to make up for 1.
    let images = recipe::named("raid6-two-columns").apply();
    let before = fixture::fingerprints(&images.paths);
    let survivors = without(&images, &[6]);
    let run = rebuild(&["--yes"], images.device(6), &survivors);
    let report = run.report().unwrap();
    assert_eq!((run.exit, report.verdict()), (0, "corrected"), "{}", run.stderr);
    let findings = report.findings().unwrap();
    assert_eq!(findings.len(), 1);
    assert_eq!((findings[0].devid, findings[0].repair.as_str()), (1, "possible"));
    is_part_of(images.device(6), fixture::shared("raid6-6dev-blake2b").device(6)).unwrap();
    assert_eq!(before[0], fixture::fingerprints(&images.paths)[0]);
}

#[test]
fn data_without_checksum_is_taken_and_counted_as_unproved() {
    for (name, devid) in [("raid1-crc32c", 2), ("raid5-3dev-crc32c", 1)] {
        let images = fixture::copy(name);
        let survivors = without(&images, &[devid]);
        let run = rebuild(&["--yes"], images.device(devid), &survivors);
        let report = run.report().unwrap().0;
        assert_eq!(run.exit, 0, "{name}: {}", run.stderr);
        assert!(bytes_of(&report, "unproved") > 0, "{name}");
        assert_eq!(bytes_of(&report, "from_parity") > 0, name.starts_with("raid5"));
    }
}

#[test]
fn a_dry_run_says_what_would_come_out_and_makes_nothing() {
    let images = fixture::copy("raid1-crc32c");
    let survivors = without(&images, &[2]);
    let dry = rebuild(&["--dry-run"], images.device(2), &survivors);
    assert_eq!(dry.exit, 4, "{}", dry.stderr);
    assert!(!images.device(2).exists());
    let real = rebuild(&["--yes"], images.device(2), &survivors);
    for name in ["from_copies", "from_parity", "unproved", "lost"] {
        assert_eq!(bytes_of(&dry.report().unwrap().0, name), bytes_of(&real.report().unwrap().0, name));
    }
}

#[test]
fn without_a_terminal_and_without_yes_nothing_is_written() {
    let images = fixture::copy("raid1-crc32c");
    let survivors = without(&images, &[2]);
    let run = rebuild(&[], images.device(2), &survivors);
    assert_eq!(run.exit, 1);
    assert!(run.stderr.contains("--yes"), "{}", run.stderr);
    assert!(!images.device(2).exists());
}

/// A new device that is refused: how it is made, and what the refusal says.
type BadTarget = (&'static str, fn(&Images, &Path), &'static str);

const BAD_TARGETS: [BadTarget; 8] = [
    ("too small", |images, new| blank(new, len_of(images) - 4096), "is too small by 4096 bytes"),
    ("a survivor", |images, new| symlink(images.device(1), new).unwrap(), "is the same device as"),
    ("another btrfs", |_, new| copy(fixture::shared("raid0-sha256").device(1), new), "holds a btrfs"),
    ("the lost member itself", |images, new| copy(&original(images, 2), new), "holds a btrfs"),
    (
        "the lost member with a wiped first super block",
        |images, new| {
            copy(&original(images, 2), new);
            write_at(new, 65536, &[0; 4096]);
        },
        "holds a btrfs super block (at 67108864)",
    ),
    (
        "ext4",
        |images, new| {
            blank(new, len_of(images));
            write_at(new, 1080, &[0x53, 0xef]);
        },
        "holds an ext2, ext3 or ext4",
    ),
    (
        "LVM",
        |images, new| {
            blank(new, len_of(images));
            write_at(new, 536, b"LVM2 001");
        },
        "holds an LVM physical volume",
    ),
    (
        "something",
        |images, new| {
            blank(new, len_of(images));
            write_at(new, 65700, b"x");
        },
        "something in the place of a super block",
    ),
];

fn copy(from: &Path, to: &Path) {
    assert!(fs::copy(from, to).unwrap() > 0);
}

fn blank(path: &Path, len: u64) {
    File::create(path).unwrap().set_len(len).unwrap();
}

fn write_at(path: &Path, at: u64, bytes: &[u8]) {
    OpenOptions::new().write(true).open(path).unwrap().write_all_at(bytes, at).unwrap();
}

fn len_of(images: &Images) -> u64 {
    fs::metadata(original(images, 2)).unwrap().len()
}

#[test]
fn a_new_device_that_holds_something_is_refused_by_name_and_not_written() {
    check_all(&BAD_TARGETS, |(what, make, expect)| {
        let images = fixture::copy("raid1-crc32c");
        let survivors = without(&images, &[2]);
        let new = images.scratch().join("new.img");
        make(&images, &new);
        let paths = [new.clone(), images.device(1).to_owned()];
        let before = fixture::fingerprints(&paths);
        let run = rebuild(&["--yes"], &new, &survivors);
        if run.exit != 1 || !run.stderr.contains(expect) {
            return Err(format!("{what}: exit {}: {}", run.exit, run.stderr));
        }
        if fixture::fingerprints(&paths) != before {
            return Err(format!("{what}: was written"));
        }
        Ok(())
    });
}

#[test]
fn with_overwrite_whatever_was_there_is_gone_before_the_first_byte_and_the_member_is_whole() {
    let images = fixture::copy("raid1-crc32c");
    let survivors = without(&images, &[2]);
    fs::copy(fixture::shared("raid0-sha256").device(1), images.device(2)).unwrap();
    let len = fs::metadata(original(&images, 2)).unwrap().len();
    OpenOptions::new().write(true).open(images.device(2)).unwrap().set_len(len).unwrap();
    let run = rebuild(&["--yes", "--overwrite"], images.device(2), &survivors);
    assert_eq!(run.exit, 0, "{}", run.stderr);
    assert_eq!(program::scrub(&["--no-state"], &images.paths).exit, 0);
}

#[test]
fn what_must_not_be_rebuilt_is_refused_by_name() {
    let images = fixture::copy("raid1c3-xxhash");
    let new = images.scratch().join("new.img");
    let refused = |options: &[&str], survivors: &[PathBuf], expect: &str| {
        let run = rebuild(options, &new, survivors);
        assert!(run.exit == 1 && run.stderr.contains(expect), "expected {expect}: exit {}: {}", run.exit, run.stderr);
        assert!(!new.exists());
    };
    refused(&["--yes"], &images.paths, "no member is missing");
    refused(&["--yes", "--devid", "2"], &images.paths, "devid 2 is not missing");
    refused(&["--yes", "--devid", "9"], &images.paths[1..], "there is no devid 9");
    refused(&["--yes"], &images.paths[2..], "several members are missing: devid 1, devid 2");
    let other = fixture::shared("raid1-crc32c");
    refused(&["--yes"], &[&images.paths[1..], &other.paths[..1]].concat(), "belongs to file system");
    blank(&images.scratch().join("blank.img"), 1 << 30);
    let with_blank = [&images.paths[1..], &[images.scratch().join("blank.img")]].concat();
    refused(&["--yes"], &with_blank, "holds no file system");
}

#[test]
fn a_set_with_a_member_missing_ends_with_the_command_that_makes_it_again() {
    let images = fixture::copy("raid1-crc32c");
    let survivors = without(&images, &[2]);
    let hint = format!("mirrortool rebuild --onto NEW {}", images.device(1).display());
    for command in
        [&["scrub", "--no-state", "--degraded"][..], &["repair", "--dry-run", "--degraded"], &["show", "--degraded"]]
    {
        let run = mirrortool(command.iter().map(OsString::from).chain(survivors.iter().map(OsString::from)));
        assert!(run.stdout.contains(&hint), "{command:?}: {}", run.stdout);
    }
    blank(images.device(2), 1 << 30);
    let run = mirrortool([&["repair", "--dry-run", "--degraded"].map(PathBuf::from)[..], &images.paths].concat());
    let hint = format!("mirrortool rebuild --onto {} {}", images.device(2).display(), images.device(1).display());
    assert!(run.stdout.contains(&hint), "{}", run.stdout);
}

#[test]
fn there_is_nothing_to_resume_where_nothing_was_ended_early() {
    let images = fixture::copy("raid1-crc32c");
    let survivors = without(&images, &[2]);
    let run = rebuild(&["--yes", "--resume"], images.device(2), &survivors);
    assert_eq!(run.exit, 2, "{}", run.stderr);
    assert!(!images.device(2).exists());
}

#[test]
fn a_killed_rebuild_is_no_member_and_is_gone_on_with_to_the_same_bytes_and_figures() {
    let images = fixture::copy("raid6-6dev-blake2b");
    let survivors = without(&images, &[2]);
    let expect = rebuild(&["--yes"], images.device(2), &survivors).report().unwrap().0;
    let whole = fixture::fingerprints(&[images.device(2).to_owned()]);
    for nth in 1..=8_u32 {
        let new = images.scratch().join(format!("new-{nth}.img"));
        let state = images.scratch().join(format!("state-{nth}.json"));
        let options = ["--yes", "--limit", "8M", "--state", state.to_str().unwrap()];
        let mut child = Command::new(env!("CARGO_BIN_EXE_mirrortool"))
            .args(arguments(&options, &new, &survivors))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        thread::sleep(Duration::from_millis(u64::from(nth) * 60));
        child.kill().unwrap();
        let ended = child.wait().unwrap();
        if ended.signal() != Some(9) {
            continue;
        }
        if new.exists() {
            let show = mirrortool([PathBuf::from("show"), new.clone()]);
            assert!(show.exit == 1, "kill {nth}: {}", show.stdout);
        }
        let resume = ["--yes", "--resume", "--state", state.to_str().unwrap()];
        let mut run = rebuild(&resume, &new, &survivors);
        if run.exit == 2 {
            run = rebuild(&["--yes", "--state", state.to_str().unwrap()], &new, &survivors);
        }
        assert_eq!(run.exit, 0, "kill {nth}: {}", run.stderr);
        assert_eq!(fixture::fingerprints(&[new]), whole, "kill {nth}");
        assert_eq!(run.report().unwrap().0["rebuilt"]["bytes_from_parity"], expect["rebuilt"]["bytes_from_parity"]);
        assert!(!state.exists());
    }
}

#[test]
fn a_time_limit_ends_it_with_exit_5_and_the_figures_after_resume_are_those_of_the_whole() {
    let images = fixture::copy("raid1c4-sha256");
    let survivors = without(&images, &[3]);
    let expect = rebuild(&["--dry-run"], images.device(3), &survivors).report().unwrap().0;
    let state = images.scratch().join("state.json");
    let state = state.to_str().unwrap();
    let run =
        rebuild(&["--yes", "--limit", "64K", "--time-limit", "1s", "--state", state], images.device(3), &survivors);
    assert_eq!(run.exit, 5, "{}", run.stderr);
    let report = run.report().unwrap().0;
    assert_eq!(
        (report["status"].as_str(), report["rebuilt"]["is_member"].as_bool()),
        (Some("interrupted"), Some(false))
    );
    let run = rebuild(&["--yes", "--resume", "--state", state], images.device(3), &survivors);
    assert_eq!(run.exit, 0, "{}", run.stderr);
    let report = run.report().unwrap().0;
    for name in ["from_copies", "from_parity", "unproved", "lost"] {
        assert_eq!(bytes_of(&report, name), bytes_of(&expect, name), "{name}");
    }
    assert_eq!(program::scrub(&["--no-state"], &images.paths).exit, 0);
}

#[test]
fn a_resume_onto_another_blank_file_does_not_leave_out_what_the_first_one_got() {
    let images = fixture::copy("raid1-3dev-blake2b");
    let survivors = without(&images, &[1]);
    let state = images.scratch().join("state.json");
    let options = ["--yes", "--limit", "64K", "--time-limit", "1s", "--state", state.to_str().unwrap()];
    let first = rebuild(&options, &images.scratch().join("first.img"), &survivors);
    assert_eq!(first.exit, 5, "{}", first.stderr);
    let run = rebuild(&["--yes", "--resume", "--state", state.to_str().unwrap()], images.device(1), &survivors);
    assert_eq!(run.exit, 0, "{}", run.stderr);
    assert!(run.stderr.contains("begun anew"), "{}", run.stderr);
    assert_eq!(program::scrub(&["--no-state"], &images.paths).exit, 0);
}

#[test]
fn the_limit_holds_the_new_device_as_well() {
    let images = fixture::copy("raid1-crc32c");
    let survivors = without(&images, &[2]);
    let started = Instant::now();
    let run = rebuild(&["--yes", "--limit", "8M"], images.device(2), &survivors);
    let report = run.report().unwrap().0;
    let moved = 2 * (bytes_of(&report, "from_copies") + bytes_of(&report, "from_parity"));
    let least = Duration::from_secs_f64(moved as f64 / f64::from(8 << 20)).saturating_sub(Duration::from_millis(500));
    assert!(started.elapsed() >= least, "{:?} for {moved} bytes", started.elapsed());
}

#[test]
fn metrics_and_the_text_tell_what_became_of_the_member() {
    let images = fixture::copy("raid1-crc32c");
    let survivors = without(&images, &[2]);
    let metrics = images.scratch().join("metrics.prom");
    let text = ["--yes", "--format", "text", "--metrics", metrics.to_str().unwrap()];
    let fixed = ["rebuild", "--onto"].into_iter().map(OsString::from).chain([images.device(2).into()]);
    let run = mirrortool(fixed.chain(text.iter().map(OsString::from)).chain(survivors.iter().map(OsString::from)));
    assert_eq!(run.exit, 0, "{}", run.stderr);
    assert!(run.stdout.contains("Rebuilt:          devid 2, "), "{}", run.stdout);
    let mut written = String::new();
    File::open(metrics).unwrap().read_to_string(&mut written).unwrap();
    assert!(written.contains("mirrortool_rebuilt_lost_bytes{command=\"rebuild\""), "{written}");
}
