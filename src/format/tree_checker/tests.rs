//! A sound block passes, each kind of corruption is named with its slot, and no bytes panic.

use super::*;
use crate::format::testing::{chunk_bytes, fixed_seed, key_bytes, leaf, node, put};
use crate::units::Logical;
use proptest::prelude::*;

mod kernel;

const NODESIZE: usize = 16384;

fn rules() -> TreeRules {
    TreeRules {
        nodesize: NODESIZE as u32,
        sectorsize: 4096,
        csum_type: ChecksumType::Crc32c,
        incompat: IncompatFlags::SKINNY_METADATA,
        flags: SuperFlags::empty(),
        generation: Generation::new(77),
        has_unknown_features: false,
    }
}

fn longs(numbers: &[u64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

type Items = Vec<(Key, Vec<u8>)>;

fn check(owner: u64, items: &[(Key, Vec<u8>)]) -> Result<(), StructureError> {
    check_structure(&leaf(NODESIZE, owner, items), &rules())
}

/// The same, with one byte of one item flipped.
fn check_flipped(owner: u64, items: &[(Key, Vec<u8>)], slot: usize, at: usize, mask: u8) -> (Option<u32>, String) {
    let mut items = items.to_vec();
    items[slot].1[at] ^= mask;
    let error = check(owner, &items).expect_err("a flipped byte is not sound");
    (error.slot, error.problem.to_string())
}

fn inode(mode: u32) -> Vec<u8> {
    let mut bytes = vec![0; 160];
    put(&mut bytes, 0, &longs(&[7, 77]));
    put(&mut bytes, 40, &1u32.to_le_bytes());
    put(&mut bytes, 52, &mode.to_le_bytes());
    bytes
}

fn file_extent(compression: u8, kind: u8, numbers: &[u64]) -> Vec<u8> {
    [longs(&[7, 8192]), vec![compression, 0, 0, 0, kind], longs(numbers)].concat()
}

/// An inode with its name, a directory entry for it, and two extents.
fn subvolume() -> Items {
    let entry = [&key_bytes(Key::new(257, 1, 0))[..], &longs(&[7]), &[0, 0, 3, 0, 1], b"foo"].concat();
    let hash = u64::from(crate::format::items::name_hash(b"foo"));
    vec![
        (Key::new(256, 1, 0), inode(0o040_755)),
        (Key::new(256, 12, 256), [&longs(&[0])[..], &[2, 0], b".."].concat()),
        (Key::new(256, 84, hash), entry.clone()),
        (Key::new(256, 96, 2), entry),
        (Key::new(257, 1, 0), inode(0o100_644)),
        (Key::new(257, 12, 256), [&longs(&[2])[..], &[3, 0], b"foo"].concat()),
        (Key::new(257, 108, 0), file_extent(0, 1, &[1 << 20, 8192, 0, 8192])),
        (Key::new(257, 108, 8192), file_extent(0, 2, &[1 << 21, 8192, 0, 8192])),
    ]
}

fn extents() -> Items {
    let data = [&longs(&[1, 7, 1])[..], &[178], &longs(&[5, 257, 0]), &[1, 0, 0, 0]].concat();
    let tree = [&longs(&[1, 7, 2])[..], &[176], &longs(&[5])].concat();
    vec![
        (Key::new(1 << 20, 168, 8192), data),
        (Key::new((1 << 20) + 8192, 169, 0), tree),
        (Key::new((1 << 20) + 8192, 182, 1 << 22), vec![]),
        (Key::new(1 << 23, 192, 1 << 23), longs(&[4096, 256, 1])),
    ]
}

fn device_item() -> Vec<u8> {
    let mut bytes = vec![0; 98];
    put(&mut bytes, 0, &longs(&[1, 1 << 30, 1 << 20]));
    bytes
}

fn chunks() -> Items {
    vec![
        (Key::new(1, 216, 1), device_item()),
        (Key::new(256, 228, 16 << 20), chunk_bytes(1, 1, 0)),
        (Key::new(256, 228, 24 << 20), chunk_bytes(2 | 1 << 4, 2, 1)),
    ]
}

fn csums() -> Items {
    let object = object::EXTENT_CSUM.raw();
    vec![(Key::new(object, 128, 0), vec![0; 12]), (Key::new(object, 128, 12288), vec![0; 4])]
}

fn dev_extents() -> Items {
    let extent = |at| [longs(&[3, 256, at, 1 << 20]), vec![0; 16]].concat();
    vec![(Key::new(1, 204, 1 << 20), extent(0)), (Key::new(1, 204, 2 << 20), extent(1 << 20))]
}

fn roots() -> Items {
    let mut root = vec![0; 439];
    put(&mut root, 160, &longs(&[77, 0, 1 << 20]));
    let name = [&longs(&[256, 2])[..], &[1, 0], b"s"].concat();
    vec![(Key::new(5, 132, 0), root), (Key::new(5, 156, 256), name)]
}

#[test]
fn sound_leaves_of_every_tree_pass() {
    for (owner, items) in [
        (5, subvolume()),
        (256, subvolume()),
        (2, extents()),
        (3, chunks()),
        (7, csums()),
        (4, dev_extents()),
        (1, roots()),
    ] {
        assert_eq!(check(owner, &items), Ok(()), "tree {owner}");
    }
    assert_eq!(check(7, &[]), Ok(()));
}

#[test]
fn a_key_type_that_does_not_exist_is_named_with_its_slot() {
    let mut items = subvolume();
    items[1].0.item_type = 8;
    let error = check(5, &items).unwrap_err();
    assert_eq!(error.to_string(), "slot=1, unknown key type 8 in the top-level subvolume, key (256 8 256)");
    let mut items = extents();
    items[2].0.item_type = 183;
    assert!(matches!(check(2, &items), Err(StructureError { slot: Some(2), problem: Problem::KeyType { .. } })));
    let moved = vec![(Key::new(256, 228, 16 << 20), chunk_bytes(1, 1, 0))];
    let error = check(7, &moved).unwrap_err();
    assert_eq!(error.to_string(), "slot=0, misplaced key type 228 in the checksum tree, key (256 228 16777216)");
}

#[test]
fn keys_ascend_in_leaves_and_nodes() {
    let mut items = csums();
    items.swap(0, 1);
    assert!(matches!(check(7, &items), Err(StructureError { slot: Some(1), problem: Problem::KeyOrder { .. } })));
    let key = Key::new(1, 1, 1);
    let same = check_structure(&node(NODESIZE, 5, &[(key, 4096), (key, 8192)]), &rules()).unwrap_err();
    assert_eq!(same, StructureError { slot: Some(1), problem: Problem::KeyOrder { previous: key, have: key } });
}

#[test]
fn a_node_points_to_blocks_only() {
    let pointers = [(Key::new(1, 1, 0), 4096), (Key::new(2, 1, 0), 8192)];
    assert_eq!(check_structure(&node(NODESIZE, 5, &pointers), &rules()), Ok(()));
    for child in [0, 4097] {
        let bad = check_structure(&node(NODESIZE, 5, &[(Key::MIN, child)]), &rules()).unwrap_err();
        let problem = Problem::Pointer { have: Logical::new(child), sectorsize: 4096 };
        assert_eq!(bad, StructureError { slot: Some(0), problem });
    }
    let empty = check_structure(&node(NODESIZE, 5, &[]), &rules()).unwrap_err();
    assert_eq!(empty.problem, Problem::ItemCount { have: 0, min: 1, max: 493 });
}

#[test]
fn the_item_table_must_add_up() {
    let sound = leaf(NODESIZE, 7, &csums());
    let broken = |at: usize, bytes: &[u8]| {
        let mut block = sound.clone();
        put(&mut block, at, bytes);
        check_structure(&block, &rules()).map_err(|error| error.problem)
    };
    assert!(matches!(broken(96, &700u32.to_le_bytes()), Err(Problem::ItemCount { have: 700, min: 0, max: 651 })));
    assert!(matches!(broken(100, &[8]), Err(Problem::Level { have: 8 })));
    assert!(matches!(broken(101 + 17, &[0]), Err(Problem::ItemEnd { .. })), "offset of the first item");
    assert!(matches!(broken(101 + 25 + 21, &[8]), Err(Problem::ItemEnd { .. })), "size of the second item");
    let huge = [0u32.to_le_bytes(), (NODESIZE as u32 - 101).to_le_bytes()].concat();
    assert!(matches!(broken(101 + 17, &huge), Err(Problem::ItemInTable { have: 0, table_end: 50 })));
    let short = check_structure(&sound[..4096], &rules()).unwrap_err();
    assert_eq!(short.problem, Problem::BlockSize { have_bytes: 4096, expect_bytes: 16384 });
    assert!(matches!(check_structure(&[], &rules()), Err(StructureError { problem: Problem::BlockSize { .. }, .. })));
}

#[test]
fn a_tree_that_is_never_empty_is_not() {
    for owner in [0, 1, 2, 3, 4, 5, object::DATA_RELOC_TREE.raw()] {
        let owner_id = ObjectId::new(owner);
        assert_eq!(check(owner, &[]), Err(StructureError::block(Problem::Empty { owner: owner_id })));
    }
    let mut relocated = leaf(NODESIZE, 5, &[]);
    put(&mut relocated, 56, &longs(&[3]));
    assert_eq!(check_structure(&relocated, &rules()), Ok(()));
}

#[test]
fn overlapping_neighbours_are_both_named() {
    let object = object::EXTENT_CSUM.raw();
    let items = vec![(Key::new(object, 128, 0), vec![0; 12]), (Key::new(object, 128, 8192), vec![0; 4])];
    let error = check(7, &items).unwrap_err();
    assert_eq!(
        error.to_string(),
        "slot=1, checksum item overlap, (18446744073709551606 128 0) ends at 12288, \
         (18446744073709551606 128 8192) starts at 8192"
    );
    let overlaps = |owner, mut items: Items, slot: usize, offset: u64| {
        items[slot].0.offset = offset;
        matches!(check(owner, &items), Err(StructureError { problem: Problem::Overlap { .. }, .. }))
    };
    assert!(overlaps(2, extents(), 0, 12288), "extents");
    assert!(overlaps(5, subvolume(), 7, 4096), "file extents");
    assert!(overlaps(4, dev_extents(), 1, (2 << 20) - 4096), "device extents");
    assert!(overlaps(3, chunks(), 2, 20 << 20), "chunks");
}

#[test]
fn an_item_without_its_inode_is_found_in_subvolumes_alone() {
    let mut items = subvolume();
    items.remove(4);
    let problem = Problem::NoInode { previous: ObjectId::new(256), have: ObjectId::new(257) };
    assert_eq!(check(5, &items), Err(StructureError { slot: Some(4), problem }));
    assert_eq!(check(object::TREE_LOG.raw(), &items), Ok(()));
}

#[test]
fn flipped_bits_in_a_subvolume_are_named() {
    let flip = |slot, at, mask| check_flipped(5, &subvolume(), slot, at, mask);
    let starts = |(slot, text): (Option<u32>, String), expect_slot, expect: &str| {
        assert_eq!(slot, Some(expect_slot));
        assert!(text.starts_with(expect), "{text}");
    };
    starts(flip(0, 7, 0x80), 0, "invalid inode item generation");
    starts(flip(0, 15, 0x80), 0, "invalid inode item transid");
    starts(flip(0, 55, 0x80), 0, "invalid inode item mode");
    starts(flip(0, 53, 0x10), 0, "invalid inode item mode");
    starts(flip(0, 40, 0x02), 0, "invalid inode item nlink");
    starts(flip(1, 8, 0x40), 1, "inode ref too short");
    starts(flip(2, 8, 0x04), 2, "invalid directory entry location type");
    starts(flip(2, 9, 0x04), 2, "invalid directory entry key offset");
    starts(flip(2, 29, 0x10), 2, "invalid directory entry type");
    starts(flip(2, 29, 0x09), 2, "invalid directory entry type");
    starts(flip(2, 30, 0x01), 2, "directory entry name hash mismatch");
    starts(flip(3, 27, 0x01), 3, "directory entry too short");
    starts(flip(6, 16, 0x08), 6, "invalid file extent compression");
    starts(flip(6, 20, 0x04), 6, "invalid file extent type");
    starts(flip(6, 21, 0x01), 6, "invalid file extent disk_bytenr");
    starts(flip(6, 45, 0x01), 6, "invalid file extent num_bytes");
    starts(flip(6, 20, 0x01), 6, "file extent ram_bytes mismatch");
}

#[test]
fn names_in_a_metadata_dump_need_not_fit_their_hash() {
    let mut items = subvolume();
    items[2].0.offset ^= 1;
    assert!(check(5, &items).is_err());
    let dump = TreeRules { flags: SuperFlags::METADUMP_V2, ..rules() };
    assert_eq!(check_structure(&leaf(NODESIZE, 5, &items), &dump), Ok(()));
}

#[test]
fn flipped_bits_in_the_other_trees_are_named() {
    let flip = |owner, items: Items, slot, at, mask| check_flipped(owner, &items, slot, at, mask).1;
    let cases = [
        (flip(2, extents(), 0, 0, 1), "invalid extent item refs, have 0 expect"),
        (flip(2, extents(), 0, 15, 1), "invalid extent item generation"),
        (flip(2, extents(), 0, 16, 2), "invalid extent item flags, have 3"),
        (flip(2, extents(), 0, 17, 1), "invalid extent item flags, have 257"),
        (flip(2, extents(), 0, 24, 1), "invalid extent reference type, have 179"),
        (flip(2, extents(), 0, 41, 1), "invalid extent reference offset"),
        (flip(2, extents(), 3, 3, 1), "invalid block group item used"),
        (flip(2, extents(), 3, 8, 1), "block group item chunk_objectid mismatch"),
        (flip(2, extents(), 3, 16, 2), "invalid block group item flags"),
        (flip(2, extents(), 3, 16, 0x18), "invalid block group item flags"),
        (flip(3, chunks(), 0, 0, 2), "device item devid mismatch, have 3 expect 1"),
        (flip(3, chunks(), 0, 20, 1), "invalid device item bytes_used"),
        (flip(3, chunks(), 1, 24, 2), "invalid chunk item type"),
        (flip(3, chunks(), 1, 44, 2), "chunk item too short"),
        (flip(4, dev_extents(), 0, 0, 1), "device extent chunk_tree mismatch"),
        (flip(4, dev_extents(), 0, 24, 1), "invalid device extent length"),
        (flip(1, roots(), 0, 167, 1), "invalid root item generation"),
        (flip(1, roots(), 0, 176, 1), "invalid root item bytenr"),
        (flip(1, roots(), 0, 238, 8), "invalid root item level"),
        (flip(1, roots(), 0, 209, 8), "invalid root item flags"),
        (flip(1, roots(), 1, 16, 2), "root ref too short"),
    ];
    for (text, expect) in cases {
        assert!(text.starts_with(expect), "{text}, not {expect}");
    }
}

#[test]
fn flipped_bits_in_keys_are_named() {
    let rekeyed = |owner, mut items: Items, slot: usize, key: Key| {
        items[slot].0 = key;
        items.truncate(slot + 1);
        check(owner, &items).map_err(|error| error.problem.to_string()).unwrap_err()
    };
    let cases = [
        (rekeyed(2, extents(), 1, Key::new(2 << 20, 169, 9)), "invalid extent item level, have 9"),
        (rekeyed(2, extents(), 0, Key::new(1, 168, 8192)), "invalid extent item start"),
        (rekeyed(2, extents(), 0, Key::new(4096, 169, 0)), "invalid extent item key type"),
        (rekeyed(2, extents(), 0, Key::new(4096, 168, 100)), "invalid extent item length"),
        (rekeyed(2, extents(), 2, Key::new(2 << 20, 182, 1)), "invalid extent reference parent"),
        (rekeyed(2, extents(), 3, Key::new(1 << 23, 192, 0)), "invalid block group item length"),
        (rekeyed(3, chunks(), 0, Key::new(0, 216, 1)), "device item objectid mismatch"),
        (rekeyed(3, chunks(), 1, Key::new(257, 228, 0)), "chunk item objectid mismatch"),
        (rekeyed(7, csums(), 0, Key::new(1, 128, 0)), "invalid checksum item objectid"),
        (rekeyed(7, csums(), 1, Key::new(object::EXTENT_CSUM.raw(), 128, 12289)), "invalid checksum item start"),
        (rekeyed(1, roots(), 0, Key::new(0, 132, 0)), "invalid root item objectid"),
        (rekeyed(1, roots(), 0, Key::new(object::TREE_RELOC.raw(), 132, 2)), "invalid root item key offset"),
        (rekeyed(5, subvolume(), 0, Key::new(3, 1, 0)), "invalid inode item objectid"),
        (rekeyed(5, subvolume(), 6, Key::new(257, 108, 1)), "invalid file extent file offset"),
    ];
    for (text, expect) in cases {
        assert!(text.starts_with(expect), "{text}, not {expect}");
    }
    let odd = vec![(Key::new(object::EXTENT_CSUM.raw(), 128, 0), vec![0; 6])];
    assert!(check(7, &odd).is_err());
    let short = vec![(Key::new(5, 132, 0), vec![0; 300])];
    assert_eq!(
        check(1, &short).unwrap_err().problem.to_string(),
        "invalid root item size, have 300 expect 239 or 439 bytes"
    );
}

#[test]
fn skinny_items_need_their_feature() {
    let plain = TreeRules { incompat: IncompatFlags::empty(), ..rules() };
    let error = check_structure(&leaf(NODESIZE, 2, &extents()), &plain).unwrap_err();
    assert_eq!(error.to_string(), "slot=1, invalid extent item key type, have 169 expect 168 without skinny-metadata");
}

proptest! {
    #![proptest_config(fixed_seed(1024))]

    #[test]
    fn no_change_of_a_sound_block_panics(tree in 0..7usize, at in 32..NODESIZE, long in any::<u64>(), in_table in 32..400usize) {
        let trees = [(5, subvolume()), (2, extents()), (3, chunks()), (7, csums()), (4, dev_extents()), (1, roots()), (999, vec![])];
        let (owner, items) = &trees[tree];
        let mut block = leaf(NODESIZE, *owner, items);
        for at in [at.min(NODESIZE - 8), in_table] {
            put(&mut block, at, &long.to_le_bytes());
            let _ = check_structure(&block, &rules()).map_err(|error| error.to_string());
        }
    }

    #[test]
    fn no_bytes_panic(mut block in prop::collection::vec(any::<u8>(), 4096), level in 0..9u8, nritems in 0..170u32) {
        put(&mut block, 96, &nritems.to_le_bytes());
        block[100] = level;
        let small = TreeRules { nodesize: 4096, ..rules() };
        let _ = check_structure(&block, &small).map_err(|error| error.to_string());
    }
}
