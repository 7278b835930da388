//! Where this checker and the kernel's have to agree: what the kernel refuses, what it takes, and the marks of vendors'
//! kernels, which it does not take and which are no damage.

use super::*;

/// A reference to data at offset 0 of one file, inside of an extent item.
fn data_ref(root: u64, inode: u64, count: u32) -> Vec<u8> {
    [&[178][..], &longs(&[root, inode, 0]), &count.to_le_bytes()].concat()
}

fn shared_data_ref(parent: u64, count: u32) -> Vec<u8> {
    [&[184][..], &longs(&[parent]), &count.to_le_bytes()].concat()
}

fn block_ref(kind: u8, number: u64) -> Vec<u8> {
    [&[kind][..], &longs(&[number])].concat()
}

/// What is wrong with an extent that has these references inside.
fn refused(flags: u64, references: &[Vec<u8>]) -> Option<String> {
    let key = if flags == 1 { Key::new(1 << 20, 168, 8192) } else { Key::new(1 << 20, 169, 0) };
    let item = [longs(&[100, 7, flags]), references.concat()].concat();
    check(2, &[(key, item)]).err().map(|error| error.problem.to_string())
}

/// Two references to files, the one with the higher number first.
fn in_order() -> [Vec<u8>; 2] {
    let pair = [data_ref(5, 257, 1), data_ref(5, 258, 1)];
    if refused(1, &pair).is_none() { pair } else { [data_ref(5, 258, 1), data_ref(5, 257, 1)] }
}

#[test]
fn inline_references_come_in_their_order() {
    let [first, second] = in_order();
    assert_eq!(refused(1, &[first.clone(), second.clone()]), None);
    assert!(refused(1, &[second.clone(), first.clone()]).unwrap().starts_with("invalid extent reference order"));
    assert_eq!(refused(1, &[second, shared_data_ref(1 << 22, 1)]), None);
    let mixed = refused(1, &[shared_data_ref(1 << 22, 1), first]).unwrap();
    assert!(mixed.starts_with("invalid extent reference type, have 178"), "{mixed}");
    let blocks = |numbers: [u64; 2]| refused(2, &numbers.map(|number| block_ref(182, number)));
    assert_eq!((blocks([8192, 4096]), blocks([8192, 8192])), (None, None));
    assert!(blocks([4096, 8192]).is_some());
    // Who is charged for it stands before who uses it.
    assert_eq!(refused(2, &[block_ref(172, 256), block_ref(176, 5), block_ref(182, 4096)]), None);
    assert!(refused(2, &[block_ref(176, 5), block_ref(172, 256)]).is_some());
}

/// The order is by a hash, which is the offset of the key where such a reference is an item of its own.
#[test]
fn the_hash_of_a_data_reference_is_the_kernels() {
    let reference = crate::format::items::ExtentRef::parse_keyed(
        &Key::new(1 << 20, 178, 0),
        &[longs(&[5, 257, 0]), vec![1, 0, 0, 0]].concat(),
    );
    assert_eq!(references::sequence(&reference.unwrap()), 1_007_496_934_145_758_698);
}

#[test]
fn data_belongs_to_a_tree_and_an_inode_and_is_used() {
    let root = |root| refused(1, &[data_ref(root, 257, 1)]);
    for sound in [5, 256, 1 << 40, 1, object::DATA_RELOC_TREE.raw()] {
        assert_eq!(root(sound), None, "root {sound}");
    }
    for bad in [0, 2, 4, 7, 255, 1 << 48, u64::MAX - 5] {
        assert!(root(bad).unwrap().starts_with("invalid extent reference root"), "root {bad}");
    }
    for bad in [0, 6, 255, u64::MAX - 11] {
        assert!(refused(1, &[data_ref(5, bad, 1)]).unwrap().starts_with("invalid extent reference objectid"));
    }
    assert!(refused(1, &[data_ref(5, 257, 0)]).unwrap().starts_with("invalid extent reference count"));
    assert!(refused(1, &[shared_data_ref(1 << 22, 0)]).unwrap().starts_with("invalid extent reference count"));
}

