//! Bytes for tests: a super block that parses, leaves and nodes that pass the tree checker, and the fixed seed of the
//! property tests.

use super::node::{HEADER_BYTES, ITEM_BYTES};
use super::superblock::resign;
use super::{Key, SUPERBLOCK_BYTES, SUPERBLOCK_MAGIC};
use crate::checksum::ChecksumType;
use proptest::test_runner::{Config, RngSeed};

/// The property tests of this module try the same inputs each time.
pub(crate) fn fixed_seed(cases: u32) -> Config {
    Config { cases, rng_seed: RngSeed::Fixed(20_261_130), failure_persistence: None, ..Config::default() }
}

/// Overwrites bytes of `block` from `at` on.
pub(crate) fn put(block: &mut [u8], at: usize, bytes: &[u8]) {
    block[at..at + bytes.len()].copy_from_slice(bytes);
}

/// A key as stored.
pub(crate) fn key_bytes(key: Key) -> Vec<u8> {
    [&key.objectid.raw().to_le_bytes()[..], &[key.item_type], &key.offset.to_le_bytes()].concat()
}

/// A chunk as stored: 8 MiB, with stripes of devices 1, 2, ... at 1 MiB.
pub(crate) fn chunk_bytes(type_flags: u64, num_stripes: u16, sub_stripes: u16) -> Vec<u8> {
    let mut bytes = Vec::new();
    for number in [8 << 20, 2, 65536, type_flags] {
        bytes.extend(u64::to_le_bytes(number));
    }
    for number in [4096u32; 3] {
        bytes.extend(number.to_le_bytes());
    }
    bytes.extend(num_stripes.to_le_bytes());
    bytes.extend(sub_stripes.to_le_bytes());
    for devid in 1..=u64::from(num_stripes) {
        bytes.extend(devid.to_le_bytes());
        bytes.extend(u64::to_le_bytes(1 << 20));
        bytes.extend([devid as u8; 16]);
    }
    bytes
}

/// A super block of 4 KiB sectors, 16 KiB nodes and one raid1 system chunk, at 64 KiB of device 1.
pub(crate) fn superblock_bytes(csum_type: ChecksumType) -> [u8; SUPERBLOCK_BYTES] {
    let mut block = [0; SUPERBLOCK_BYTES];
    put(&mut block, 0x20, &[0xf5; 16]); // fsid
    put(&mut block, 0x40, &SUPERBLOCK_MAGIC);
    let longs: [(usize, u64); 10] = [
        (0x30, 65536),      // bytenr
        (0x38, 1),          // flags
        (0x48, 77),         // generation
        (0x50, 30_408_704), // root
        (0x58, 22_020_096), // chunk_root
        (0x70, 1 << 30),    // total_bytes
        (0x78, 1 << 20),    // bytes_used
        (0x88, 2),          // num_devices
        (0xa4, 70),         // chunk_root_generation
        (0xbc, 0x341),      // incompat_flags
    ];
    for (at, number) in longs {
        put(&mut block, at, &number.to_le_bytes());
    }
    for (at, number) in [(0x90, 4096u32), (0x94, 16384), (0x98, 16384), (0x9c, 4096), (0xa0, 17 + 48 + 64)] {
        put(&mut block, at, &number.to_le_bytes());
    }
    put(&mut block, 0xc4, &csum_type.raw().to_le_bytes());
    put(&mut block, 0xc6, &[1, 0, 0]); // levels
    put(&mut block, 0xc9, &1u64.to_le_bytes()); // dev_item.devid
    put(&mut block, 0xc9 + 66, &[0xd1; 16]); // dev_item.uuid
    put(&mut block, 0xc9 + 82, &[0xf5; 16]); // dev_item.fsid
    put(&mut block, 0x12b, b"mirrors");
    put(&mut block, 0x32b, &key_bytes(Key::new(256, 228, 20 << 20)));
    put(&mut block, 0x32b + 17, &chunk_bytes(2 | 1 << 4, 2, 1));
    resign(&mut block);
    block
}

/// A leaf of `nodesize` bytes. The checksum is left out.
pub(crate) fn leaf(nodesize: usize, owner: u64, items: &[(Key, Vec<u8>)]) -> Vec<u8> {
    let mut block = header(nodesize, owner, items.len() as u32, 0);
    let mut end = nodesize;
    for (slot, (key, data)) in items.iter().enumerate() {
        end -= data.len();
        put(&mut block, end, data);
        let at = HEADER_BYTES + slot * ITEM_BYTES;
        put(&mut block, at, &key_bytes(*key));
        put(&mut block, at + 17, &((end - HEADER_BYTES) as u32).to_le_bytes());
        put(&mut block, at + 21, &(data.len() as u32).to_le_bytes());
    }
    block
}

/// A node at level 1. The checksum is left out.
pub(crate) fn node(nodesize: usize, owner: u64, pointers: &[(Key, u64)]) -> Vec<u8> {
    let mut block = header(nodesize, owner, pointers.len() as u32, 1);
    for (slot, (key, child)) in pointers.iter().enumerate() {
        let at = HEADER_BYTES + slot * 33;
        put(&mut block, at, &key_bytes(*key));
        put(&mut block, at + 17, &child.to_le_bytes());
        put(&mut block, at + 25, &77u64.to_le_bytes());
    }
    block
}

fn header(nodesize: usize, owner: u64, nritems: u32, level: u8) -> Vec<u8> {
    let mut block = vec![0; nodesize];
    put(&mut block, 32, &[0xf5; 16]);
    put(&mut block, 56, &1u64.to_le_bytes());
    put(&mut block, 80, &77u64.to_le_bytes());
    put(&mut block, 88, &owner.to_le_bytes());
    put(&mut block, 96, &nritems.to_le_bytes());
    put(&mut block, 100, &[level]);
    block
}
