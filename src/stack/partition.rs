//! Partition tables: GPT with sectors of 512 or 4096 bytes, from the start of the disk or from the copy at its end, and
//! MBR with extended partitions.
//!
//! Decides where partitions are, and nothing of what is in them. UEFI specification, chapter 5; the kernel's
//! `block/partitions/{efi,msdos}.c`.

use crate::format::le::{le_u32, le_u64};
use std::collections::BTreeSet;

/// Partitions that are looked at.
const MAX_PARTITIONS: usize = 256;
/// The table of a GPT may be so long.
const MAX_TABLE_BYTES: u64 = 1 << 20;
/// Sectors of an MBR, whatever the disk's are.
const MBR_SECTOR: u64 = 512;

/// A partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Partition {
    /// From 1.
    pub(super) number: u32,
    pub(super) start: u64,
    pub(super) len_bytes: u64,
}

/// A table with at least one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Table {
    pub(super) is_gpt: bool,
    /// The table at the start is damaged, the one at the end was used.
    pub(super) is_backup: bool,
    pub(super) partitions: Vec<Partition>,
}

/// Gives the bytes of a range, or nothing where they cannot be read.
type Read<'a> = dyn Fn(u64, usize) -> Option<Vec<u8>> + 'a;

/// The partition table of a disk of `len` bytes.
pub(super) fn table(len: u64, read: &Read<'_>) -> Option<Table> {
    let boot = read(0, MBR_SECTOR as usize)?;
    let mbr = mbr(&boot, len, read);
    let is_protective = mbr.as_ref().is_some_and(|(_, has_gpt)| *has_gpt);
    let gpt = || [512, 4096].into_iter().find_map(|sector| gpt(len, sector, read));
    let is_free_for_gpt = is_protective || mbr.is_none();
    if let Some(table) = is_free_for_gpt.then(gpt).flatten() {
        return Some(table);
    }
    let (partitions, _) = mbr.filter(|(partitions, _)| !is_protective && !partitions.is_empty())?;
    Some(Table { is_gpt: false, is_backup: false, partitions })
}

fn gpt(len: u64, sector: u64, read: &Read<'_>) -> Option<Table> {
    let last = (len / sector).checked_sub(1)?;
    let found = |lba: u64| gpt_at(lba, len, sector, read);
    let (partitions, is_backup) = found(1).map(|p| (p, false)).or_else(|| found(last).map(|p| (p, true)))?;
    (!partitions.is_empty()).then_some(Table { is_gpt: true, is_backup, partitions })
}

fn gpt_at(lba: u64, len: u64, sector: u64, read: &Read<'_>) -> Option<Vec<Partition>> {
    let header = read(lba.checked_mul(sector)?, sector as usize)?;
    let header_bytes = le_u32(&header, 12) as usize;
    if !header.starts_with(b"EFI PART") || !(92..=sector as usize).contains(&header_bytes) || le_u64(&header, 24) != lba
    {
        return None;
    }
    let mut cleared = header.get(..header_bytes)?.to_vec();
    cleared.get_mut(16..20)?.fill(0);
    if crc32(&cleared) != le_u32(&header, 16) {
        return None;
    }
    let (entries_lba, count, entry_bytes) = (le_u64(&header, 72), le_u32(&header, 80), le_u32(&header, 84));
    let table_bytes = u64::from(count).checked_mul(u64::from(entry_bytes))?;
    if entry_bytes < 128 || table_bytes > MAX_TABLE_BYTES {
        return None;
    }
    let entries = read(entries_lba.checked_mul(sector)?, table_bytes as usize)?;
    if crc32(&entries) != le_u32(&header, 88) {
        return None;
    }
    let partition = |(nth, entry): (usize, &[u8])| {
        let is_used = entry.get(..16)?.iter().any(|byte| *byte != 0);
        let (first, last) = (le_u64(entry, 32), le_u64(entry, 40));
        let start = first.checked_mul(sector)?;
        let end = last.checked_add(1)?.checked_mul(sector)?;
        (is_used && first > 1 && start < end && end <= len).then_some(Partition {
            number: nth as u32 + 1,
            start,
            len_bytes: end - start,
        })
    };
    Some(entries.chunks_exact(entry_bytes as usize).enumerate().filter_map(partition).take(MAX_PARTITIONS).collect())
}

