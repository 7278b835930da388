//! The contract of the command line: what every command does with wrong usage, what is said about members that cannot
//! be used, how reports and exit codes fit together.

// A failed unwrap is a failed test, also in the helpers.
#![allow(clippy::unwrap_used)]

mod common;

use common::fixture;
use common::program::{Run, commands, mirrortool};
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

/// Commands that open the members of a file system.
const IMAGE_COMMANDS: [&str; 3] = ["scrub", "repair", "show"];

fn assert_refused(run: &Run, words: &[&str]) {
    assert_eq!((run.exit, run.stdout.as_str()), (1, ""), "{}", run.stderr);
    for word in words {
        assert!(run.stderr.contains(word), "{word:?} is not in: {}", run.stderr);
    }
}

#[test]
fn every_command_has_help_and_version_and_refuses_unknown_options_with_1() {
    let commands = commands();
    assert!(IMAGE_COMMANDS.iter().all(|command| commands.iter().any(|c| c == command)), "{commands:?}");
    for command in commands {
        let help = mirrortool([command.as_str(), "--help"]);
        assert!(help.exit == 0 && help.stderr.is_empty() && help.stdout.contains("Usage:"), "{command}");
        let short = mirrortool([command.as_str(), "-h"]);
        assert_eq!(short.exit, 0);
        let version = mirrortool([command.as_str(), "--version"]);
        assert_eq!(version.stdout, format!("mirrortool-{command} {}\n", env!("CARGO_PKG_VERSION")));
        assert_refused(&mirrortool([command.as_str(), "--no-such-option"]), &["--no-such-option", "Usage:"]);
    }
}

#[test]
fn wrong_usage_is_1_because_2_has_a_meaning_of_its_own() {
    for arguments in [&[][..], &["no-such-command"], &["scrub"], &["repair"], &["show"], &["completions", "tcsh"]] {
        let run = mirrortool(arguments);
        assert_eq!((run.exit, run.stdout.as_str()), (1, ""), "{arguments:?}");
        assert!(run.stderr.contains("Usage:") || run.stderr.contains("possible values"), "{}", run.stderr);
    }
}

/// A folder with things that are no members.
fn strange_things() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::create_dir(path("folder")).unwrap();
    fs::write(path("empty"), "").unwrap();
    fs::write(path("text"), "not an image\n").unwrap();
    let zeros = fs::File::create(path("zeros")).unwrap();
    zeros.set_len(128 << 20).unwrap();
    folder
}

#[test]
fn what_is_no_member_is_named_with_the_way_out() {
    let folder = strange_things();
    for command in IMAGE_COMMANDS {
        for (name, words) in [
            ("missing", &["no such file or device", "/dev/disk/by-id"][..]),
            ("folder", &["is a directory", "not a mount point"]),
            ("empty", &["is empty", "copied to its end"]),
            ("text", &["is too small for btrfs", "leave it out"]),
            ("zeros", &["holds no file system", "leave it out"]),
        ] {
            let path = folder.path().join(name);
            let run = mirrortool([Path::new(command), &path]);
            assert_refused(&run, words);
            assert!(run.stderr.contains(&path.display().to_string()), "{}", run.stderr);
            assert_eq!(run.stderr.lines().count(), 2, "one line of what, one of the way out: {}", run.stderr);
        }
        assert_refused(&mirrortool([command, "/dev/null"]), &["/dev/null: is a character device"]);
    }
}

#[test]
fn devices_that_do_not_make_one_set_are_refused() {
    let (raid1, other) = (fixture::shared("raid1-crc32c"), fixture::shared("raid5-3dev-crc32c"));
    let (first, second) = (raid1.device(1), raid1.device(2));
    let clone = fixture::copy("raid1-crc32c");
    for command in IMAGE_COMMANDS.map(Path::new) {
        assert_refused(&mirrortool([command, first]), &["missing devid 2", "--degraded"]);
        assert_refused(&mirrortool([command, first, first, second]), &["same file or device", "once"]);
        assert_refused(
            &mirrortool([command, first, clone.device(1), second]),
            &["is a copy of", "leave the other out"],
        );
        assert_refused(&mirrortool([command, first, second, other.device(1)]), &["belongs to file system", "blkid"]);
    }
}

