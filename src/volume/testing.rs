//! Chunks, super blocks and devices for the tests of this layer and those above.

use super::{Chunk, ChunkError, Opened, Profile, STRIPE_LEN_BYTES};
use crate::checksum::ChecksumType;
use crate::device::{Identity, ReadDevice};
use crate::format::items::{ChunkItem, DevItem, StripeItem};
use crate::format::{BlockGroupFlags, IncompatFlags, SUPERBLOCK_BYTES, SUPERBLOCK_MAGIC, SUPERBLOCK_OFFSETS};
use crate::units::{DeviceId, Generation, Logical, ObjectId, Physical};
use proptest::prelude::*;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use uuid::Uuid;

pub(crate) const SECTORSIZE: u32 = 4096;
pub(crate) const START: Logical = Logical::new(5 << 30);

/// A data chunk item of `num_stripes` stripes, stripe `i` at 1 MiB + i x 1 GiB of device `i + 1` (DUP: all of device 1).
pub(crate) fn chunk_item(profile: Profile, num_stripes: usize, length: u64) -> ChunkItem {
    let stripe = |i: usize| {
        let devid = if profile == Profile::Dup { 1 } else { i as u64 + 1 };
        StripeItem {
            devid: DeviceId::new(devid),
            offset: Physical::new((1 << 20) + ((i as u64) << 30)),
            dev_uuid: Uuid::from_u128(u128::from(devid)),
        }
    };
    ChunkItem {
        length,
        owner: ObjectId::new(2),
        stripe_len: STRIPE_LEN_BYTES,
        type_flags: profile.row().block_group_flag | BlockGroupFlags::DATA,
        io_align: SECTORSIZE,
        io_width: SECTORSIZE,
        sector_size: SECTORSIZE,
        sub_stripes: profile.row().sub_stripes,
        stripes: (0..num_stripes).map(stripe).collect(),
    }
}

pub(crate) fn try_chunk(item: ChunkItem) -> Result<Chunk, ChunkError> {
    Chunk::new(START, item, SECTORSIZE, IncompatFlags::empty())
}

/// A chunk of `rows` whole rows.
pub(crate) fn chunk(profile: Profile, num_stripes: usize, rows: u64) -> Chunk {
    let columns = try_chunk(chunk_item(profile, num_stripes, u64::from(SECTORSIZE))).unwrap().data_columns();
    try_chunk(chunk_item(profile, num_stripes, rows * columns * STRIPE_LEN_BYTES)).unwrap()
}

/// Any profile with any number of stripes it can have, up to nine.
pub(crate) fn any_shape() -> impl Strategy<Value = (Profile, usize)> {
    (proptest::sample::select(&Profile::ALL[..]), 1..=9_usize).prop_map(|(profile, n)| {
        let stripes = match profile {
            Profile::Single => 1,
            Profile::Dup | Profile::Raid1 => 2,
            Profile::Raid1c3 => 3,
            Profile::Raid1c4 => 4,
            Profile::Raid0 => n,
            Profile::Raid10 => n.div_ceil(2) * 2,
            Profile::Raid5 => n.max(2),
            Profile::Raid6 => n.max(3),
        };
        (profile, stripes)
    })
}

/// Any chunk of up to some 12 rows, the last of which may be partly filled.
pub(crate) fn any_chunk() -> impl Strategy<Value = Chunk> {
    (any_shape(), 1..1500_u64).prop_map(|((profile, stripes), sectors)| {
        try_chunk(chunk_item(profile, stripes, sectors * u64::from(SECTORSIZE))).unwrap()
    })
}

/// A device that is zero but for some pieces, none of which a read may cross.
pub(crate) struct SparseDevice {
    pub(crate) len_bytes: u64,
    pub(crate) pieces: Vec<(u64, Vec<u8>)>,
}

impl ReadDevice for SparseDevice {
    fn len(&self) -> u64 {
        self.len_bytes
    }