/// The partitions, and whether one of them only keeps the place of a GPT.
fn mbr(boot: &[u8], len: u64, read: &Read<'_>) -> Option<(Vec<Partition>, bool)> {
    let entries = entries(boot)?;
    let mut partitions = Vec::new();
    let mut has_gpt = false;
    for (nth, entry) in (1..).zip(entries) {
        let Some(entry) = entry else { continue };
        match entry.kind {
            0xee => has_gpt = true,
            0x05 | 0x0f | 0x85 => {
                logical(entry.start, len, read, &mut partitions);
                continue;
            }
            _ => {}
        }
        if entry.fits(0, len) {
            partitions.push(Partition { number: nth, start: entry.start, len_bytes: entry.len_bytes });
        }
    }
    partitions.sort_by_key(|partition| partition.number);
    Some((partitions, has_gpt))
}

/// The chain of tables in an extended partition. Each names one partition and the next table; one that was seen before
/// ends it.
fn logical(extended: u64, len: u64, read: &Read<'_>, partitions: &mut Vec<Partition>) {
    let (mut at, mut seen, mut number) = (extended, BTreeSet::new(), 5);
    while seen.insert(at) && seen.len() <= MAX_PARTITIONS {
        let Some([first, next, ..]) = read(at, MBR_SECTOR as usize).and_then(|table| entries(&table)) else { return };
        if let Some(entry) = first.filter(|entry| entry.fits(at, len)) {
            partitions.push(Partition { number, start: at + entry.start, len_bytes: entry.len_bytes });
            number += 1;
        }
        let Some(next) = next.filter(|next| matches!(next.kind, 0x05 | 0x0f | 0x85)) else { return };
        let Some(place) = extended.checked_add(next.start).filter(|place| *place < len) else { return };
        at = place;
    }
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    kind: u8,
    start: u64,
    len_bytes: u64,
}

impl Entry {
    fn fits(&self, base: u64, len: u64) -> bool {
        let end = base.checked_add(self.start).and_then(|start| start.checked_add(self.len_bytes));
        self.start > 0 && self.len_bytes > 0 && end.is_some_and(|end| end <= len)
    }
}

/// The four entries; `None` where the sector is no table.
fn entries(table: &[u8]) -> Option<[Option<Entry>; 4]> {
    if table.get(510..512)? != [0x55, 0xaa] {
        return None;
    }
    let mut entries = [None; 4];
    for (nth, slot) in entries.iter_mut().enumerate() {
        let entry = table.get(446 + 16 * nth..462 + 16 * nth)?;
        let [status, _, _, _, kind, ..] = *entry else { return None };
        if !matches!(status, 0 | 0x80) {
            return None;
        }
        let sectors = |at| u64::from(le_u32(entry, at)) * MBR_SECTOR;
        *slot = (kind != 0).then(|| Entry { kind, start: sectors(8), len_bytes: sectors(12) });
    }
    Some(entries)
}

