//! Repairs damaged fixtures with the real program: what can be healed is, what cannot is left alone, nothing else is
//! written, and undo gives back every byte.

// A failed unwrap is a failed test, also in the helpers.
#![allow(clippy::unwrap_used)]

mod common;
#[path = "repair/kept.rs"]
mod kept;

use common::fixture::{self, Images, fingerprints};
use common::overlay::{Overlay, Power, Writes};
use common::program::{Report, Run, difference, mirrortool, scrub};
use common::recipe::{self, Recipe};
use common::terminal::{Answer, answered};
use common::{check_all, library};
use mirrortool::device::{Fault, FaultyDevice, ReadDevice, WriteDevice};
use mirrortool::lease::WriteLease;
use mirrortool::repair::{ApplyOptions, Failure, Journal, PlanOptions, StepState, apply, plan};
use mirrortool::scrub::finding::RepairState;
use mirrortool::scrub::mend::Choice;
use mirrortool::scrub::outcome::Verdict;
use mirrortool::scrub::{Progress, ScrubOptions};
use mirrortool::units::{DeviceId, Physical};
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// `mirrortool repair --format json OPTION... IMAGE...`
fn repair(options: &[&str], images: &[PathBuf]) -> Run {
    let fixed = ["repair", "--format", "json"].into_iter().map(PathBuf::from);
    mirrortool(fixed.chain(options.iter().map(PathBuf::from)).chain(images.iter().cloned()))
}

/// The members that the recipe gives to a run.
fn given(recipe: &Recipe, images: &Images) -> Vec<PathBuf> {
    recipe.devices.iter().map(|devid| images.device(*devid).to_owned()).collect()
}

fn logged<'a>(options: &[&'a str], log: &'a Path) -> Vec<&'a str> {
    [options, &["--yes", "--undo-log", log.to_str().unwrap()]].concat()
}

fn repair_section(report: &Report, name: &str) -> u64 {
    report.0["repair"][name].as_u64().unwrap_or_else(|| panic!("no {name} in {}", report.0["repair"]))
}

/// Shows, repairs, scrubs and undoes one recipe.
fn round_trip(recipe: &Recipe) -> Result<(), String> {
    let images = recipe.apply();
    let members = given(recipe, &images);
    let options: Vec<&str> = recipe.options.iter().map(String::as_str).collect();
    let damaged = images.fingerprint();
    let check = |holds: bool, what: &str| if holds { Ok(()) } else { Err(format!("{}: {what}", recipe.name)) };

    let shown = repair(&[&options[..], &["--dry-run"]].concat(), &members);
    check(images.fingerprint() == damaged, "a dry run wrote")?;
    let planned = shown.report()?.0["repair"]["steps"].as_array().map_or(0, Vec::len);
    let to_do = if planned > 0 { 4 } else { recipe.expect.exit };
    check(shown.exit == to_do, &format!("dry run exit {}: {}", shown.exit, shown.stderr))?;

    let log = images.scratch().join("undo.log");
    let run = repair(&logged(&options, &log), &members);
    let report = run.report()?;
    let hopeless: Vec<_> = recipe.findings().into_iter().filter(|finding| finding.repair != "possible").collect();
    let is_degraded = report.0["filesystem"]["missing_devids"].as_array().is_some_and(|missing| !missing.is_empty());
    // What lies behind the end of a truncated member.
    let withheld = repair_section(&report, "withheld") as usize;
    let expected = match (hopeless.is_empty(), is_degraded || withheld > 0) {
        (true, false) => 0,
        (true, true) => 4,
        (false, _) => 3,
    };
    check(run.exit == expected, &format!("repair exit {}, expected {expected}: {}", run.exit, run.stderr))?;
    let healed = recipe.findings().len() - hopeless.len() - withheld;
    check(repair_section(&report, "repaired") == healed as u64, &format!("{}", report.0["repair"]))?;
    check(repair_section(&report, "failed") == 0, "something failed")?;

    let after = scrub(&options, &members).report()?.findings()?;
    if withheld > 0 {
        check(after.len() == hopeless.len() + withheld, "other findings than what was withheld")?;
    } else {
        check(after == hopeless, &format!("after the repair:\n{}", difference(&after, &hopeless)))?;
    }
    if planned == 0 {
        check(!log.exists() && images.fingerprint() == damaged, "wrote without anything to do")?;
        return Ok(());
    }
    let again = repair(&[&options[..], &["--yes", "--no-undo-log"]].concat(), &members).report()?;
    check(again.0["repair"]["steps"].as_array().is_some_and(Vec::is_empty), "a second repair found something")?;
    let undone = mirrortool([&["repair".into(), "undo".into(), log], &members[..]].concat());
    check(undone.exit == 0, &format!("undo: {}", undone.stderr))?;
    check(images.fingerprint() == damaged, "undo left something else")
}

