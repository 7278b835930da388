//! The layouts of md RAID10: near, far and offset (`__raid10_find_phys()` and `calc_sectors()` in
//! `drivers/md/raid10.c`).
//!
//! Near copies lie side by side in a row of chunks, in the order of the devices. Far copies repeat the whole layout in
//! the next part of each device, shifted by one device; offset copies do that chunk row by chunk row. md itself demands
//! a chunk size that is a power of two; the arithmetic here does not, so that sizes in between can be tried.

use std::fmt;
use std::str::FromStr;

use smallvec::SmallVec;

use crate::units::Physical;

/// Chunks are multiples of this (a page).
const CHUNK_STEP_BYTES: u64 = 4096;
/// More copies than this no layout keeps.
const COPIES_MAX: u32 = 16;

/// Where copies go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Layout {
    /// `nN`: N copies side by side.
    Near(u32),
    /// `fN`: N copies, each in a part of the devices of its own.
    Far(u32),
    /// `oN`: N copies, row below row.
    Offset(u32),
}

/// Text that names no layout.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown md RAID10 layout {given:?}, expect nN, fN or oN with 2 <= N <= {COPIES_MAX}")]
pub struct UnknownLayout {
    /// What was given.
    pub given: String,
}

impl FromStr for Layout {
    type Err = UnknownLayout;

    fn from_str(text: &str) -> Result<Self, UnknownLayout> {
        let copies = |rest: &str| rest.parse().ok().filter(|copies| (2..=COPIES_MAX).contains(copies));
        let layout = if let Some(rest) = text.strip_prefix('n') {
            copies(rest).map(Self::Near)
        } else if let Some(rest) = text.strip_prefix('f') {
            copies(rest).map(Self::Far)
        } else {
            text.strip_prefix('o').and_then(copies).map(Self::Offset)
        };
        layout.ok_or_else(|| UnknownLayout { given: text.to_owned() })
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Near(copies) => write!(f, "n{copies}"),
            Self::Far(copies) => write!(f, "f{copies}"),
            Self::Offset(copies) => write!(f, "o{copies}"),
        }
    }
}

/// Measures that make no array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadGeometry {
    /// The chunk is no multiple of a page, or nothing.
    #[error("chunk size {chunk_bytes} is no multiple of {CHUNK_STEP_BYTES} bytes")]
    Chunk {
        /// As given.
        chunk_bytes: u64,
    },
    /// Copies of a chunk would share a device.
    #[error("{copies} copies need as many devices, have {devices}")]
    Devices {
        /// As given.
        devices: u32,
        /// By the layout.
        copies: u32,
    },
    /// A layout that md does not know.
    #[error("unknown md RAID10 layout {layout:#x}")]
    Layout {
        /// As in the super block.
        layout: u32,
    },
    /// Not a chunk fits.
    #[error("members of {member_bytes} bytes are too small")]
    Member {
        /// As given.
        member_bytes: u64,
    },
}

/// One copy of a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Copy {
    /// The member, from 0.
    pub device: u32,
    /// Where on it.
    pub at: Physical,
}

/// All copies of a byte, the first one first.
pub type Copies = SmallVec<[Copy; 4]>;

/// The geometry of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Raid10 {
    layout: Layout,
    devices: u32,
    chunk_bytes: u64,
    near: u64,
    far: u64,
    is_offset: bool,
    /// Far copies stay within sets of so many members.
    far_set: u64,
    /// Rows between far copies.
    stride_rows: u64,
    array_chunks: u64,
}

impl Raid10 {
    /// An array of `devices` members of `member_bytes` each.
    pub fn new(layout: Layout, devices: u32, chunk_bytes: u64, member_bytes: u64) -> Result<Self, BadGeometry> {
        let (near, far) = (layout.near_copies(), layout.far_copies());
        let far_set = u64::from(devices).max(1);
        Self::of(layout, (near, far, matches!(layout, Layout::Offset(_)), far_set), devices, chunk_bytes, member_bytes)
    }

