//! Checksum items of the checksum tree: a plain array of sums, one per sector, from the address in the key on
//! (kernel: `fs/btrfs/file-item.c`). The sums are not judged here.

use super::ItemError;
use crate::checksum::Digest;
use crate::format::Key;
use crate::units::{Logical, LogicalRange};
use std::num::NonZeroU32;

const ITEM: &str = "checksum item";

/// The checksums of a run of sectors. Its key is (-10, 128, address of the first sector).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CsumItem<'a> {
    start: Logical,
    sectorsize: NonZeroU32,
    csum_bytes: usize,
    sums: &'a [u8],
}

impl<'a> CsumItem<'a> {
    /// Reads an item of a file system with this sector size and checksum size, both in bytes and not 0.
    pub fn parse(key: &Key, bytes: &'a [u8], sectorsize: u32, csum_bytes: usize) -> Result<Self, ItemError> {
        let sector = NonZeroU32::new(sectorsize).ok_or(invalid("sectorsize", 0, "not 0"))?;
        if !key.offset.is_multiple_of(u64::from(sectorsize)) {
            return Err(invalid("start", key.offset, "a multiple of the sector size"));
        }
        if csum_bytes == 0 || !bytes.len().is_multiple_of(csum_bytes) {
            return Err(invalid("size", bytes.len() as u64, "a multiple of the checksum size"));
        }
        Ok(Self { start: Logical::new(key.offset), sectorsize: sector, csum_bytes, sums: bytes })
    }

    /// How many sectors have a sum here.
    pub fn sectors(&self) -> u64 {
        self.sums.len().checked_div(self.csum_bytes).unwrap_or(0) as u64
    }

    /// The addresses that have a sum here.
    pub fn range(&self) -> LogicalRange {
        let length_bytes = self.sectors().saturating_mul(u64::from(self.sectorsize.get()));
        self.start..self.start + length_bytes
    }

    /// The sum of the sector that holds `at`, `None` outside of [`Self::range`].
    pub fn sum_at(&self, at: Logical) -> Option<Digest> {
        let offset = at.raw().checked_sub(self.start.raw())?;
        let index = (offset / u64::from(self.sectorsize.get())) as usize;
        let from = index.checked_mul(self.csum_bytes)?;
        self.sums.get(from..from.checked_add(self.csum_bytes)?).map(Digest::new)
    }

    /// All sums as stored, one after the other.
    pub fn as_bytes(&self) -> &'a [u8] {
        self.sums
    }
}

const fn invalid(field: &'static str, have: u64, expect: &'static str) -> ItemError {
    ItemError::Value { item: ITEM, field, have, expect }
}