#[test]
fn every_recipe_is_healed_as_far_as_it_can_be_and_can_be_undone() {
    let (dumps, others): (Vec<_>, Vec<_>) = recipe::all().into_iter().partition(|recipe| recipe.name.contains("dump"));
    check_all(&others, round_trip);
    assert_eq!(dumps.len(), 4);
    for recipe in dumps {
        let images = recipe.apply();
        let before = images.fingerprint();
        assert_refused(&repair(&["--yes", "--no-undo-log"], &images.paths), "dump");
        assert_eq!(images.fingerprint(), before, "{}", recipe.name);
    }
}

/// Bytes that differ between two files.
fn changed(one: &Path, other: &Path) -> Vec<u64> {
    let (one, other) = (fs::read(one).unwrap(), fs::read(other).unwrap());
    assert_eq!(one.len(), other.len());
    one.iter().zip(&other).enumerate().filter(|(_, (a, b))| a != b).map(|(at, _)| at as u64).collect()
}

#[test]
fn a_repaired_set_is_the_undamaged_one_byte_for_byte() {
    for name in ["data-raid1", "raid6-two-columns", "raid5-parity", "raid6-p-and-q", "node-dup", "superblock-zeroed"] {
        let recipe = recipe::named(name);
        let images = recipe.apply();
        let run = repair(&["--yes", "--no-undo-log"], &images.paths);
        assert_eq!(run.exit, 0, "{name}: {}", run.stderr);
        assert_eq!(images.fingerprint(), fixture::shared(&recipe.base).fingerprint(), "{name}");
    }
}

#[test]
fn bad_parity_costs_one_write_of_a_sector() {
    let recipe = recipe::named("raid6-column-and-p");
    let images = recipe.apply();
    let report = repair(&["--dry-run"], &images.paths).report().unwrap();
    let steps = report.0["repair"]["steps"].as_array().unwrap().clone();
    let parity: Vec<_> = steps.iter().filter(|step| step["kind"] == "parity").collect();
    assert_eq!((parity.len(), &parity[0]["length"], &parity[0]["physical"]), (1, &4096.into(), &43_057_152.into()));
}

fn assert_refused(run: &Run, word: &str) {
    assert_eq!((run.exit, run.stdout.as_str()), (1, ""), "{}", run.stderr);
    assert!(run.stderr.contains(word), "{word:?} is not in: {}", run.stderr);
}

#[test]
fn without_consent_nothing_is_written() {
    let images = recipe::named("data-raid1").apply();
    let before = images.fingerprint();
    assert_refused(&repair(&[], &images.paths), "--yes");
    assert_eq!(images.fingerprint(), before);
}

#[test]
fn a_member_that_somebody_has_locked_is_not_written() {
    let images = recipe::named("data-raid1").apply();
    let before = images.fingerprint();
    let holder = File::open(images.device(2)).unwrap();
    holder.lock().unwrap();
    assert_refused(&repair(&["--yes", "--no-undo-log"], &images.paths), "is in use");
    assert_eq!(images.fingerprint(), before);
}

#[test]
fn an_undo_log_that_exists_is_not_overwritten_and_nothing_is_written_without_one() {
    let images = recipe::named("data-raid1").apply();
    let before = images.fingerprint();
    let log = images.scratch().join("log");
    fs::write(&log, "mine").unwrap();
    assert_refused(&repair(&logged(&[], &log), &images.paths), "exists");
    assert_eq!((images.fingerprint(), fs::read_to_string(log).unwrap().as_str()), (before, "mine"));
}

