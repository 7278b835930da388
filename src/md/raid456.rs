//! The layouts of md RAID4, RAID5 and RAID6: which member has which data column, P and Q of a row (`raid5_compute_sector`
//! in `drivers/md/raid5.c`), and in which order the columns count in Q (`raid6_d0`, `raid6_idx_to_slot`).
//!
//! Pure arithmetic. md numbers the columns of Q's polynomial around the ring of members, beginning behind Q; only for the
//! symmetric layouts is that the order of the data. The layouts of DDF number by member.

use smallvec::SmallVec;
use std::fmt;

/// Chunks are multiples of this (a page).
const CHUNK_STEP_BYTES: u64 = 4096;

/// Where parity and data go from row to row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ParityLayout {
    /// RAID4: P is the last member.
    Last,
    /// P wanders to the left; data from member 0 on.
    LeftAsymmetric,
    /// P wanders to the right; data from member 0 on.
    RightAsymmetric,
    /// P wanders to the left; data from behind the parity on.
    LeftSymmetric,
    /// P wanders to the right; data from behind the parity on.
    RightSymmetric,
    /// Parity in front.
    ParityFirst,
    /// Parity at the end.
    ParityLast,
    /// DDF's RAID6 like right-asymmetric.
    DdfZeroRestart,
    /// DDF's RAID6 like left-asymmetric, one row on.
    DdfNRestart,
    /// DDF's RAID6 like left-symmetric, with Q before P.
    DdfNContinue,
    /// A layout of RAID5 over all members but the last, which has Q.
    WithQLast(Raid5Layout),
}

/// The layouts of RAID5 that RAID6 takes over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Raid5Layout {
    /// See [`ParityLayout::LeftAsymmetric`].
    LeftAsymmetric,
    /// See [`ParityLayout::RightAsymmetric`].
    RightAsymmetric,
    /// See [`ParityLayout::LeftSymmetric`].
    LeftSymmetric,
    /// See [`ParityLayout::RightSymmetric`].
    RightSymmetric,
    /// See [`ParityLayout::ParityFirst`].
    ParityFirst,
}

impl ParityLayout {
    /// That of an md super block; `None` where the level has no such layout.
    pub fn of_md(level: i32, layout: u32) -> Option<Self> {
        use Raid5Layout as Of5;
        Some(match (level, layout) {
            // RAID4 has one layout; the word in the super block means nothing.
            (4, _) => Self::Last,
            (5 | 6, 0) => Self::LeftAsymmetric,
            (5 | 6, 1) => Self::RightAsymmetric,
            (5 | 6, 2) => Self::LeftSymmetric,
            (5 | 6, 3) => Self::RightSymmetric,
            (5 | 6, 4) => Self::ParityFirst,
            (5 | 6, 5) => Self::ParityLast,
            (6, 8) => Self::DdfZeroRestart,
            (6, 9) => Self::DdfNRestart,
            (6, 10) => Self::DdfNContinue,
            (6, 16) => Self::WithQLast(Of5::LeftAsymmetric),
            (6, 17) => Self::WithQLast(Of5::RightAsymmetric),
            (6, 18) => Self::WithQLast(Of5::LeftSymmetric),
            (6, 19) => Self::WithQLast(Of5::RightSymmetric),
            (6, 20) => Self::WithQLast(Of5::ParityFirst),
            _ => return None,
        })
    }

    fn is_ddf(self) -> bool {
        matches!(self, Self::DdfZeroRestart | Self::DdfNRestart | Self::DdfNContinue)
    }
}

