//! Which files are hit: the way up through references and names gives, for every sector of every fixture, what a walk
//! down through all directories and all file extents gives; also where the extent tree is lost.

// A failed unwrap is a failed test, also in the helpers.
#![allow(clippy::unwrap_used)]

mod common;

use common::library::open;
use common::{check_all, fixture, program, recipe};
use mirrortool::filesystem::Filesystem;
use mirrortool::format::Key;
use mirrortool::format::items::{Compression, DirEntries, FileExtentItem};
use mirrortool::format::types::{key_type, object};
use mirrortool::owners::{OwnerTable, Owners, subvolume_losses};
use mirrortool::tree::Cursor;
use mirrortool::tree::block::is_subvolume;
use mirrortool::units::{DeviceId, Logical, ObjectId};
use std::collections::{BTreeMap, BTreeSet};

const SECTOR: u64 = 4096;
const TOP: ObjectId = object::FIRST_FREE;

/// Subvolume, path in it, file offset.
type Place = (String, String, u64);

/// What a walk downwards sees of one file system.
#[derive(Default)]
struct Seen {
    /// Directory and name, by subvolume and inode.
    links: BTreeMap<(ObjectId, ObjectId), Vec<(ObjectId, String)>>,
    /// Parent subvolume, directory and name.
    mounts: BTreeMap<ObjectId, (ObjectId, ObjectId, String)>,
    /// Subvolume, inode and offset, by sector.
    uses: BTreeMap<Logical, Vec<(ObjectId, ObjectId, u64)>>,
}

impl Seen {
    fn of(fs: &Filesystem) -> Self {
        let mut seen = Self::default();
        for root in
            fs.all_roots().into_iter().filter(|root| is_subvolume(root.id) && root.id != object::DATA_RELOC_TREE)
        {
            let mut cursor = Cursor::new(fs, root);
            cursor.seek(&Key::MIN);
            while let Some((key, bytes)) = cursor.item() {
                match key.item_type {
                    key_type::DIR_INDEX => seen.entries(root.id, key.objectid, bytes),
                    key_type::EXTENT_DATA => seen.extent(root.id, &key, bytes),
                    _ => {}
                }
                cursor.advance();
            }
        }
        seen
    }

    fn entries(&mut self, root: ObjectId, directory: ObjectId, bytes: &[u8]) {
        for entry in DirEntries::new(bytes).map(Result::unwrap) {
            let name = String::from_utf8(entry.name.to_vec()).unwrap();
            if entry.location.item_type == key_type::ROOT_ITEM {
                self.mounts.insert(entry.location.objectid, (root, directory, name));
            } else {
                self.links.entry((root, entry.location.objectid)).or_default().push((directory, name));
            }
        }
    }

    fn extent(&mut self, root: ObjectId, key: &Key, bytes: &[u8]) {
        let item = FileExtentItem::parse(bytes).unwrap();
        let Some(pointer) = item.pointer().filter(|pointer| !pointer.is_hole()) else { return };
        let whole = item.compression != Compression::None;
        let (from, bytes) = if whole { (0, pointer.disk_num_bytes) } else { (pointer.offset, pointer.num_bytes) };
        for nth in 0..bytes / SECTOR {
            let offset = if whole { key.offset } else { key.offset + nth * SECTOR };
            let at = pointer.disk_bytenr + from + nth * SECTOR;
            self.uses.entry(at).or_default().push((root, key.objectid, offset));
        }
    }

    fn paths(&self, root: ObjectId, inode: ObjectId) -> Vec<String> {
        if inode == TOP {
            return vec![String::new()];
        }
        let links = self.links.get(&(root, inode)).into_iter().flatten();
        links
            .flat_map(|(parent, name)| self.paths(root, *parent).into_iter().map(move |above| join(&above, name)))
            .collect()
    }

    fn subvolume(&self, id: ObjectId) -> String {
        match self.mounts.get(&id) {
            None => String::new(),
            Some((parent, directory, name)) => {
                join(&self.subvolume(*parent), &join(&self.paths(*parent, *directory)[0], name))
            }
        }
    }