#[test]
fn references_in_items_of_their_own_follow_the_same_rules() {
    let keyed = |key, data: Vec<u8>| check(2, &[(key, data)]).err().map(|error| error.problem.to_string());
    let data = |root, count: u32| [longs(&[root, 257, 0]), count.to_le_bytes().to_vec()].concat();
    let key = Key::new(1 << 20, 178, 99);
    assert_eq!((keyed(key, data(5, 1)), keyed(key, [data(5, 1), data(6 << 8, 2)].concat())), (None, None));
    assert!(keyed(key, [data(5, 1), data(2, 1)].concat()).unwrap().contains("root, have 2"));
    assert!(keyed(key, data(5, 0)).unwrap().contains("count"));
    assert!(keyed(key, data(5, 1)[1..].to_vec()).unwrap().contains("size, have 27"));
    assert!(keyed(Key::new(1 << 20, 184, 1 << 22), vec![0; 4]).unwrap().contains("count"));
}

#[test]
fn what_else_the_kernel_refuses_is_named() {
    let problem = |owner, items: Items| check(owner, &items).map_err(|error| error.problem.to_string()).unwrap_err();
    let mut unknown = inode(0o100_644);
    for bit in [12, 29, 33, 63] {
        put(&mut unknown, 64, &longs(&[1 << bit]));
        let message = problem(5, vec![(Key::new(257, 1, 0), unknown.clone())]);
        assert!(message.starts_with("invalid inode item flags"), "{message}");
    }
    let named = |kind, name: &[u8]| {
        let mut item = longs(if kind == 13 { &[256, 2] } else { &[2] });
        item.extend([&(name.len() as u16).to_le_bytes()[..], name].concat());
        check(5, &[(Key::new(257, 1, 0), inode(0o100_644)), (Key::new(257, kind, 256), item)])
    };
    assert_eq!((named(12, &[b'x'; 255]), named(13, &[b'x'; 255])), (Ok(()), Ok(())));
    assert!(named(12, b"").unwrap_err().to_string().contains("name_len, have 0"));
    assert!(named(12, &[b'x'; 256]).unwrap_err().to_string().contains("name_len, have 256"));
    let alone =
        vec![(Key::new(256, 1, 0), inode(0o040_755)), (Key::new(257, 13, 256), longs(&[256, 2, 0])[..18].to_vec())];
    assert!(problem(5, alone).contains("without an inode item"));
    let mut roots = roots();
    put(&mut roots[0].1, 208 + 8 + 4, &longs(&[257]));
    assert!(problem(1, roots).starts_with("invalid root item drop_level"));
    let unnamed = vec![(Key::new(5, 156, 256), longs(&[256, 2, 0])[..18].to_vec())];
    assert!(problem(1, unnamed).starts_with("invalid root ref name_len"));
    let mut unwritten = leaf(NODESIZE, 5, &subvolume());
    put(&mut unwritten, 56, &longs(&[0]));
    assert_eq!(check_structure(&unwritten, &rules()).unwrap_err().problem, Problem::NotWritten { have: 0 });
    let striped = vec![(Key::new(1 << 20, 230, 65536), longs(&[1, 1 << 20]))];
    assert!(problem(12, striped).contains("raid-stripe-tree"));
}

#[test]
fn what_the_kernel_takes_passes() {
    // An inode without a longer reference in its item, and one whose encoding nobody looks at.
    let mut items = subvolume();
    items.insert(6, (Key::new(257, 13, 256), vec![]));
    assert_eq!(check(5, &items), Ok(()));
    put(&mut items[7].1, 18, &[7, 7]);
    assert_eq!(check(5, &items), Ok(()));
    // mkfs.btrfs 4.16 to 4.19.
    let uuids = vec![
        (Key::new(256, 1, 0), inode(0o040_755)),
        (Key::new(256, 12, 256), [&longs(&[0])[..], &[2, 0], b".."].concat()),
        (Key::new(1 << 60, 251, 7), longs(&[256])),
    ];
    assert_eq!(check(9, &uuids), Ok(()));
    let mut broken = uuids.clone();
    put(&mut broken[0].1, 52, &longs(&[0]));
    assert!(check(9, &broken).is_err());
    let misplaced = vec![(Key::new(257, 108, 0), file_extent(0, 1, &[1 << 20, 8192, 0, 8192]))];
    assert!(check(9, &misplaced).is_err());
}