impl fmt::Display for ParityLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LeftAsymmetric => "left-asymmetric",
            Self::RightAsymmetric => "right-asymmetric",
            Self::LeftSymmetric => "left-symmetric",
            Self::RightSymmetric => "right-symmetric",
            Self::ParityFirst => "parity-first",
            Self::Last | Self::ParityLast => "parity-last",
            Self::DdfZeroRestart => "ddf-zero-restart",
            Self::DdfNRestart => "ddf-N-restart",
            Self::DdfNContinue => "ddf-N-continue",
            Self::WithQLast(Raid5Layout::LeftAsymmetric) => "left-asymmetric-6",
            Self::WithQLast(Raid5Layout::RightAsymmetric) => "right-asymmetric-6",
            Self::WithQLast(Raid5Layout::LeftSymmetric) => "left-symmetric-6",
            Self::WithQLast(Raid5Layout::RightSymmetric) => "right-symmetric-6",
            Self::WithQLast(Raid5Layout::ParityFirst) => "parity-first-6",
        })
    }
}

/// Which members have what of one row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowMembers {
    /// The member of each data column, in the order of the array's addresses.
    pub data: SmallVec<[u32; 16]>,
    /// The member with P.
    pub p: u32,
    /// The member with Q.
    pub q: Option<u32>,
    /// The power of 2 by which each data column counts in Q, in the same order as `data`.
    pub exponents: SmallVec<[u32; 16]>,
}

/// The geometry of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Raid456 {
    layout: ParityLayout,
    disks: u32,
    parities: u32,
    chunk_bytes: u64,
    rows: u64,
}

/// Most members of an array whose columns Q can tell apart.
const MAX_DISKS: u32 = 255;

impl Raid456 {
    /// An array of `disks` members of `member_bytes` each; `None` for measures that make none.
    pub fn new(level: i32, layout: u32, disks: u32, chunk_bytes: u64, member_bytes: u64) -> Option<Self> {
        let layout = ParityLayout::of_md(level, layout)?;
        let parities = if level == 6 { 2 } else { 1 };
        let is_chunk = chunk_bytes > 0 && chunk_bytes.is_multiple_of(CHUNK_STEP_BYTES);
        let rows = member_bytes.checked_div(chunk_bytes)?;
        let array = Self { layout, disks, parities, chunk_bytes, rows };
        let fits = rows.checked_mul(chunk_bytes).and_then(|bytes| bytes.checked_mul(u64::from(disks))).is_some();
        (is_chunk && disks > parities && disks <= MAX_DISKS && rows > 0 && fits).then_some(array)
    }

    /// The layout.
    pub fn layout(&self) -> ParityLayout {
        self.layout
    }

    /// Members.
    pub fn disks(&self) -> u32 {
        self.disks
    }

    /// 2 with Q.
    pub fn parities(&self) -> u32 {
        self.parities
    }

    /// How much of each member a row takes.
    pub fn chunk_bytes(&self) -> u64 {
        self.chunk_bytes
    }

    /// Data columns of a row.
    pub fn data_columns(&self) -> u64 {
        u64::from(self.disks - self.parities)
    }

    /// What the array holds.
    pub fn len_bytes(&self) -> u64 {
        self.rows * self.chunk_bytes * self.data_columns()
    }

    /// The row, the data column in it, and the offset in the chunk of the byte at `offset`.
    pub fn find(&self, offset: u64) -> (u64, u64, u64) {
        let chunk = offset / self.chunk_bytes;
        (chunk / self.data_columns(), chunk % self.data_columns(), offset % self.chunk_bytes)
    }

    /// Which members have what of this row.
    pub fn members(&self, row: u64) -> RowMembers {
        let disks = u64::from(self.disks);
        let (p, q, data) = match self.layout {
            ParityLayout::WithQLast(layout) => {
                let (p, data) = raid5(layout.into(), row, disks - 1);
                (p, Some(disks - 1), data)
            }
            layout if self.parities == 2 => {
                let (p, q, data) = raid6(layout, row, disks);
                (p, Some(q), data)
            }
            layout => {
                let (p, data) = raid5(layout, row, disks);
                (p, None, data)
            }
        };
        let data: SmallVec<[u32; 16]> = data.into_iter().map(|disk| disk as u32).collect();
        let exponents = self.exponents(&data, p, q);
        RowMembers { data, p: p as u32, q: q.map(|q| q as u32), exponents }
    }