    /// An array with the layout of an md super block: near copies in bits 0 to 7, far copies in 8 to 15, bit 16 for
    /// offset, and in 17 and 18 how far copies are kept within sets of members.
    pub fn of_md(layout: u32, devices: u32, chunk_bytes: u64, member_bytes: u64) -> Result<Self, BadGeometry> {
        let (near, far, is_offset) = (layout & 0xff, layout >> 8 & 0xff, layout & 1 << 16 != 0);
        let bad = BadGeometry::Layout { layout };
        let copies = near.checked_mul(far).filter(|copies| (1..=COPIES_MAX).contains(copies)).ok_or(bad)?;
        let far_set = match layout >> 17 {
            0 => devices,
            1 => devices / far,
            2 => copies,
            _ => return Err(bad),
        };
        if far_set == 0 || far_set > devices || (far_set < far && layout >> 17 != 0) {
            return Err(bad);
        }
        let kind = match (far, is_offset) {
            (1, _) => Layout::Near(near),
            (_, false) => Layout::Far(far),
            (_, true) => Layout::Offset(far),
        };
        Self::of(kind, (near, far, is_offset, u64::from(far_set)), devices, chunk_bytes, member_bytes)
    }

    fn of(
        layout: Layout,
        (near, far, is_offset, far_set): (u32, u32, bool, u64),
        devices: u32,
        chunk_bytes: u64,
        member_bytes: u64,
    ) -> Result<Self, BadGeometry> {
        if chunk_bytes == 0 || !chunk_bytes.is_multiple_of(CHUNK_STEP_BYTES) {
            return Err(BadGeometry::Chunk { chunk_bytes });
        }
        let copies = near.saturating_mul(far);
        if copies == 0 || devices < copies {
            return Err(BadGeometry::Devices { devices, copies });
        }
        let member_chunks = member_bytes / chunk_bytes;
        if member_chunks < u64::from(far) {
            return Err(BadGeometry::Member { member_bytes });
        }
        let (disks, near, far) = (u64::from(devices), u64::from(near), u64::from(far));
        // As `calc_sectors`: what the array holds, and from that back what each member needs.
        let array_chunks = (member_chunks / far).checked_mul(disks).ok_or(BadGeometry::Member { member_bytes })? / near;
        let used = array_chunks.saturating_mul(near * far).div_ceil(disks);
        let stride_rows = if is_offset { 1 } else { used / far };
        Ok(Self { layout, devices, chunk_bytes, near, far, is_offset, far_set, stride_rows, array_chunks })
    }

    /// The layout.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// How many members.
    pub fn devices(&self) -> u32 {
        self.devices
    }

    /// The chunk size.
    pub fn chunk_bytes(&self) -> u64 {
        self.chunk_bytes
    }

    /// What the array holds.
    pub fn len_bytes(&self) -> u64 {
        self.array_chunks.saturating_mul(self.chunk_bytes)
    }

    /// The data of one row of chunks over all members: what md counts as a stripe when it sets the readahead.
    pub fn stripe_bytes(&self) -> u64 {
        self.chunk_bytes * u64::from(self.devices) / self.near
    }

    /// How far from `offset` the end of its chunk is.
    pub fn left_in_chunk(&self, offset: u64) -> u64 {
        self.chunk_bytes - offset % self.chunk_bytes
    }

    /// Where the byte at `offset` of the array lies.
    pub fn copies(&self, offset: u64) -> Copies {
        let disks = u64::from(self.devices);
        let (chunk, within) = (offset / self.chunk_bytes, offset % self.chunk_bytes);
        // Near copies take consecutive places of a grid that is filled row by row.
        let first = chunk * self.near;
        let step = if self.is_offset { self.far } else { 1 };
        let mut row = first / disks * step;
        let mut copies = Copies::new();
        for near in 0..self.near {
            let column = (first + near) % disks;
            row += u64::from(near > 0 && column == 0);
            let mut device = column;
            for far in 0..self.far {
                if far > 0 {
                    device = self.next_far(device);
                }
                let at = Physical::new((row + far * self.stride_rows) * self.chunk_bytes + within);
                copies.push(Copy { device: device as u32, at });
            }
        }
        copies
    }

    /// The member that has the next far copy of what `device` has: within its set, of which the last one takes the members
    /// that are left over.
    fn next_far(&self, device: u64) -> u64 {
        let (disks, set) = (u64::from(self.devices), self.far_set);
        let last_start = (disks / set - 1) * set;
        let moved = device + self.near;
        if !disks.is_multiple_of(set) && moved > last_start {
            (moved - last_start) % (set + disks % set) + last_start
        } else {
            moved % set + device / set * set
        }
    }
}

impl Layout {
    /// How many copies there are of each chunk.
    pub fn copies(self) -> u32 {
        match self {
            Self::Near(copies) | Self::Far(copies) | Self::Offset(copies) => copies,
        }
    }

