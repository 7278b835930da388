//! Every field of a super block is held, every refusal can be reached, and no bytes panic.

use super::*;
use crate::format::items::ItemError;
use crate::format::testing::{fixed_seed, key_bytes, put, superblock_bytes};
use crate::format::{BlockGroupFlags, Key};
use crate::units::DeviceId;
use proptest::prelude::*;

const PRIMARY: Physical = SUPERBLOCK_OFFSETS[0];

/// What comes of a super block in which the bytes at `at` were replaced before it was signed.
fn parse_with(at: usize, bytes: &[u8]) -> Result<Superblock, SuperblockError> {
    let mut block = superblock_bytes(ChecksumType::Crc32c);
    put(&mut block, at, bytes);
    resign(&mut block);
    Superblock::parse(&block, PRIMARY)
}

/// The field that is refused, and what it holds.
fn refused_field(at: usize, bytes: &[u8]) -> (&'static str, u64) {
    match parse_with(at, bytes) {
        Err(SuperblockError::Field { field, have, .. }) => (field, have),
        other => panic!("{at:#x}: {other:?}"),
    }
}

#[test]
fn a_super_block_of_each_checksum_type_gives_back_its_fields() {
    for csum_type in ChecksumType::ALL {
        let sb = Superblock::parse(&superblock_bytes(csum_type), PRIMARY).unwrap();
        assert_eq!(sb.csum_type(), csum_type);
        assert_eq!((sb.sectorsize(), sb.nodesize()), (4096, 16384));
        assert_eq!((sb.generation().raw(), sb.num_devices(), sb.label().as_str()), (77, 2, "mirrors"));
        assert_eq!(sb.root(), TreeRoot { bytenr: Logical::new(30_408_704), generation: Generation::new(77), level: 1 });
        assert_eq!(sb.chunk_root().generation.raw(), 70);
        assert_eq!(sb.log_root(), None);
        assert_eq!(sb.dev_item().devid, DeviceId::new(1));
        assert_eq!((sb.check_supported(), sb.check_writable()), (Ok(()), Ok(())));
        let [chunk] = sb.sys_chunks() else { panic!("{:?}", sb.sys_chunks()) };
        assert_eq!(chunk.logical, Logical::new(20 << 20));
        assert_eq!(chunk.chunk.type_flags, BlockGroupFlags::SYSTEM | BlockGroupFlags::RAID1);
        assert_eq!(chunk.chunk.stripes.len(), 2);
    }
}

#[test]
fn what_is_no_super_block_is_told_apart() {
    let block = superblock_bytes(ChecksumType::Crc32c);
    assert!(matches!(Superblock::parse(&block[1..], PRIMARY), Err(SuperblockError::Length { have_bytes: 4095, .. })));
    assert_eq!(Superblock::parse(&[0; SUPERBLOCK_BYTES], PRIMARY), Err(SuperblockError::Zeros));
    assert_eq!(parse_with(0x40, b"!BHRfS_M"), Err(SuperblockError::Temporary));
    assert!(matches!(parse_with(0x40, &[0; 8]), Err(SuperblockError::Magic { have: 0, .. })));
    assert_eq!(
        Superblock::parse(&block, SUPERBLOCK_OFFSETS[1]),
        Err(SuperblockError::Bytenr { have: PRIMARY, expect: SUPERBLOCK_OFFSETS[1] })
    );
}

#[test]
fn a_changed_byte_is_a_checksum_mismatch_and_an_unknown_algorithm_a_number() {
    let mut block = superblock_bytes(ChecksumType::Xxhash64);
    block[4095] ^= 1;
    assert!(matches!(Superblock::parse(&block, PRIMARY), Err(SuperblockError::Checksum { .. })));
    put(&mut block, 0xc4, &9u16.to_le_bytes());
    assert_eq!(Superblock::parse(&block, PRIMARY), Err(SuperblockError::ChecksumType { csum_type: 9 }));
}

