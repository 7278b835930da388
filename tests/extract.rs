//! Extraction and the decompress test: what is taken out of the fixtures is what their files were, whatever is damaged or
//! away; what is called whole is whole; nothing outside of the folder is touched. Packed extents that are broken under
//! right checksums are told.

// A failed unwrap is a failed test, also in the helpers.
#![allow(clippy::unwrap_used)]

mod common;

use common::fixture::{self, Images};
use common::library;
use common::mounted::{Mounted, skipped, succeed, tool};
use common::program::{Run, mirrortool, scrub};
use mirrortool::filesystem::Filesystem;
use mirrortool::format::Key;
use mirrortool::format::items::{Compression, FileExtent, FileExtentItem};
use mirrortool::format::types::{key_type, object};
use mirrortool::tree::{BlockSource as _, Cursor, ParentCheck};
use mirrortool::units::{Logical, ObjectId};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, symlink};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The lines of a manifest, by path; of each path the last.
type Manifest = BTreeMap<String, Value>;

fn extract(images: &[PathBuf], to: &Path, options: &[&str]) -> Run {
    let fixed = ["extract", "--format", "json", "--to"].into_iter().map(OsString::from);
    let options = options.iter().map(OsString::from);
    let images = images.iter().map(|path| path.clone().into_os_string());
    mirrortool(fixed.chain([to.as_os_str().to_owned()]).chain(options).chain(images))
}

fn manifest(to: &Path) -> Manifest {
    let text = fs::read_to_string(to.join("mirrortool-manifest.jsonl")).unwrap_or_default();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.map(|line| (line["path"].as_str().unwrap().to_owned(), line)).collect()
}

fn sha256(path: &Path) -> String {
    let sum = Sha256::digest(fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display())));
    sum.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

/// What `sha256sum` said of the files of a fixture.
fn sums(name: &str) -> BTreeMap<String, String> {
    let text = fs::read_to_string(fixture::directory().join(name).join("sha256")).unwrap();
    let sums = text.lines().map(|line| line.split_once("  ./").unwrap());
    sums.map(|(sum, path)| (path.to_owned(), sum.to_owned())).collect()
}

/// Every file of the fixture is there, is what it was, and is not called damaged.
fn assert_all_there(name: &str, to: &Path) {
    let manifest = manifest(to);
    for (path, sum) in sums(name) {
        assert_eq!(sha256(&to.join(&path)), sum, "{name}: {path}");
        let line = manifest.get(&path).unwrap_or_else(|| panic!("{name}: no line for {path}"));
        assert_eq!((line["type"].as_str(), line["sha256"].as_str()), (Some("file"), Some(&sum[..])), "{name}: {path}");
        assert_ne!(line["state"], "damaged", "{name}: {path}");
    }
}

/// Nothing is called whole that is not.
fn assert_no_lie(name: &str, to: &Path, run: &Run, what: &str) {
    let (sums, manifest) = (sums(name), manifest(to));
    for (path, _) in manifest.iter().filter(|(_, line)| line["type"] == "file" && line["state"] == "whole") {
        assert_eq!(sums.get(path), Some(&sha256(&to.join(path))), "{what}: {path}");
    }
    if run.exit == 0 {
        assert!(sums.keys().all(|path| manifest.contains_key(path)), "{what}: a file is missing, and nobody says so");
    }
}

#[test]
fn every_fixture_is_taken_out_as_its_files_were() {
    for name in fixture::names() {
        let images = fixture::shared(&name);
        let before = images.fingerprint();
        let to = tempfile::tempdir().unwrap();
        let run = extract(&images.paths, to.path(), &[]);
        assert_eq!(run.exit, 0, "{name}: {run:?}");
        assert_all_there(&name, to.path());
        assert_eq!(images.fingerprint(), before, "{name}: the images were written to");
    }
}

