//! Every way in which devices do not make a set, with the sentence it gets, and those that make one all the same.

use super::*;
use crate::device::{Fault, FaultyDevice, MemoryDevice};
use crate::format::SuperFlags;
use crate::units::Physical;
use crate::volume::testing::{SparseDevice, Super, opened};

const FS: u128 = 0xf5;
const OTHER: u128 = 0x07;
const STRICT: SetOptions = SetOptions { degraded: false };
const DEGRADED: SetOptions = SetOptions { degraded: true };
const FS_TEXT: &str = "00000000-0000-0000-0000-0000000000f5";
const OTHER_TEXT: &str = "00000000-0000-0000-0000-000000000007";

fn member(name: &str, superblock: Super) -> Opened {
    opened(name, superblock.device())
}

fn pair() -> Vec<Opened> {
    vec![member("d1", Super::new(FS, 1)), member("d2", Super::new(FS, 2))]
}

fn pair_and(third: Opened) -> Vec<Opened> {
    pair().into_iter().chain([third]).collect()
}

fn items() -> Vec<DevItem> {
    vec![Super::new(FS, 1).dev_item(), Super::new(FS, 2).dev_item()]
}

fn refusal(devices: Vec<Opened>, options: SetOptions) -> String {
    DeviceSet::assemble(devices, options).unwrap_err().to_string()
}

/// The set after both steps, with its warnings as text.
fn settled(devices: Vec<Opened>, items: &[DevItem], options: SetOptions) -> (DeviceSet, Vec<String>) {
    let mut set = DeviceSet::assemble(devices, options).unwrap();
    set.reconcile(items).unwrap();
    let warnings = set.warnings().iter().map(ToString::to_string).collect();
    (set, warnings)
}

fn names(set: &DeviceSet) -> Vec<&str> {
    set.members().map(|member| member.path().to_str().unwrap()).collect()
}

#[test]
fn the_order_of_the_devices_does_not_matter() {
    for devices in [pair(), pair().into_iter().rev().collect()] {
        let (set, warnings) = settled(devices, &items(), STRICT);
        assert_eq!(warnings, [""; 0]);
        let volume = set.volume(ChunkMap::new());
        let by_devid: Vec<_> =
            volume.members().map(|(devid, member)| (devid.raw(), member.path().to_owned())).collect();
        assert_eq!(by_devid, [(1, PathBuf::from("d1")), (2, PathBuf::from("d2"))]);
    }
}

#[test]
fn what_is_no_btrfs_is_refused_by_name_and_kind() {
    let refused = |device: SparseDevice| refusal(pair_and(opened("x", device)), STRICT);
    let blank = |len_bytes| SparseDevice { len_bytes, pieces: Vec::new() };
    assert_eq!(refused(blank(4096)), "x: is too small for btrfs (4096 bytes)");
    assert_eq!(refused(blank(128 << 20)), "x: holds no file system, all 2 super block places are zero");
    let noise = SparseDevice { len_bytes: 1 << 20, pieces: vec![(65536, vec![0xa5; 4096])] };
    assert_eq!(refused(noise), "x: is not btrfs, none of its 1 super block places has the magic");
    let mut damaged = Super::new(FS, 3).device();
    for (_, bytes) in &mut damaged.pieces {
        bytes[0x130] ^= 1;
    }
    let message = refused(damaged);
    let start =
        "x: has no intact super block, 2 of 2 copies are damaged; the one at 65536: super block checksum mismatch";
    assert!(message.starts_with(start), "{message}");
}

#[test]
fn an_unreadable_super_block_is_told_from_none() {
    let place = Physical::new(0)..Physical::new(1 << 20);
    let device = FaultyDevice::new(MemoryDevice::new(vec![0; 1 << 20])).with_fault(place, Fault::Read(5));
    let expect = "x: has no intact super block, 1 of 1 copies are damaged; the one at 65536: cannot be read: \
                  Input/output error (os error 5)";
    assert_eq!(refusal(vec![opened("x", device)], STRICT), expect);
}

