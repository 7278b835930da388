//! What a repair may lose: nothing. Members that others hold, sectors that cannot be written, outputs in each other's
//! places or that cannot be written, undo logs that are cut or damaged, and programs that are killed.

use super::*;
use mirrortool::repair::journal::LogReader;
use mirrortool::repair::undo::UndoPlan;
use rustix::fs::{FlockOperation, fcntl_lock};
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

fn undo(log: &Path, members: &[PathBuf]) -> Run {
    mirrortool([&["repair".into(), "undo".into(), log.to_owned()], members].concat())
}

#[test]
fn an_image_that_a_virtual_machine_holds_is_warned_of_and_not_written() {
    let recipe = recipe::named("data-raid1");
    for devid in [1, 2] {
        let images = recipe.apply();
        let log = images.scratch().join("before.log");
        assert_eq!(repair(&logged(&[], &log), &images.paths).exit, 0);
        recipe.harm(&images);
        let before = images.fingerprint();
        let free = scrub(&["--no-state"], &images.paths).stderr;
        let holder = OpenOptions::new().read(true).write(true).open(images.device(devid)).unwrap();
        for lock in [FlockOperation::NonBlockingLockShared, FlockOperation::NonBlockingLockExclusive] {
            fcntl_lock(&holder, lock).unwrap();
            let seen = scrub(&["--no-state"], &images.paths).stderr;
            assert!(!free.contains("is locked by") && seen.contains("is locked by process"), "{seen}");
            assert_refused(&repair(&["--yes", "--no-undo-log"], &images.paths), "is locked by");
            assert_refused(&undo(&log, &images.paths), "is locked by");
            assert_eq!(images.fingerprint(), before);
        }
        drop(holder);
        assert_eq!(repair(&["--yes", "--no-undo-log"], &images.paths).exit, 0);
    }
}

#[test]
fn no_output_takes_the_place_of_the_undo_log_or_of_a_member_by_any_name() {
    let images = recipe::named("data-raid1").apply();
    let before = images.fingerprint();
    let at = |name: &str| images.scratch().join(name).to_str().unwrap().to_owned();
    fs::create_dir(at("sub")).unwrap();
    symlink(at("sub"), at("linked")).unwrap();
    symlink("u.log", at("dangling.json")).unwrap();
    fs::hard_link(&images.paths[0], at("hard.json")).unwrap();
    symlink(&images.paths[1], at("soft.prom")).unwrap();
    for (option, output, log) in [
        ("--report", at("u.log"), at("u.log")),
        ("--report", at("u.json"), at("u.json")),
        ("--report", at("u.yaml"), at("sub/../u.yaml")),
        ("--metrics", at("sub/u.prom"), at("linked/u.prom")),
        ("--report", at("dangling.json"), at("u.log")),
        ("--report", at("hard.json"), at("u.log")),
        ("--metrics", at("soft.prom"), at("u.log")),
    ] {
        let run = repair(&[option, &output, "--yes", "--undo-log", &log], &images.paths);
        assert!(run.exit == 1 && run.stdout.is_empty(), "{option} {output} {log}: {}", run.exit);
        assert!(run.stderr.contains("one of them would be lost"), "{option} {output} {log}: {}", run.stderr);
        assert!(!Path::new(&log).exists() && images.fingerprint() == before, "{option} {output} {log}");
    }
    assert_refused(&repair(&["--yes", "--undo-log", &at("dangling.json")], &images.paths), "exists already");
    for option in ["--state", "--findings", "--report"] {
        let run = scrub(&[option, &at("hard.json"), "--metrics", &at("hard.json")], &images.paths);
        assert_refused(&run, "one of them would be lost");
    }
    assert_eq!(images.fingerprint(), before);
}

#[test]
fn a_result_that_stdout_does_not_take_is_in_the_file_and_the_exit_stays_the_runs() {
    let recipe = recipe::named("data-raid1");
    for (arguments, exit) in [
        (&["scrub", "--no-state"][..], 4),
        (&["repair", "--dry-run"], 4),
        (&["repair", "--yes", "--no-undo-log"], 0),
        (&["repair", "--yes", "--no-undo-log", "--verify"], 0),
    ] {
        let images = recipe.apply();
        let report = images.scratch().join("report.json");
        let full = File::options().write(true).open("/dev/full").unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_mirrortool"));
        command.args(arguments).arg("--report").arg(&report).args(&images.paths).stdout(full);
        let done = command.output().unwrap();
        let stderr = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(exit), "{arguments:?}: {stderr}");
        assert!(stderr.contains("warning: cannot write to stdout"), "{stderr}");
        assert!(fs::read_to_string(&report).unwrap().contains("\"verdict\""));
    }
}