#[test]
fn a_member_may_be_away_where_the_profile_allows() {
    for name in ["raid1-crc32c", "raid1c3-xxhash", "raid10-4dev-crc32c", "raid5-3dev-crc32c", "raid6-6dev-blake2b"] {
        let images = fixture::shared(name);
        let without: Vec<PathBuf> = images.paths[1..].to_vec();
        let to = tempfile::tempdir().unwrap();
        let run = extract(&without, to.path(), &["--degraded"]);
        assert_eq!(run.exit, 0, "{name}: {run:?}");
        assert_all_there(name, to.path());
    }
    let images = fixture::shared("raid0-sha256");
    let to = tempfile::tempdir().unwrap();
    let run = extract(&images.paths[1..], to.path(), &["--degraded"]);
    assert_eq!(run.exit, 3);
    assert_no_lie("raid0-sha256", to.path(), &run, "raid0 without a member");
}

/// A small generator, so that a case can be told by its number.
struct Random(u64);

impl Random {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below.max(1)
    }
}

fn damage(images: &Images, random: &mut Random) {
    for _ in 0..=random.next(12) {
        let path = &images.paths[random.next(images.paths.len() as u64) as usize];
        let mut places = Vec::new();
        fixture::for_each_block(path, |at, bytes| {
            places.push((at, bytes.len()));
            Ok(())
        })
        .unwrap();
        let (at, len) = places[random.next(places.len() as u64) as usize];
        let from = random.next(len as u64) as usize;
        let len = (len - from).min([1, 16, 4096, 16384, 65536][random.next(5) as usize]);
        let value = random.next(256) as u8;
        let file = File::options().write(true).open(path).unwrap();
        file.write_all_at(&vec![value; len], at + from as u64).unwrap();
    }
}

