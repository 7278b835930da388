//! Which sectors of a range have checksums: a forward reader over the checksum tree.

use crate::format::Key;
use crate::format::types::{key_type, object};
use crate::tree::{BlockSource, Cursor, LostSubtree, TreeRoot};
use crate::units::{Logical, LogicalRange};

/// What lies closer is reached faster item by item than by a new descent.
const LEAP_BYTES: u64 = 64 << 20;

/// A part of a range, with its checksums or without.
pub(crate) enum Part<'a> {
    /// `sums` holds one checksum per sector of the range.
    Summed(LogicalRange, &'a [u8]),
    /// No checksum item covers the range.
    Unsummed(LogicalRange),
}

/// Reads checksums in ascending order of addresses.
pub(crate) struct Sums<'s, S: BlockSource + ?Sized> {
    cursor: Option<Cursor<'s, S>>,
    sectorsize: u64,
    digest_len: usize,
    /// Everything below has been asked for or counted.
    consumed: Logical,
    /// Sectors with a checksum that nobody asked for; `None` where not everything is asked for.
    orphan_sectors: Option<u64>,
}

impl<'s, S: BlockSource + ?Sized> Sums<'s, S> {
    /// A reader that starts at `from`. Without a root no sector has a checksum. Where not everything will be asked for
    /// (`count_orphans` false) it leaps over what is not.
    pub(crate) fn new(
        source: &'s S,
        root: Option<TreeRoot>,
        from: Logical,
        (sectorsize, digest_len): (u32, usize),
        count_orphans: bool,
    ) -> Self {
        let cursor = root.map(|root| {
            let mut cursor = Cursor::new(source, root);
            cursor.seek_floor(&csum_key(from));
            cursor
        });
        Self {
            cursor,
            sectorsize: u64::from(sectorsize),
            digest_len,
            consumed: from,
            orphan_sectors: count_orphans.then_some(0),
        }
    }

    /// Cuts `range`, which must not lie below an earlier one, into parts with and without checksums.
    pub(crate) fn cover(&mut self, range: LogicalRange, part: &mut dyn FnMut(Part<'_>)) {
        let mut at = range.start;
        self.skip_to(at);
        while at < range.end {
            let Some((item, bytes)) = current(self.cursor.as_ref(), self.sectorsize, self.digest_len) else { break };
            if item.end <= at {
                self.advance();
                continue;
            }
            if item.start >= range.end {
                break;
            }
            if item.start > at {
                part(Part::Unsummed(at..item.start));
                at = item.start;
            }
            let end = item.end.min(range.end);
            let first = ((at - item.start) / self.sectorsize) as usize * self.digest_len;
            let sums = ((end - at) / self.sectorsize) as usize * self.digest_len;
            match bytes.get(first..first + sums) {
                Some(sums) if end > at && (end - at).is_multiple_of(self.sectorsize) => {
                    part(Part::Summed(at..end, sums));
                }
                _ => part(Part::Unsummed(at..end)),
            }
            at = end;
        }
        if at < range.end {
            part(Part::Unsummed(at..range.end));
        }
        self.consumed = self.consumed.max(range.end);
    }

    /// Passes over the checksums of `range`, which must not lie below an earlier one: somebody knows of them.
    pub(crate) fn pass(&mut self, range: LogicalRange) {
        self.skip_to(range.start);
        self.consumed = self.consumed.max(range.end);
    }

    /// Sectors below `at` that have a checksum and that nobody asked for.
    pub(crate) fn skip_to(&mut self, at: Logical) {
        if self.orphan_sectors.is_none() {
            return self.leap_to(at);
        }
        while let Some((item, _)) = current(self.cursor.as_ref(), self.sectorsize, self.digest_len) {
            let from = item.start.max(self.consumed);
            let to = item.end.min(at);
            if to > from {
                self.orphan_sectors = self.orphan_sectors.map(|sum| sum + (to - from) / self.sectorsize);
                self.consumed = to;
            }
            if item.end > at {
                break;
            }
            self.advance();
        }
        self.consumed = self.consumed.max(at);
    }

    /// How many sectors had a checksum but no extent so far.
    pub(crate) fn orphan_sectors(&self) -> u64 {
        self.orphan_sectors.unwrap_or(0)
    }

    /// Goes to `at` without looking at what lies before.
    fn leap_to(&mut self, at: Logical) {
        let is_far = |(item, _): (LogicalRange, &[u8])| item.end + LEAP_BYTES < at;
        let far = current(self.cursor.as_ref(), self.sectorsize, self.digest_len).is_some_and(is_far);
        if let Some(cursor) = self.cursor.as_mut().filter(|_| far) {
            cursor.seek_floor(&csum_key(at));
        }
    }

    /// Subtrees that could not be read so far; the list starts anew.
    pub(crate) fn take_lost(&mut self) -> Vec<LostSubtree> {
        self.cursor.as_mut().map(Cursor::take_lost).unwrap_or_default()
    }

    fn advance(&mut self) {
        if let Some(cursor) = &mut self.cursor {
            cursor.advance();
        }
    }
}

/// The sectors that the checksum item under the cursor covers, and its checksums.
fn current<'c, S: BlockSource + ?Sized>(
    cursor: Option<&'c Cursor<'_, S>>,
    sectorsize: u64,
    digest_len: usize,
) -> Option<(LogicalRange, &'c [u8])> {
    let (key, bytes) = cursor?.item()?;
    let start = Logical::new(key.offset);
    if key.item_type != key_type::EXTENT_CSUM {
        return Some((start..start, &[]));
    }
    let sectors = (bytes.len() / digest_len) as u64;
    Some((start..start + sectors.saturating_mul(sectorsize), bytes))
}

/// The key of the checksum item that starts at `at`.
fn csum_key(at: Logical) -> Key {
    Key::new(object::EXTENT_CSUM.raw(), key_type::EXTENT_CSUM, at.raw())
}
