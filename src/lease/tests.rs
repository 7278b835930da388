//! What is noticed between the plan and the last write, on files of our own.

use super::{Lease, LeaseError, Wanted, WriteLease};
use crate::device::{Consent, DeviceError, IoEngine, identity, open_read};
use crate::format::SUPERBLOCK_OFFSETS;
use crate::units::{DeviceId, Physical};
use crate::volume::testing::Super;
use crate::volume::{Member, Opened};
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

const PLACE: Physical = Physical::new(1 << 20);

/// Two members of one file system in a folder.
struct Set {
    folder: TempDir,
}

impl Set {
    fn new() -> Self {
        let set = Self { folder: TempDir::new().unwrap() };
        for devid in [1, 2] {
            Self::write(&set.path(devid), Super::new(1, devid));
        }
        set
    }

    fn path(&self, devid: u64) -> PathBuf {
        self.folder.path().join(format!("d{devid}.img"))
    }

    fn write(path: &Path, superblock: Super) {
        let file = File::options().write(true).create(true).truncate(false).open(path).unwrap();
        file.set_len(superblock.dev_total_bytes).unwrap();
        for at in &SUPERBLOCK_OFFSETS[..2] {
            file.write_all_at(&superblock.bytes(at.raw()), at.raw()).unwrap();
        }
    }

    fn members(&self) -> Vec<Arc<Member>> {
        let member = |devid| {
            let path = self.path(devid);
            let device = open_read(&path, IoEngine::Buffered).unwrap();
            let opened = Opened { identity: identity(&path).unwrap(), path, device };
            Arc::new(Member::probe(opened).unwrap())
        };
        [1, 2].map(member).into()
    }

    fn take(&self) -> Result<Lease, LeaseError> {
        Lease::take(self.members().iter().map(Wanted::member))
    }

    fn agreed(&self) -> WriteLease {
        self.take().unwrap().agreed(Consent::given_by_user()).unwrap()
    }

    /// Another transaction on device 2, as by somebody who has it mounted.
    fn move_on(&self, copies: &[Physical]) {
        let newer = Super { generation: 11, ..Super::new(1, 2) };
        let file = File::options().write(true).open(self.path(2)).unwrap();
        for at in copies {
            file.write_all_at(&newer.bytes(at.raw()), at.raw()).unwrap();
        }
    }
}