    fn owners(&self, at: Logical) -> Vec<Place> {
        let uses = self.uses.get(&at).into_iter().flatten();
        let mut places: Vec<Place> = uses
            .flat_map(|(root, inode, offset)| {
                let paths = self.paths(*root, *inode).into_iter();
                paths.map(|path| (self.subvolume(*root), path, *offset))
            })
            .collect();
        places.sort();
        places
    }
}

fn join(above: &str, name: &str) -> String {
    if above.is_empty() { name.to_owned() } else { format!("{above}/{name}") }
}

fn places(owners: &Owners) -> Vec<Place> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let place = |file: &mirrortool::owners::FileUse| {
        let subvolume = text(file.subvolume.path.as_ref().expect("every subvolume here has a name"));
        (subvolume, text(file.path.as_ref().expect("every file here has a name")), file.offset)
    };
    let mut places: Vec<Place> = owners.files.iter().map(place).collect();
    places.sort();
    places
}

/// Compares all sectors; `partial` says whether damage stands in the way.
fn compare(name: &str, seen: &Seen, fs: &Filesystem, partial: bool) -> Result<(), String> {
    let wanted: BTreeSet<Logical> = seen.uses.keys().copied().collect();
    let table = OwnerTable::find(fs, &wanted, &BTreeSet::new(), &BTreeSet::new(), usize::MAX);
    for at in &wanted {
        let owners = table.of_data(*at);
        if owners.is_partial != partial || owners.omitted != 0 {
            return Err(format!("{name}: {at}: {owners:?}"));
        }
        let (have, expect) = (places(&owners), seen.owners(*at));
        if have != expect {
            return Err(format!("{name}: {at}: have {have:?} expect {expect:?}"));
        }
    }
    if wanted.is_empty() { Err(format!("{name}: has no data")) } else { Ok(()) }
}

#[test]
fn every_sector_of_every_fixture_has_the_owners_that_a_walk_downwards_finds() {
    check_all(&fixture::names(), |name| {
        let fs = open(&fixture::shared(name).paths);
        compare(name, &Seen::of(&fs), &fs, false)
    });
}

#[test]
fn without_an_extent_tree_the_owners_are_the_same_and_said_to_be_perhaps_not_all() {
    let recipe = recipe::named("extent-tree-lost");
    let seen = Seen::of(&open(&fixture::shared(&recipe.base).paths));
    compare(&recipe.name, &seen, &open(&recipe.apply().paths), true).unwrap();
}

#[test]
fn the_owners_of_a_shared_sector_are_all_of_its_files_links_and_snapshots() {
    let fs = open(&fixture::shared("raid1-crc32c").paths);
    let seen = Seen::of(&fs);
    let place = |subvolume: &str, path: &str, offset| (subvolume.to_owned(), path.to_owned(), offset);
    let has = |expect: &[Place]| seen.uses.keys().any(|at| seen.owners(*at) == expect);
    assert!(has(&[
        place("", "plain/f00", 4096),
        place("", "reflink", 4096),
        place("snapshot", "plain/f00", 4096),
        place("snapshot", "reflink", 4096),
    ]));
    assert!(has(&[
        place("", "hardlink", 8192),
        place("", "plain/f01", 8192),
        place("snapshot", "hardlink", 8192),
        place("snapshot", "plain/f01", 8192),
    ]));
    assert!(has(&[place("", "reflink", 0), place("snapshot", "plain/f00", 0), place("snapshot", "reflink", 0)]));
}

#[test]
fn owners_beyond_the_limit_are_counted() {
    let fs = open(&fixture::shared("raid1-crc32c").paths);
    let seen = Seen::of(&fs);
    let wanted: BTreeSet<Logical> = seen.uses.keys().copied().collect();
    let table = OwnerTable::find(&fs, &wanted, &BTreeSet::new(), &BTreeSet::new(), 2);
    let most = wanted.iter().map(|at| seen.owners(*at).len()).max();
    assert!(most > Some(2));
    for at in wanted {
        let (owners, all) = (table.of_data(at), seen.owners(at).len());
        assert_eq!(owners.files.len(), all.min(2));
        // An owner that is not looked at may have several names, and counts once.
        assert!(owners.omitted > 0 || all <= 2, "{at}");
        assert!(owners.omitted as usize + owners.files.len() <= all, "{at}");
    }
}

