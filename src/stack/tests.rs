//! Small arrays and tables that are made here by hand; those that the kernel made are in `tests/stack.rs`.

use super::*;
use crate::checksum::ChecksumType;
use crate::device::{Below, MemoryDevice};
use crate::format::md_superblock::{MdSuperblock, MdVersion};
use crate::format::testing::superblock_bytes;
use crate::units::Physical;

const MIB: usize = 1 << 20;

/// The start of a btrfs, long enough to be found.
fn btrfs_disk() -> Vec<u8> {
    let mut disk = vec![0; 2 * MIB];
    let superblock = superblock_bytes(ChecksumType::Crc32c);
    let at = SUPERBLOCK_OFFSETS[0].raw() as usize;
    disk[at..at + superblock.len()].copy_from_slice(&superblock);
    disk
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

/// What a member says of itself and its array.
#[derive(Clone, Copy)]
struct Says {
    level: i32,
    layout: u32,
    disks: u32,
    number: u32,
    events: u64,
    member_bytes: u64,
    chunk_bytes: u32,
    /// Numbers without a role.
    failed: Option<u32>,
}

fn superblock(says: Says, at: u64, data_offset: u64, data_bytes: u64) -> Vec<u8> {
    let mut sb = vec![0; 4096];
    put(&mut sb, 0, &0xa92b_4efc_u32.to_le_bytes());
    put(&mut sb, 4, &1_u32.to_le_bytes());
    put(&mut sb, 16, &[7; 16]);
    put(&mut sb, 72, &says.level.to_le_bytes());
    put(&mut sb, 76, &says.layout.to_le_bytes());
    put(&mut sb, 80, &(says.member_bytes / 512).to_le_bytes());
    put(&mut sb, 88, &(says.chunk_bytes / 512).to_le_bytes());
    put(&mut sb, 92, &says.disks.to_le_bytes());
    put(&mut sb, 128, &(data_offset / 512).to_le_bytes());
    put(&mut sb, 136, &(data_bytes / 512).to_le_bytes());
    put(&mut sb, 144, &(at / 512).to_le_bytes());
    put(&mut sb, 160, &says.number.to_le_bytes());
    put(&mut sb, 168, &[says.number as u8 + 1; 16]);
    put(&mut sb, 200, &says.events.to_le_bytes());
    put(&mut sb, 208, &u64::MAX.to_le_bytes());
    put(&mut sb, 220, &says.disks.to_le_bytes());
    for number in 0..says.disks {
        let role = if says.failed == Some(number) { 0xfffe } else { number as u16 };
        put(&mut sb, 256 + 2 * number as usize, &role.to_le_bytes());
    }
    seal(&mut sb, says.disks as usize);
    sb
}

fn seal(sb: &mut [u8], max_dev: usize) {
    put(sb, 216, &[0; 4]);
    let words = sb[..256 + 2 * max_dev].chunks(4);
    let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |sum: u64, byte| sum << 8 | u64::from(*byte));
    let sum: u64 = words.map(word).sum();
    let sum = (sum as u32).wrapping_add((sum >> 32) as u32);
    put(sb, 216, &sum.to_le_bytes());
}

/// A leg of a RAID1 with the super block at the end (1.0): the file system begins at its first byte.
fn leg(number: u32, events: u64, failed: Option<u32>) -> Vec<u8> {
    let data = btrfs_disk();
    let mut disk = data.clone();
    disk.resize(data.len() + 16384, 0);
    let at = MdVersion::V10.place(disk.len() as u64).unwrap();
    let member_bytes = data.len() as u64;
    let says = Says { level: 1, layout: 0, disks: 2, number, events, member_bytes, chunk_bytes: 0, failed };
    put(&mut disk, at as usize, &superblock(says, at, 0, member_bytes));
    disk
}

fn sources(disks: Vec<Vec<u8>>) -> Vec<Source> {
    let source = |(nth, bytes): (usize, Vec<u8>)| Source {
        path: PathBuf::from(format!("d{}.img", nth + 1)),
        device: Arc::new(MemoryDevice::new(bytes)),
        identity: Identity::File(1, nth as u64),
    };
    disks.into_iter().enumerate().map(source).collect()
}

fn below(opened: &Opened) -> &dyn Below {
    opened.device.below().expect("layers")
}

#[test]
fn two_equal_legs_whose_super_block_is_at_the_end_are_one_array_and_no_clones() {
    let opened = open(sources(vec![leg(0, 5, None), leg(1, 5, None)]), &Choice::default()).unwrap();
    assert_eq!(opened.len(), 1);
    let below = below(&opened[0]);
    assert_eq!(below.chain(), "md raid1, 2 of 2, events 5");
    assert!(below.has_copies() && !below.is_degraded());
    let parts = below.parts(Physical::new(65536), 4096);
    let places: Vec<_> = parts[0].copies.iter().map(|copy| (copy.file, copy.at.raw(), copy.role)).collect();
    assert_eq!(places, [(0, 65536, Some(0)), (1, 65536, Some(1))]);
}

#[test]
fn a_leg_that_missed_writes_is_stale_and_has_no_copy() {
    let opened = open(sources(vec![leg(0, 5, None), leg(1, 9, Some(0))]), &Choice::default()).unwrap();
    let below = below(&opened[0]);
    assert!(below.is_degraded());
    let states: Vec<_> = below.files().iter().map(|file| file.state).collect();
    assert_eq!(states, [LowerState::Stale, LowerState::InSync]);
    assert_eq!(below.parts(Physical::new(0), 4096)[0].copies.len(), 1);
}

