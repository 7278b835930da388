//! The super blocks of a zoned device, in a dump of it: a log of them in a ring of two zones, where each commit appends
//! one. Decides which entry is the newest. Reads only; the zones' write pointers are not in a dump.
//!
//! In a dump the place of an ordinary super block, 64 KiB, is entry 16 of the first zone: right in itself, and of the
//! past. Kernel: `sb_write_pointer` and `btrfs_sb_log_location` in `fs/btrfs/zoned.c`, `write_dev_supers`, which writes
//! the ordinary address into all of them.

use super::{SuperblockCopy, SuperblockDefect};
use crate::device::ReadDevice;
use crate::format::{SUPERBLOCK_BYTES, SUPERBLOCK_MAGIC, SUPERBLOCK_OFFSETS, Superblock};
use crate::units::Physical;
use uuid::Uuid;

/// Zones are a power of two, 4 MiB to 8 GiB.
const ZONE_BYTES: std::ops::RangeInclusive<u32> = 22..=33;
/// Damaged entries behind the newest intact one that are told: a log is only appended to.
const MAX_DAMAGED: u64 = 4;

/// The copy that speaks for a device whose super blocks are such a log: its newest intact entry, then damaged ones that
/// were written after it. Empty where there is no log. `fsid` is that of the super block at the ordinary place.
pub(super) fn newest(device: &dyn ReadDevice, fsid: Option<Uuid>) -> Vec<SuperblockCopy> {
    let second = ZONE_BYTES.map(|shift| 1 << shift);
    let logs = std::iter::once(0).chain(second).filter_map(|start| Log::at(device, start, fsid)).collect::<Vec<_>>();
    let Some(newest) = logs.iter().max_by_key(|log| log.superblock.generation()) else { return Vec::new() };
    let entry = |at: u64, state| SuperblockCopy { at: Physical::new(at), state };
    let mut copies = vec![entry(newest.last, Ok(newest.superblock.clone()))];
    let step = SUPERBLOCK_BYTES as u64;
    let behind = (newest.last + step..newest.end).step_by(SUPERBLOCK_BYTES);
    copies.extend(behind.filter_map(|at| Some(entry(at, Err(read(device, at).err()?)))));
    copies
}

/// The part of the log in one zone.
struct Log {
    /// Where the newest intact entry is.
    last: u64,
    superblock: Superblock,
    /// Where the log ends.
    end: u64,
}

impl Log {
    /// The log that starts at `start`, if one does.
    fn at(device: &dyn ReadDevice, start: u64, fsid: Option<Uuid>) -> Option<Self> {
        let step = SUPERBLOCK_BYTES as u64;
        let used = |number: u64| number.checked_mul(step).is_some_and(|bytes| is_used(device, start + bytes));
        if !used(0) {
            return None;
        }
        // Entries are written one after the other: the first that is not used is found by halves.
        let (mut low, mut high) = (0, 1);
        while used(high) {
            (low, high) = (high, high.checked_mul(2)?);
        }
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if used(middle) { low = middle } else { high = middle }
        }
        let entries = (0..high).rev().take(MAX_DAMAGED as usize + 1).map(|number| start + number * step);
        let intact = entries.filter_map(|at| Some((at, read(device, at).ok()?)));
        let mut own = intact.filter(|(_, superblock)| {
            superblock.incompat().contains(crate::format::IncompatFlags::ZONED)
                && fsid.is_none_or(|fsid| fsid == superblock.fsid())
        });
        own.next().map(|(last, superblock)| Self { last, superblock, end: start + high * step })
    }
}

/// Whether a super block was written there, intact or not.
fn is_used(device: &dyn ReadDevice, at: u64) -> bool {
    const MAGIC_AT: usize = 0x40;
    let mut head = [0; MAGIC_AT + SUPERBLOCK_MAGIC.len()];
    let fits = at.checked_add(SUPERBLOCK_BYTES as u64).is_some_and(|end| end <= device.len());
    fits && device.read_at(Physical::new(at), &mut head).is_ok() && head.ends_with(&SUPERBLOCK_MAGIC)
}

fn read(device: &dyn ReadDevice, at: u64) -> Result<Superblock, SuperblockDefect> {
    let mut bytes = [0; SUPERBLOCK_BYTES];
    device.read_at(Physical::new(at), &mut bytes).map_err(|error| match error.raw_os_error() {
        Some(errno) => SuperblockDefect::Unreadable { errno },
        None => SuperblockDefect::PastEnd,
    })?;
    Ok(Superblock::parse(&bytes, SUPERBLOCK_OFFSETS[0])?)
}