#[test]
fn an_address_that_was_not_asked_for_has_no_owner() {
    let fs = open(&fixture::shared("raid1-crc32c").paths);
    let table = OwnerTable::find(&fs, &BTreeSet::new(), &BTreeSet::new(), &BTreeSet::new(), 8);
    let seen = Seen::of(&fs);
    assert!(seen.uses.keys().all(|at| table.of_data(*at) == Owners::default()));
}

/// The findings that a scrub of the damaged recipe lists.
fn findings(recipe: &str) -> Vec<serde_json::Value> {
    let recipe = recipe::named(recipe);
    let run = program::scrub(&recipe.options, &recipe.apply().paths);
    run.report().unwrap().0["findings"].as_array().unwrap().clone()
}

/// What the bad tree blocks of the recipe hold, each N a number.
fn clauses(recipe: &str) -> Vec<String> {
    let findings = findings(recipe);
    let mut clauses: Vec<String> = findings.iter().filter_map(|f| f["holds"].as_str()).map(without_numbers).collect();
    clauses.dedup();
    clauses
}

fn without_numbers(text: &str) -> String {
    let mut out = String::new();
    for letter in text.chars() {
        match letter {
            '0'..='9' if out.ends_with('N') => {}
            '0'..='9' => out.push('N'),
            other => out.push(other),
        }
    }
    out
}

#[test]
fn a_bad_tree_block_says_what_lives_there() {
    for (recipe, expect) in [
        (
            "node-one-copy",
            &[
                "leaf of the checksum tree: checksums of logical [N, N)",
                "leaf of the top-level subvolume: inodes N to N",
            ][..],
        ),
        ("node-dup", &["leaf of the extent tree: allocation of logical [N, N)"]),
        ("node-both-copies", &["leaf of the top-level subvolume: inodes N to N, shared with N other subvolume"]),
        ("checksum-tree-lost", &["root of the checksum tree: all of it"]),
        ("extent-tree-lost", &["root of the extent tree: all of it"]),
    ] {
        assert_eq!(clauses(recipe), expect, "{recipe}");
    }
}

/// A member that missed a write has blocks that are good in themselves, of what lived there before. Which member is asked
/// first differs from run to run.
#[test]
fn what_a_stale_copy_holds_is_never_taken_for_what_lives_there() {
    let images = fixture::shared("stale-raid1");
    for run in 0..4 {
        let report = program::scrub(&["--no-state"], &images.paths).report().unwrap();
        let holds: Vec<_> =
            report.0["findings"].as_array().unwrap().iter().filter_map(|f| f["holds"].as_str()).collect();
        let free = "leaf of the free space tree: free space of logical [1048576, 152043520)";
        assert!(holds.contains(&free) && holds.len() == 8, "run {run}: {holds:?}");
    }
}

#[test]
fn bad_parity_names_the_files_that_it_leaves_alone_each_once() {
    for recipe in ["raid5-parity", "raid6-p-and-q"] {
        let parity: Vec<_> = findings(recipe).into_iter().filter(|finding| finding["kind"] == "parity").collect();
        assert!(!parity.is_empty(), "{recipe}");
        for finding in parity {
            let files = finding["files"].as_array().unwrap();
            let names: BTreeSet<_> = files.iter().map(|f| format!("{} {}", f["subvolume_id"], f["path"])).collect();
            assert!(!names.is_empty() && names.len() == files.len(), "{recipe}: {files:?}");
        }
    }
}

#[test]
fn files_whose_inodes_are_lost_are_named_by_their_directories() {
    let findings = findings("node-both-copies");
    let holds = findings[0]["holds"].as_str().unwrap();
    let (range, _) = holds.split_once("inodes ").unwrap().1.split_once(',').unwrap();
    let (first, last) = range.split_once(" to ").unwrap();
    let range = first.parse().unwrap()..=last.parse().unwrap();
    let fs = open(&fixture::shared(&recipe::named("node-both-copies").base).paths);
    let seen = Seen::of(&fs);
    let inside = seen.links.keys().filter(|(root, inode)| *root == object::FS_TREE && range.contains(&inode.raw()));
    let expect: BTreeSet<String> = inside.flat_map(|(root, inode)| seen.paths(*root, *inode)).collect();
    let files = findings[0]["files"].as_array().unwrap();
    let have: BTreeSet<String> = files.iter().map(|file| file["path"].as_str().unwrap().to_owned()).collect();
    assert!(!have.is_empty());
    // The directories in the lost leaf cannot say what they list.
    assert!(have.is_subset(&expect), "{have:?} {expect:?}");
}