    fn read_at(&self, at: Physical, buf: &mut [u8]) -> io::Result<()> {
        if at.raw() + buf.len() as u64 > self.len_bytes {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        buf.fill(0);
        for (start, bytes) in &self.pieces {
            if (*start..start + bytes.len() as u64).contains(&at.raw()) {
                buf.copy_from_slice(&bytes[(at.raw() - start) as usize..][..buf.len()]);
            }
        }
        Ok(())
    }
}

/// What a super block says, where tests care.
#[derive(Clone, Copy)]
pub(crate) struct Super {
    pub(crate) fsid: Uuid,
    /// Differs from `fsid` after `btrfstune -m` (needs incompat bit 10).
    pub(crate) metadata_uuid: Uuid,
    pub(crate) devid: u64,
    pub(crate) dev_uuid: Uuid,
    pub(crate) generation: u64,
    pub(crate) flags: u64,
    pub(crate) incompat: u64,
    pub(crate) num_devices: u64,
    pub(crate) dev_total_bytes: u64,
}

impl Super {
    /// Of devid `devid` of file system `fsid`, with two devices of 128 MiB and generation 10.
    pub(crate) fn new(fsid: u128, devid: u64) -> Self {
        Self {
            fsid: Uuid::from_u128(fsid),
            metadata_uuid: Uuid::from_u128(fsid),
            devid,
            dev_uuid: Uuid::from_u128(fsid * 1000 + u128::from(devid)),
            generation: 10,
            flags: 1,
            incompat: 1,
            num_devices: 2,
            dev_total_bytes: 128 << 20,
        }
    }

    pub(crate) fn dev_item(&self) -> DevItem {
        DevItem {
            devid: DeviceId::new(self.devid),
            total_bytes: self.dev_total_bytes,
            bytes_used: 0,
            io_align: SECTORSIZE,
            io_width: SECTORSIZE,
            sector_size: SECTORSIZE,
            type_flags: 0,
            generation: Generation::new(0),
            start_offset: 0,
            dev_group: 0,
            seek_speed: 0,
            bandwidth: 0,
            uuid: self.dev_uuid,
            fsid: self.metadata_uuid,
        }
    }

    /// The 4 KiB for the copy at `at`, signed.
    pub(crate) fn bytes(&self, at: u64) -> Vec<u8> {
        let mut raw = vec![0; SUPERBLOCK_BYTES];
        let mut put = |offset: usize, bytes: &[u8]| raw[offset..offset + bytes.len()].copy_from_slice(bytes);
        put(0x20, self.fsid.as_bytes());
        put(0x40, &SUPERBLOCK_MAGIC);
        for (offset, value) in [
            (0x30, at),
            (0x38, self.flags),
            (0x48, self.generation),
            (0x50, 30 << 20), // root
            (0x58, 22 << 20), // chunk_root
            (0x70, 256 << 20),
            (0x78, 1 << 20),
            (0x88, self.num_devices),
            (0xbc, self.incompat),
        ] {
            put(offset, &value.to_le_bytes());
        }
        for (offset, value) in [(0x90, SECTORSIZE), (0x94, 16384), (0x98, 16384), (0x9c, SECTORSIZE), (0xa0, 97)] {
            put(offset, &value.to_le_bytes());
        }
        put(0x23b, self.metadata_uuid.as_bytes());
        put(0xc9, &self.dev_item().to_bytes());
        put(0x32b, &self.sys_chunk());
        let digest = ChecksumType::Crc32c.digest(&raw[32..]);
        raw[..digest.as_bytes().len()].copy_from_slice(digest.as_bytes());
        raw
    }

    /// One single system chunk on this device: key, chunk, stripe.
    fn sys_chunk(&self) -> Vec<u8> {
        let mut raw = Vec::new();
        raw.extend(256_u64.to_le_bytes());
        raw.push(228);
        for value in [20 << 20, 8 << 20, 2, STRIPE_LEN_BYTES, 2] {
            raw.extend(u64::to_le_bytes(value));
        }
        for value in [SECTORSIZE; 3] {
            raw.extend(value.to_le_bytes());
        }
        raw.extend(1_u16.to_le_bytes());
        raw.extend(1_u16.to_le_bytes());
        raw.extend(self.devid.to_le_bytes());
        raw.extend((20_u64 << 20).to_le_bytes());
        raw.extend(self.dev_uuid.as_bytes());
        raw
    }

    /// A device of its recorded size with all its super blocks.
    pub(crate) fn device(&self) -> SparseDevice {
        let pieces = SUPERBLOCK_OFFSETS.iter().map(|at| (at.raw(), self.bytes(at.raw()))).collect();
        SparseDevice { len_bytes: self.dev_total_bytes, pieces }
    }
}

/// A device under a name; the name is its identity.
pub(crate) fn opened(name: &str, device: impl ReadDevice + 'static) -> Opened {
    let number = name.bytes().fold(7, |sum: u64, byte| sum.wrapping_mul(131).wrapping_add(byte.into()));
    Opened { path: PathBuf::from(name), device: Arc::new(device), identity: Identity::File(1, number) }
}
