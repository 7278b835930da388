//! Reading copies and rows from devices in memory, with a device missing or failing.

use super::*;
use crate::device::{Fault, FaultyDevice, MemoryDevice, ReadDevice};
use crate::units::Physical;
use crate::volume::testing::{START, Super, chunk_item, opened, try_chunk};
use crate::volume::{Profile, STRIPE_LEN_BYTES, raid56::RecoverySource};
use std::ops::Range;

const SECTOR: usize = 4096;

/// The byte that every test chunk holds at an offset.
fn content(offset: u64) -> u8 {
    (offset / 512 * 37 + offset % 251) as u8
}

fn expected(range: Range<u64>) -> Vec<u8> {
    range.map(content).collect()
}

/// A chunk of 6 rows of 64 KiB per stripe on devices of 2 MiB, with content and parity, and its devices' bytes.
fn filled(profile: Profile, stripes: usize) -> (Chunk, Vec<Vec<u8>>) {
    let columns = try_chunk(chunk_item(profile, stripes, 4096)).unwrap().data_columns();
    let mut item = chunk_item(profile, stripes, 6 * columns * STRIPE_LEN_BYTES);
    for stripe in &mut item.stripes {
        stripe.offset = Physical::new(1 << 20);
    }
    let chunk = try_chunk(item).unwrap();
    let mut images: Vec<Vec<u8>> = (1..=stripes as u64)
        .map(|devid| {
            let mut image = vec![0; 2 << 20];
            image[64 << 10..][..4096].copy_from_slice(&Super::new(1, devid).bytes(64 << 10));
            image
        })
        .collect();
    let mut put = |place: DevicePhysical, bytes: &[u8]| {
        images[place.devid.raw() as usize - 1][place.physical.raw() as usize..][..bytes.len()].copy_from_slice(bytes);
    };
    for mirror in (1..=chunk.mirrors()).map(MirrorNum::new) {
        for piece in chunk.pieces(chunk.range(), mirror) {
            let from = piece.logical - chunk.start();
            put(piece.place, &expected(from..from + piece.len_bytes));
        }
    }
    for full in (0..chunk.rows()).filter_map(|row| chunk.full_stripe_of_row(row)) {
        let from = full.logical - chunk.start();
        let data = expected(from..from + columns * STRIPE_LEN_BYTES);
        let units: Vec<Option<&[u8]>> = data.chunks(STRIPE_LEN_BYTES as usize).map(Some).collect();
        let (mut p, mut q) = (vec![0; STRIPE_LEN_BYTES as usize], vec![0; STRIPE_LEN_BYTES as usize]);
        raid56::pq_parity(&mut p, &mut q, &units);
        put(full.p.place, &p);
        if let Some(column) = full.q {
            put(column.place, &q);
        }
    }
    (chunk, images)
}

fn volume_of<D: ReadDevice + 'static>(chunk: Chunk, devices: impl IntoIterator<Item = (u64, D)>) -> Volume {
    let member = |(devid, device)| (DeviceId::new(devid), Arc::new(Member::probe(opened("d", device)).unwrap()));
    let mut chunks = ChunkMap::new();
    chunks.insert(chunk).unwrap();
    Volume::new(devices.into_iter().map(member).collect(), chunks)
}

fn in_memory(images: Vec<Vec<u8>>) -> Vec<(u64, MemoryDevice)> {
    (1..).zip(images.into_iter().map(MemoryDevice::new)).collect()
}

#[test]
fn every_mirror_of_every_profile_reads_the_same_across_stripes() {
    for (profile, stripes) in [
        (Profile::Single, 1),
        (Profile::Raid0, 3),
        (Profile::Raid1, 2),
        (Profile::Raid1c4, 4),
        (Profile::Raid10, 4),
        (Profile::Raid5, 3),
        (Profile::Raid6, 5),
    ] {
        let (chunk, images) = filled(profile, stripes);
        let (mirrors, len) = (chunk.mirrors(), chunk.len_bytes());
        let volume = volume_of(chunk, in_memory(images));
        for mirror in 1..=mirrors {
            let mut bytes = vec![0; len as usize - 1000];
            volume.read_copy(START + 500, MirrorNum::new(mirror), &mut bytes).unwrap();
            assert!(bytes == expected(500..len - 500), "{profile} mirror {mirror}");
        }
        let no_such = volume.read_copy(START, MirrorNum::new(mirrors + 1), &mut [0]).unwrap_err();
        assert_eq!(no_such.to_string(), format!("logical=5368709120 has no mirror {}", mirrors + 1));
    }
}