#[test]
fn one_intact_copy_is_enough_and_the_newest_of_its_file_system_speaks() {
    let newest = Super { generation: 12, ..Super::new(FS, 1) };
    let foreign = Super { generation: 99, ..Super::new(OTHER, 1) };
    let large = Super { dev_total_bytes: 300 << 30, ..newest };
    let mut device = large.device();
    device.pieces[0].1 = Super { generation: 11, ..large }.bytes(64 << 10);
    device.pieces[2].1 = foreign.bytes(256 << 30);
    let set = DeviceSet::assemble(vec![opened("d1", device)], STRICT).unwrap();
    assert_eq!((set.generation().raw(), set.superblock().fsid()), (12, newest.fsid));
    let copies: Vec<u64> = names_of_copies(&set);
    assert_eq!(copies, [11, 12, 99]);
}

fn names_of_copies(set: &DeviceSet) -> Vec<u64> {
    let member = set.members().next().unwrap();
    member.superblock_copies().iter().map(|copy| copy.state.as_ref().unwrap().generation().raw()).collect()
}

#[test]
fn a_place_beyond_the_recorded_size_is_no_copy() {
    let small = Super { dev_total_bytes: 32 << 20, ..Super::new(FS, 1) };
    let mut device = small.device();
    device.len_bytes = 128 << 20;
    device.pieces.truncate(1);
    let set = DeviceSet::assemble(vec![opened("d1", device)], STRICT).unwrap();
    assert_eq!(names_of_copies(&set), [10]);
}

#[test]
fn one_device_under_two_names_is_refused() {
    let mut devices = pair_and(member("link", Super::new(FS, 1)));
    devices[2].identity = devices[0].identity;
    for options in [STRICT, DEGRADED] {
        let again =
            devices.iter().map(|d| Opened { path: d.path.clone(), device: Arc::clone(&d.device), ..*d }).collect();
        assert_eq!(refusal(again, options), "link: is the same device as d1");
    }
}

#[test]
fn a_copy_of_a_member_is_refused_with_both_names_even_degraded_and_even_if_older() {
    let expect = format!(
        "dup: is a copy of d1, both are devid 1 with uuid 00000000-0000-0000-0000-0000000{:05x} of file system {FS_TEXT}",
        FS * 1000 + 1
    );
    for options in [STRICT, DEGRADED] {
        let older = Super { generation: 3, ..Super::new(FS, 1) };
        assert_eq!(refusal(pair_and(member("dup", older)), options), expect);
    }
}

#[test]
fn two_file_systems_are_refused_degraded_or_not_in_any_order() {
    for options in [STRICT, DEGRADED] {
        for at in 0..=2 {
            let mut devices = pair();
            devices.insert(at, member("x", Super::new(OTHER, 1)));
            assert_eq!(refusal(devices, options), format!("x: belongs to file system {OTHER_TEXT}, d1 to {FS_TEXT}"));
        }
        let two = vec![member("d1", Super::new(FS, 1)), member("x", Super::new(OTHER, 1))];
        assert_eq!(refusal(two, options), format!("x: belongs to file system {OTHER_TEXT}, d1 to {FS_TEXT}"));
    }
}

#[test]
fn a_seed_of_another_file_system_is_refused_degraded_or_not() {
    for options in [STRICT, DEGRADED] {
        let seed = Super { flags: SuperFlags::SEEDING.bits() | 1, generation: 5, ..Super::new(OTHER, 1) };
        let mut set = DeviceSet::assemble(pair_and(member("s", seed)), options).unwrap();
        let error = set.reconcile(&items()).unwrap_err();
        assert_eq!(error.to_string(), format!("s: belongs to file system {OTHER_TEXT}, d1 to {FS_TEXT}"));
    }
}

#[test]
fn degraded_passes_over_what_is_no_btrfs() {
    let noise = SparseDevice { len_bytes: 1 << 20, pieces: vec![(65536, vec![0xa5; 4096])] };
    let devices = vec![opened("n", noise), member("d1", Super::new(FS, 1))];
    let (set, warnings) = settled(devices, &items(), DEGRADED);
    assert_eq!((names(&set), set.missing().len()), (vec!["d1"], 1));
    assert_eq!(warnings[0], "n: is not btrfs, none of its 1 super block places has the magic, not used");
    assert!(warnings[1].starts_with("devid 2 with uuid "), "{warnings:?}");
}