    fn near_copies(self) -> u32 {
        if let Self::Near(copies) = self { copies } else { 1 }
    }

    fn far_copies(self) -> u32 {
        if let Self::Near(_) = self { 1 } else { self.copies() }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const K: u64 = 1024;

    /// The first `chunks` chunks as letters on a map of the members, as in md(4).
    fn map(layout: &str, devices: u32, rows: u64, chunks: u64) -> Vec<String> {
        let array = Raid10::new(layout.parse().unwrap(), devices, 4 * K, rows * 4 * K).unwrap();
        let mut grid = vec![vec!['.'; devices as usize]; rows as usize];
        for chunk in 0..chunks {
            for copy in array.copies(chunk * 4 * K) {
                let cell = &mut grid[(copy.at.raw() / (4 * K)) as usize][copy.device as usize];
                assert_eq!(*cell, '.', "two chunks in one place");
                *cell = char::from(b'A' + chunk as u8);
            }
        }
        grid.into_iter().map(|row| row.into_iter().collect()).collect()
    }

    #[test]
    fn layouts_lie_as_the_manual_draws_them() {
        assert_eq!(map("n2", 2, 3, 3), ["AA", "BB", "CC"]);
        assert_eq!(map("n2", 3, 3, 4), ["AAB", "BCC", "DD."]);
        assert_eq!(map("n2", 4, 2, 4), ["AABB", "CCDD"]);
        assert_eq!(map("f2", 2, 4, 4), ["AB", "CD", "BA", "DC"]);
        assert_eq!(map("f2", 3, 4, 6), ["ABC", "DEF", "CAB", "FDE"]);
        assert_eq!(map("o2", 2, 4, 4), ["AB", "BA", "CD", "DC"]);
        assert_eq!(map("o2", 3, 4, 6), ["ABC", "CAB", "DEF", "FDE"]);
        assert_eq!(map("n3", 4, 3, 4), ["AAAB", "BBCC", "CDDD"]);
    }

    #[test]
    fn an_array_holds_what_its_members_hold_over_the_copies() {
        for (layout, devices, expect) in
            [("n2", 2, 100), ("f2", 2, 100), ("o2", 2, 100), ("n2", 3, 150), ("f3", 4, 132)]
        {
            let array = Raid10::new(layout.parse().unwrap(), devices, 12 * K, 100 * 12 * K).unwrap();
            assert_eq!(array.len_bytes(), expect * 12 * K, "{layout} {devices}");
        }
    }

    #[test]
    fn measures_that_make_no_array_are_refused() {
        let new = |layout: Layout, devices, chunk, member| Raid10::new(layout, devices, chunk, member).unwrap_err();
        assert_eq!(new(Layout::Near(2), 2, 5000, 1 << 30), BadGeometry::Chunk { chunk_bytes: 5000 });
        assert_eq!(new(Layout::Near(3), 2, 4096, 1 << 30), BadGeometry::Devices { devices: 2, copies: 3 });
        assert_eq!(new(Layout::Far(2), 2, 4096, 4096), BadGeometry::Member { member_bytes: 4096 });
        for text in ["", "n", "n1", "x2", "f99", "2"] {
            assert!(text.parse::<Layout>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn copies_lie_on_different_members_inside_them_and_nowhere_twice(
            kind in 0..3_u32, copies in 2..4_u32, extra in 0..3_u32, chunk in 1..5_u64, rows in 6..20_u64,
        ) {
            let layout = [Layout::Near(copies), Layout::Far(copies), Layout::Offset(copies)][kind as usize];
            let (devices, chunk_bytes) = (copies + extra, chunk * 4096);
            let array = Raid10::new(layout, devices, chunk_bytes, rows * chunk_bytes).unwrap();
            let mut used = std::collections::BTreeSet::new();
            for number in 0..array.len_bytes() / chunk_bytes {
                let offset = number * chunk_bytes + 17;
                let found = array.copies(offset);
                prop_assert_eq!(found.len(), copies as usize);
                prop_assert_eq!(array.left_in_chunk(offset), chunk_bytes - 17);
                let members: std::collections::BTreeSet<_> = found.iter().map(|copy| copy.device).collect();
                prop_assert_eq!(members.len(), copies as usize);
                for copy in found {
                    prop_assert!(copy.device < devices && copy.at.raw() < rows * chunk_bytes);
                    prop_assert!(used.insert(copy));
                }
            }
        }
    }
}