/// Changes the super blocks of an image, at 64 KiB and 64 MiB, and signs them.
fn edit_superblocks(image: &Path, offset: usize, bytes: &[u8]) {
    let file = OpenOptions::new().read(true).write(true).open(image).unwrap();
    for at in [64 << 10, 64 << 20] {
        let mut superblock = [0; 4096];
        file.read_exact_at(&mut superblock, at).unwrap();
        superblock[offset..offset + bytes.len()].copy_from_slice(bytes);
        let csum = crc32c::crc32c(&superblock[32..]);
        superblock[..4].copy_from_slice(&csum.to_le_bytes());
        file.write_all_at(&superblock, at).unwrap();
    }
}

const GENERATION: usize = 0x48;
const ROOT: usize = 0x50;
const COMPAT_RO: usize = 0xb4;
const FLAGS: usize = 0x38;

#[test]
fn features_that_are_not_understood_and_metadata_dumps_are_refused() {
    for (offset, value, word) in [(COMPAT_RO, 1_u64 << 40, "read-only-compat bit 40"), (FLAGS, 1 << 33 | 1, "dump")] {
        let images = recipe::named("data-raid1").apply();
        images.paths.iter().for_each(|path| edit_superblocks(path, offset, &value.to_le_bytes()));
        let before = images.fingerprint();
        assert_refused(&repair(&["--yes", "--no-undo-log"], &images.paths), word);
        assert_refused(&repair(&["--dry-run"], &images.paths), word);
        assert_eq!(images.fingerprint(), before);
    }
}

#[test]
fn members_that_were_written_without_each_other_are_refused() {
    let generation = fixture::facts("raid1-crc32c").generation;
    for back in [0, 1] {
        let images = fixture::copy("raid1-crc32c");
        edit_superblocks(images.device(2), GENERATION, &(generation - back).to_le_bytes());
        edit_superblocks(images.device(2), ROOT, &30_000_000_u64.next_multiple_of(16384).to_le_bytes());
        let before = images.fingerprint();
        let run = repair(&["--yes", "--no-undo-log"], &images.paths);
        assert_refused(&run, "split brain");
        assert!(run.stderr.contains("--degraded"), "{}", run.stderr);
        assert_eq!(images.fingerprint(), before);
        let state = images.scratch().join("state.json");
        let state = ["--state", state.to_str().unwrap(), "--since-last"];
        let looked_at = scrub(&state[..2], &images.paths);
        assert_eq!(looked_at.exit, 3, "a scrub does not call one half correctable");
        assert_refused(&scrub(&state, &images.paths), "no finished scrub that found nothing bad");
        assert!(looked_at.report().unwrap().0["notes"].to_string().contains("split brain"));
        let shown =
            mirrortool([OsStr::new("show")].into_iter().chain(images.paths.iter().map(|path| path.as_os_str())));
        assert_eq!(shown.stdout.contains("split brain"), back == 0, "{}", shown.stdout);
    }
}

#[test]
fn an_undo_log_that_cannot_be_made_is_known_before_anything_is_read() {
    let images = recipe::named("data-raid1").apply();
    let run = repair(&["--yes", "--undo-log", "/no/such/folder/undo.log"], &images.paths);
    assert_eq!((run.exit, run.stdout.as_str()), (1, ""));
    assert!(run.stderr.contains("/no/such/folder/undo.log cannot be made"), "{}", run.stderr);
    let run = repair(&["--yes", "--prefer-devid", "7"], &images.paths);
    assert!(run.exit == 1 && run.stderr.contains("no devid 7 among the images"), "{}", run.stderr);
}

#[test]
fn the_user_may_choose_a_winner_among_copies_without_checksum() {
    let recipe = recipe::named("nodatasum-raid1c3");
    let pristine = fixture::shared(&recipe.base).fingerprint();
    let images = recipe.apply();
    let damaged = images.fingerprint();
    assert_eq!(repair(&["--yes", "--no-undo-log"], &images.paths).exit, 3);
    assert_eq!(images.fingerprint(), damaged);
    let run = repair(&["--yes", "--no-undo-log", "--majority"], &images.paths);
    assert_eq!((run.exit, images.fingerprint()), (0, pristine), "{}", run.stderr);

    let images = recipe::named("nodatasum-raid1").apply();
    let damaged = images.fingerprint();
    assert_eq!(repair(&["--yes", "--no-undo-log", "--majority"], &images.paths).exit, 3);
    assert_eq!(images.fingerprint(), damaged);
    let run = repair(&["--yes", "--no-undo-log", "--prefer-devid", "2"], &images.paths);
    assert_eq!(run.exit, 0, "{}", run.stderr);
    assert_eq!(fingerprints(&images.paths)[1], damaged[1], "the winner is not written");
    assert!(scrub(&[""; 0], &images.paths).report().unwrap().findings().unwrap().is_empty());
}

