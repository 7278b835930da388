//! File data that only log trees know: what was fsynced last and waits for the next mount to replay it. Its extents are
//! not in the extent tree and its checksums not in the checksum tree; both stand in the logs of the subvolumes.
//!
//! Kernel: `btrfs_log_changed_extents` and `log_csums` in fs/btrfs/tree-log.c.

use super::extra::ExtraBlock;
use crate::filesystem::Filesystem;
use crate::format::Key;
use crate::format::items::{Compression, FileExtent, FileExtentItem};
use crate::format::types::key_type;
use crate::tree::{Cursor, LostBlock, ParentCheck, TreeBlock, Visit, Visitor, walk};
use crate::units::{Logical, LogicalRange};
use std::collections::BTreeMap;
use std::sync::Arc;

/// At most so many blocks of logs: 1 Mi x about 100 bytes. One transaction does not write more.
const MAX_BLOCKS: usize = 1 << 20;
/// At most so many extents: 1 Mi x about 50 bytes.
const MAX_EXTENTS: usize = 1 << 20;
/// At most so many bytes of checksums: those of 64 GiB of data with CRC32C.
const MAX_SUM_BYTES: usize = 64 << 20;

/// What the log trees hold.
#[derive(Default)]
pub(super) struct LogContents {
    /// Their blocks, ascending.
    pub(super) blocks: Vec<ExtraBlock>,
    /// Data extents that the extent tree does not list, ascending.
    pub(super) data: Vec<LogicalRange>,
    /// Checksums.
    pub(super) sums: LogSums,
    /// There was more than can be remembered.
    pub(super) overflowed: bool,
}

/// Checksums of sectors by where they start, as the items of the logs have them.
#[derive(Default)]
pub(super) struct LogSums {
    items: BTreeMap<Logical, Box<[u8]>>,
    sectorsize: u64,
    digest_len: usize,
}

impl LogSums {
    /// Cuts `range` into parts with and without checksums.
    pub(super) fn cover(&self, range: LogicalRange, part: &mut dyn FnMut(LogicalRange, Option<&[u8]>)) {
        let mut at = range.start;
        while at < range.end {
            let item =
                self.items.range(..=at).next_back().map(|(start, sums)| (*start, sums, self.end_of(*start, sums)));
            if let Some((start, sums, item_end)) = item.filter(|(_, _, end)| *end > at) {
                let end = item_end.min(range.end);
                let nth = |at: Logical| ((at - start) / self.sectorsize) as usize * self.digest_len;
                part(at..end, sums.get(nth(at)..nth(end)));
                at = end;
            } else {
                let next = self.items.range(at..).map(|(start, _)| *start).find(|start| *start > at);
                let end = next.map_or(range.end, |next| next.min(range.end));
                part(at..end, None);
                at = end;
            }
        }
    }

    /// True where there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    fn end_of(&self, start: Logical, sums: &[u8]) -> Logical {
        start + (sums.len() / self.digest_len.max(1)) as u64 * self.sectorsize
    }
}

/// Reads all log trees.
pub(super) fn read(fs: &Filesystem) -> LogContents {
    let geometry = fs.geometry();
    let sums = LogSums {
        sectorsize: u64::from(geometry.sectorsize()).max(1),
        digest_len: geometry.csum_type().digest_len(),
        items: BTreeMap::new(),
    };
    let mut reader = Reader { blocks: BTreeMap::new(), data: BTreeMap::new(), sums, sum_bytes: 0, overflowed: false };
    for root in fs.log_roots() {
        walk(fs, &root, &mut reader);
    }
    let Reader { blocks, data, sums, overflowed, .. } = reader;
    let blocks = blocks.into_iter().map(|(at, check)| ExtraBlock { at, check }).collect();
    let data = data.into_iter().map(|(start, end)| start..end).filter(|range| !is_listed(fs, range.start)).collect();
    LogContents { blocks, data, sums, overflowed }
}

/// Is there an extent item around `at`? The tree that would know may be lost: then nothing is listed.
fn is_listed(fs: &Filesystem, at: Logical) -> bool {
    let Some(root) = fs.roots().extent else { return false };
    let mut cursor = Cursor::new(fs, root);
    cursor.seek_floor(&Key::new(at.raw(), u8::MAX, u64::MAX));
    // Behind the extent item may be its backreferences.
    let Some(start) = cursor.key().map(|key| key.objectid.raw()) else { return false };
    cursor.seek(&Key::new(start, key_type::EXTENT_ITEM, 0));
    let found = cursor.key().filter(|key| key.objectid.raw() == start && key.item_type == key_type::EXTENT_ITEM);
    found.is_some_and(|key| at.raw() >= start && at.raw() - start < key.offset)
}