    fn exponents(&self, data: &[u32], p: u64, q: Option<u64>) -> SmallVec<[u32; 16]> {
        let Some(q) = q else { return data.iter().map(|_| 0).collect() };
        if self.layout.is_ddf() {
            return data.iter().copied().collect();
        }
        let disks = u64::from(self.disks);
        // How far behind Q a member stands on the ring, P not counted.
        let behind = |disk: u64| (disk + disks - q - 1) % disks;
        let number = |disk: &u32| {
            let steps = behind(u64::from(*disk));
            (steps - u64::from(behind(p) < steps)) as u32
        };
        data.iter().map(number).collect()
    }
}

impl From<Raid5Layout> for ParityLayout {
    fn from(layout: Raid5Layout) -> Self {
        match layout {
            Raid5Layout::LeftAsymmetric => Self::LeftAsymmetric,
            Raid5Layout::RightAsymmetric => Self::RightAsymmetric,
            Raid5Layout::LeftSymmetric => Self::LeftSymmetric,
            Raid5Layout::RightSymmetric => Self::RightSymmetric,
            Raid5Layout::ParityFirst => Self::ParityFirst,
        }
    }
}

type Members = SmallVec<[u64; 16]>;

/// The member with P, and those with data.
fn raid5(layout: ParityLayout, row: u64, disks: u64) -> (u64, Members) {
    let columns = disks - 1;
    let from_left = columns - row % disks;
    let from_right = row % disks;
    let skip = |p: u64| (0..columns).map(|d| d + u64::from(d >= p)).collect();
    let ring = |p: u64| (0..columns).map(|d| (p + 1 + d) % disks).collect();
    match layout {
        ParityLayout::LeftAsymmetric => (from_left, skip(from_left)),
        ParityLayout::RightAsymmetric => (from_right, skip(from_right)),
        ParityLayout::LeftSymmetric => (from_left, ring(from_left)),
        ParityLayout::RightSymmetric => (from_right, ring(from_right)),
        ParityLayout::ParityFirst => (0, (1..disks).collect()),
        _ => (columns, (0..columns).collect()),
    }
}