/// More by hand: `MIRRORTOOL_EXTRACT_CASES=10000`.
#[test]
fn no_file_is_called_whole_that_is_not() {
    let cases = std::env::var("MIRRORTOOL_EXTRACT_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(24);
    let names: Vec<String> = fixture::names().into_iter().filter(|name| name != "stale-raid1").collect();
    for case in 0..cases {
        let mut random = Random(case);
        let name = &names[random.next(names.len() as u64) as usize];
        let images = fixture::copy(name);
        damage(&images, &mut random);
        let to = tempfile::tempdir().unwrap();
        let options: &[&str] = if random.next(2) == 0 { &["--with-damaged"] } else { &[] };
        let run = extract(&images.paths, to.path(), options);
        assert!([0, 1, 3].contains(&run.exit), "case {case} of {name}: {run:?}");
        assert_no_lie(name, to.path(), &run, &format!("case {case} of {name}"));
    }
}

#[test]
fn what_is_there_is_left_alone_and_what_is_whole_is_not_read_again() {
    let images = fixture::shared("raid1-crc32c");
    let to = tempfile::tempdir().unwrap();
    fs::create_dir_all(to.path().join("plain")).unwrap();
    fs::write(to.path().join("plain/f00"), "mine").unwrap();
    let run = extract(&images.paths, to.path(), &[]);
    assert_eq!(run.exit, 3, "{run:?}");
    assert_eq!(fs::read(to.path().join("plain/f00")).unwrap(), b"mine");
    let report: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!((&report["not_written"], &report["troubled"][0]["path"]), (&1.into(), &"plain/f00".into()));

    fs::remove_file(to.path().join("plain/f00")).unwrap();
    let before = fs::metadata(to.path().join("plain/f01")).unwrap();
    let run = extract(&images.paths, to.path(), &[]);
    assert_eq!(run.exit, 0, "{run:?}");
    assert_all_there("raid1-crc32c", to.path());
    let report: Value = serde_json::from_str(&run.stdout).unwrap();
    let written = fs::metadata(to.path().join("plain/f00")).unwrap().len();
    assert!(report["bytes_written"].as_u64().unwrap() <= written, "{report}");
    assert_eq!(fs::metadata(to.path().join("plain/f01")).unwrap().ino(), before.ino());

    // Without the manifest, what is the same is known by its content.
    fs::remove_file(to.path().join("mirrortool-manifest.jsonl")).unwrap();
    let run = extract(&images.paths, to.path(), &[]);
    assert_eq!(run.exit, 0, "{run:?}");
    assert_eq!(serde_json::from_str::<Value>(&run.stdout).unwrap()["bytes_written"], 0);
    assert_all_there("raid1-crc32c", to.path());
}

#[test]
fn a_link_that_is_there_leads_nothing_out() {
    let images = fixture::shared("raid1-crc32c");
    let (to, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    symlink(outside.path(), to.path().join("plain")).unwrap();
    symlink(outside.path().join("new"), to.path().join("hardlink")).unwrap();
    let run = extract(&images.paths, to.path(), &[]);
    assert_eq!(run.exit, 3, "{run:?}");
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
    assert!(to.path().join("nocow/a").exists(), "the rest is taken out");

    fs::remove_file(to.path().join("mirrortool-manifest.jsonl")).unwrap();
    symlink(outside.path().join("m"), to.path().join("mirrortool-manifest.jsonl")).unwrap();
    assert_eq!(extract(&images.paths, to.path(), &[]).exit, 1);
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
}

#[test]
fn paths_and_subvolumes_can_be_chosen() {
    let images = fixture::shared("raid1-crc32c");
    let to = tempfile::tempdir().unwrap();
    let run = extract(&images.paths, to.path(), &["--path", "plain/f0[0-3]", "--path", "/nocow"]);
    assert_eq!(run.exit, 0, "{run:?}");
    let files: Vec<String> =
        manifest(to.path()).into_iter().filter(|(_, line)| line["type"] == "file").map(|(path, _)| path).collect();
    assert_eq!(files, ["nocow/a", "nocow/b", "plain/f00", "plain/f01", "plain/f02", "plain/f03"]);
    assert_eq!(extract(&images.paths, to.path(), &["--path", "no/such"]).exit, 3, "what matches nothing is missing");
    assert_eq!(extract(&images.paths, to.path(), &["--subvolume", "plain"]).exit, 1, "a folder is no subvolume");
    assert_eq!(extract(&images.paths, to.path(), &["--path", "["]).exit, 1);
}

/// A fixture with one copy of everything, to be damaged under right checksums.
struct Forged {
    images: Images,
    fs: Filesystem,
}

impl Forged {
    fn new() -> Self {
        let images = fixture::copy("single-crc32c");
        let fs = library::open(&images.paths);
        Self { images, fs }
    }

    /// Writes to all copies of `at`.
    fn write(&self, at: Logical, bytes: &[u8]) {
        let chunk = self.fs.chunks().lookup(at).unwrap();
        for copy in chunk.copies(at) {
            let file = File::options().write(true).open(self.images.device(copy.place.devid.raw())).unwrap();
            file.write_all_at(bytes, copy.place.physical.raw()).unwrap();
        }
    }

    /// Changes a tree block, and gives it the checksum that then fits.
    fn change_block(&self, at: Logical, change: impl FnOnce(&mut [u8])) {
        let mut bytes = vec![0; self.fs.geometry().nodesize() as usize];
        self.fs.volume().read_copy(at, mirrortool::units::MirrorNum::new(1), &mut bytes).unwrap();
        change(&mut bytes);
        let sum = self.fs.geometry().csum_type().digest(&bytes[32..]);
        bytes[..sum.as_bytes().len()].copy_from_slice(sum.as_bytes());
        self.write(at, &bytes);
    }

    /// Overwrites the start of a data sector, and its checksum.
    fn change_data(&self, at: Logical, start: &[u8]) {
        let mut sector = vec![0; self.fs.geometry().sectorsize() as usize];
        self.fs.volume().read_copy(at, mirrortool::units::MirrorNum::new(1), &mut sector).unwrap();
        sector[..start.len()].copy_from_slice(start);
        self.write(at, &sector);
        let sum = self.fs.geometry().csum_type().digest(&sector);
        let mut cursor = Cursor::new(&self.fs, self.fs.roots().csum.unwrap());
        cursor.seek_floor(&Key::new(object::EXTENT_CSUM.raw(), key_type::EXTENT_CSUM, at.raw()));
        let (key, sums) = cursor.item().unwrap();
        let nth = (at.raw() - key.offset) as usize / sector.len() * sum.as_bytes().len();
        let leaf = cursor.leaf_at().unwrap();
        let offset = self.offset_in(leaf, sums) + nth;
        self.change_block(leaf, |bytes| bytes[offset..offset + sum.as_bytes().len()].copy_from_slice(sum.as_bytes()));
    }

    fn offset_in(&self, leaf: Logical, part: &[u8]) -> usize {
        let block = self.fs.read_block(leaf, &ParentCheck::default()).unwrap();
        block.bytes().windows(part.len()).position(|window| window == part).unwrap()
    }

    /// The first compressed extent of each codec, with its inode.
    fn packed(&self) -> Vec<(Compression, Logical, ObjectId)> {
        let top = self.fs.all_roots().into_iter().find(|root| root.id == object::FS_TREE).unwrap();
        let mut cursor = Cursor::new(&self.fs, top);
        cursor.seek(&Key::MIN);
        let mut found: Vec<(Compression, Logical, ObjectId)> = Vec::new();
        while let Some((key, bytes)) = cursor.item() {
            if key.item_type == key_type::EXTENT_DATA {
                let item = FileExtentItem::parse(bytes).unwrap();
                if let (FileExtent::Regular(pointer), true) = (item.extent, item.compression != Compression::None)
                    && found.iter().all(|(codec, ..)| *codec != item.compression)
                {
                    found.push((item.compression, pointer.disk_bytenr, key.objectid));
                }
            }
            cursor.advance();
        }
        found
    }
}

fn decompression_findings(run: &Run) -> Vec<Value> {
    let report = run.report().unwrap().0;
    let findings = report["findings"].as_array().unwrap().iter();
    findings.filter(|finding| finding["problem"] == "decompression").cloned().collect()
}

#[test]
fn a_packed_extent_that_is_broken_under_right_checksums_is_one_finding_and_no_whole_file() {
    let forged = Forged::new();
    let packed = forged.packed();
    assert_eq!(packed.len(), 3, "the fixture has zlib, lzo and zstd: {packed:?}");
    assert_eq!(scrub(&["--decompress"], &forged.images.paths).exit, 0, "what the kernel packed unpacks");
    for (_, at, _) in &packed {
        forged.change_data(*at, &[0x55; 64]);
    }
    assert_eq!(scrub(&[] as &[&str], &forged.images.paths).exit, 0, "all checksums are right");
    let run = scrub(&["--decompress"], &forged.images.paths);
    assert_eq!(run.exit, 3);
    let findings = decompression_findings(&run);
    let mut expected: Vec<u64> = packed.iter().map(|(_, at, _)| at.raw()).collect();
    expected.sort_unstable();
    assert_eq!(findings.iter().map(|f| f["logical"].as_u64().unwrap()).collect::<Vec<_>>(), expected);
    for finding in &findings {
        assert_eq!((&finding["kind"], &finding["repair"]), (&"data".into(), &"impossible".into()), "{finding}");
        assert!(!finding["files"].as_array().unwrap().is_empty(), "{finding}");
    }
    let to = tempfile::tempdir().unwrap();
    let run = extract(&forged.images.paths, to.path(), &[]);
    assert_eq!(run.exit, 3);
    assert_no_lie("single-crc32c", to.path(), &run, "broken packed extents");
    let damaged = manifest(to.path()).values().filter(|line| line["state"] == "damaged").count();
    assert!(damaged >= 3, "{damaged}");
}

/// The leaf that names `name` in the top folder, and where its name stands in its `DIR_INDEX` item.
fn place_of_name(forged: &Forged, name: &[u8]) -> (Logical, usize) {
    let top = forged.fs.all_roots().into_iter().find(|root| root.id == object::FS_TREE).unwrap();
    let mut cursor = Cursor::new(&forged.fs, top);
    cursor.seek(&Key::new(256, key_type::DIR_INDEX, 0));
    while let Some((key, bytes)) = cursor.item() {
        assert_eq!(key.item_type, key_type::DIR_INDEX, "no {name:?} in the top folder");
        if bytes.ends_with(name) {
            let leaf = cursor.leaf_at().unwrap();
            return (leaf, forged.offset_in(leaf, bytes) + bytes.len() - name.len());
        }
        cursor.advance();
    }
    panic!("no {name:?} in the top folder");
}

#[test]
fn names_that_lead_out_are_refused() {
    for hostile in [&b"../xx"[..], b"/etc/", b"a\0b/c"] {
        let forged = Forged::new();
        let (leaf, at) = place_of_name(&forged, b"plain");
        forged.change_block(leaf, |bytes| bytes[at..at + 5].copy_from_slice(hostile));
        let around = tempfile::tempdir().unwrap();
        let to = around.path().join("to");
        let run = extract(&forged.images.paths, &to, &["--with-damaged"]);
        assert_eq!(run.exit, 3, "{hostile:?}: {run:?}");
        assert_eq!(fs::read_dir(around.path()).unwrap().count(), 1, "{hostile:?}: something is beside the folder");
        assert!(!to.join("plain").exists());
    }
}

/// Everything of a tree that can be compared.
fn described(top: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![top.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap().map(Result::unwrap) {
            let path = entry.path();
            let meta = fs::symlink_metadata(&path).unwrap();
            let inside = path.strip_prefix(top).unwrap().to_owned();
            if inside == Path::new("mirrortool-manifest.jsonl") {
                continue;
            }
            let content = if meta.is_file() {
                sha256(&path)
            } else if meta.is_symlink() {
                fs::read_link(&path).unwrap().display().to_string()
            } else {
                String::new()
            };
            let links = if meta.is_dir() { 0 } else { meta.nlink() };
            let attributes = succeed(tool("python3", &["-c", XATTRS]).arg(&path)).unwrap();
            let (mode, uid, gid, rdev) = (meta.mode(), meta.uid(), meta.gid(), meta.rdev());
            // The place of a subvolume in a snapshot has no time of its own.
            let time = if inside == Path::new("snap/inner") { (0, 0) } else { (meta.mtime(), meta.mtime_nsec()) };
            let size = if meta.is_dir() { 0 } else { meta.size() };
            let text = format!("{mode:o} {uid}:{gid} {rdev} {links} {size} {time:?} {content} {attributes}");
            found.insert(inside, text);
            if meta.is_dir() {
                folders.push(path);
            }
        }
    }
    found
}

const XATTRS: &str = "import os,sys; p=sys.argv[1]; print(sorted((n,os.getxattr(p,n,follow_symlinks=False)) for n in os.listxattr(p,follow_symlinks=False) if not n.startswith('btrfs.')))";

const FILL: &str = r#"
set -e; cd "$1"
for c in zlib lzo zstd; do
  mount -o remount,compress-force=$c "$1"
  mkdir $c; seq 1 40000 >$c/packed; head -c 300000 /dev/urandom >$c/random; echo small text small text small text small text >$c/inline
  seq 1 3000 | tr -d '\n' | head -c 5001 >$c/odd; sync
  seq 5 20 | dd of=$c/packed conv=notrunc bs=1 seek=40000 status=none; sync
done
mount -o remount,compress=no "$1"
cp --reflink zlib/packed shared; ln zlib/inline hard; mkdir -p deep/er; ln shared deep/er/hard2
ln -s ../../etc/passwd deep/link; mkfifo deep/pipe; mknod deep/null c 1 3; mknod deep/disk b 8 1
truncate -s 3M sparse; echo end >>sparse; fallocate -l 200000 reserved; echo x | dd of=reserved conv=notrunc bs=1 seek=50000 status=none
printf 'odd' >"$(printf 'name\nwith\\odd\xff')"; : >empty
python3 -c "import os; os.setxattr('shared','user.colour',b'blue\0green'); os.setxattr('deep','user.folder',b'yes'); os.setxattr('deep/link','trusted.t',b'l',follow_symlinks=False)"
chmod 4751 shared; chown 1234:4321 shared deep/er; chown -h 77:88 deep/link; chmod 500 deep/er; touch -d '2001-02-03 04:05:06.789' shared deep/er
chown 0:0 hard; chattr +C empty || true
btrfs subvolume create sub >/dev/null; seq 1 20000 >sub/a; btrfs subvolume create sub/inner >/dev/null; echo i >sub/inner/i
btrfs subvolume snapshot -r sub snap >/dev/null; echo more >>sub/a; sync
"#;

#[test]
fn what_is_taken_out_is_what_the_kernel_shows() {
    if skipped("what_is_taken_out_is_what_the_kernel_shows") {
        return;
    }
    let scratch = TempDir::new().unwrap();
    let images: Vec<PathBuf> = ["a.img", "b.img"].iter().map(|name| scratch.path().join(name)).collect();
    for image in &images {
        File::create(image).unwrap().set_len(300 << 20).unwrap();
    }
    succeed(tool("mkfs.btrfs", &["-q", "-f", "-d", "raid1", "-m", "raid1"]).args(&images)).unwrap();
    let (at, to) = (scratch.path().join("mnt"), scratch.path().join("to"));
    let mounted = Mounted::new(&images, &at, false).unwrap();
    succeed(tool("bash", &["-c", FILL, "fill"]).arg(&at)).unwrap();
    drop(mounted);
    let run = extract(&images, &to, &[]);
    assert_eq!(run.exit, 0, "{run:?}");
    let mounted = Mounted::new(&images, &at, true).unwrap();
    let (expected, have) = (described(&at), described(&to));
    for (path, text) in &expected {
        assert_eq!(have.get(path), Some(text), "{}", path.display());
    }
    assert_eq!(have.len(), expected.len());
    assert!(fs::metadata(to.join("sparse")).unwrap().blocks() < 100, "holes stay holes");
    assert!(expected.contains_key(Path::new(OsStr::from_bytes(b"name\nwith\\odd\xff"))));
    drop(mounted);
    assert_eq!(scrub(&["--decompress"], &images).exit, 0, "what the kernel packs unpacks");

    let (sub, none) = (scratch.path().join("sub"), scratch.path().join("none"));
    assert_eq!(extract(&images, &sub, &["--subvolume", "/sub/inner"]).exit, 0);
    assert_eq!(fs::read(sub.join("i")).unwrap(), b"i\n");
    assert_eq!(extract(&images, &none, &["--no-snapshots", "--path", "snap", "--path", "sub"]).exit, 0);
    assert!(none.join("sub/inner/i").exists() && fs::read_dir(none.join("snap")).unwrap().next().is_none());

    // With one member overwritten in places and the other as it was, all is still there.
    let file = File::options().write(true).open(&images[0]).unwrap();
    for at in (8 << 20..280 << 20).step_by(1 << 20) {
        file.write_all_at(&vec![0xEE; 40_000], at).unwrap();
    }
    let again = scratch.path().join("again");
    let run = extract(&images, &again, &[]);
    assert_eq!(run.exit, 0, "{run:?}");
    assert_eq!(described(&again), have);
}
