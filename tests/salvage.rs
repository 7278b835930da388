//! Blocks all of whose copies are bad: `repair --salvage` gives images back byte for byte, shows each guess as one, and
//! without the option or without a fitting candidate nothing is written.

// A failed unwrap is a failed test, also in the helpers.
#![allow(clippy::unwrap_used)]

mod common;

use common::fixture::{self, Images};
use common::program::{Run, mirrortool};
use common::recipe::{self, Finding};
use common::{check_all, library};
use mirrortool::units::Logical;
use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// A fixture of one's own, and one block of it.
struct Case {
    base: String,
    images: Images,
    intact: Vec<u64>,
    block: Finding,
    /// By mirror number: the devid and where on it.
    places: Vec<(u64, u64)>,
}

impl Case {
    /// The block of the first finding of that kind in a recipe, not damaged.
    fn of(recipe: &str, kind: &str) -> Self {
        let recipe = recipe::named(recipe);
        let images = fixture::copy(&recipe.base);
        let block = recipe.findings().into_iter().rfind(|finding| finding.kind == kind).unwrap();
        let fs = library::open(&images.paths);
        let at = Logical::new(block.logical);
        let chunk = fs.chunks().lookup(at).unwrap();
        let copies = chunk.copies(at);
        let places = copies.iter().map(|copy| (copy.place.devid.raw(), copy.place.physical.raw())).collect();
        Self { base: recipe.base, intact: images.fingerprint(), block, places, images }
    }

    /// Changes bytes of one copy, from 1; the range is within the block.
    fn change(&self, mirror: usize, range: Range<u64>, change: impl Fn(&mut u8)) {
        let (devid, physical) = self.places[mirror - 1];
        self.change_at(devid, physical + range.start, (range.end - range.start) as usize, change);
    }

    fn change_at(&self, devid: u64, physical: u64, len: usize, change: impl Fn(&mut u8)) {
        let file = OpenOptions::new().read(true).write(true).open(self.images.device(devid)).unwrap();
        let mut bytes = vec![0; len];
        file.read_exact_at(&mut bytes, physical).unwrap();
        bytes.iter_mut().for_each(change);
        file.write_all_at(&bytes, physical).unwrap();
    }

    /// Turns a bit of each copy.
    fn turn(&self, byte: u64, bit: u8) {
        (1..=self.places.len()).for_each(|mirror| self.change(mirror, byte..byte + 1, |b| *b ^= 1 << bit));
    }

    fn repair(&self, options: &[&str]) -> Run {
        let fixed = ["repair", "--no-undo-log", "--format", "json"].iter().chain(options).map(OsStr::new);
        mirrortool(fixed.chain(self.images.paths.iter().map(|path| path.as_os_str())))
    }

    /// Without the option nothing is written; with it, all is as it was, by a guess of this method alone.
    fn expect_healed(&self, method: &str) -> Result<(), String> {
        let damaged = self.images.fingerprint();
        let complain = |what: String| Err(format!("{} {}: {what}", self.base, self.block.kind));
        let run = self.repair(&["--yes"]);
        if run.exit != 3 || self.images.fingerprint() != damaged {
            return complain(format!("exit {} without the option: {}", run.exit, run.stderr));
        }
        let run = self.repair(&["--salvage", "--dry-run"]);
        if run.exit != 4 || self.images.fingerprint() != damaged {
            return complain(format!("exit {} of the dry run: {}", run.exit, run.stderr));
        }
        let run = self.repair(&["--salvage", "--yes"]);
        let report = run.report()?;
        if run.exit != 0 || self.images.fingerprint() != self.intact {
            return complain(format!("exit {}, verdict {}: {}", run.exit, report.verdict(), run.stderr));
        }
        let steps = report.0["repair"]["steps"].as_array().unwrap();
        let block = steps.iter().filter(|step| step["kind"] == self.block.kind.as_str());
        let mut sources = block.map(|step| (step["is_guess"].as_bool().unwrap(), step["source"].as_str().unwrap()));
        match sources.find(|(is_guess, source)| !is_guess || !source.contains(method)) {
            Some(other) => complain(format!("{other:?} is not a guess with {method:?}")),
            None if steps.is_empty() => complain("no steps".to_owned()),
            None => Ok(()),
        }
    }