#[test]
fn each_field_that_cannot_be_is_refused_by_name() {
    assert_eq!(refused_field(0x90, &2048u32.to_le_bytes()), ("sectorsize", 2048));
    assert_eq!(refused_field(0x90, &12288u32.to_le_bytes()), ("sectorsize", 12288));
    assert_eq!(refused_field(0x90, &32768u32.to_le_bytes()), ("nodesize", 16384));
    assert_eq!(refused_field(0x94, &131_072u32.to_le_bytes()), ("nodesize", 131_072));
    assert_eq!(refused_field(0x98, &4096u32.to_le_bytes()), ("leafsize", 4096));
    assert_eq!(refused_field(0x9c, &0u32.to_le_bytes()), ("stripesize", 0));
    assert_eq!(refused_field(0xc6, &[8]), ("root_level", 8));
    assert_eq!(refused_field(0xc7, &[255]), ("chunk_root_level", 255));
    assert_eq!(refused_field(0xc8, &[8]), ("log_root_level", 8));
    assert_eq!(refused_field(0x50, &[0; 8]), ("root", 0));
    assert_eq!(refused_field(0x58, &[0; 8]), ("chunk_root", 0));
    assert_eq!(refused_field(0x48, &[0; 8]), ("generation", 0));
    assert_eq!(refused_field(0x88, &[0; 8]), ("num_devices", 0));
    assert_eq!(refused_field(0x70, &[0; 8]), ("total_bytes", 0));
    assert_eq!(refused_field(0x78, &98_303u64.to_le_bytes()), ("bytes_used", 98_303));
    assert_eq!(refused_field(0xa0, &2049u32.to_le_bytes()), ("sys_chunk_array_size", 2049));
    assert_eq!(refused_field(0xa0, &96u32.to_le_bytes()), ("sys_chunk_array_size", 96));
}

#[test]
fn roots_lie_on_sectors() {
    for (at, field) in [(0x50, "root"), (0x58, "chunk_root"), (0x60, "log_root")] {
        let have = Logical::new(4097);
        let refused = parse_with(at, &4097u64.to_le_bytes());
        assert_eq!(refused, Err(SuperblockError::Unaligned { field, have, sectorsize: 4096 }));
    }
}

#[test]
fn the_chunk_array_is_read_entry_by_entry() {
    assert!(matches!(parse_with(0xa0, &140u32.to_le_bytes()), Err(SuperblockError::SysChunkCut { offset: 129, .. })));
    let short = parse_with(0xa0, &128u32.to_le_bytes());
    assert!(matches!(short, Err(SuperblockError::SysChunk { error: ItemError::TooShort { .. }, .. })), "{short:?}");
    let key = Key::new(256, 227, 0);
    assert_eq!(parse_with(0x32b, &key_bytes(key)), Err(SuperblockError::SysChunkKey { offset: 0, have: key }));
    let data = parse_with(0x32b + 17 + 24, &(1u64 | 1 << 4).to_le_bytes());
    assert_eq!(data, Err(SuperblockError::SysChunkType { logical: Logical::new(20 << 20) }));
    let none = parse_with(0x32b + 17 + 44, &[0; 2]);
    assert!(matches!(
        none,
        Err(SuperblockError::SysChunk { error: ItemError::Value { field: "num_stripes", .. }, .. })
    ));
}

#[test]
fn the_metadata_uuid_is_the_one_devices_and_blocks_carry() {
    let sb = Superblock::parse(&superblock_bytes(ChecksumType::Crc32c), PRIMARY).unwrap();
    assert_eq!(sb.metadata_uuid(), sb.fsid());
    let mut block = superblock_bytes(ChecksumType::Crc32c);
    put(&mut block, 0x20, &[0x11; 16]);
    resign(&mut block);
    assert!(matches!(Superblock::parse(&block, PRIMARY), Err(SuperblockError::DevItemFsid { .. })));
    put(&mut block, 0xbc, &0x741u64.to_le_bytes());
    put(&mut block, 0x23b, &[0xf5; 16]);
    resign(&mut block);
    let sb = Superblock::parse(&block, PRIMARY).unwrap();
    assert_eq!((sb.fsid(), sb.metadata_uuid()), (Uuid::from_bytes([0x11; 16]), Uuid::from_bytes([0xf5; 16])));
}