#[test]
fn a_saved_report_is_a_list_of_places_and_is_not_believed() {
    let recipe = recipe::named("data-raid1");
    let images = recipe.apply();
    let report = images.scratch().join("report.json");
    fs::write(&report, scrub(&[""; 0], &images.paths).stdout).unwrap();
    let from = ["--from", report.to_str().unwrap(), "--yes", "--no-undo-log"];
    let pristine = fixture::shared(&recipe.base);
    let run = repair(&from, &images.paths);
    assert_eq!((run.exit, images.fingerprint()), (0, pristine.fingerprint()), "{}", run.stderr);
    assert_eq!(repair(&from, &images.paths).exit, 0, "what the report lists is good now");
    let other = recipe::named("raid5-parity").apply();
    assert_refused(&repair(&from, &other.paths), "the report is about file system");
}

#[test]
fn whoever_is_asked_has_seen_the_plan() {
    let recipe = recipe::named("data-raid1");
    let images = recipe.apply();
    let damaged = images.fingerprint();
    let log = images.scratch().join("undo.log");
    let ask = |answer| {
        let fixed = ["repair", "--no-progress", "--undo-log"].map(PathBuf::from);
        answered(answer, fixed.into_iter().chain([log.clone()]).chain(images.paths.clone()))
    };
    let (exit, seen) = ask(Answer::Interrupt);
    assert_eq!((exit, images.fingerprint()), (-1, damaged.clone()), "{seen}");
    let (exit, seen) = ask(Answer::Type("n"));
    assert_eq!((exit, images.fingerprint()), (4, damaged), "{seen}");
    let question = seen.find("Write this?").unwrap();
    let finding = &recipe.findings()[0];
    let step = format!("would write data: logical={} mirror={}", finding.logical, finding.mirror);
    assert!(seen[..question].contains(&step), "no {step} in {seen}");
    let (exit, seen) = ask(Answer::Type("y"));
    assert_eq!((exit, images.fingerprint()), (0, fixture::shared(&recipe.base).fingerprint()), "{seen}");
}

#[test]
fn undo_wants_the_same_members_unchanged() {
    let images = recipe::named("data-raid1").apply();
    let damaged = images.fingerprint();
    let log = images.scratch().join("undo.log");
    assert_eq!(repair(&logged(&[], &log), &images.paths).exit, 0);
    let repaired = images.fingerprint();
    let undo = |members: &[PathBuf]| mirrortool([&["repair".into(), "undo".into(), log.clone()], members].concat());

    assert_refused(&undo(&images.paths[..1]), "was not given");
    assert_refused(&undo(&recipe::named("raid5-parity").apply().paths), "belongs to file system");
    let place = recipe::named("data-raid1").findings()[0].clone();
    let file = OpenOptions::new().read(true).write(true).open(images.device(place.devid)).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, place.physical).unwrap();
    file.write_all_at(&[!byte[0]], place.physical).unwrap();
    assert_refused(&undo(&images.paths), "neither the old nor the repaired bytes");
    file.write_all_at(&byte, place.physical).unwrap();
    assert_eq!(images.fingerprint(), repaired);

    // The members are where the repair found them.
    assert_eq!(undo(&[]).exit, 0);
    assert_eq!(images.fingerprint(), damaged);
    assert_eq!(undo(&[]).exit, 0, "a second undo finds the old bytes");
    let generation = fixture::facts("raid1-crc32c").generation + 1;
    images.paths.iter().for_each(|path| edit_superblocks(path, GENERATION, &generation.to_le_bytes()));
    assert_refused(&undo(&images.paths), "has been used since");
}