#[test]
fn the_text_lists_the_owners_once_for_all_copies_below_the_last() {
    let recipe = recipe::named("data-both-copies");
    let run = program::mirrortool(
        ["scrub"].into_iter().map(std::ffi::OsString::from).chain(recipe.apply().paths.iter().map(Into::into)),
    );
    let lines: Vec<&str> = run.stdout.lines().skip_while(|line| !line.starts_with("corrupt data")).collect();
    assert!(lines[0].starts_with("corrupt data") && lines[1].starts_with("corrupt data"), "{}", run.stdout);
    assert!(lines[2].starts_with("    /") && lines[2].contains(", offset "), "{}", run.stdout);
}

#[test]
fn neighbouring_sectors_of_one_file_are_one_line_and_one_owner() {
    let images = fixture::shared("stale-raid1");
    let run = program::mirrortool(
        ["scrub".into(), "--no-state".into()]
            .into_iter()
            .chain(images.paths.iter().map(|path| path.clone().into_os_string())),
    );
    let expected = "\ncorrupt data: logical=[131678208, 131940352) mirror=1 devid=2 physical=[110706688, 110968832), \
                    64 sectors, bad checksum, have 0x8941f998 expect 0x32fe719c; correctable\n    /missed, offsets \
                    [0, 262144)\n";
    assert!(run.stdout.contains(expected) && run.stdout.lines().count() < 40, "{}", run.stdout);
}

/// Bytes lost of each subvolume, by path.
fn lost(fixture: &str, devids: &[u64]) -> BTreeMap<String, (u64, u64)> {
    let fs = open(&fixture::shared(fixture).paths);
    let devids: Vec<DeviceId> = devids.iter().copied().map(DeviceId::new).collect();
    let hit = subvolume_losses(&fs, &[devids]).hit.pop().unwrap();
    hit.into_iter()
        .map(|hit| {
            let path = String::from_utf8(hit.subvolume.path.clone().unwrap().into()).unwrap();
            (path, (hit.lost_bytes, hit.data_bytes))
        })
        .collect()
}

/// Sums of all bytes that files refer to, by subvolume.
fn data_bytes(fixture: &str) -> BTreeMap<String, u64> {
    let seen = Seen::of(&open(&fixture::shared(fixture).paths));
    let mut sums = BTreeMap::new();
    for (root, ..) in seen.uses.values().flatten() {
        *sums.entry(seen.subvolume(*root)).or_default() += SECTOR;
    }
    sums
}

#[test]
fn devices_that_may_be_lost_cost_no_subvolume_anything_and_others_their_share() {
    for (fixture, harmless) in [("raid1-crc32c", &[2][..]), ("raid6-4dev-crc32c", &[1, 3]), ("raid5-3dev-crc32c", &[2])]
    {
        assert_eq!(lost(fixture, harmless), BTreeMap::new(), "{fixture}");
    }
    let all = |fixture| data_bytes(fixture).into_iter().map(|(path, bytes)| (path, (bytes, bytes))).collect();
    assert_eq!(lost("raid1-crc32c", &[1, 2]), all("raid1-crc32c"), "all of every subvolume");
    assert_eq!(lost("raid6-4dev-crc32c", &[1, 2, 3, 4]), all("raid6-4dev-crc32c"));
    for fixture in ["raid0-sha256", "raid5-3dev-crc32c"] {
        let lose = |devids: &[u64]| lost(fixture, devids).get("").map_or(0, |(bytes, _)| *bytes);
        let whole = data_bytes(fixture)[""];
        if fixture.starts_with("raid0") {
            assert_eq!(lose(&[1]) + lose(&[2]) + lose(&[3]), whole, "each stripe is on one device");
            assert_eq!(lose(&[1, 3]), lose(&[1]) + lose(&[3]));
        } else {
            assert_eq!(
                lose(&[1, 2]) + lose(&[1, 3]) + lose(&[2, 3]),
                2 * whole,
                "each stripe is on two of three pairs"
            );
        }
    }
}
