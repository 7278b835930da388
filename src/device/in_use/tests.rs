//! Who uses a member, on a machine made of files.

use super::{Kernel, Mount, Use, parse_mountinfo, parse_swaps, users_of};
use crate::device::Identity;
use rustix::fs::makedev;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const FSID: &str = "389b092a-5a30-4de0-86bd-c136ddfc6456";

#[test]
fn mountinfo_gives_number_place_and_source_whatever_the_optional_fields() {
    let text = b"36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 shared:2 - ext3 /dev/root rw,errors=continue\n\
        40 35 0:33 / /mnt/with\\040blank\\134 rw - btrfs /dev/sdb rw\n\
        41 35 0:34 / /proc rw - proc proc rw\n\
        \n\
        42 35 not:anumber / /x rw - ext4 /dev/sdc rw\n\
        43 35 8:1 / /no-dash rw ext4 /dev/sdc\n";
    let mount = |number, at: &str, source: &str| Mount { number, at: at.into(), source: source.into() };
    assert_eq!(
        parse_mountinfo(text),
        [
            mount(makedev(98, 0), "/mnt2", "/dev/root"),
            mount(makedev(0, 33), "/mnt/with blank\\", "/dev/sdb"),
            mount(makedev(0, 34), "/proc", "proc"),
        ]
    );
}

#[test]
fn swaps_are_the_paths_below_the_heading() {
    let text =
        b"Filename\t\t\tType\t\tSize\tUsed\tPriority\n/dev/sda2                               partition\t1\t0\t-2\n\
        /swap\\040file                            file\t\t1\t0\t-3\n";
    assert_eq!(parse_swaps(text), [PathBuf::from("/dev/sda2"), PathBuf::from("/swap file")]);
    assert_eq!(parse_swaps(b""), Vec::<PathBuf>::new());
}

/// A machine of our own: sda with the partitions sda1 (ext4 on /) and sda2 (swap), sdb and sdc as one btrfs mounted at
/// /pool by the name of sdb, sdd under md127, loop0 over the file /img/a (mounted at /a), sde idle.
struct Machine(TempDir);

const DISKS: [(&str, u32, u32); 7] =
    [("sda", 8, 0), ("sda1", 8, 1), ("sda2", 8, 2), ("sdb", 8, 16), ("sdc", 8, 32), ("sdd", 8, 48), ("sde", 8, 64)];
const LOOP: (&str, u32, u32) = ("loop0", 7, 0);
const IMAGE: Identity = Identity::File(1, 100);
const SWAP_FILE: Identity = Identity::File(1, 200);

impl Machine {
    fn new(mounts: &str) -> Self {
        let machine = Self(TempDir::new().unwrap());
        for (name, major, minor) in DISKS.into_iter().chain([LOOP]) {
            let partition = name.len() == 4 && name.starts_with("sda");
            let place = if partition { format!("devices/sda/{name}") } else { format!("devices/{name}") };
            machine.file(&format!("sys/{place}/dev"), &format!("{major}:{minor}\n"));
            machine.link(&format!("sys/dev/block/{major}:{minor}"), &place);
            machine.link(&format!("sys/class/block/{name}"), &place);
            if partition {
                machine.file(&format!("sys/{place}/partition"), "1\n");
            } else {
                machine.link(&format!("sys/block/{name}"), &place);
            }
        }
        machine.file("sys/devices/sdd/holders/md127", "");
        machine.file("sys/devices/loop0/loop/backing_file", "/img/a\n");
        machine.file(&format!("sys/fs/btrfs/{FSID}/devices/sdb"), "");
        machine.file(&format!("sys/fs/btrfs/{FSID}/devices/sdc"), "");
        machine.file("proc/self/mountinfo", mounts);
        machine.file(
            "proc/swaps",
            "Filename Type Size Used Priority\n/dev/sda2 partition 1 0 -2\n/swapfile file 1 0 -3\n",
        );
        machine
    }

    fn file(&self, name: &str, contents: &str) {
        let path = self.0.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, contents).unwrap();
    }

    fn link(&self, name: &str, place: &str) {
        let path = self.0.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(self.0.path().join("sys").join(place), path).unwrap();
    }

    fn users_of(&self, member: Identity) -> Vec<String> {
        let (proc, sys) = (self.0.path().join("proc"), self.0.path().join("sys"));
        let kernel = Kernel { proc: &proc, sys: &sys, identify: &identify, loop_status: &|_| None };
        kernel.users_of(member).unwrap().iter().map(Use::to_string).collect()
    }
}

fn identify(path: &Path) -> Option<Identity> {
    match path.to_str()? {
        "/img/a" => Some(IMAGE),
        "/swapfile" => Some(SWAP_FILE),
        name => DISKS.into_iter().find(|disk| name == format!("/dev/{}", disk.0)).map(disk),
    }
}

fn disk((_, major, minor): (&str, u32, u32)) -> Identity {
    Identity::Block(makedev(major, minor))
}

const MOUNTS: &str = "1 0 8:1 / / rw - ext4 /dev/root rw\n\
    2 1 0:40 / /pool rw - btrfs /dev/sdb rw\n\
    3 1 0:40 /sub /pool2 rw - btrfs /dev/sdb rw\n\
    4 1 7:0 / /a rw - ext4 /dev/loop0 rw\n";

#[test]
fn each_kind_of_use_is_found_from_the_member() {
    let machine = Machine::new(MOUNTS);
    assert_eq!(machine.users_of(disk(DISKS[1])), ["sda1 is mounted at /"]);
    assert_eq!(machine.users_of(disk(DISKS[2])), ["/dev/sda2 is swap space"]);
    assert_eq!(machine.users_of(disk(DISKS[5])), ["sdd is held by md127"]);
    assert_eq!(machine.users_of(disk(DISKS[6])), Vec::<String>::new());
    assert_eq!(machine.users_of(SWAP_FILE), ["/swapfile is swap space"]);
    assert_eq!(machine.users_of(IMAGE), ["loop0 is mounted at /a", "it is the backing file of loop0"]);
    assert_eq!(machine.users_of(Identity::File(1, 1)), Vec::<String>::new());
}

#[test]
fn a_disk_is_used_where_its_partitions_are() {
    let machine = Machine::new(MOUNTS);
    assert_eq!(machine.users_of(disk(DISKS[0])), ["sda1 is mounted at /", "/dev/sda2 is swap space"]);
}

#[test]
fn every_member_of_a_mounted_btrfs_is_mounted_not_only_the_one_in_the_mount_table() {
    let machine = Machine::new(MOUNTS);
    assert_eq!(machine.users_of(disk(DISKS[3])), ["sdb is mounted at /pool", "sdb is mounted at /pool2"]);
    assert_eq!(machine.users_of(disk(DISKS[4])), ["sdc is mounted at /pool", "sdc is mounted at /pool2"]);
}

#[test]
fn a_btrfs_that_is_mounted_out_of_sight_is_still_in_use() {
    let machine = Machine::new("");
    assert_eq!(machine.users_of(disk(DISKS[4])), [format!("sdc is part of the mounted btrfs {FSID}")]);
}

#[test]
fn a_kernel_that_shows_nothing_and_a_fresh_file_have_no_users() {
    let nowhere = Path::new("/nonexistent");
    let kernel = Kernel { proc: nowhere, sys: nowhere, identify: &identify, loop_status: &|_| None };
    assert_eq!(kernel.users_of(disk(DISKS[0])).unwrap(), []);
    let file = tempfile::NamedTempFile::new().unwrap();
    assert_eq!(users_of(file.path()).unwrap(), []);
}