#[test]
fn a_log_that_is_cut_or_damaged_anywhere_is_told() {
    let images = recipe::named("data-raid1").apply();
    let damaged = images.fingerprint();
    let log = images.scratch().join("undo.log");
    assert_eq!(repair(&logged(&[], &log), &images.paths).exit, 0);
    let repaired = fixture::copy_of(&images.paths);
    let whole = fs::read(&log).unwrap();
    let try_log = |bytes: &[u8], what: &str| {
        for (from, to) in repaired.paths.iter().zip(&images.paths) {
            fs::copy(from, to).unwrap();
        }
        fs::write(&log, bytes).unwrap();
        let run = undo(&log, &images.paths);
        assert!(run.exit != 0 && !run.stderr.is_empty(), "{what}: exit {}, {}", run.exit, run.stdout);
        let fingerprint = images.fingerprint();
        assert!(
            fingerprint == damaged
                || run.exit == 1
                || run.stderr.contains("not undone")
                || run.stderr.contains("not in it")
        );
        assert!(run.exit != 1 || fingerprint == repaired.fingerprint(), "{what}: refused, and written");
    };
    for nth in 0..12 {
        let at = whole.len() * nth / 12 + 7;
        try_log(&whole[..at], &format!("cut at {at}"));
        let mut flipped = whole.clone();
        flipped[at] ^= 1 << (nth % 8);
        try_log(&flipped, &format!("a bit turned at {at}"));
    }
    try_log(&whole[..whole.len() - 512], "without its end");
    try_log(&[&whole[..], &[0; 512]].concat(), "with more behind its end");
    try_log(&[], "empty");
    for (from, to) in repaired.paths.iter().zip(&images.paths) {
        fs::copy(from, to).unwrap();
    }
    fs::write(&log, &whole).unwrap();
    assert_eq!((undo(&log, &images.paths).exit, images.fingerprint()), (0, damaged));
}

#[test]
fn bytes_that_are_old_already_are_not_written_again() {
    let recipe = recipe::named("raid6-column-and-p");
    let images = recipe.apply();
    let log = images.scratch().join("undo.log");
    assert_eq!(repair(&logged(&[], &log), &images.paths).exit, 0);
    assert_eq!(undo(&log, &images.paths).exit, 0);
    let power = Power::default();
    let open = |path: &PathBuf| Arc::new(Overlay::new(library::device(path), Writes::new(), power.clone()));
    let overlays: Vec<_> = images.paths.iter().map(open).collect();
    let readers: Vec<_> = overlays.iter().map(|device| Arc::clone(device) as Arc<dyn ReadDevice>).collect();
    let fs = library::open_devices(&images.paths, &readers).unwrap();
    let members: Vec<_> = fs.members().cloned().collect();
    let plan = UndoPlan::check(LogReader::open(File::open(&log).unwrap()).unwrap(), &members).unwrap();
    let devices = members.iter().map(|member| {
        let number = images.paths.iter().position(|path| path == member.path()).unwrap();
        (Arc::clone(member), Arc::clone(&overlays[number]) as Arc<dyn WriteDevice>)
    });
    let summary = plan.carry_out(&WriteLease::simulated(devices).unwrap());
    assert!(summary.error.is_none() && summary.restored_bytes > 0, "{summary:?}");
    assert_eq!((summary.written_bytes, power.steps()), (0, 0), "neither a write nor a sync");
}

#[test]
fn a_sector_that_cannot_be_written_costs_itself_whichever_of_a_run_it_is() {
    // Device 1 with a run of bad sectors: the first, one within, and the last of it cannot be written.
    let runs = |recipe: &str| {
        let (_, steps, _) = repair_on(recipe, |_, device| device);
        steps.len()
    };
    for name in ["data-raid1", "data-raid10-4dev", "data-raid1c3", "raid6-two-columns"] {
        let places = recipe::named(name).findings();
        let all = runs(name);
        for dead in [&places[0], &places[places.len() / 2], &places[places.len() - 1]] {
            let bad = Physical::new(dead.physical)..Physical::new(dead.physical + 512);
            let (verdict, steps, findings) = repair_on(name, |number, device| match number as u64 + 1 {
                devid if devid == dead.devid => device.with_fault(bad.clone(), Fault::Write(5)),
                _ => device,
            });
            assert_eq!(verdict, Verdict::Uncorrectable, "{name}");
            let failed: Vec<_> = steps.iter().filter(|(_, state)| *state != StepState::Done).collect();
            assert_eq!(failed.len(), 1, "{name}: {steps:?}");
            assert_eq!(*failed[0], (DeviceId::new(dead.devid), StepState::Failed(Failure::Write(Some(5)))));
            assert!(steps.len() >= all, "{name}: steps are split, not lost");
            let left = findings.iter().filter(|state| **state != RepairState::Done).count();
            assert_eq!(left, 1, "{name} {dead:?}: {findings:?}");
        }
    }
}