    fn expect_left_alone(&self) {
        let damaged = self.images.fingerprint();
        let run = self.repair(&["--salvage", "--yes"]);
        assert_eq!((run.exit, self.images.fingerprint() == damaged), (3, true), "{}: {}", self.base, run.stderr);
    }
}

/// Blocks of file systems that the kernel wrote, with each checksum; the first two have no second copy.
const DATA: [&str; 4] = ["data-compressed-single", "data-raid0", "data-dup", "data-raid1-3dev"];

#[test]
fn a_node_bad_in_sector_1_of_copy_1_and_in_sector_3_of_copy_2_is_healed() {
    let case = Case::of("node-both-copies", "metadata");
    case.change(1, 4096..8192, |b| *b ^= 0x5a);
    case.change(2, 3 * 4096..4 * 4096, |b| *b = b.wrapping_add(77));
    case.expect_healed("put together from parts of bad copies").unwrap();
}

#[test]
fn one_flipped_bit_of_data_is_healed_with_each_checksum() {
    check_all(&DATA, |recipe| {
        let case = Case::of(recipe, "data");
        case.turn(2345, 6);
        case.expect_healed("one bit turned")
    });
}

#[test]
fn one_flipped_bit_of_a_node_or_of_its_checksum_is_healed() {
    check_all(&["node-both-copies", "node-dup", "node-three-of-four", "node-64k-last-sector"], |recipe| {
        let case = Case::of(recipe, "metadata");
        case.turn(120, 0);
        case.expect_healed("one bit turned")?;
        case.turn(2, 7);
        case.expect_healed("one bit of the stored checksum turned")
    });
}

#[test]
fn a_sector_and_its_parity_bad_in_different_parts_are_healed() {
    let case = Case::of("raid5-data-and-parity", "data");
    let fs = library::open(&case.images.paths);
    let at = Logical::new(case.block.logical);
    let row = fs.chunks().lookup(at).unwrap().full_stripe(at).unwrap();
    let in_unit = case.block.physical % 65536;
    case.change(1, 0..512, |b| *b ^= 0xff);
    case.change_at(row.p.place.devid.raw(), row.p.place.physical.raw() + in_unit + 1024, 512, |b| *b ^= 0x0f);
    drop(fs);
    case.expect_healed("put together from parts of bad copies").unwrap();
}

#[test]
fn three_copies_with_different_bad_bytes_are_healed_by_majority() {
    let case = Case::of("data-raid1c3", "data");
    for mirror in 1..=3 {
        for part in 0..8 {
            let at = part * 512 + mirror as u64 * 100;
            case.change(mirror, at..at + 50, |b| *b ^= 0xff);
        }
    }
    case.expect_healed("what most copies have").unwrap();
}

#[test]
fn three_flipped_bits_are_not_healed() {
    for recipe in DATA {
        let case = Case::of(recipe, "data");
        for (byte, bit) in [(3, 1), (2000, 4), (4001, 7)] {
            case.turn(byte, bit);
        }
        case.expect_left_alone();
    }
}

#[test]
fn a_guess_is_shown_with_its_strength() {
    let case = Case::of("data-compressed-single", "data");
    case.turn(9, 0);
    let run =
        mirrortool([OsStr::new("repair"), "--salvage".as_ref(), "--dry-run".as_ref(), case.images.device(1).as_ref()]);
    assert!(run.stdout.contains("guess: one bit turned, 32769 tries against a checksum of 32 bits"), "{}", run.stdout);
    assert!(run.stdout.contains("a wrong one would pass once in 2^16"), "{}", run.stdout);
}
