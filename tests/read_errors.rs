//! Sectors that a disk cannot read: each is a finding of its own with the errno, the rest of the range is still judged,
//! and a good copy makes it correctable.

// A failed unwrap in a test is a failed test.
#![allow(clippy::unwrap_used)]

mod common;

use common::{fixture, library};
use mirrortool::device::{Fault, FaultyDevice, ReadDevice};
use mirrortool::scrub::finding::{FindingKind, Problem, RepairState};
use mirrortool::scrub::outcome::{ScrubOutcome, Verdict};
use mirrortool::units::{DeviceId, DevicePhysical, Physical};
use mirrortool::volume::FullStripe;
use std::io;
use std::sync::Arc;

const EIO: i32 = 5;

/// The base device as one that can be wrapped.
struct Base(Arc<dyn ReadDevice>);

impl ReadDevice for Base {
    fn len(&self) -> u64 {
        self.0.len()
    }

    fn read_at(&self, at: Physical, buf: &mut [u8]) -> io::Result<()> {
        self.0.read_at(at, buf)
    }
}

/// Scrubs a fixture of one device, of which a range of sectors cannot be read.
fn scrub_with_bad_sectors(name: &str, at: u64, length_bytes: u64) -> ScrubOutcome {
    let paths = fixture::shared(name).paths;
    let range = Physical::new(at)..Physical::new(at + length_bytes);
    let faulty = FaultyDevice::new(Base(library::device(&paths[0]))).with_fault(range, Fault::Read(EIO));
    library::scrub_devices(&paths, &[Arc::new(faulty)]).unwrap()
}

/// Where the recipes of these fixtures harm a sector: a place that is known to hold data.
fn data_sector(recipe: &str) -> u64 {
    common::recipe::named(recipe).findings()[0].physical
}

#[test]
fn bad_sectors_of_one_dup_copy_are_correctable_and_cost_only_themselves() {
    let at = data_sector("data-dup");
    let outcome = scrub_with_bad_sectors("dup-xxhash", at, 3 * 4096);
    let bad: Vec<_> = outcome.findings.iter().map(|f| (f.physical.raw(), f.length)).collect();
    assert_eq!(bad, [(at, 4096), (at + 4096, 4096), (at + 8192, 4096)]);
    for finding in &outcome.findings {
        assert_eq!((finding.kind, finding.problem), (FindingKind::Data, Problem::ReadError));
        assert_eq!(finding.repair, RepairState::Possible);
        let (have, _) = finding.evidence.strings();
        assert!(have.is_some_and(|text| text.contains("os error 5")), "the errno is kept");
    }
    assert_eq!(outcome.verdict, Verdict::Correctable);
    assert_eq!(outcome.totals.read_errors, 3);
    assert_eq!(outcome.totals.csum_errors, 0, "what cannot be read has no checksum to be wrong");
}

#[test]
fn a_bad_sector_without_another_copy_is_lost() {
    let at = data_sector("data-compressed-single");
    let outcome = scrub_with_bad_sectors("single-crc32c", at, 4096);
    assert_eq!(outcome.findings.len(), 1);
    assert_eq!(outcome.findings[0].problem, Problem::ReadError);
    assert_eq!(outcome.findings[0].repair, RepairState::Impossible);
    assert_eq!(outcome.verdict, Verdict::Uncorrectable);
}

#[test]
fn a_node_with_one_bad_sector_is_one_bad_node() {
    let at = common::recipe::named("node-dup").findings()[0].physical;
    let outcome = scrub_with_bad_sectors("dup-xxhash", at, 512);
    assert_eq!(outcome.findings.len(), 1);
    assert_eq!((outcome.findings[0].kind, outcome.findings[0].problem), (FindingKind::Metadata, Problem::ReadError));
    assert_eq!((outcome.findings[0].length, outcome.findings[0].repair), (4096, RepairState::Possible));
}

/// Scrubs a RAID6 of which a sector of data without checksum cannot be read, and whatever else `spoil` harms in its row.
fn scrub_with_bad_unsummed_sector(spoil: impl Fn(&FullStripe) -> Option<DevicePhysical>) -> ScrubOutcome {
    let paths = fixture::shared("raid6-4dev-crc32c").paths;
    let fs = library::open(&paths);
    let at = library::unsummed_extent(&fs).data.start;
    let row = fs.chunks().lookup(at).unwrap().full_stripe(at).unwrap();
    let place = fs.chunks().lookup(at).unwrap().copies(at)[0].place;
    let base = row.data.iter().find(|c| c.place.devid == place.devid).unwrap().place.physical;
    let bad = |devid| {
        let spoilt = spoil(&row).filter(|spoilt| spoilt.devid == devid);
        let own = (place.devid == devid).then_some(place.physical);
        own.into_iter().chain(spoilt.map(|spoilt| spoilt.physical + (place.physical - base)))
    };
    let devices: Vec<Arc<dyn ReadDevice>> = paths
        .iter()
        .zip(1..)
        .map(|(path, devid)| {
            let device = FaultyDevice::new(Base(library::device(path)));
            let with = |device: FaultyDevice<Base>, at: Physical| device.with_fault(at..at + 4096, Fault::Read(EIO));
            Arc::new(bad(DeviceId::new(devid)).fold(device, with)) as Arc<dyn ReadDevice>
        })
        .collect();
    library::scrub_devices(&paths, &devices).unwrap()
}

#[test]
fn a_sector_without_checksum_is_right_where_p_and_q_say_the_same() {
    let outcome = scrub_with_bad_unsummed_sector(|_| None);
    assert_eq!(outcome.findings.len(), 1);
    assert_eq!((outcome.findings[0].problem, outcome.findings[0].repair), (Problem::ReadError, RepairState::Possible));
}

#[test]
fn a_sector_without_checksum_is_not_believed_on_the_word_of_one_parity() {
    let outcome = scrub_with_bad_unsummed_sector(|row| row.q.as_ref().map(|q| q.place));
    let data = outcome.findings.iter().find(|finding| finding.kind == FindingKind::Data).unwrap();
    assert_eq!((data.problem, data.repair), (Problem::ReadError, RepairState::Undecidable));
}
