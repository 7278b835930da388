//! Each item gives back what was stored, each refusal can be reached, and no bytes panic.

use super::*;
use crate::checksum::Digest;
use crate::format::testing::{chunk_bytes, fixed_seed, key_bytes, put};
use crate::format::types::key_type;
use crate::format::{BlockGroupFlags, IncompatFlags, Key};
use crate::units::{DeviceId, Generation, Logical, ObjectId, Physical};
use proptest::prelude::*;
use uuid::Uuid;

fn longs(numbers: &[u64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// The field that is refused.
fn field<T: std::fmt::Debug>(result: Result<T, ItemError>) -> &'static str {
    match result {
        Err(ItemError::Value { field, .. }) => field,
        other => panic!("{other:?}"),
    }
}

fn is_short<T>(result: &Result<T, ItemError>) -> bool {
    matches!(result, Err(ItemError::TooShort { .. }))
}

fn is_wrong_size<T>(result: &Result<T, ItemError>) -> bool {
    matches!(result, Err(ItemError::Size { .. }))
}

#[test]
fn a_chunk_gives_back_its_stripes_and_must_end_with_the_last() {
    let bytes = chunk_bytes(1 | 1 << 6, 4, 2);
    let chunk = ChunkItem::parse(&bytes).unwrap();
    assert_eq!((chunk.length, chunk.sub_stripes, chunk.stripes.len()), (8 << 20, 2, 4));
    assert_eq!(chunk.type_flags, BlockGroupFlags::DATA | BlockGroupFlags::RAID10);
    let last =
        StripeItem { devid: DeviceId::new(4), offset: Physical::new(1 << 20), dev_uuid: Uuid::from_bytes([4; 16]) };
    assert_eq!(chunk.stripes.last(), Some(&last));
    assert!(is_short(&ChunkItem::parse(&bytes[..175])));
    assert!(is_short(&ChunkItem::parse(&bytes[..47])));
    assert!(is_wrong_size(&ChunkItem::parse(&[&bytes[..], &[0]].concat())));
    assert_eq!(field(ChunkItem::parse(&chunk_bytes(1, 0, 0))), "num_stripes");
}

#[test]
fn a_profile_fixes_the_number_of_stripes() {
    let fits = |profile: u64, stripes, sub| {
        let chunk = ChunkItem::parse(&chunk_bytes(1 | profile, stripes, sub)).unwrap();
        chunk.check(Logical::new(1 << 20), 4096, IncompatFlags::empty()).is_ok()
    };
    for (profile, good) in [
        (0, &[1][..]),
        (1 << 3, &[1, 2, 3, 4, 5, 6]),
        (1 << 4, &[2]),
        (1 << 5, &[2]),
        (1 << 6, &[2, 4, 6]),
        (1 << 7, &[2, 3, 4, 5, 6]),
        (1 << 8, &[3, 4, 5, 6]),
        (1 << 9, &[3]),
        (1 << 10, &[4]),
    ] {
        let found: Vec<u16> = (1..=6).filter(|stripes| fits(profile, *stripes, 2)).collect();
        assert_eq!(found, good, "{profile:#x}");
    }
    assert!(!fits(1 << 6, 4, 1), "raid10 has two copies");
}

#[test]
fn a_chunk_that_cannot_be_is_refused_by_its_field() {
    let check = |at: usize, bytes: &[u8], start: u64| {
        let mut chunk = chunk_bytes(4, 1, 0);
        put(&mut chunk, at, bytes);
        ChunkItem::parse(&chunk).unwrap().check(Logical::new(start), 4096, IncompatFlags::empty())
    };
    assert_eq!(check(0, &[], 4096), Ok(()));
    assert_eq!(field(check(0, &[], 100)), "start");
    assert_eq!(field(check(0, &longs(&[0]), 0)), "length");
    assert_eq!(field(check(0, &longs(&[4097]), 0)), "length");
    assert_eq!(field(check(0, &longs(&[1 << 50]), 0)), "length");
    assert_eq!(field(check(0, &[], u64::MAX - 4095)), "length");
    assert_eq!(field(check(16, &longs(&[4096]), 0)), "stripe_len");
    assert_eq!(field(check(40, &512u32.to_le_bytes(), 0)), "sector_size");
    for flags in [0, 5, 6, 3, 4 | 1 << 11, 4 | 1 << 3 | 1 << 4] {
        assert_eq!(field(check(24, &longs(&[flags]), 0)), "type", "{flags:#x}");
    }
    let mixed = ChunkItem::parse(&chunk_bytes(5, 1, 0)).unwrap();
    assert_eq!(mixed.check(Logical::new(0), 4096, IncompatFlags::MIXED_GROUPS), Ok(()));
}

#[test]
fn a_device_item_survives_the_round_trip() {
    let bytes: Vec<u8> = (0..98).collect();
    let item = DevItem::parse(&bytes).unwrap();
    assert_eq!(item.devid, DeviceId::new(0x0706_0504_0302_0100));
    assert_eq!(item.fsid.as_bytes(), &bytes[82..]);
    assert_eq!(item.to_bytes()[..], bytes);
    assert!(is_wrong_size(&DevItem::parse(&bytes[1..])));
}

#[test]
fn device_extents_and_block_groups_give_back_their_fields() {
    let bytes = [longs(&[3, 256, 1 << 30, 4096]), vec![7; 16]].concat();
    let extent = DevExtent::parse(&bytes).unwrap();
    assert_eq!((extent.chunk_offset, extent.length), (Logical::new(1 << 30), 4096));
    assert!(is_wrong_size(&DevExtent::parse(&bytes[..47])));
    let place = DevExtent::place(&Key::new(2, key_type::DEV_EXTENT, 1 << 20));
    assert_eq!((place.devid.raw(), place.physical.raw()), (2, 1 << 20));
    let group = BlockGroupItem::parse(&longs(&[8192, 256, 4 | 1 << 5])).unwrap();
    assert_eq!(group.flags, BlockGroupFlags::METADATA | BlockGroupFlags::DUP);
    assert_eq!((group.used, group.chunk_objectid.raw()), (8192, 256));
    assert!(is_wrong_size(&BlockGroupItem::parse(&[0; 25])));
    assert_eq!(BlockGroupItem::range(&Key::new(10, 192, 5)), Logical::new(10)..Logical::new(15));
}

#[test]
fn root_items_of_all_ages_are_read() {
    let mut bytes = vec![0; 439];
    for (at, number) in [(160, 9), (168, 256), (176, 1 << 20), (200, 8), (208, 1 | 1 << 48), (239, 9)] {
        put(&mut bytes, at, &longs(&[number]));
    }
    put(&mut bytes, 216, &3u32.to_le_bytes());
    put(&mut bytes, 220, &key_bytes(Key::new(257, 1, 0)));
    put(&mut bytes, 237, &[2, 3]);
    put(&mut bytes, 247, &[0xaa; 48]);
    let root = RootItem::parse(&bytes).unwrap();
    assert_eq!((root.bytenr.raw(), root.level, root.generation.raw(), root.refs), (1 << 20, 3, 9, 3));
    assert_eq!((root.drop_progress, root.drop_level), (Key::new(257, 1, 0), 2));
    assert_eq!(root.flags, RootFlags::RDONLY | RootFlags::DEAD);
    assert_eq!((root.uuid, root.received_uuid), (Uuid::from_bytes([0xaa; 16]), Uuid::from_bytes([0xaa; 16])));
    let old = RootItem::parse(&bytes[..239]).unwrap();
    assert_eq!((old.bytenr, old.level, old.generation_v2.raw(), old.uuid), (root.bytenr, 3, 0, Uuid::nil()));
    put(&mut bytes, 239, &longs(&[8]));
    assert_eq!(RootItem::parse(&bytes).unwrap().uuid, Uuid::nil(), "an old kernel left the uuid stale");
    assert!(is_short(&RootItem::parse(&bytes[..238])));
}

#[test]
fn a_root_ref_ends_with_its_name() {
    let bytes = [&longs(&[256, 5])[..], &[4, 0], b"snap"].concat();
    let root_ref = RootRef::parse(&bytes).unwrap();
    assert_eq!(root_ref, RootRef { dirid: ObjectId::new(256), sequence: 5, name: b"snap" });
    assert!(is_short(&RootRef::parse(&bytes[..21])));
    assert!(is_wrong_size(&RootRef::parse(&[&bytes[..], b"x"].concat())));
}

#[test]
fn each_kind_of_inline_reference_is_read_in_turn() {
    let key = Key::new(1 << 20, key_type::EXTENT_ITEM, 8192);
    let mut bytes = longs(&[5, 7, 1]);
    bytes.extend([&[172][..], &longs(&[5])].concat());
    bytes.extend([&[178][..], &longs(&[5, 257, 4096]), &2u32.to_le_bytes()].concat());
    bytes.extend([&[184][..], &longs(&[1 << 21]), &3u32.to_le_bytes()].concat());
    let item = ExtentItem::parse(&key, &bytes).unwrap();
    assert_eq!((item.refs, item.generation, item.is_tree_block()), (5, Generation::new(7), false));
    let refs: Vec<_> = item.inline_refs().map(Result::unwrap).collect();
    let root = ObjectId::new(5);
    let data = ExtentRef::ExtentData { root, objectid: ObjectId::new(257), offset: 4096, count: 2 };
    assert_eq!(
        refs,
        [ExtentRef::Owner { root }, data, ExtentRef::SharedData { parent: Logical::new(1 << 21), count: 3 }]
    );
    assert_eq!(refs.iter().map(ExtentRef::count).sum::<u64>(), 5);
    assert_eq!(ExtentItem::range(&key, 16384), Logical::new(1 << 20)..Logical::new((1 << 20) + 8192));
    let cut = ExtentItem::parse(&key, &bytes[..bytes.len() - 1]).unwrap();
    assert_eq!(cut.inline_refs().filter(Result::is_err).count(), 1);
    assert_eq!(cut.inline_refs().count(), 3, "nothing follows an error");
    let unknown = [&longs(&[1, 7, 1])[..], &[173; 9]].concat();
    let error = ExtentItem::parse(&key, &unknown).unwrap().inline_refs().next().unwrap();
    assert_eq!(field(error), "type");
}

#[test]
fn tree_blocks_say_their_level_in_the_key_or_in_the_item() {
    let skinny = Key::new(1 << 20, key_type::METADATA_ITEM, 2);
    let bytes = [&longs(&[1, 7, 2])[..], &[182], &longs(&[1 << 22])].concat();
    let item = ExtentItem::parse(&skinny, &bytes).unwrap();
    assert_eq!((item.level(&skinny), item.tree_block), (Some(2), None));
    let parent = Logical::new(1 << 22);
    assert_eq!(item.inline_refs().collect::<Vec<_>>(), [Ok(ExtentRef::SharedBlock { parent })]);
    assert_eq!(ExtentItem::range(&skinny, 16384).end, Logical::new((1 << 20) + 16384));
    assert_eq!(item.level(&Key::new(0, key_type::METADATA_ITEM, 256)), None);

    let plain = Key::new(1 << 20, key_type::EXTENT_ITEM, 16384);
    let info = key_bytes(Key::new(256, 1, 0));
    let bytes = [&longs(&[1, 7, 2 | 1 << 8])[..], &info, &[1], &[176], &longs(&[5])].concat();
    let item = ExtentItem::parse(&plain, &bytes).unwrap();
    assert_eq!(item.level(&plain), Some(1));
    assert_eq!(item.tree_block, Some(TreeBlockInfo { key: Key::new(256, 1, 0), level: 1 }));
    assert_eq!(item.flags, ExtentFlags::TREE_BLOCK | ExtentFlags::FULL_BACKREF);
    let root = ObjectId::new(5);
    assert_eq!(item.inline_refs().collect::<Vec<_>>(), [Ok(ExtentRef::TreeBlock { root })]);
    assert!(is_short(&ExtentItem::parse(&plain, &bytes[..41])));
    assert!(is_short(&ExtentItem::parse(&plain, &[1, 0, 0, 0])), "items of before 2.6.31");
    assert_eq!(field(ExtentItem::parse(&Key::new(0, 170, 0), &bytes)), "key type");
}

#[test]
fn references_in_items_of_their_own_are_read() {
    let keyed = |item_type, bytes: &[u8]| ExtentRef::parse_keyed(&Key::new(4096, item_type, 8192), bytes);
    assert_eq!(keyed(176, &[]), Ok(ExtentRef::TreeBlock { root: ObjectId::new(8192) }));
    assert_eq!(keyed(182, &[]), Ok(ExtentRef::SharedBlock { parent: Logical::new(8192) }));
    assert_eq!(keyed(184, &[9, 0, 0, 0]), Ok(ExtentRef::SharedData { parent: Logical::new(8192), count: 9 }));
    let bytes = [&longs(&[5, 257, 0])[..], &[1, 0, 0, 0]].concat();
    assert!(matches!(keyed(178, &bytes), Ok(ExtentRef::ExtentData { count: 1, .. })));
    assert!(is_wrong_size(&keyed(178, &bytes[1..])));
    assert!(is_wrong_size(&keyed(176, &[0])));
    assert_eq!(field(keyed(172, &[])), "type");
    for item_type in [176, 182] {
        assert_eq!(keyed(item_type, &[]).map(|reference| reference.item_type()), Ok(item_type));
    }
}

#[test]
fn file_extents_are_inline_regular_or_preallocated() {
    let head = |compression: u8, encryption: u8, other: u8, kind: u8| {
        [&longs(&[7, 5])[..], &[compression, encryption, other, 0, kind]].concat()
    };
    let inline = [head(2, 0, 0, 0), b"bytes".to_vec()].concat();
    let item = FileExtentItem::parse(&inline).unwrap();
    assert_eq!((item.extent, item.compression, item.ram_bytes), (FileExtent::Inline(b"bytes"), Compression::Lzo, 5));
    assert_eq!(item.pointer(), None);
    let regular = [head(0, 0, 0, 1), longs(&[1 << 20, 8192, 4096, 4096])].concat();
    let item = FileExtentItem::parse(&regular).unwrap();
    let pointer = *item.pointer().unwrap();
    assert_eq!(item.extent, FileExtent::Regular(pointer));
    assert_eq!(pointer.disk_range(), Logical::new(1 << 20)..Logical::new((1 << 20) + 8192));
    assert!(!pointer.is_hole());
    let hole = [head(0, 0, 0, 2), longs(&[0, 0, 0, 4096])].concat();
    let item = FileExtentItem::parse(&hole).unwrap();
    assert!(matches!(item.extent, FileExtent::Prealloc(pointer) if pointer.is_hole()));
    assert!(is_wrong_size(&FileExtentItem::parse(&regular[..52])));
    assert!(is_short(&FileExtentItem::parse(&regular[..20])));
    assert_eq!(field(FileExtentItem::parse(&head(4, 0, 0, 0))), "compression");
    assert_eq!(field(FileExtentItem::parse(&head(0, 1, 0, 0))), "encryption");
    // The kernel does not look at it.
    assert!(FileExtentItem::parse(&head(0, 0, 1, 0)).is_ok());
    assert_eq!(field(FileExtentItem::parse(&head(0, 0, 0, 3))), "type");
}

#[test]
fn an_inode_gives_back_its_fields() {
    let mut bytes = vec![0; 160];
    put(&mut bytes, 0, &longs(&[7, 8, 12345]));
    put(&mut bytes, 40, &2u32.to_le_bytes());
    put(&mut bytes, 52, &0o100_644u32.to_le_bytes());
    put(&mut bytes, 64, &longs(&[3]));
    let inode = InodeItem::parse(&bytes).unwrap();
    assert_eq!((inode.size, inode.nlink, inode.mode, inode.transid.raw()), (12345, 2, 0o100_644, 8));
    assert_eq!(inode.flags, InodeFlags::NODATASUM | InodeFlags::NODATACOW);
    assert!(is_wrong_size(&InodeItem::parse(&bytes[1..])));
}

#[test]
fn all_names_of_an_item_are_listed() {
    let key = Key::new(257, key_type::INODE_REF, 256);
    let bytes = [&longs(&[2])[..], &[1, 0], b"a", &longs(&[3]), &[2, 0], b"bc"].concat();
    let names: Vec<_> = InodeNames::new(&key, &bytes).map(Result::unwrap).collect();
    let parent = ObjectId::new(256);
    assert_eq!(names, [InodeName { parent, index: 2, name: b"a" }, InodeName { parent, index: 3, name: b"bc" }]);
    let extref = Key::new(257, key_type::INODE_EXTREF, 0xabcd);
    let bytes = [&longs(&[300, 9])[..], &[1, 0], b"x"].concat();
    let names: Vec<_> = InodeNames::new(&extref, &bytes).map(Result::unwrap).collect();
    assert_eq!(names, [InodeName { parent: ObjectId::new(300), index: 9, name: b"x" }]);
    let cut: Vec<_> = InodeNames::new(&extref, &bytes[..18]).collect();
    assert!(matches!(cut[..], [Err(ItemError::TooShort { .. })]));
}

#[test]
fn directory_entries_carry_location_name_and_value() {
    let location = Key::new(257, 1, 0);
    let entry = [&key_bytes(location)[..], &longs(&[7]), &[0, 0, 3, 0, 1], b"foo"].concat();
    let xattr = [&key_bytes(Key::MIN)[..], &longs(&[7]), &[2, 0, 1, 0, 8], b"nvv"].concat();
    let both = [&entry[..], &xattr].concat();
    let entries: Vec<_> = DirEntries::new(&both).map(Result::unwrap).collect();
    assert_eq!((entries[0].location, entries[0].name, entries[0].file_type), (location, &b"foo"[..], 1));
    assert_eq!((entries[1].name, entries[1].data), (&b"n"[..], &b"vv"[..]));
    assert!(is_short(&DirEntries::new(&entry[..32]).next().unwrap()));
}

#[test]
fn names_are_hashed_as_on_disk() {
    // The key offset of the entry "default" that every mkfs writes into the root tree.
    assert_eq!(name_hash(b"default"), 2_378_154_706);
}

#[test]
fn a_checksum_item_knows_the_sum_of_each_of_its_sectors() {
    let sums: Vec<u8> = (0..12).collect();
    let key = Key::new(0, key_type::EXTENT_CSUM, 8192);
    let item = CsumItem::parse(&key, &sums, 4096, 4).unwrap();
    assert_eq!((item.sectors(), item.range()), (3, Logical::new(8192)..Logical::new(20480)));
    assert_eq!(item.sum_at(Logical::new(12288 + 5)), Some(Digest::new(&[4, 5, 6, 7])));
    assert_eq!((item.sum_at(Logical::new(8191)), item.sum_at(Logical::new(20480))), (None, None));
    assert_eq!(item.as_bytes(), sums);
    assert_eq!(field(CsumItem::parse(&key, &sums[1..], 4096, 4)), "size");
    assert_eq!(field(CsumItem::parse(&key, &sums, 16384, 4)), "start");
    assert_eq!(field(CsumItem::parse(&key, &sums, 0, 4)), "sectorsize");
    assert_eq!(field(CsumItem::parse(&key, &sums, 4096, 0)), "size");
}

#[test]
fn a_balance_and_a_replace_say_what_they_are_at() {
    let mut bytes = longs(&[7]);
    bytes.resize(448, 0);
    let balance = BalanceItem::parse(&bytes).unwrap();
    assert_eq!(balance.flags, BalanceFlags::DATA | BalanceFlags::SYSTEM | BalanceFlags::METADATA);
    assert!(is_wrong_size(&BalanceItem::parse(&bytes[1..])));
    let replace = |state| DevReplaceItem::parse(&longs(&[2, 10, 20, 0, state, 0, 0, 0, 0]));
    let under_way: Vec<bool> = (0..5).map(|state| replace(state).unwrap().is_under_way()).collect();
    assert_eq!(under_way, [false, true, false, false, true]);
    let item = replace(1).unwrap();
    assert_eq!((item.src_devid.raw(), item.cursor_left.raw(), item.cursor_right.raw()), (2, 10, 20));
    assert_eq!(field(replace(5)), "replace_state");
    assert!(is_short(&DevReplaceItem::parse(&[0; 71])));
}

proptest! {
    #![proptest_config(fixed_seed(2048))]

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..600), item_type in any::<u8>(), offset in any::<u64>()) {
        let key = Key::new(offset, item_type, offset);
        if let Ok((chunk, _)) = ChunkItem::parse_prefix(&bytes) {
            let _ = chunk.check(Logical::new(offset), 4096, IncompatFlags::all());
        }
        for item_type in [item_type, key_type::EXTENT_ITEM, key_type::METADATA_ITEM] {
            let key = Key::new(offset, item_type, offset);
            if let Ok(extent) = ExtentItem::parse(&key, &bytes) {
                prop_assert!(extent.inline_refs().count() <= bytes.len());
                let _ = (extent.level(&key), ExtentItem::range(&key, u32::MAX));
            }
        }
        prop_assert!(DirEntries::new(&bytes).count() <= bytes.len());
        for item_type in [key_type::INODE_REF, key_type::INODE_EXTREF] {
            prop_assert!(InodeNames::new(&Key::new(1, item_type, 2), &bytes).count() <= bytes.len());
        }
        if let Ok(csums) = CsumItem::parse(&Key::new(0, 128, offset & !4095), &bytes, 4096, 4) {
            let _ = (csums.range(), csums.sum_at(Logical::new(offset)));
        }
        let _ = (ExtentRef::parse_keyed(&key, &bytes), BlockGroupItem::range(&key), RootItem::parse(&bytes));
        let _ = (RootRef::parse(&bytes), FileExtentItem::parse(&bytes), DevReplaceItem::parse(&bytes));
        let _ = (InodeItem::parse(&bytes), DevItem::parse(&bytes), BalanceItem::parse(&bytes), name_hash(&bytes));
    }
}