#[test]
fn a_link_named_after_a_command_is_that_command() {
    let image = fixture::shared("single-crc32c");
    let mut command = Command::new(env!("CARGO_BIN_EXE_mirrortool"));
    let output = command.arg0("/usr/sbin/mirrortool-show").arg(image.device(1)).output().unwrap();
    assert!(output.status.success());
    assert_eq!(String::from_utf8(output.stdout).unwrap(), mirrortool([Path::new("show"), image.device(1)]).stdout);
}

#[test]
fn completions_know_the_commands_and_options() {
    for shell in ["bash", "zsh", "fish"] {
        let run = mirrortool(["completions", shell]);
        assert_eq!(run.exit, 0);
        for word in ["scrub", "degraded", "io-engine"] {
            assert!(run.stdout.contains(word), "{shell}: {word}");
        }
    }
}

#[test]
fn a_report_file_is_whole_and_follows_its_extension() {
    let (images, folder) = (fixture::shared("raid1-crc32c"), tempfile::tempdir().unwrap());
    for (name, format, start) in [
        ("r.json", "text", "{\n"),
        ("r.yaml", "json", "tool:\n"),
        ("r.txt", "json", "UUID: "),
        ("r", "yaml", "tool:\n"),
    ] {
        let report = folder.path().join(name);
        let options = ["scrub", "--format", format, "--report"].map(Path::new);
        let run =
            mirrortool(options.into_iter().chain([report.as_path()]).chain(images.paths.iter().map(AsRef::as_ref)));
        assert_eq!(run.exit, 0, "{}", run.stderr);
        let text = fs::read_to_string(&report).unwrap();
        assert!(text.starts_with(start) && text.ends_with('\n'), "{name}: {text}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 4, "nothing temporary stays");
}

#[test]
fn a_report_that_cannot_be_written_is_known_before_the_run() {
    let report = "--report=/no/such/folder/r.json";
    let run = mirrortool(["scrub", report, "/no/such/image"]);
    assert_refused(&run, &["cannot write /no/such/folder/r.json: No such file or directory"]);
}

#[test]
fn quiet_says_nothing_about_a_clean_set_and_all_about_a_bad_one() {
    let clean = fixture::shared("raid1-crc32c");
    let scrub = |paths: &[std::path::PathBuf]| {
        mirrortool(
            ["scrub".into(), "--quiet".into()].into_iter().chain(paths.iter().map(|p| p.clone().into_os_string())),
        )
    };
    let run = scrub(&clean.paths);
    assert_eq!((run.exit, run.stdout.as_str(), run.stderr.as_str()), (0, "", ""));
    let run = scrub(&fixture::shared("stale-raid1").paths);
    assert_eq!(run.exit, 4);
    assert!(run.stdout.contains("\nResult:           ") && run.stdout.contains("\ncorrupt data: "), "{}", run.stdout);
}

#[test]
fn a_reader_that_goes_away_does_not_change_the_exit_status() {
    let images = fixture::shared("stale-raid1");
    let script = "set -o pipefail; \"$0\" scrub \"$@\" | true; exit ${PIPESTATUS[0]}";
    let mut command = Command::new("bash");
    command.args(["-c", script, env!("CARGO_BIN_EXE_mirrortool")]).args(&images.paths);
    assert_eq!(command.output().unwrap().status.code(), Some(4));
}

#[test]
fn metrics_and_btrfs_status_are_files_that_others_read() {
    let (images, folder) = (fixture::shared("stale-raid1"), tempfile::tempdir().unwrap());
    let metrics = folder.path().join("pool.prom");
    let options = [
        "scrub".to_owned(),
        format!("--metrics={}", metrics.display()),
        format!("--btrfs-status={}", folder.path().display()),
    ];
    let paths = images.paths.iter().map(|path| path.display().to_string());
    assert_eq!(mirrortool(options.into_iter().chain(paths)).exit, 4);
    assert!(fs::read_to_string(metrics).unwrap().contains("verdict=\"correctable\"} 1\n"));
    let fsid = fixture::facts("stale-raid1").fsid;
    let status = fs::read_to_string(folder.path().join(format!("scrub.status.{fsid}"))).unwrap();
    assert!(status.starts_with(&format!("scrub status:1\n{fsid}:1|data_extents_scrubbed:")), "{status}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
}

#[test]
fn fsck_exit_has_fscks_bits_also_for_errors_and_usage() {
    let images = fixture::shared("stale-raid1");
    let run = |arguments: &[&Path]| mirrortool([&["scrub", "--fsck-exit"].map(Path::new), arguments].concat()).exit;
    assert_eq!(run(&[images.device(1), images.device(2)]), 4);
    assert_eq!(run(&[Path::new("/no/such/image")]), 8);
    assert_eq!(run(&[]), 16);
}

#[test]
fn a_run_that_is_ended_early_reports_what_it_did_and_exits_5() {
    let images = fixture::shared("raid1-crc32c");
    let run = mirrortool(
        ["scrub", "--time-limit", "0s"].map(Path::new).into_iter().chain(images.paths.iter().map(AsRef::as_ref)),
    );
    assert_eq!(run.exit, 5, "{}", run.stderr);
    assert!(run.stdout.contains("Status:           interrupted\n"), "{}", run.stdout);
    assert!(run.stdout.contains("; no errors in the part checked\n") && !run.stdout.contains("no errors found"));
}

#[test]
fn a_forgotten_report_name_does_not_cost_an_image() {
    let images = fixture::copy("raid1-crc32c");
    let before = images.fingerprint();
    let run = mirrortool([Path::new("scrub"), Path::new("--report"), images.device(1), images.device(2)]);
    assert_refused(&run, &["cannot write", "it exists and is not a text"]);
    assert_eq!(images.fingerprint(), before);
}

#[test]
fn findings_are_added_to_no_image_and_to_no_other_file() {
    let images = fixture::copy("stale-raid1");
    let before = images.fingerprint();
    let report = images.scratch().join("report.json");
    fs::write(&report, "{\n}\n").unwrap();
    for (target, why) in [(images.device(1), "one of them would be lost"), (report.as_path(), "does not hold findings")]
    {
        let words = ["scrub".as_ref(), "--findings".as_ref(), target.as_os_str()].into_iter();
        let run = mirrortool(words.chain(images.paths.iter().map(|path| path.as_os_str())));
        assert_refused(&run, &[why]);
    }
    assert_eq!(images.fingerprint(), before);
    let lines = images.scratch().join("findings");
    for _ in 0..2 {
        let words = ["scrub".as_ref(), "--findings".as_ref(), lines.as_os_str()].into_iter();
        let run = mirrortool(words.chain(images.paths.iter().map(|path| path.as_os_str())));
        assert_eq!(run.exit, 4, "{}", run.stderr);
    }
}

#[test]
fn an_image_in_the_place_of_a_text_is_refused_with_a_way_out() {
    let images = fixture::shared("raid1-crc32c");
    for (words, parts) in [
        (["repair", "--dry-run", "--from"], &["it is no text", "images are named by themselves"][..]),
        (["scrub", "--no-state", "--errors-from"], &["it is no text", "images are named by themselves"]),
        (["scrub", "--quiet", "--state"], &["the state file", "one of them would be lost"]),
    ] {
        let given = images.paths.iter().chain(&images.paths).map(|path| path.as_os_str()).skip(1);
        let run = mirrortool(words.into_iter().map(std::ffi::OsStr::new).chain(given));
        assert_refused(&run, parts);
    }
}

#[test]
fn parity_is_not_judged_from_a_part_of_its_row() {
    let images = fixture::shared("raid6-4dev-crc32c");
    for narrow in [["--devid", "2"], ["--coverage", "one"]] {
        let words = ["scrub", "--only", "parity"].into_iter().chain(narrow).map(std::ffi::OsStr::new);
        let run = mirrortool(words.chain(images.paths.iter().map(|path| path.as_os_str())));
        assert_refused(&run, &["--only parity goes with neither"]);
    }
}
