//! Logs are read back, cut and broken at every place.

use super::*;
use crate::units::{DeviceId, DevicePhysical, Generation, Physical};
use proptest::prelude::*;
use std::io::Cursor;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};
use uuid::Uuid;

fn header() -> LogHeader {
    let member = |devid: u64, path: &str| LogMember {
        devid: DeviceId::new(devid),
        uuid: Uuid::from_u128(devid.into()),
        len_bytes: 1 << 30,
        generation: Generation::new(7),
        path: path.into(),
    };
    LogHeader {
        fsid: Uuid::from_u128(99),
        generation: Generation::new(8),
        created: SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000),
        members: vec![member(1, "/dev/sdb"), member(2, "an image with a name.img")],
    }
}

fn record(physical: u64, old: Vec<u8>, lost: Vec<u32>) -> Record {
    let new: Vec<u8> = old.iter().map(|byte| byte ^ 0x5a).collect();
    let place = DevicePhysical { devid: DeviceId::new(1), physical: Physical::new(physical) };
    Record { lost, ..Record::new(place, Some(old.into()), &new) }
}

fn noise(len: usize) -> Vec<u8> {
    (0..len as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

/// Keeps what is appended where the test can see it.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl LogStore for Shared {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn records() -> Vec<Record> {
    vec![record(0, noise(4096), vec![]), record(4096, vec![3; 65536], vec![]), record(1 << 20, noise(8192), vec![1])]
}

/// A whole log of two batches, and where each batch ends, with its header as the first.
fn log() -> (Vec<u8>, Vec<usize>, Vec<Record>) {
    let (store, records) = (Shared::default(), records());
    let mut journal = Journal::start(Box::new(store.clone()), &header()).unwrap();
    let len = || store.0.lock().unwrap().len();
    let mut ends = vec![len()];
    for batch in [&records[..2], &records[2..]] {
        journal.log(batch).unwrap();
        ends.push(len());
    }
    journal.finish().unwrap();
    let bytes = store.0.lock().unwrap().clone();
    (bytes, ends, records)
}

#[test]
fn nothing_is_known_of_what_cannot_be_read() {
    let place = DevicePhysical { devid: DeviceId::new(1), physical: Physical::new(0) };
    let record = Record::new(place, None, &noise(8704));
    assert_eq!(record.lost, [0, 1, 2]);
    assert_eq!(*record.old.to_bytes(), [0; 8704]);
}

#[test]
fn what_is_logged_is_read_back() {
    let (bytes, _, records) = log();
    let mut reader = LogReader::open(Cursor::new(bytes)).unwrap();
    assert_eq!((reader.header(), reader.len(), reader.end()), (&header(), 3, LogEnd::Whole));
    assert_eq!(reader.records(0..3).unwrap(), records);
    assert_eq!(reader.record(1).unwrap(), records[1]);
    // One batch at a time, newest first, and no more bytes than asked for.
    assert_eq!([3, 2, 1, 0].map(|end| reader.start_of_chunk(end, 1 << 20)), [2, 0, 0, 0]);
    assert_eq!([2, 1].map(|end| reader.start_of_chunk(end, 1000)), [1, 0]);
}

#[test]
fn a_log_without_batches_is_an_empty_log() {
    let store = Shared::default();
    Journal::start(Box::new(store.clone()), &header()).unwrap().finish().unwrap();
    let bytes = store.0.lock().unwrap().clone();
    let reader = LogReader::open(Cursor::new(bytes)).unwrap();
    assert_eq!((reader.is_empty(), reader.end()), (true, LogEnd::Whole));
    assert!(matches!(LogReader::open(Cursor::new(Vec::new())), Err(LogError::Empty)));
    let mut none = Journal::on_demand(&header(), Box::new(|| panic!("made for nothing")));
    none.finish().unwrap();
}

#[test]
fn old_bytes_that_are_all_the_same_take_no_room() {
    let full = record(0, noise(1 << 20), vec![]).encode(1).len();
    let wiped = record(0, vec![0; 1 << 20], vec![]).encode(1).len();
    assert!(full < (1 << 20) * 102 / 100 && wiped < 20_000, "{full} {wiped}");
}

#[test]
fn a_log_that_ends_anywhere_has_the_batches_before_and_says_that_it_is_cut() {
    let (bytes, ends, _) = log();
    for end in (ends[0]..bytes.len()).step_by(100).chain(ends.iter().copied()) {
        let reader = LogReader::open(Cursor::new(bytes[..end].to_vec())).unwrap();
        let whole = ends.iter().skip(1).zip([2, 3]).filter(|(at, _)| **at <= end).map(|(_, records)| records).max();
        assert_eq!(reader.len(), whole.unwrap_or(0), "cut at {end}");
        let expect = |how| if ends.contains(&end) { how == LogEnd::Open } else { matches!(how, LogEnd::Broken { .. }) };
        assert!(expect(reader.end()), "cut at {end}: {:?}", reader.end());
    }
    assert!(matches!(LogReader::open(Cursor::new(bytes[..100].to_vec())), Err(LogError::NotALog)));
}

#[test]
fn a_bit_that_is_turned_anywhere_is_told() {
    let (bytes, ends, _) = log();
    for at in (0..bytes.len()).step_by(97).chain(ends).chain([bytes.len() - 1, bytes.len() - 400]) {
        let mut bytes = bytes.clone();
        bytes[at] ^= 0x10;
        if let Ok(reader) = LogReader::open(Cursor::new(bytes)) {
            assert_ne!(reader.end(), LogEnd::Whole, "byte {at}");
        }
    }
}

#[test]
fn what_is_behind_the_end_or_missing_within_is_damage() {
    let (bytes, ends, _) = log();
    let is_damaged = |bytes| matches!(LogReader::open(Cursor::new(bytes)), Err(LogError::Damaged { .. }));
    assert!(is_damaged([&bytes[..], &[0; 512]].concat()));
    assert!(is_damaged([&bytes[..ends[0]], &bytes[ends[1]..]].concat()), "the first batch is gone");
    assert!(is_damaged([&bytes[..ends[1]], &bytes[ends[2]..]].concat()), "the last batch is gone");
}

#[test]
fn a_broken_record_before_a_later_batch_is_damage() {
    let (mut bytes, ends, _) = log();
    bytes[ends[0] + 600] ^= 1;
    let Err(LogError::Damaged { at, next }) = LogReader::open(Cursor::new(bytes)).map(|_| ()) else {
        panic!("a damaged log was taken");
    };
    assert!(at == ends[0] as u64 && next > at);
}

#[test]
fn a_log_that_cannot_be_made_lets_nothing_through() {
    let mut journal = Journal::on_demand(&header(), Box::new(|| Err(io::ErrorKind::StorageFull.into())));
    let records = [record(0, noise(512), vec![])];
    assert_eq!(journal.log(&records).unwrap_err().kind(), io::ErrorKind::StorageFull);
    assert!(journal.log(&records).is_err(), "the second batch has no log either");
}

proptest! {
    #[test]
    fn arbitrary_changes_are_never_taken_for_a_record(at in 0..4600_usize, change in 1..=255_u8) {
        let mut bytes = record(0, noise(4096), vec![]).encode(1);
        let at = at % bytes.len();
        bytes[at] ^= change;
        prop_assert!(Record::decode(&bytes).is_none());
    }

    #[test]
    fn arbitrary_bytes_are_no_log(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
        prop_assert!(LogReader::open(Cursor::new(bytes)).is_err());
    }
}
