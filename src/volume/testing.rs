//! Chunks for the tests of this layer.

use super::{Chunk, ChunkError, Profile, STRIPE_LEN_BYTES};
use crate::format::items::{ChunkItem, StripeItem};
use crate::format::{BlockGroupFlags, IncompatFlags};
use crate::units::{DeviceId, Logical, ObjectId, Physical};
use proptest::prelude::*;
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
