//! The checks of a super block, in the order in which they make sense: is it one, is it whole, does it belong here, can
//! its numbers be (kernel: `btrfs_validate_super`).

use super::raw::RawSuperblock;
use super::{SUPERBLOCK_MAGIC, SuperblockError, SysChunk};
use crate::checksum::{ChecksumType, Digest};
use crate::format::items::{ChunkItem, RawDevItem};
use crate::format::node::{CSUM_FIELD_BYTES, MAX_LEVEL};
use crate::format::types::{key_type, object};
use crate::format::{BlockGroupFlags, DiskKey, IncompatFlags};
use crate::units::{Logical, Physical};
use uuid::Uuid;
use zerocopy::{FromBytes, IntoBytes};

/// What mkfs writes before it is done (`BTRFS_MAGIC_TEMPORARY`).
const MAGIC_TEMPORARY: [u8; 8] = *b"!BHRfS_M";
const MIN_BLOCK_BYTES: u32 = 4 << 10;
const MAX_BLOCK_BYTES: u32 = 64 << 10;
/// Key, chunk and one stripe.
const MIN_SYS_CHUNK_ARRAY_BYTES: u32 = 17 + 48 + 32;
/// Each of the six trees that cannot be missing takes a block.
const MIN_TREES: u64 = 6;

pub(super) fn check_magic(raw: &RawSuperblock) -> Result<(), SuperblockError> {
    match raw.magic {
        SUPERBLOCK_MAGIC => Ok(()),
        MAGIC_TEMPORARY => Err(SuperblockError::Temporary),
        _ if raw.as_bytes().iter().all(|byte| *byte == 0) => Err(SuperblockError::Zeros),
        other => Err(SuperblockError::Magic {
            have: u64::from_le_bytes(other),
            expect: u64::from_le_bytes(SUPERBLOCK_MAGIC),
        }),
    }
}

pub(super) fn check_checksum(raw: &RawSuperblock) -> Result<ChecksumType, SuperblockError> {
    let number = raw.csum_type.get();
    let csum_type = ChecksumType::from_raw(number).ok_or(SuperblockError::ChecksumType { csum_type: number })?;
    let have = checksum(raw, csum_type);
    let expect = Digest::new(raw.csum.get(..csum_type.digest_len()).unwrap_or(&raw.csum));
    if have == expect { Ok(csum_type) } else { Err(SuperblockError::Checksum { have, expect }) }
}

/// Puts the checksum that fits the rest.
pub(super) fn sign(raw: &mut RawSuperblock, csum_type: ChecksumType) {
    let digest = checksum(raw, csum_type);
    raw.csum = [0; CSUM_FIELD_BYTES];
    for (to, from) in raw.csum.iter_mut().zip(digest.as_bytes()) {
        *to = *from;
    }
}

fn checksum(raw: &RawSuperblock, csum_type: ChecksumType) -> Digest {
    csum_type.digest(raw.as_bytes().get(CSUM_FIELD_BYTES..).unwrap_or_default())
}

pub(super) fn check_fields(raw: &RawSuperblock, at: Physical) -> Result<(), SuperblockError> {
    let bytenr = Physical::new(raw.bytenr.get());
    if bytenr != at {
        return Err(SuperblockError::Bytenr { have: bytenr, expect: at });
    }
    check_sizes(raw)?;
    check_roots(raw)?;
    check_totals(raw)?;
    check_fsid(raw)
}

fn check_sizes(raw: &RawSuperblock) -> Result<(), SuperblockError> {
    let (sectorsize, nodesize) = (raw.sectorsize.get(), raw.nodesize.get());
    if !is_block_size(sectorsize) {
        return Err(field("sectorsize", sectorsize, "a power of two from 4096 to 65536"));
    }
    if !is_block_size(nodesize) {
        return Err(field("nodesize", nodesize, "a power of two from 4096 to 65536"));
    }
    if nodesize < sectorsize {
        return Err(field("nodesize", nodesize, "the sector size or more"));
    }
    if raw.leafsize.get() != nodesize {
        return Err(field("leafsize", raw.leafsize.get(), "the node size"));
    }
    if !raw.stripesize.get().is_power_of_two() {
        return Err(field("stripesize", raw.stripesize.get(), "a power of two"));
    }
    Ok(())
}