#[test]
fn one_event_behind_counts_as_in_sync_where_the_newest_still_gives_it_a_role() {
    for (failed, state) in [(None, LowerState::InSync), (Some(0), LowerState::Stale)] {
        let opened = open(sources(vec![leg(0, 8, None), leg(1, 9, failed)]), &Choice::default()).unwrap();
        assert_eq!(below(&opened[0]).files()[0].state, state);
    }
}

#[test]
fn a_leg_and_its_copy_are_not_two_legs() {
    let error = open(sources(vec![leg(0, 5, None), leg(0, 5, None)]), &Choice::default()).err().unwrap();
    assert!(matches!(error, StackError::MdTwins { .. }), "{error}");
}

#[test]
fn a_super_block_that_was_made_for_another_place_is_none() {
    let (at, len) = (0, 4 * MIB as u64);
    let says =
        Says { level: 1, layout: 0, disks: 2, number: 0, events: 1, member_bytes: 4096, chunk_bytes: 0, failed: None };
    let bytes = superblock(says, at, 8192, 4096);
    assert!(MdSuperblock::parse(&bytes, MdVersion::V11, 0, len).is_ok());
    assert!(MdSuperblock::parse(&bytes, MdVersion::V12, 4096, len).is_err());
}

#[test]
fn a_bare_btrfs_is_passed_on_as_it_is() {
    let opened = open(sources(vec![btrfs_disk()]), &Choice::default()).unwrap();
    assert!(opened.len() == 1 && opened[0].device.below().is_none());
    assert_eq!(opened[0].identity, Identity::File(1, 0));
}

/// xorshift: the same numbers every time.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    /// Numbers that are at the edge of something, more often than not.
    fn odd(&mut self) -> u64 {
        let bits = self.next() % 64;
        match self.next() % 4 {
            0 => self.next(),
            1 => 1 << bits,
            2 => (1_u64 << bits).wrapping_sub(1),
            _ => u64::MAX - self.next() % 4096,
        }
    }
}

/// A disk with a GPT that has one partition.
fn gpt_disk() -> Vec<u8> {
    let crc = |bytes: &[u8]| !crc32_from(u32::MAX, bytes);
    let mut disk = vec![0; 3 * MIB];
    let mut entries = vec![0; 128 * 128];
    entries[0] = 1;
    put(&mut entries, 32, &2048_u64.to_le_bytes());
    put(&mut entries, 40, &6100_u64.to_le_bytes());
    put(&mut disk, 1024, &entries);
    let mut header = vec![0; 92];
    put(&mut header, 0, b"EFI PART");
    put(&mut header, 12, &92_u32.to_le_bytes());
    put(&mut header, 24, &1_u64.to_le_bytes());
    put(&mut header, 72, &2_u64.to_le_bytes());
    put(&mut header, 80, &128_u32.to_le_bytes());
    put(&mut header, 84, &128_u32.to_le_bytes());
    put(&mut header, 88, &crc(&entries).to_le_bytes());
    let sum = crc(&header);
    put(&mut header, 16, &sum.to_le_bytes());
    put(&mut disk, 512, &header);
    let btrfs = btrfs_disk();
    put(&mut disk, MIB, &btrfs[..MIB]);
    disk
}

/// More by hand: `MIRRORTOOL_MUTATIONS=100000 cargo test --lib stack::`.
fn mutations() -> u64 {
    std::env::var("MIRRORTOOL_MUTATIONS").ok().and_then(|number| number.parse().ok()).unwrap_or(300)
}

#[test]
fn mutated_super_blocks_and_tables_are_answered_without_a_panic() {
    let mut random = Random(0x5eed);
    for round in 0..mutations() {
        let levels = [-1, 0, 1, 4, 5, 6, 10, 7];
        let (level, layout) = (levels[random.below(8)], [0, 2, 5, 16, 0x102, 0x201, 0x10201][random.below(7)]);
        let disk = |number: u32, random: &mut Random| {
            let mut disk = vec![0; MIB];
            let member_bytes = 512 << 10;
            let says =
                Says { level, layout, disks: 3, number, events: 3, member_bytes, chunk_bytes: 4096, failed: None };
            let mut sb = superblock(says, 4096, 128 << 10, member_bytes);
            for _ in 0..random.below(4) {
                let value = random.odd().to_le_bytes();
                let (field, len) = (random.below(264), 1 + random.below(8));
                // Not the magic, and not the number of entries: the checksum has to be right.
                if !(212..228).contains(&field) && field >= 8 {
                    put(&mut sb, field, &value[..len]);
                }
            }
            seal(&mut sb, 3);
            put(&mut disk, 4096, &sb);
            disk
        };
        let mut disks: Vec<_> = (0..3).map(|number| disk(number, &mut random)).collect();
        let mut gpt = gpt_disk();
        let value = random.odd().to_le_bytes();
        let at = 512 + random.below(2048);
        put(&mut gpt, at, &value);
        if round % 2 == 0 {
            let header_sum = !crc32_from(u32::MAX, &{
                let mut header = gpt[512..604].to_vec();
                header[16..20].fill(0);
                header
            });
            put(&mut gpt, 512 + 16, &header_sum.to_le_bytes());
        }
        disks.push(gpt);
        for opened in open(sources(disks), &Choice::default()).into_iter().flatten() {
            let Some(below) = opened.device.below() else { continue };
            let len = opened.device.len();
            for at in [0, 4096, len / 2, len.saturating_sub(4096)] {
                let mut buf = [0; 4096];
                let _ = opened.device.read_at(Physical::new(at), &mut buf);
                let _ = below.rebuilt(Physical::new(at), 4096);
                assert!(below.parts(Physical::new(at), 1 << 16).len() <= 64);
            }
        }
    }
}
