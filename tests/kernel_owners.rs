//! Which files are hit, against the kernel: for bad sectors of a file with a reflink copy, a hard link, snapshots and
//! rewritten parts, the owners are those of `btrfs inspect-internal logical-resolve`, and on the mounted set each path
//! leads to the inode that it is said to be.
//!
//! Needs root, loop devices, btrfs in the kernel and btrfs-progs; says so and passes where one is missing.

// A failed unwrap is a failed test, also in the helpers.
#![allow(clippy::unwrap_used)]

mod common;

use common::library::open;
use common::mounted::{Mounted, skipped, succeed, tool};
use mirrortool::owners::{OwnerTable, Owners};
use mirrortool::units::Logical;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const SECTOR: u64 = 4096;

/// What is done below the mount point: $0 of `sh -c`.
const FILL: &str = r#"set -e
mkdir -p a/b
head -c 400000 /dev/urandom >a/b/file
sync -f .
ln a/b/file hard
for i in $(seq 200); do ln a/b/file "a/a-long-name-so-that-the-links-need-an-extended-reference-$i"; done
cp --reflink=always a/b/file copy
btrfs -q subvolume snapshot . first
btrfs -q subvolume create a/inner
cp --reflink=always copy a/inner/other
btrfs -q subvolume snapshot a/inner a/inner/nested
for i in $(seq 500); do echo $i >a/small$i; done
sync -f .
dd if=/dev/urandom of=copy bs=4096 seek=10 count=5 conv=notrunc status=none
dd if=/dev/urandom of=first/a/b/file bs=4096 seek=30 count=1 conv=notrunc status=none
btrfs -q subvolume snapshot . second
rm second/copy
touch a/b/file
sync -f .
"#;

fn make(directory: &Path) -> Vec<PathBuf> {
    let image = directory.join("d1.img");
    File::create(&image).unwrap().set_len(256 << 20).unwrap();
    succeed(tool("mkfs.btrfs", &["-q", "-f", "-d", "single", "-m", "dup", "-n", "4096"]).arg(&image)).unwrap();
    let images = vec![image];
    let mounted = Mounted::new(&images, &directory.join("mnt"), false).unwrap();
    succeed(tool("sh", &["-c", FILL]).current_dir(directory.join("mnt"))).unwrap();
    drop(mounted);
    images
}

/// Subvolume, inode and offset of all uses, as the kernel finds them.
fn kernel_owners(at: Logical, mnt: &Path) -> BTreeSet<(u64, u64, u64)> {
    let text =
        succeed(tool("btrfs", &["inspect-internal", "logical-resolve", "-P", &at.to_string()]).arg(mnt)).unwrap();
    let number = |word: Option<&str>| word.unwrap().parse().unwrap();
    text.lines()
        .map(|line| {
            let mut words = line.split_whitespace().skip(1).step_by(2);
            let (inode, offset, root) = (number(words.next()), number(words.next()), number(words.next()));
            (root, inode, offset)
        })
        .collect()
}

/// The sectors of the extents that `filefrag` shows of a file.
fn sectors_of(file: &Path) -> BTreeSet<Logical> {
    let text = succeed(tool("filefrag", &["-v"]).arg(file)).unwrap();
    let mut sectors = BTreeSet::new();
    for line in text.lines() {
        // ext: logical first..last: physical first..last: length: ...
        let numbers: Vec<u64> =
            line.split([':', '.', ' ']).filter(|w| !w.is_empty()).map_while(|w| w.parse().ok()).collect();
        if let &[_, _, _, physical, _, length, ..] = numbers.as_slice() {
            sectors.extend((0..length).map(|nth| Logical::new((physical + nth) * SECTOR)));
        }
    }
    assert!(!sectors.is_empty(), "{text}");
    sectors
}

fn compare(at: Logical, owners: &Owners, mnt: &Path) {
    assert!(owners.omitted == 0 && !owners.is_partial, "{at}: {owners:?}");
    let have = owners.files.iter().map(|file| (file.subvolume.id.raw(), file.inode.raw(), file.offset)).collect();
    assert_eq!(kernel_owners(at, mnt), have, "{at}");
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    for file in &owners.files {
        let subvolume = mnt.join(text(file.subvolume.path.as_ref().unwrap()));
        let path = subvolume.join(text(file.path.as_ref().unwrap()));
        let metadata = fs::metadata(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        assert_eq!(metadata.ino(), file.inode.raw(), "{}", path.display());
        let names = owners.files.iter().filter(|f| f.subvolume == file.subvolume && f.inode == file.inode);
        let paths: BTreeSet<_> = names.filter(|f| f.offset == file.offset).map(|f| &f.path).collect();
        assert_eq!(paths.len() as u64, metadata.nlink(), "{}: every name is listed", path.display());
    }
}

#[test]
fn owners_are_those_that_the_kernel_resolves() {
    if skipped("owners_are_those_that_the_kernel_resolves") {
        return;
    }
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let images = make(directory.path());
    let mnt = directory.path().join("mnt");
    let mounted = Mounted::new(&images, &mnt, true).unwrap();
    let mut wanted = sectors_of(&mnt.join("a/b/file"));
    wanted.extend(sectors_of(&mnt.join("copy")));
    wanted.extend(sectors_of(&mnt.join("first/a/b/file")));
    let table = OwnerTable::find(&open(&images), &wanted, &BTreeSet::new(), &BTreeSet::new(), usize::MAX);
    let most = wanted.iter().map(|at| table.of_data(*at).files.len()).max();
    assert!(most > Some(606), "a file with 202 names in 3 subvolumes, and copies: {most:?}");
    for at in wanted {
        compare(at, &table.of_data(at), &mnt);
    }
    drop(mounted);
}