fn is_block_size(bytes: u32) -> bool {
    bytes.is_power_of_two() && (MIN_BLOCK_BYTES..=MAX_BLOCK_BYTES).contains(&bytes)
}

fn check_roots(raw: &RawSuperblock) -> Result<(), SuperblockError> {
    let roots = [
        ("root", raw.root, "root_level", raw.root_level),
        ("chunk_root", raw.chunk_root, "chunk_root_level", raw.chunk_root_level),
        ("log_root", raw.log_root, "log_root_level", raw.log_root_level),
    ];
    let sectorsize = raw.sectorsize.get();
    for (name, bytenr, level_name, level) in roots {
        if level > MAX_LEVEL {
            return Err(field(level_name, u32::from(level), "7 at most"));
        }
        if !bytenr.get().is_multiple_of(u64::from(sectorsize)) {
            return Err(SuperblockError::Unaligned { field: name, have: Logical::new(bytenr.get()), sectorsize });
        }
        if bytenr.get() == 0 && name != "log_root" {
            return Err(field(name, 0u32, "not 0"));
        }
    }
    Ok(())
}

fn check_totals(raw: &RawSuperblock) -> Result<(), SuperblockError> {
    if raw.generation.get() == 0 {
        return Err(field("generation", 0u32, "not 0"));
    }
    if raw.num_devices.get() == 0 {
        return Err(field("num_devices", 0u32, "at least 1"));
    }
    if raw.total_bytes.get() == 0 {
        return Err(field("total_bytes", 0u32, "not 0"));
    }
    if raw.bytes_used.get() < MIN_TREES * u64::from(raw.nodesize.get()) {
        return Err(field("bytes_used", raw.bytes_used.get(), "at least six nodes"));
    }
    let array_bytes = raw.sys_chunk_array_size.get();
    if array_bytes as usize > raw.sys_chunk_array.len() {
        return Err(field("sys_chunk_array_size", array_bytes, "2048 at most"));
    }
    if array_bytes < MIN_SYS_CHUNK_ARRAY_BYTES {
        return Err(field("sys_chunk_array_size", array_bytes, "97 at least"));
    }
    Ok(())
}

fn check_fsid(raw: &RawSuperblock) -> Result<(), SuperblockError> {
    let incompat = IncompatFlags::from_bits_retain(raw.incompat_flags.get());
    let expect = if incompat.contains(IncompatFlags::METADATA_UUID) { raw.metadata_uuid } else { raw.fsid };
    let have = RawDevItem::fsid(&raw.dev_item);
    if have == expect {
        return Ok(());
    }
    Err(SuperblockError::DevItemFsid { have: Uuid::from_bytes(have), expect: Uuid::from_bytes(expect) })
}

/// The chunks of the array, each checked, in the order stored. At most 21 fit.
pub(super) fn check_sys_chunks(raw: &RawSuperblock) -> Result<Vec<SysChunk>, SuperblockError> {
    let array_bytes = raw.sys_chunk_array_size.get() as usize;
    let array = raw.sys_chunk_array.get(..array_bytes).unwrap_or(&raw.sys_chunk_array);
    let incompat = IncompatFlags::from_bits_retain(raw.incompat_flags.get());
    let mut chunks = Vec::new();
    let mut rest = array;
    while !rest.is_empty() {
        let offset = array.len() - rest.len();
        let cut = SuperblockError::SysChunkCut { offset, array_bytes };
        let (disk_key, after_key) = DiskKey::read_from_prefix(rest).map_err(|_| cut)?;
        let key = disk_key.key();
        if key.objectid != object::FIRST_CHUNK_TREE || key.item_type != key_type::CHUNK_ITEM {
            return Err(SuperblockError::SysChunkKey { offset, have: key });
        }
        let logical = Logical::new(key.offset);
        let wrong = |error| SuperblockError::SysChunk { logical, error };
        let (chunk, after) = ChunkItem::parse_prefix(after_key).map_err(wrong)?;
        chunk.check(logical, raw.sectorsize.get(), incompat).map_err(wrong)?;
        if !chunk.type_flags.contains(BlockGroupFlags::SYSTEM) {
            return Err(SuperblockError::SysChunkType { logical });
        }
        chunks.push(SysChunk { logical, chunk });
        rest = after;
    }
    Ok(chunks)
}

fn field(field: &'static str, have: impl Into<u64>, expect: &'static str) -> SuperblockError {
    SuperblockError::Field { field, have: have.into(), expect }
}