struct Reader {
    blocks: BTreeMap<Logical, ParentCheck>,
    /// Ends by starts.
    data: BTreeMap<Logical, Logical>,
    sums: LogSums,
    sum_bytes: usize,
    overflowed: bool,
}

impl Reader {
    fn item(&mut self, key: &Key, bytes: &[u8]) {
        match key.item_type {
            key_type::EXTENT_DATA => {
                let range = FileExtentItem::parse(bytes).ok().and_then(|item| content(&item));
                let is_aligned = |at: Logical| at.raw().is_multiple_of(self.sums.sectorsize);
                let Some(range) = range.filter(|range| is_aligned(range.start) && is_aligned(range.end)) else {
                    return;
                };
                if self.data.len() >= MAX_EXTENTS {
                    self.overflowed = true;
                    return;
                }
                let end = self.data.entry(range.start).or_insert(range.end);
                *end = range.end.max(*end);
            }
            key_type::EXTENT_CSUM => {
                if self.sum_bytes + bytes.len() > MAX_SUM_BYTES {
                    self.overflowed = true;
                    return;
                }
                self.sum_bytes += bytes.len();
                self.sums.items.insert(Logical::new(key.offset), bytes.into());
            }
            _ => {}
        }
    }
}

/// Where the bytes that a file has of an extent are stored; of a compressed one, all are needed.
fn content(item: &FileExtentItem<'_>) -> Option<LogicalRange> {
    let FileExtent::Regular(pointer) = &item.extent else { return None };
    if pointer.is_hole() {
        return None;
    }
    pointer.disk_bytenr.raw().checked_add(pointer.disk_num_bytes)?;
    let whole = pointer.disk_range();
    if item.compression != Compression::None {
        return Some(whole);
    }
    let start = whole.start.raw().checked_add(pointer.offset)?;
    let end = start.checked_add(pointer.num_bytes)?.min(whole.end.raw());
    (start < end).then(|| Logical::new(start)..Logical::new(end))
}

impl Visitor for Reader {
    fn pointer(&mut self, at: Logical, check: &ParentCheck) -> Visit {
        if self.blocks.len() >= MAX_BLOCKS {
            self.overflowed = true;
            return Visit::Stop;
        }
        // The first key is checked by links.
        let check = ParentCheck { first_key: None, owner: None, ..*check };
        if self.blocks.insert(at, check).is_some() { Visit::Skip } else { Visit::Into }
    }

    fn block(&mut self, block: &Arc<TreeBlock>) -> Visit {
        if block.level() == 0 {
            for slot in 0..block.len() {
                if let Some((key, bytes)) = block.item(slot) {
                    self.item(&key, bytes);
                }
            }
        }
        Visit::Into
    }

    fn lost(&mut self, _: Logical, _: &ParentCheck, _: &LostBlock) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_cut_at_the_checksums_of_the_log() {
        let sum = |first: u8, sectors: usize| (first..).take(sectors).flat_map(|n| [n; 4]).collect::<Vec<u8>>();
        let items = BTreeMap::from([
            (Logical::new(8192), sum(1, 2).into_boxed_slice()),
            (Logical::new(20480), sum(7, 1).into_boxed_slice()),
        ]);
        let sums = LogSums { items, sectorsize: 4096, digest_len: 4 };
        let mut parts = Vec::new();
        sums.cover(Logical::new(4096)..Logical::new(28672), &mut |range, sums| {
            parts.push((range.start.raw(), range.end.raw(), sums.map(<[u8]>::to_vec)));
        });
        let expect = [
            (4096, 8192, None),
            (8192, 16384, Some(sum(1, 2))),
            (16384, 20480, None),
            (20480, 24576, Some(sum(7, 1))),
            (24576, 28672, None),
        ];
        assert_eq!(parts, expect);
        let mut part = Vec::new();
        sums.cover(Logical::new(12288)..Logical::new(16384), &mut |_, sums| part.push(sums.map(<[u8]>::to_vec)));
        assert_eq!(part, [Some(vec![2; 4])]);
    }
}