#[test]
fn an_unsupported_file_system_is_still_known_by_its_uuid() {
    let sb = parse_with(0xbc, &(0x341u64 | 1 << 13).to_le_bytes()).unwrap();
    assert_eq!(sb.check_supported(), Err(UnsupportedFeature::ExtentTreeV2));
    assert_eq!(sb.fsid(), Uuid::from_bytes([0xf5; 16]));
    let sb = parse_with(0xb4, &(1u64 << 40).to_le_bytes()).unwrap();
    assert_eq!(sb.check_supported(), Ok(()));
    assert_eq!(sb.check_writable(), Err(UnsupportedFeature::UnknownCompatRo { bit: 40 }));
}

#[test]
fn a_copy_for_another_place_differs_in_address_device_and_checksum_alone() {
    for csum_type in ChecksumType::ALL {
        let block = superblock_bytes(csum_type);
        let sb = Superblock::parse(&block, PRIMARY).unwrap();
        assert_eq!(sb.with_place(PRIMARY, sb.dev_item(), sb.num_devices()), block);
        let other = DevItem { devid: DeviceId::new(2), uuid: Uuid::from_bytes([0xd2; 16]), ..*sb.dev_item() };
        let copy =
            Superblock::parse(&sb.with_place(SUPERBLOCK_OFFSETS[1], &other, sb.num_devices()), SUPERBLOCK_OFFSETS[1])
                .unwrap();
        assert_eq!((copy.bytenr(), *copy.dev_item()), (SUPERBLOCK_OFFSETS[1], other));
        assert_eq!(copy.with_place(PRIMARY, sb.dev_item(), sb.num_devices()), block);
    }
}

#[test]
fn backup_roots_and_a_broken_label_are_given_as_they_are() {
    let sb = parse_with(0xb2b + 168, &[&4096u64.to_le_bytes()[..], &76u64.to_le_bytes()].concat()).unwrap();
    let [_, second, ..] = sb.backup_roots();
    assert_eq!((second.tree_root.bytenr.raw(), second.tree_root.generation.raw()), (4096, 76));
    assert_eq!(parse_with(0x12b, &[b'a', 0xff, 0]).unwrap().label(), "a\u{fffd}");
    assert_eq!(parse_with(0x12b, &[b'x'; 256]).unwrap().label().len(), 256);
}

#[test]
fn a_log_belongs_to_the_transaction_after_the_super_block() {
    let sb = parse_with(0x60, &(32u64 << 20).to_le_bytes()).unwrap();
    let log = sb.log_root().unwrap();
    assert_eq!((log.bytenr.raw(), log.generation.raw(), log.level), (32 << 20, 78, 0));
}

proptest! {
    #![proptest_config(fixed_seed(512))]

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..SUPERBLOCK_BYTES + 2)) {
        prop_assert!(Superblock::parse(&bytes, PRIMARY).is_err());
    }

    #[test]
    fn no_signed_change_panics(at in 32..SUPERBLOCK_BYTES, byte in any::<u8>(), long in any::<u64>()) {
        for bytes in [&[byte][..], &long.to_le_bytes()] {
            let mut block = superblock_bytes(ChecksumType::Crc32c);
            let end = (at + bytes.len()).min(SUPERBLOCK_BYTES);
            put(&mut block, at, &bytes[..end - at]);
            resign(&mut block);
            if let Ok(sb) = Superblock::parse(&block, PRIMARY) {
                prop_assert_eq!(sb.with_place(PRIMARY, sb.dev_item(), sb.num_devices()), block);
                let _ = (sb.backup_roots(), sb.label(), sb.log_root(), sb.check_writable(), format!("{sb:?}"));
            }
        }
    }
}
