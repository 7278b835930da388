//! What is remembered of earlier runs, against file systems that the kernel has used, that were put back to an earlier
//! state, or whose devices were replaced; which devices belong to a job; what is lost with a missing device; how many
//! owners a sector has.
//!
//! Needs root, loop devices, btrfs in the kernel and btrfs-progs; says so and passes where one is missing.

// A failed unwrap is a failed test, also in the helpers.
#![allow(clippy::unwrap_used)]

mod common;

use common::mounted::{Mounted, detach, skipped, succeed, tool};
use common::program::{self, Run};
use serde_json::Value;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

struct Set {
    directory: tempfile::TempDir,
    images: Vec<PathBuf>,
}

impl Set {
    fn new(data: &str, metadata: &str, megabytes: &[u64]) -> Self {
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let image = |(number, size): (usize, &u64)| {
            let path = directory.path().join(format!("d{}.img", number + 1));
            File::create(&path).unwrap().set_len(size << 20).unwrap();
            path
        };
        let images: Vec<_> = megabytes.iter().enumerate().map(image).collect();
        succeed(tool("mkfs.btrfs", &["-q", "-f", "-d", data, "-m", metadata]).args(&images)).unwrap();
        Self { directory, images }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Does something on the mounted set.
    fn shell(&self, what: &str) {
        let mounted = Mounted::new(&self.images, &self.path("mnt"), false).unwrap();
        succeed(tool("bash", &["-ec", what]).current_dir(self.path("mnt"))).unwrap();
        drop(mounted);
    }

    fn copy(&self, from: &str, to: &str) {
        for image in &self.images {
            fs::copy(image.with_extension(from), image.with_extension(to)).unwrap();
        }
    }

    fn scrub(&self, options: &[&str]) -> Run {
        let state = self.path("state.json").display().to_string();
        program::scrub(&[&["--state", state.as_str()], options].concat(), &self.images)
    }

    /// Harms the sectors of one member that begin with this text.
    fn harm(&self, member: usize, text: &str) {
        let bytes = fs::read(&self.images[member]).unwrap();
        let image = OpenOptions::new().write(true).open(&self.images[member]).unwrap();
        let sectors = bytes.chunks(4096).enumerate().filter(|(_, sector)| sector.starts_with(text.as_bytes()));
        let hit: Vec<u64> = sectors.map(|(number, _)| number as u64 * 4096).collect();
        assert!(!hit.is_empty(), "{text} is not there");
        for at in hit {
            image.write_all_at(b"harm", at).unwrap();
        }
    }

    fn fsid(&self) -> String {
        succeed(tool("blkid", &["-p", "-s", "UUID", "-o", "value"]).arg(&self.images[0])).unwrap().trim().to_owned()
    }
}

fn notes(run: &Run) -> String {
    run.report().unwrap().0["notes"].to_string()
}

#[test]
fn a_file_system_that_was_put_back_is_looked_at_anew() {
    if skipped("a_file_system_that_was_put_back_is_looked_at_anew") {
        return;
    }
    let set = Set::new("raid1", "raid1", &[160, 160]);
    set.shell("yes base | head -c 100000 >base");
    set.copy("img", "old");
    set.shell("for i in 1 2 3 4 5 6; do yes past$i | head -c 50000 >f$i; sync -f .; done");
    assert_eq!(set.scrub(&[]).exit, 0);
    fs::copy(set.path("state.json"), set.path("state.first")).unwrap();

    // Below the generation remembered, at it or near it, and far beyond, with the same kind of changes as in the other past.
    let touches = "for i in $(seq 12); do touch t$i; sync -f .; done";
    let writes = "for i in 1 2 3 4 5 6 7 8; do yes new$i | head -c 50000 >f$i; sync -f .; done";
    for (after, why) in [("", "put back"), (touches, "put back"), (writes, "put back")] {
        set.copy("old", "img");
        fs::copy(set.path("state.first"), set.path("state.json")).unwrap();
        set.shell(&format!("yes early | head -c 100000 >early; sync -f .; {after}"));
        set.harm(1, "early\nearly\n");
        let run = set.scrub(&["--since-last"]);
        assert_eq!(run.exit, 4, "{after}: {} {}", run.stdout, run.stderr);
        assert!(notes(&run).contains(why), "{after}: {}", notes(&run));
    }
}

#[test]
fn a_scrub_that_was_ended_early_does_not_go_on_in_another_past() {
    if skipped("a_scrub_that_was_ended_early_does_not_go_on_in_another_past") {
        return;
    }
    let set = Set::new("raid1", "raid1", &[200, 200]);
    set.shell("yes base | head -c 20000000 >base");
    set.copy("img", "old");
    set.shell("for i in 1 2 3; do yes past$i | head -c 50000 >f$i; sync -f .; done");
    let early = set.scrub(&["--time-limit", "1s", "--limit", "4M"]);
    assert_eq!(early.exit, 5, "{}", early.stderr);
    fs::copy(set.path("state.json"), set.path("state.first")).unwrap();
    for go_on in ["--resume", "--continue"] {
        for after in ["", "for i in $(seq 9); do touch t$i; sync -f .; done"] {
            set.copy("old", "img");
            fs::copy(set.path("state.first"), set.path("state.json")).unwrap();
            set.shell(&format!("yes early | head -c 100000 >early; sync -f .; {after}"));
            set.harm(1, "base\nbase\n");
            let run = set.scrub(&[go_on]);
            let findings = run.report().unwrap().0["findings"].as_array().unwrap().len();
            // Each fifth sector begins with the whole word.
            assert_eq!((run.exit, findings), (4, 20_000_000_usize.div_ceil(5 * 4096)), "{go_on} {after}");
            assert!(notes(&run).contains("is begun anew"), "{}", notes(&run));
        }
    }
}

#[test]
fn new_commits_on_top_are_no_other_past() {
    if skipped("new_commits_on_top_are_no_other_past") {
        return;
    }
    let set = Set::new("raid1", "raid1", &[200, 200]);
    set.shell("yes base | head -c 1000000 >base; btrfs -q subvolume snapshot . s1");
    assert_eq!(set.scrub(&[]).exit, 0);
    for round in 0..3 {
        set.shell(&format!(
            "rm -f base; for i in $(seq 9); do yes n{round}$i | head -c 30000 >f$i; rm -rf d; mkdir d; touch d/$i; sync -f .; \
             done; btrfs -q subvolume snapshot . s{round}x; btrfs -q balance start -m . || true; sync -f ."
        ));
        let run = set.scrub(&["--since-last"]);
        assert_eq!(run.exit, 0, "{}", run.stderr);
        assert!(!notes(&run).contains("everything is looked at"), "{}", notes(&run));
    }
}

#[test]
fn a_replaced_disk_is_new() {
    if skipped("a_replaced_disk_is_new") {
        return;
    }
    let mut set = Set::new("raid1", "raid1", &[200, 200]);
    set.shell("yes base | head -c 1000000 >base");
    assert_eq!(set.scrub(&[]).exit, 0);
    let new = set.path("new.img");
    File::create(&new).unwrap().set_len(200 << 20).unwrap();
    let device = succeed(tool("losetup", &["--find", "--show"]).arg(&new)).unwrap().trim().to_owned();
    set.shell(&format!("btrfs replace start -B -f 2 {device} ."));
    let _ = succeed(&mut tool("btrfs", &["device", "scan", "--forget", &device]));
    detach(&device);
    set.images[1] = new;
    set.harm(1, "base\nbase\n");
    let run = set.scrub(&["--since-last"]);
    assert_eq!(run.exit, 4, "{} {}", run.stdout, run.stderr);
    assert!(notes(&run).contains("a device was replaced since"), "{}", notes(&run));
}

#[test]
fn a_job_by_uuid_finds_each_member_once_by_any_super_block_and_its_seeds() {
    if skipped("a_job_by_uuid_finds_each_member_once_by_any_super_block_and_its_seeds") {
        return;
    }
    let mut set = Set::new("single", "single", &[120]);
    set.shell("yes base | head -c 1000000 >base");
    succeed(tool("btrfstune", &["-S", "1"]).arg(&set.images[0])).unwrap();
    let sprout = set.path("d2.img");
    File::create(&sprout).unwrap().set_len(200 << 20).unwrap();
    {
        let device = succeed(tool("losetup", &["--find", "--show"]).arg(&sprout)).unwrap().trim().to_owned();
        let seed = succeed(tool("losetup", &["--find", "--show"]).arg(&set.images[0])).unwrap().trim().to_owned();
        let at = set.path("mnt");
        fs::create_dir_all(&at).unwrap();
        succeed(tool("mount", &["-t", "btrfs", &seed]).arg(&at)).unwrap();
        let added = succeed(tool("btrfs", &["device", "add", "-f", &device]).arg(&at))
            .and_then(|_| succeed(tool("mount", &["-o", "remount,rw"]).arg(&at)))
            .and_then(|_| succeed(tool("sh", &["-c", "yes more | head -c 100000 >more; sync -f ."]).current_dir(&at)));
        succeed(tool("umount", &[]).arg(&at)).unwrap();
        for device in [&device, &seed] {
            let _ = succeed(&mut tool("btrfs", &["device", "scan", "--forget", device]));
            detach(device);
        }
        added.unwrap();
    }
    set.images.insert(0, sprout);
    let fsid = set.fsid();
    // The first super block of the member is bad, the same file is there by two names, and other things lie beside it.
    OpenOptions::new().write(true).open(&set.images[0]).unwrap().write_all_at(&[0; 4096], 65536).unwrap();
    std::os::unix::fs::symlink(&set.images[0], set.path("link.img")).unwrap();
    fs::write(set.path("other.img"), vec![0x5a; 1 << 20]).unwrap();
    let job = |members: &str, options: &str| {
        let text =
            format!("jobs:\n- {{name: pool, uuid: {fsid}, members: ['{members}'], options: [--no-state{options}]}}\n");
        fs::write(set.path("jobs.yaml"), text).unwrap();
        program::mirrortool([Path::new("run"), &set.path("jobs.yaml")])
    };
    let all = set.path("*.img").display().to_string();
    let run = job(&all, "");
    assert_eq!(run.exit, 4, "{} {}", run.stdout, run.stderr);
    assert!(run.stdout.contains("super=1") && run.stdout.contains("Correctable:    1"), "{}", run.stdout);
    fs::copy(&set.images[0], set.path("clone.img")).unwrap();
    let run = job(&all, "");
    assert!(run.exit == 1 && run.stdout.contains("is a copy of"), "a real copy stays refused: {}", run.stdout);
}

fn show(images: &[PathBuf]) -> (Value, String) {
    let run = |options: &[&str]| {
        let fixed = ["show", "--degraded"].into_iter().chain(options.iter().copied());
        program::mirrortool(fixed.chain(images.iter().map(|path| path.to_str().unwrap())))
    };
    let (json, text) = (run(&["--format", "json"]), run(&[]));
    assert_eq!((json.exit, text.exit), (0, 0), "{}", json.stderr);
    (serde_json::from_str(&json.stdout).unwrap(), text.stdout)
}

#[test]
fn what_is_lost_now_comes_first_and_with_an_empty_chunk_nothing_is() {
    if skipped("what_is_lost_now_comes_first_and_with_an_empty_chunk_nothing_is") {
        return;
    }
    for (profile, devices, lost) in [("single", 2, true), ("raid0", 3, true), ("raid1", 2, false)] {
        let set = Set::new(profile, "raid1", &vec![300; devices]);
        let (json, text) = show(&set.images[..devices - 1]);
        assert_eq!(json["lost_now"]["unreadable_data_bytes"], 0, "{profile}: nothing is in it");
        assert!(text.contains("as it is now: nothing is lost"), "{profile}: {text}");
        set.shell("yes base | head -c 250000000 >base");
        let (json, text) = show(&set.images[..devices - 1]);
        let bytes = json["lost_now"]["unreadable_data_bytes"].as_u64().unwrap();
        assert_eq!(bytes > 0, lost, "{profile}: {text}");
        let (now, then) = (text.find("as it is now:").unwrap(), text.rfind("more device").unwrap());
        assert!(now < then, "{text}");
        if lost {
            // Every sector of the file is lost or a sector of what a scrub can read.
            let run = program::scrub(&["--no-state", "--degraded"], &set.images[..devices - 1]);
            let report = run.report().unwrap();
            let missing = report.0["totals"]["uncorrectable_errors"].as_u64().unwrap() * 4096;
            assert_eq!(bytes, missing, "{profile}");
        }
    }
}

#[test]
fn owners_are_counted_whatever_their_number_and_listed_as_asked() {
    if skipped("owners_are_counted_whatever_their_number_and_listed_as_asked") {
        return;
    }
    let set = Set::new("single", "dup", &[300]);
    let links = "import fcntl, os\ns = os.open('src', os.O_RDONLY)\nfor i in range(4600):\n    \
                 d = os.open(f'c{i}', os.O_WRONLY | os.O_CREAT)\n    fcntl.ioctl(d, 0x40049409, s)\n    os.close(d)\n\
                 for i in range(1500):\n    os.link('src', f'h{i}')\n";
    set.shell(&format!("yes owned | head -c 4096 >src; sync -f .; python3 -c \"{links}\""));
    set.harm(0, "owned\nowned\n");
    let of = |options: &[&str]| {
        let report = set.scrub(options).report().unwrap();
        let finding = &report.0["findings"][0];
        assert_eq!(finding["files_incomplete"], Value::Null, "no tree is damaged");
        (finding["files"].as_array().unwrap().len() as u64, finding["files_omitted"].as_u64().unwrap_or(0))
    };
    let (listed, omitted) = of(&[]);
    assert_eq!((listed, listed + omitted), (32, 6101));
    assert_eq!(of(&["--max-owners", "100000"]), (6101, 0));
}