/// What can happen to a member, and what is said of it.
type Change = (&'static str, fn(&Set), fn(&LeaseError) -> bool);

const CHANGES: [Change; 6] = [
    ("a new generation", |set| set.move_on(&SUPERBLOCK_OFFSETS[..2]), |e| matches!(e, LeaseError::Superblock { .. })),
    ("a log commit", |set| set.move_on(&SUPERBLOCK_OFFSETS[..1]), |e| matches!(e, LeaseError::Superblock { .. })),
    ("a second copy", |set| set.move_on(&SUPERBLOCK_OFFSETS[1..2]), |e| matches!(e, LeaseError::Superblock { .. })),
    (
        "another file under its path",
        |set| {
            let other = set.folder.path().join("other");
            Set::write(&other, Super::new(1, 2));
            fs::rename(other, set.path(2)).unwrap();
        },
        |e| matches!(e, LeaseError::Device(e) if matches!(**e, DeviceError::Replaced { .. })),
    ),
    (
        "a removed file",
        |set| fs::remove_file(set.path(2)).unwrap(),
        |e| matches!(e, LeaseError::Device(e) if matches!(**e, DeviceError::NotFound { .. })),
    ),
    (
        "another length",
        |set| File::options().write(true).open(set.path(2)).unwrap().set_len(130 << 20).unwrap(),
        |e| matches!(e, LeaseError::Device(e) if matches!(**e, DeviceError::Resized { .. })),
    ),
];

#[test]
fn a_change_before_the_lease_is_taken_refuses_it() {
    for (what, change, is_it) in CHANGES {
        let set = Set::new();
        let seen = set.members();
        change(&set);
        let error = Lease::take(seen.iter().map(Wanted::member)).err().unwrap_or_else(|| panic!("{what}: taken"));
        assert!(is_it(&error), "{what}: {error}");
    }
}

#[test]
fn a_change_while_the_user_is_asked_refuses_to_write() {
    for (what, change, is_it) in CHANGES {
        let set = Set::new();
        let lease = set.take().unwrap();
        lease.check().unwrap();
        change(&set);
        let error = lease.agreed(Consent::given_by_user()).err().unwrap_or_else(|| panic!("{what}: agreed"));
        assert!(is_it(&error), "{what}: {error}");
    }
}

#[test]
fn a_change_between_two_writes_ends_the_writing_on_every_member() {
    for (what, change, is_it) in CHANGES {
        let set = Set::new();
        let lease = set.agreed();
        let first = lease.device(DeviceId::new(1)).unwrap();
        first.write_at(PLACE, &[1; 4096]).unwrap();
        change(&set);
        std::thread::sleep(super::guard::AT_LEAST + Duration::from_millis(30));
        assert!(first.write_at(PLACE, &[2; 4096]).is_err(), "{what}: written");
        assert!(lease.lost().is_some_and(|error| is_it(&error)), "{what}");
        assert!(lease.check().is_err() && first.write_at(PLACE, &[3; 4096]).is_err(), "{what}: forgotten");
        let mut bytes = [0; 4096];
        first.read_at(PLACE, &mut bytes).unwrap();
        assert_eq!(bytes, [1; 4096], "{what}");
    }
}

#[test]
fn own_writes_of_super_blocks_are_no_change() {
    let set = Set::new();
    let lease = set.agreed();
    for (generation, at) in [(12, SUPERBLOCK_OFFSETS[0]), (13, SUPERBLOCK_OFFSETS[1]), (14, SUPERBLOCK_OFFSETS[0])] {
        let own = Super { generation, ..Super::new(1, 2) }.bytes(at.raw());
        lease.device(DeviceId::new(2)).unwrap().write_at(at, &own).unwrap();
        lease.check().unwrap();
    }
    set.move_on(&SUPERBLOCK_OFFSETS[..1]);
    assert!(matches!(lease.check(), Err(LeaseError::Superblock { .. })));
}

#[test]
fn nobody_else_has_the_members_while_they_are_held() {
    let set = Set::new();
    let lease = set.take().unwrap();
    assert!(matches!(set.take().err(), Some(LeaseError::Device(e)) if matches!(*e, DeviceError::Busy { .. })));
    drop(lease);
    set.take().unwrap();
}

#[test]
fn a_new_device_is_held_as_it_is_and_watched() {
    let set = Set::new();
    let path = set.folder.path().join("new.img");
    File::create(&path).unwrap().set_len(128 << 20).unwrap();
    let wanted = |path| {
        set.members().iter().map(Wanted::member).chain([Wanted::new_device(DeviceId::new(3), path)]).collect::<Vec<_>>()
    };
    let lease = Lease::take(wanted(&path)).unwrap().agreed(Consent::given_by_user()).unwrap();
    let new = lease.device(DeviceId::new(3)).unwrap();
    new.write_at(PLACE, &[7; 4096]).unwrap();
    new.write_at(SUPERBLOCK_OFFSETS[0], &Super::new(1, 3).bytes(SUPERBLOCK_OFFSETS[0].raw())).unwrap();
    lease.check().unwrap();
    drop((lease, new));
    let lease = Lease::take(wanted(&path)).unwrap();
    // Somebody makes a file system there while the user is asked.
    let file = File::options().write(true).open(&path).unwrap();
    file.write_all_at(&Super::new(2, 1).bytes(SUPERBLOCK_OFFSETS[0].raw()), SUPERBLOCK_OFFSETS[0].raw()).unwrap();
    assert!(matches!(lease.agreed(Consent::given_by_user()), Err(LeaseError::Superblock { .. })));
}

#[test]
fn a_member_made_of_two_files_holds_and_watches_both() {
    let set = Set::new();
    let copy = set.folder.path().join("d2.copy");
    fs::copy(set.path(2), &copy).unwrap();
    let parts = || vec![set.path(2), copy.clone()];
    let wanted = || {
        let second = Wanted::member(&set.members()[1]);
        second.made_of(parts(), Box::new(|devices| devices.into_iter().next().unwrap()))
    };
    let lease = Lease::take([wanted()]).unwrap();
    assert!(Lease::take([wanted()]).is_err(), "both are held");
    fs::remove_file(&copy).unwrap();
    assert!(lease.agreed(Consent::given_by_user()).is_err(), "the second is watched too");
}

#[test]
fn a_member_that_cannot_be_written_is_told_and_the_others_are_held() {
    let set = Set::new();
    let seen = set.members();
    let lease = Lease::take(seen.iter().map(Wanted::member)).unwrap();
    assert!(lease.read_only().is_empty());
    let lease = lease.agreed(Consent::given_by_user()).unwrap();
    assert!(lease.device(DeviceId::new(3)).is_none());
}
