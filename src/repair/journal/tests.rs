//! Logs are read back, cut and broken at every place.

use super::*;
use crate::units::{DeviceId, DevicePhysical, Generation, Physical};
use proptest::prelude::*;
use std::io::Cursor;
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

/// A log of two batches, and where each record starts.
fn log() -> (Vec<u8>, Vec<usize>, Vec<Record>) {
    let records = vec![
        record(0, noise(4096), vec![]),
        record(4096, vec![3; 65536], vec![]),
        record(1 << 20, noise(8192), vec![1]),
    ];
    let mut bytes = header().encode();
    let mut starts = Vec::new();
    for (record, batch) in records.iter().zip([1, 1, 2]) {
        starts.push(bytes.len());
        bytes.extend(record.encode(batch));
    }
    (bytes, starts, records)
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
    assert_eq!((reader.header(), reader.len(), reader.is_cut()), (&header(), 3, false));
    let read: Vec<_> = (0..3).map(|number| reader.record(number).unwrap()).collect();
    assert_eq!(read.iter().map(|(_, batch)| *batch).collect::<Vec<_>>(), [1, 1, 2]);
    assert_eq!(read.into_iter().map(|(record, _)| record).collect::<Vec<_>>(), records);
}

#[test]
fn old_bytes_that_are_all_the_same_take_no_room() {
    let full = record(0, noise(1 << 20), vec![]).encode(1).len();
    let wiped = record(0, vec![0; 1 << 20], vec![]).encode(1).len();
    assert!(full < (1 << 20) * 102 / 100 && wiped < 20_000, "{full} {wiped}");
}

#[test]
fn a_log_that_ends_anywhere_has_the_records_before() {
    let (bytes, starts, _) = log();
    for end in (starts[0]..bytes.len()).step_by(100) {
        let reader = LogReader::open(Cursor::new(bytes[..end].to_vec())).unwrap();
        let whole = starts.iter().skip(1).filter(|start| **start <= end).count();
        assert_eq!(reader.len(), whole, "cut at {end}");
        assert_eq!(reader.is_cut(), !starts.contains(&end), "cut at {end}");
    }
    assert!(matches!(LogReader::open(Cursor::new(bytes[..100].to_vec())), Err(LogError::NotALog)));
}

#[test]
fn a_broken_record_before_a_later_batch_is_damage() {
    let records = [1, 2, 3].map(|nth| record(nth << 20, noise(4096), vec![]));
    let mut bytes = header().encode();
    let first = bytes.len() as u64;
    for (record, batch) in records.iter().zip(1..) {
        bytes.extend(record.encode(batch));
    }
    bytes[first as usize + 600] ^= 1;
    let Err(LogError::Damaged { at, next }) = LogReader::open(Cursor::new(bytes)).map(|_| ()) else {
        panic!("a damaged log was taken");
    };
    assert!(at == first && next > first);
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
