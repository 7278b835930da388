//! A file system that the kernel changes while it is scrubbed: noticed, and what was found is judged again.
//!
//! Needs root, loop devices, btrfs in the kernel and btrfs-progs; says so and passes where one is missing.

// A failed unwrap is a failed test, also in the helpers.
#![allow(clippy::unwrap_used)]

mod common;

use common::library::open;
use common::mounted::{Mounted, skipped, succeed, tool};
use mirrortool::filesystem::Filesystem;
use mirrortool::scrub::outcome::{ScrubOutcome, Verdict};
use mirrortool::scrub::{Progress, ScrubOptions, scrub, settle};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Two mirrored members with the files `kept` and `changed`.
fn make(directory: &Path) -> Vec<PathBuf> {
    let images: Vec<_> = (1..=2).map(|n| directory.join(format!("d{n}.img"))).collect();
    for image in &images {
        File::create(image).unwrap().set_len(160 << 20).unwrap();
    }
    succeed(tool("mkfs.btrfs", &["-q", "-f", "-d", "raid1", "-m", "raid1"]).args(&images)).unwrap();
    shell(&images, directory, "yes kept | head -c 100000 >kept; yes changed | head -c 100000 >changed");
    images
}

/// Does something on the mounted set.
fn shell(images: &[PathBuf], directory: &Path, what: &str) {
    let mnt = directory.join("mnt");
    let mounted = Mounted::new(images, &mnt, false).unwrap();
    succeed(tool("sh", &["-ec", what]).current_dir(&mnt)).unwrap();
    drop(mounted);
}

/// Harms the first sector of a file on the second member: the place is found by its text.
fn harm(images: &[PathBuf], text: &[u8]) {
    let bytes = std::fs::read(&images[1]).unwrap();
    let sector = bytes.chunks(4096).position(|sector| sector.starts_with(text)).unwrap();
    let image = OpenOptions::new().write(true).open(&images[1]).unwrap();
    image.write_all_at(b"harm", sector as u64 * 4096).unwrap();
}

fn scrubbed(fs: &Filesystem) -> ScrubOutcome {
    scrub(fs, &ScrubOptions::default(), &Progress::default()).unwrap()
}

fn settled(fs: &Filesystem, outcome: &mut ScrubOutcome) -> Option<Filesystem> {
    settle(fs, &ScrubOptions::default(), &Progress::default(), outcome).unwrap()
}

#[test]
fn findings_in_what_was_overwritten_meanwhile_are_gone_and_the_others_stay() {
    if skipped("findings_in_what_was_overwritten_meanwhile_are_gone_and_the_others_stay") {
        return;
    }
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let images = make(directory.path());
    harm(&images, b"kept\nkept\n");
    harm(&images, b"changed\nchanged\n");

    let fs = open(&images);
    let mut outcome = scrubbed(&fs);
    assert_eq!(outcome.findings.len(), 2);
    assert!(settled(&fs, &mut outcome).is_none(), "nothing has changed yet");
    let kept = outcome.findings.iter().find(|f| outcome.findings.iter().all(|g| f.logical <= g.logical)).cloned();

    shell(&images, directory.path(), "yes new | head -c 100000 >changed; sync -f .");
    let now = settled(&fs, &mut outcome).expect("the generation has moved");
    assert!(now.superblock().generation() > fs.superblock().generation());
    assert_eq!(outcome.findings, Vec::from_iter(kept), "the harm in the other file lies in free space now");
    assert_eq!((outcome.totals.csum_errors, outcome.verdict), (1, Verdict::Correctable));
    assert!(outcome.notes.iter().any(|note| note.contains("was not still")), "{:?}", outcome.notes);
    assert!(outcome.notes.iter().any(|note| note.contains("1 of 2 are left")), "{:?}", outcome.notes);
}