/// The CRC-32 of Ethernet, bit by bit: tables are short.
fn crc32(bytes: &[u8]) -> u32 {
    !super::crc32_from(u32::MAX, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(disk: &[u8]) -> Option<Table> {
        let read = |at: u64, len: usize| {
            let at = usize::try_from(at).ok()?;
            disk.get(at..at.checked_add(len)?).map(<[u8]>::to_vec)
        };
        table(disk.len() as u64, &read)
    }

    fn put(disk: &mut [u8], at: usize, bytes: &[u8]) {
        disk[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// A header at sector `lba`, its entries at `entries_lba`; two partitions.
    fn put_gpt(disk: &mut [u8], sector: usize, lba: u64, entries_lba: u64) {
        let mut entries = vec![0; 128 * 128];
        for (nth, (first, last)) in [(1, (40_u64, 49_u64)), (4, (50, 59))] {
            let at = 128 * (nth - 1);
            entries[at] = 1;
            put(&mut entries, at + 32, &first.to_le_bytes());
            put(&mut entries, at + 40, &last.to_le_bytes());
        }
        put(disk, entries_lba as usize * sector, &entries);
        let mut header = vec![0; 92];
        put(&mut header, 0, b"EFI PART");
        put(&mut header, 12, &92_u32.to_le_bytes());
        put(&mut header, 24, &lba.to_le_bytes());
        put(&mut header, 72, &entries_lba.to_le_bytes());
        put(&mut header, 80, &128_u32.to_le_bytes());
        put(&mut header, 84, &128_u32.to_le_bytes());
        put(&mut header, 88, &crc32(&entries).to_le_bytes());
        let sum = crc32(&header);
        put(&mut header, 16, &sum.to_le_bytes());
        put(disk, lba as usize * sector, &header);
    }

    fn mbr_entry(disk: &mut [u8], table: usize, nth: usize, kind: u8, start: u32, sectors: u32) {
        let at = table + 446 + 16 * nth;
        disk[at + 4] = kind;
        put(disk, at + 8, &start.to_le_bytes());
        put(disk, at + 12, &sectors.to_le_bytes());
        put(disk, table + 510, &[0x55, 0xaa]);
    }

    #[test]
    fn a_gpt_is_found_with_either_sector_size_and_from_its_copy_at_the_end() {
        for sector in [512, 4096] {
            let mut disk = vec![0; 200 * sector];
            mbr_entry(&mut disk, 0, 0, 0xee, 1, 199);
            put_gpt(&mut disk, sector, 199, 160);
            let backup = of(&disk).unwrap();
            assert!(backup.is_gpt && backup.is_backup, "{sector}");
            put_gpt(&mut disk, sector, 1, 2);
            let first = of(&disk).unwrap();
            assert!(first.is_gpt && !first.is_backup, "{sector}");
            let s = sector as u64;
            assert_eq!(
                first.partitions,
                [
                    Partition { number: 1, start: 40 * s, len_bytes: 10 * s },
                    Partition { number: 4, start: 50 * s, len_bytes: 10 * s }
                ]
            );
            assert_eq!(backup.partitions, first.partitions);
        }
    }

    #[test]
    fn logical_partitions_are_numbered_from_5_and_a_loop_of_tables_ends() {
        let mut disk = vec![0; 1000 * 512];
        mbr_entry(&mut disk, 0, 0, 0x83, 10, 20);
        mbr_entry(&mut disk, 0, 1, 0x0f, 100, 500);
        mbr_entry(&mut disk, 100 * 512, 0, 0x83, 2, 8);
        mbr_entry(&mut disk, 100 * 512, 1, 0x05, 50, 50);
        mbr_entry(&mut disk, 150 * 512, 0, 0x83, 2, 8);
        mbr_entry(&mut disk, 150 * 512, 1, 0x05, 0, 50);
        let found: Vec<_> = of(&disk).unwrap().partitions.iter().map(|p| (p.number, p.start / 512)).collect();
        assert_eq!(found, [(1, 10), (5, 102), (6, 152)]);
    }

    #[test]
    fn a_partition_that_leaves_the_disk_is_none_of_it() {
        let mut disk = vec![0; 1000 * 512];
        mbr_entry(&mut disk, 0, 0, 0x83, 990, 20);
        assert_eq!(of(&disk), None);
    }

    #[test]
    fn crc32_is_that_of_ethernet() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }
}