/// The members with P and Q, and those with data.
fn raid6(layout: ParityLayout, row: u64, disks: u64) -> (u64, u64, Members) {
    let columns = disks - 2;
    let from_left = disks - 1 - row % disks;
    let from_right = row % disks;
    // Asymmetric: data skips the pair; where P is last, Q is first.
    let skip = |p: u64| {
        let q = (p + 1) % disks;
        let disk = |d: u64| if q == 0 { d + 1 } else { d + 2 * u64::from(d >= p) };
        (p, q, (0..columns).map(disk).collect())
    };
    let ring = |p: u64| (p, (p + 1) % disks, (0..columns).map(|d| (p + 2 + d) % disks).collect());
    match layout {
        ParityLayout::LeftAsymmetric => skip(from_left),
        ParityLayout::RightAsymmetric | ParityLayout::DdfZeroRestart => skip(from_right),
        ParityLayout::LeftSymmetric => ring(from_left),
        ParityLayout::RightSymmetric => ring(from_right),
        ParityLayout::ParityFirst => (0, 1, (2..disks).collect()),
        ParityLayout::DdfNRestart => skip(disks - 1 - (row + 1) % disks),
        ParityLayout::DdfNContinue => {
            let p = from_left;
            (p, (p + disks - 1) % disks, (0..columns).map(|d| (p + 1 + d) % disks).collect())
        }
        _ => (columns, columns + 1, (0..columns).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// `D0 D1 P` by member, row by row, as in md(4).
    fn map(level: i32, layout: u32, disks: u32, rows: u64) -> Vec<String> {
        let array = Raid456::new(level, layout, disks, 4096, 1 << 20).unwrap();
        let row = |row: u64| {
            let members = array.members(row);
            let mut cells = vec!['.'; disks as usize];
            cells[members.p as usize] = 'P';
            members.q.into_iter().for_each(|q| cells[q as usize] = 'Q');
            for (d, disk) in members.data.iter().enumerate() {
                cells[*disk as usize] = char::from(b'0' + d as u8);
            }
            cells.into_iter().collect()
        };
        (0..rows).map(row).collect()
    }

    #[test]
    fn raid5_lies_as_the_kernel_lays_it() {
        assert_eq!(map(5, 0, 3, 3), ["01P", "0P1", "P01"]);
        assert_eq!(map(5, 1, 3, 3), ["P01", "0P1", "01P"]);
        assert_eq!(map(5, 2, 3, 3), ["01P", "1P0", "P01"]);
        assert_eq!(map(5, 3, 3, 3), ["P01", "1P0", "01P"]);
        assert_eq!(map(5, 4, 3, 2), ["P01", "P01"]);
        assert_eq!(map(5, 5, 3, 2), ["01P", "01P"]);
        assert_eq!(map(4, 0, 4, 2), ["012P", "012P"]);
    }

    #[test]
    fn raid6_lies_as_the_kernel_lays_it() {
        assert_eq!(map(6, 0, 4, 4), ["Q01P", "01PQ", "0PQ1", "PQ01"]);
        assert_eq!(map(6, 1, 4, 4), ["PQ01", "0PQ1", "01PQ", "Q01P"]);
        assert_eq!(map(6, 2, 4, 4), ["Q01P", "01PQ", "1PQ0", "PQ01"]);
        assert_eq!(map(6, 3, 4, 4), ["PQ01", "1PQ0", "01PQ", "Q01P"]);
        assert_eq!(map(6, 18, 4, 3), ["01PQ", "1P0Q", "P01Q"]);
        assert_eq!(map(6, 10, 4, 2), ["01QP", "1QP0"]);
    }

    #[test]
    fn q_counts_from_behind_itself_around_the_ring() {
        let array = Raid456::new(6, 0, 5, 4096, 1 << 20).unwrap();
        // Q012P, 012PQ, 01PQ2: in the last row the ring begins with data 2.
        assert_eq!(array.members(0).exponents.to_vec(), [0, 1, 2]);
        assert_eq!(array.members(1).exponents.to_vec(), [0, 1, 2]);
        assert_eq!(array.members(2).exponents.to_vec(), [1, 2, 0]);
    }

    #[test]
    fn every_member_has_one_thing_of_every_row() {
        for (level, layouts) in [(4, vec![0]), (5, (0..6).collect()), (6, (0..21).collect::<Vec<u32>>())] {
            for (layout, disks) in layouts.into_iter().flat_map(|layout| (4..9).map(move |disks| (layout, disks))) {
                let Some(array) = Raid456::new(level, layout, disks, 65536, 1 << 24) else { continue };
                for row in 0..20 {
                    let members = array.members(row);
                    let all = members.data.iter().copied().chain([members.p]).chain(members.q);
                    assert_eq!(all.collect::<BTreeSet<_>>().len(), disks as usize, "level {level} layout {layout}");
                    let exponents: BTreeSet<_> = members.exponents.iter().collect();
                    assert!(level != 6 || exponents.len() == members.data.len());
                }
            }
        }
    }

    #[test]
    fn measures_that_make_no_array_are_none() {
        for (level, layout, disks, chunk, member) in [
            (5, 6, 3, 4096, 1 << 20),
            (5, 2, 1, 4096, 1 << 20),
            (6, 2, 2, 4096, 1 << 20),
            (5, 2, 3, 0, 1 << 20),
            (5, 2, 3, 4000, 1 << 20),
            (5, 2, 3, 65536, 4096),
            (6, 7, 4, 4096, 1 << 20),
            (5, 2, 3, 4096, u64::MAX),
        ] {
            assert_eq!(Raid456::new(level, layout, disks, chunk, member), None, "{level} {layout} {disks}");
        }
    }
}