#[test]
fn an_undo_log_that_is_damaged_in_the_middle_undoes_nothing() {
    let images = recipe::named("superblock-first-bad").apply();
    let log = images.scratch().join("undo.log");
    assert_eq!(repair(&logged(&[], &log), &images.paths).exit, 0);
    let repaired = images.fingerprint();
    let undo = || mirrortool([&["repair".into(), "undo".into(), log.clone()], &images.paths[..]].concat());
    let whole = fs::read(&log).unwrap();
    let mut broken = whole.clone();
    broken[100] ^= 1;
    fs::write(&log, &broken).unwrap();
    assert_refused(&undo(), "not an undo log");
    fs::write(&log, "").unwrap();
    assert_refused(&undo(), "is empty");
    assert_eq!(images.fingerprint(), repaired);
}

/// A repair through the library, on devices that fail as told.
fn repair_on(
    recipe: &str,
    spoil: impl Fn(usize, FaultyDevice<Overlay>) -> FaultyDevice<Overlay>,
) -> (Verdict, Vec<(DeviceId, StepState)>, Vec<RepairState>) {
    let images = recipe::named(recipe).apply();
    let devices: Vec<Arc<FaultyDevice<Overlay>>> = images
        .paths
        .iter()
        .enumerate()
        .map(|(number, path)| {
            let overlay = Overlay::new(library::device(path), Writes::new(), Power::default());
            Arc::new(spoil(number, FaultyDevice::new(overlay)))
        })
        .collect();
    let readers: Vec<_> = devices.iter().map(|device| Arc::clone(device) as Arc<dyn ReadDevice>).collect();
    let fs = library::open_devices(&images.paths, &readers).unwrap();
    let scrub = ScrubOptions::default();
    let options = PlanOptions { scrub: &scrub, choice: Choice::Nobody, salvage: None, from: None };
    let mut planned = plan(&fs, &options, &Progress::default()).unwrap();
    let writers = fs.members().map(|member| {
        let number = images.paths.iter().position(|path| path == member.path()).unwrap();
        (Arc::clone(member), Arc::clone(&devices[number]) as Arc<dyn WriteDevice>)
    });
    let target = WriteLease::simulated(writers).unwrap();
    let mut journal = Journal::none();
    let apply_options = ApplyOptions::of(&options);
    let summary = apply(&fs, &mut planned, &apply_options, &target, &mut journal, &Progress::default());
    let steps = planned.plan.steps().iter().map(|step| step.place.devid).zip(summary.states).collect();
    (planned.outcome.verdict, steps, planned.outcome.findings.iter().map(|f| f.repair).collect())
}

fn everywhere() -> std::ops::Range<Physical> {
    Physical::new(0)..Physical::new(u64::MAX)
}

#[test]
fn a_device_that_cannot_be_written_holds_nobody_up_and_one_that_is_gone_is_dropped() {
    for (errno, after_the_first) in [(5, Failure::Write(Some(5))), (19, Failure::DeviceDropped)] {
        let (verdict, steps, findings) = repair_on("data-raid1", |number, device| match number {
            0 => device.with_fault(everywhere(), Fault::Write(errno)),
            _ => device,
        });
        assert_eq!(verdict, Verdict::Uncorrectable);
        let failed: Vec<_> = steps.iter().filter(|(devid, _)| devid.raw() == 1).map(|(_, state)| *state).collect();
        let expected = [StepState::Failed(Failure::Write(Some(errno))), StepState::Failed(after_the_first)];
        assert!(failed.contains(&expected[0]), "{failed:?}");
        assert!(failed.iter().all(|state| expected.contains(state)), "{failed:?}");
        assert!(steps.iter().all(|(devid, state)| devid.raw() == 1 || *state == StepState::Done), "{steps:?}");
        let count = |wanted| findings.iter().filter(|state| **state == wanted).count();
        assert_eq!((count(RepairState::Failed), count(RepairState::Done)), (5, 3));
    }
}

#[test]
fn a_write_that_is_lost_is_noticed_when_it_is_read_back() {
    let (verdict, steps, _) = repair_on("data-raid1", |_, device| device.with_fault(everywhere(), Fault::LostWrite));
    assert_eq!(verdict, Verdict::Uncorrectable);
    assert!(!steps.is_empty());
    assert!(steps.iter().all(|(_, state)| *state == StepState::Failed(Failure::ReadBackDiffers)), "{steps:?}");
}