#[test]
fn a_new_key_type_passes_where_there_is_a_feature_that_is_not_known() {
    let items = vec![(Key::new(257, 1, 0), inode(0o100_644)), (Key::new(257, 40, 0), vec![1])];
    assert!(check(5, &items).is_err());
    let newer = TreeRules { has_unknown_features: true, ..rules() };
    assert_eq!(check_structure(&leaf(NODESIZE, 5, &items), &newer), Ok(()));
    let misplaced = vec![(Key::new(257, 228, 0), vec![1])];
    assert!(check_structure(&leaf(NODESIZE, 5, &misplaced), &newer).is_err());
}

/// The sentences about a leaf that is sound.
fn marks(owner: u64, items: &[(Key, Vec<u8>)]) -> Vec<String> {
    let mut marks = PrivateMarks::default();
    assert_eq!(check_structure_noting(&leaf(NODESIZE, owner, items), &rules(), &mut marks), Ok(()));
    marks.sentences().collect()
}

#[test]
fn marks_of_vendors_kernels_are_named_and_counted() {
    assert_eq!(marks(1, &roots()), [""; 0]);
    let mut root = roots()[0].1.clone();
    put(&mut root, 208, &longs(&[1 << 34 | 1 << 32 | 1]));
    let items: Items = [5, 206, 257].map(|tree| (Key::new(tree, 132, 0), root.clone())).into();
    let seen = marks(1, &items);
    assert_eq!(seen.len(), 3, "{seen:?}");
    assert!(seen[0].starts_with("3 roots have the flag 0x100000000 (bit 32, HIDE of Synology DSM)"), "{seen:?}");
    assert!(seen[1].starts_with("3 roots have the flag 0x400000000 (bit 34, CMPR_RATIO of Synology DSM)"), "{seen:?}");
    assert!(seen[2].starts_with("tree 206 is there (SYNO_EXTENT_USAGE of Synology DSM)"), "{seen:?}");
    let mut file = inode(0o100_644);
    put(&mut file, 64, &longs(&[1 << 30]));
    let seen = marks(5, &[(Key::new(257, 1, 0), file)]);
    assert!(seen[0].starts_with("1 inode has the flag 0x40000000 (bit 30, "), "{seen:?}");
    for tree in [200, 201, 202, 203, 204, 205, 206, (-206_i64).cast_unsigned()] {
        let seen =
            marks(tree, &[(Key::new(4096, 165, 1), vec![0; 8]), (Key::new(1 << 20, 192, 4096), longs(&[0, 256, 1]))]);
        assert!(seen[0].starts_with("1 item has the key type 165 (EXTENT_USAGE of Synology DSM)"), "{seen:?}");
    }
}

#[test]
fn other_bits_and_key_types_stay_wrong_beside_those_of_vendors() {
    for bit in [1, 20, 31, 36, 47, 49] {
        let mut root = roots()[0].1.clone();
        put(&mut root, 208, &longs(&[1 << 34 | 1 << bit]));
        assert!(check(1, &[(Key::new(5, 132, 0), root)]).is_err(), "bit {bit}");
    }
    for (tree, item_type) in [(206, 161), (206, 99), (2, 165), (7, 165), (300, 158), (207, 165)] {
        assert!(check(tree, &[(Key::new(4096, item_type, 1), vec![0; 8])]).is_err(), "{item_type} in tree {tree}");
    }
}