#[test]
fn nothing_at_all_is_said_to_be_nothing() {
    assert_eq!(refusal(Vec::new(), STRICT), "no device with a btrfs super block");
    let blank = SparseDevice { len_bytes: 1 << 20, pieces: Vec::new() };
    assert_eq!(refusal(vec![opened("x", blank)], DEGRADED), "no device with a btrfs super block");
}

#[test]
fn an_unsupported_feature_is_named() {
    let remapped = Super { incompat: 1 | 1 << 17, ..Super::new(FS, 1) };
    let expect = "d1: super block at 65536: feature not supported: remap-tree (incompat bit 17)";
    assert_eq!(refusal(vec![member("d1", remapped)], STRICT), expect);
}

#[test]
fn a_stale_member_is_used_and_said_to_be_stale() {
    let devices = vec![member("d1", Super { generation: 7, ..Super::new(FS, 1) }), member("d2", Super::new(FS, 2))];
    let (set, warnings) = settled(devices, &items(), STRICT);
    assert_eq!((names(&set), set.generation().raw()), (vec!["d1", "d2"], 10));
    assert_eq!(warnings, ["d1: is stale, devid 1 is at generation 7, the file system at 10"]);
}

#[test]
fn a_removed_member_is_ignored_and_not_called_stale() {
    let removed = Super { generation: 8, ..Super::new(FS, 3) };
    let (set, warnings) = settled(pair_and(member("d3", removed)), &items(), STRICT);
    assert_eq!(names(&set), ["d1", "d2"]);
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].starts_with("d3: is no member any more, devid 3 with uuid "), "{warnings:?}");
    assert!(warnings[0].ends_with("(generation 8) is not in the chunk tree (generation 10), not used"), "{warnings:?}");
}

#[test]
fn a_former_member_whose_number_was_given_again_gives_way_to_the_new_one() {
    let former = Super { generation: 8, dev_uuid: Uuid::from_u128(42), ..Super::new(FS, 2) };
    let mut devices = pair();
    devices.insert(0, member("former", former));
    let early = DeviceSet::assemble(devices, STRICT).unwrap().volume(ChunkMap::new());
    assert_eq!(early.member(DeviceId::new(2)).unwrap().path().to_str(), Some("d2"));
    let mut devices = pair();
    devices.insert(0, member("former", former));
    let (set, warnings) = settled(devices, &items(), STRICT);
    assert_eq!((names(&set), warnings.len()), (vec!["d1", "d2"], 1));
}

#[test]
fn a_missing_member_is_an_error_unless_degraded() {
    let alone = || vec![member("d2", Super::new(FS, 2))];
    let mut set = DeviceSet::assemble(alone(), STRICT).unwrap();
    let uuid = Super::new(FS, 1).dev_uuid;
    assert_eq!(set.reconcile(&items()).unwrap_err().to_string(), format!("missing devid 1 with uuid {uuid}"));
    let (set, warnings) = settled(alone(), &items(), DEGRADED);
    assert_eq!(warnings, [format!("devid 1 with uuid {uuid} is missing")]);
    assert!(set.volume(ChunkMap::new()).member(DeviceId::new(1)).is_none());
}

#[test]
fn a_truncated_member_and_a_wrong_count_are_warnings() {
    let mut short = Super::new(FS, 1).device();
    short.len_bytes = 65 << 20;
    let eight = Super { num_devices: 8, ..Super::new(FS, 2) };
    let devices = vec![member("d2", Super { generation: 11, ..eight }), opened("d1", short)];
    let (_, warnings) = settled(devices, &items(), STRICT);
    assert_eq!(warnings[1], "d1: devid 1 is 68157440 bytes long, its device item says 134217728");
    assert_eq!(warnings[2], "super block num_devices is 8, the chunk tree has 2 device items");
    assert_eq!(warnings.len(), 3);
}