#[test]
fn what_cannot_be_read_is_written_too() {
    let place = recipe::named("data-raid1").findings()[0].clone();
    // The sector fails to be read until it is written; afterwards the disk has moved it elsewhere. Here it stays
    // unreadable, so that reading back fails and says so.
    let bad = Physical::new(place.physical)..Physical::new(place.physical + 512);
    let (verdict, steps, _) = repair_on("data-raid1", |number, device| match number as u64 + 1 {
        devid if devid == place.devid => device.with_fault(bad.clone(), Fault::Read(5)),
        _ => device,
    });
    assert_eq!(verdict, Verdict::Uncorrectable);
    let failed = steps.iter().filter(|(_, state)| *state == StepState::Failed(Failure::ReadBack(Some(5)))).count();
    let done = steps.iter().filter(|(_, state)| *state == StepState::Done).count();
    assert_eq!((failed, done), (1, steps.len() - 1), "{steps:?}");
}

#[test]
fn nothing_but_the_bad_bytes_changes() {
    let recipe = recipe::named("raid5-parity");
    let images = recipe.apply();
    let damaged = fixture::copy_of(&images.paths);
    assert_eq!(repair(&["--yes", "--no-undo-log"], &images.paths).exit, 0);
    let places: Vec<_> = recipe.findings();
    for (number, (now, then)) in images.paths.iter().zip(&damaged.paths).enumerate() {
        let within = |at: u64| {
            let mut own = places.iter().filter(|f| f.devid == number as u64 + 1);
            own.any(|f| (f.physical..f.physical + f.length).contains(&at))
        };
        assert!(changed(now, then).into_iter().all(within), "devid {}", number + 1);
    }
}

#[test]
fn parity_that_missed_a_write_is_called_stale_and_rot_is_not() {
    let parity_of = |name: &str| {
        let findings = library::scrubbed(&recipe::named(name).apply().paths).findings;
        let have: Vec<_> = findings.iter().filter_map(|finding| finding.evidence.strings().0).collect();
        (findings.len(), have)
    };
    let (count, have) = parity_of("raid5-write-hole");
    assert_eq!(count, have.len());
    assert!(have.iter().all(|have| have.starts_with("stale since an unclean stop")), "{have:?}");
    assert_eq!(parity_of("raid5-parity").1, [""; 0]);
    assert_eq!(parity_of("raid6-p-and-q").1, [""; 0]);
}

#[test]
fn scrub_with_repair_is_the_same_repair() {
    let recipe = recipe::named("raid6-two-columns");
    let images = recipe.apply();
    let damaged = images.fingerprint();
    assert_refused(&scrub(&["--repair"], &images.paths), "--yes");
    assert_refused(&scrub(&["--yes"], &images.paths), "--repair");
    assert_eq!(images.fingerprint(), damaged);
    let run = scrub(&["--repair", "--yes", "--no-undo-log"], &images.paths);
    assert_eq!((run.exit, run.report().unwrap().verdict()), (0, "corrected"), "{}", run.stderr);
    assert_eq!(images.fingerprint(), fixture::shared(&recipe.base).fingerprint());
}

#[test]
fn a_column_that_p_agrees_with_is_rebuilt_from_q_alone() {
    let images = fixture::copy("raid6-4dev-crc32c");
    let pristine = images.fingerprint();
    // The same change in a data column and in P: the row adds up by P.
    for finding in recipe::named("raid6-column-and-p").findings() {
        let file = OpenOptions::new().read(true).write(true).open(images.device(finding.devid)).unwrap();
        let mut sector = [0; 4096];
        file.read_exact_at(&mut sector, finding.physical).unwrap();
        for byte in &mut sector {
            *byte ^= 0x5a;
        }
        file.write_all_at(&sector, finding.physical).unwrap();
    }
    let run = repair(&["--yes", "--no-undo-log"], &images.paths);
    let report = run.report().unwrap();
    let sources: Vec<_> =
        report.0["repair"]["steps"].as_array().unwrap().iter().map(|step| step["source"].clone()).collect();
    assert_eq!(sources, ["rebuilt from Q", "computed from the row's data"]);
    assert_eq!((run.exit, images.fingerprint()), (0, pristine), "{}", run.stderr);
}