#[test]
fn what_goes_wrong_is_told_with_its_place() {
    let (chunk, images) = filled(Profile::Raid1, 2);
    let end = chunk.end();
    let bad = Physical::new((1 << 20) + 4096)..Physical::new((1 << 20) + 8192);
    let device = FaultyDevice::new(MemoryDevice::new(images[0].clone())).with_fault(bad, Fault::Read(5));
    let volume = volume_of(chunk, [(1, device)]);
    let read = |at, mirror| volume.read_copy(at, MirrorNum::new(mirror), &mut [0; SECTOR]).map_err(|e| e.to_string());
    assert_eq!(read(START, 1), Ok(()));
    assert_eq!(read(START, 2), Err("devid=2 is missing".to_owned()));
    let io = "read error at devid=1 physical=1052672, Input/output error (os error 5)";
    assert_eq!(read(START + 4096, 1), Err(io.to_owned()));
    assert_eq!(read(end, 1), Err(format!("no chunk maps logical={end}")));
}

#[test]
fn the_end_of_a_truncated_device_is_an_error_without_errno() {
    let (chunk, mut images) = filled(Profile::Single, 1);
    images[0].truncate(1 << 20);
    let volume = volume_of(chunk, in_memory(images));
    let error = volume.read_copy(START, MirrorNum::new(1), &mut [0; SECTOR]).unwrap_err();
    assert_eq!(error.to_string(), "read error at devid=1 physical=1048576, past the end of the device");
}

#[test]
fn a_block_on_missing_devices_is_recovered_from_parity() {
    for (profile, stripes, missing) in [(Profile::Raid5, 3, 1), (Profile::Raid6, 4, 2)] {
        let (chunk, images) = filled(profile, stripes);
        let len = chunk.len_bytes();
        let volume = volume_of(chunk, in_memory(images).into_iter().skip(missing));
        for offset in (0..len).step_by(48 << 10).filter(|offset| offset % STRIPE_LEN_BYTES <= 48 << 10) {
            let good = expected(offset..offset + (16 << 10));
            let found = volume.recover(START + offset, 16 << 10, SECTOR, |bytes| bytes == good);
            assert!(found.is_some_and(|found| found.bytes == good), "{profile} offset {offset}");
        }
    }
}

#[test]
fn an_unreadable_sector_costs_no_more_than_itself() {
    let (chunk, images) = filled(Profile::Raid5, 3);
    let row = chunk.full_stripe(START).unwrap();
    // Sector 0 of the target and sector 2 of the other data column cannot be read: each alone can be made good.
    let faults = [(row.data[0], 0), (row.data[1], 2)];
    let devices: Vec<_> = in_memory(images)
        .into_iter()
        .map(|(devid, device)| {
            let faulty = faults.iter().filter(|(column, _)| column.place.devid.raw() == devid).fold(
                FaultyDevice::new(device),
                |device, (column, sector)| {
                    let at = column.place.physical + sector * SECTOR as u64;
                    device.with_fault(at..at + SECTOR as u64, Fault::Read(5))
                },
            );
            (devid, faulty)
        })
        .collect();
    let volume = volume_of(chunk, devices);
    let good = expected(0..16 << 10);
    let found = volume.recover(START, 16 << 10, SECTOR, |bytes| bytes == good).unwrap();
    assert_eq!((found.source(), found.bytes), (Some(RecoverySource::P), good));
}

#[test]
fn there_is_nothing_to_recover_from_without_parity_or_across_units() {
    for (profile, stripes, offset) in [(Profile::Raid1, 2, 0), (Profile::Raid5, 3, STRIPE_LEN_BYTES - 4096)] {
        let (chunk, images) = filled(profile, stripes);
        let volume = volume_of(chunk, in_memory(images));
        assert_eq!(volume.recover(START + offset, 8192, SECTOR, |_| true), None);
    }
}