#[test]
fn a_seed_belongs_to_what_has_grown_from_it_in_any_order() {
    let seed = Super { flags: SuperFlags::SEEDING.bits() | 1, generation: 5, ..Super::new(OTHER, 1) };
    let sprout = Super::new(FS, 2);
    let items = [seed.dev_item(), sprout.dev_item()];
    for devices in [vec![member("s", seed), member("d", sprout)], vec![member("d", sprout), member("s", seed)]] {
        let (set, warnings) = settled(devices, &items, STRICT);
        assert_eq!((names(&set), warnings.len(), set.stale().count()), (vec!["d", "s"], 0, 0));
        assert_eq!(set.metadata_uuids(), [sprout.fsid, seed.fsid]);
    }
    let (set, _) = settled(vec![member("s", seed)], &[Super { num_devices: 1, ..seed }.dev_item()], STRICT);
    assert_eq!((names(&set), set.superblock().fsid()), (vec!["s"], seed.fsid));
}

#[test]
fn a_set_whose_fsid_was_changed_is_known_to_the_chunk_tree_by_its_metadata_uuid() {
    let renamed = |devid| Super { fsid: Uuid::from_u128(OTHER), incompat: 1 | 1 << 10, ..Super::new(FS, devid) };
    let (set, warnings) = settled(vec![member("d1", renamed(1)), member("d2", renamed(2))], &items(), STRICT);
    assert_eq!((names(&set).len(), warnings.len()), (2, 0));
    assert_eq!(set.superblock().fsid().to_string(), OTHER_TEXT);
    assert_eq!(set.metadata_uuids(), [Uuid::from_u128(FS)]);
}

#[test]
fn what_one_copy_of_one_member_says_is_not_understood_refuses_the_set() {
    let flagged = |flags, incompat, at| {
        let plain = Super::new(FS, 2);
        let mut device = plain.device();
        let odd = Super { flags: 1 | flags, incompat: 1 | incompat, generation: 9, ..plain };
        for (place, bytes) in device.pieces.iter_mut().filter(|(place, _)| *place == at) {
            *bytes = odd.bytes(*place);
        }
        opened("d2", device)
    };
    let bits = [35, 36, 38, 39, 40, 3, 37, 63].map(|bit| (1_u64 << bit, 0_u64)).into_iter();
    for (flags, incompat) in bits.chain([(0, 1 << 15), (0, 1 << 40), (0, 1 << 13)]) {
        let bit = (flags | incompat).trailing_zeros();
        for (at, options) in [(64 << 10, STRICT), (64 << 20, STRICT), (64 << 20, DEGRADED)] {
            let first = || member("d1", Super::new(FS, 1));
            for devices in [vec![first(), flagged(flags, incompat, at)], vec![flagged(flags, incompat, at), first()]] {
                let message = refusal(devices, options);
                assert!(message.starts_with(&format!("d2: super block at {at}: ")), "{message}");
                assert!(message.contains(&format!("bit {bit}")), "{message}");
            }
        }
    }
    let renamed = Super { flags: 1 | 1 << 36, incompat: 1 | 1 << 10, ..Super::new(OTHER, 2) };
    let renamed = Super { metadata_uuid: Uuid::from_u128(FS), ..renamed };
    let message = refusal(vec![member("d1", Super::new(FS, 1)), member("d2", renamed)], STRICT);
    assert!(message.contains("change of the fsid (uuid)"), "{message}");
}

#[test]
fn a_copy_left_over_from_another_file_system_has_no_say_in_features() {
    let mut device = Super::new(FS, 1).device();
    let other = Super { flags: 1 | 1 << 36, ..Super::new(OTHER, 7) };
    for (place, bytes) in device.pieces.iter_mut().filter(|(place, _)| *place == 64 << 20) {
        *bytes = other.bytes(*place);
    }
    assert!(DeviceSet::assemble(vec![opened("d1", device)], STRICT).is_ok());
}