/// Zeros over all of device 2 but its super blocks.
fn wipe_second(images: &Images) {
    let file = OpenOptions::new().write(true).open(images.device(2)).unwrap();
    let len = file.metadata().unwrap().len();
    for start in (1 << 20..len).step_by(1 << 20) {
        if start != 64 << 20 {
            file.write_all_at(&vec![0; (len - start).min(1 << 20) as usize], start).unwrap();
        }
    }
}

/// Runs the program and kills it after a while; whether it had ended by itself.
fn killed(arguments: &[&OsStr], after: Duration) -> bool {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mirrortool"));
    let mut child = command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    sleep(after);
    let ended = child.try_wait().unwrap().is_some();
    let _ = child.kill();
    child.wait().unwrap();
    ended
}

#[test]
fn fifty_kills_of_repairs_and_undos_leave_nothing_that_is_not_set_right_by_the_next_run() {
    let images = fixture::copy("raid1-crc32c");
    wipe_second(&images);
    let damaged = images.fingerprint();
    let name = |nth: usize| images.scratch().join(format!("u{nth}.log"));
    let words = |words: &[&str], log: &Path| -> Vec<std::ffi::OsString> {
        let options = words.iter().map(std::ffi::OsString::from).chain([log.into()]);
        options.chain(images.paths.iter().map(|path| path.as_os_str().to_owned())).collect()
    };
    let mut logs = Vec::new();
    let mut seed = 12345_u64;
    let mut random = |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    for nth in 0..25 {
        let log = name(nth);
        let repairing = words(&["repair", "--yes", "--no-paths", "--prefer-devid", "1", "--undo-log"], &log);
        killed(
            &repairing.iter().map(std::ffi::OsString::as_os_str).collect::<Vec<_>>(),
            Duration::from_millis(random(120)),
        );
        logs.push(log);
    }
    let log = name(25);
    assert_eq!(repair(&["--yes", "--prefer-devid", "1", "--undo-log", log.to_str().unwrap()], &images.paths).exit, 0);
    logs.push(log);
    let checked = scrub(&["--no-state"], &images.paths);
    assert_eq!(checked.exit, 0, "{}", checked.stdout);
    for _ in 0..25 {
        let log = logs.iter().rev().find(|log| log.exists()).unwrap();
        let undoing = words(&["repair", "undo"], log);
        killed(
            &undoing.iter().map(std::ffi::OsString::as_os_str).collect::<Vec<_>>(),
            Duration::from_millis(random(40)),
        );
    }
    for log in logs.iter().rev().filter(|log| log.metadata().is_ok_and(|metadata| metadata.size() > 0)) {
        let run = undo(log, &images.paths);
        // A log of a repair that was killed has no end, and one that was killed in the middle of its header is none.
        assert!(matches!(run.exit, 0 | 5) || run.stderr.contains("not an undo log"), "{}", run.stderr);
    }
    assert!(images.fingerprint() == damaged, "all is as it was before the first of them");
}

#[test]
fn a_changed_length_or_generation_after_the_plan_refuses_to_write() {
    for change in ["length", "generation"] {
        let recipe = recipe::named("data-raid1");
        let images = recipe.apply();
        let generation = fixture::facts("raid1-crc32c").generation + 1;
        let path = images.paths[1].clone();
        let harm = || match change {
            "length" => File::options().write(true).open(&path).unwrap().set_len(1 << 30).unwrap(),
            _ => edit_superblocks(&path, GENERATION, &generation.to_le_bytes()),
        };
        let fixed = ["repair", "--no-progress", "--no-undo-log"].map(PathBuf::from);
        let arguments = fixed.into_iter().chain(images.paths.iter().cloned());
        let (exit, seen) = answered(Answer::After(&harm), arguments);
        assert_eq!(exit, 1, "{change}: {seen}");
        let bad = recipe.findings().into_iter().find(|finding| finding.devid == 1).unwrap();
        let mut now = [0; 4096];
        File::open(&images.paths[0]).unwrap().read_exact_at(&mut now, bad.physical).unwrap();
        let mut good = [0; 4096];
        File::open(&fixture::shared(&recipe.base).paths[0]).unwrap().read_exact_at(&mut good, bad.physical).unwrap();
        assert_ne!(now, good, "{change}: written");
    }
}
