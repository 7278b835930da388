//! Where the bytes of a chunk are: logical to device and back, rows and their parity.
//!
//! Pure arithmetic on a proved [`Chunk`]; no I/O, and nothing about which devices are present. Three layouts cover nine
//! profiles (kernel: `btrfs_map_block` and `map_blocks_*` in `fs/btrfs/volumes.c`):
//!
//! * mirrored: every stripe holds the chunk from its start;
//! * striped: unit `u` of 64 KiB is in row `u / columns`, column `u % columns`, on all stripes of that column;
//! * parity: data column `k` of row `r` is on stripe `(k + r) % n`, P and Q follow as columns `ndata` and `ndata + 1`.

use super::chunk::{Chunk, STRIPE_LEN_BYTES};
use super::profile::Layout;
use crate::units::{DeviceId, DevicePhysical, Logical, LogicalRange, MirrorNum, Physical};
use smallvec::SmallVec;

/// One place that holds a block as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MirrorCopy {
    /// Which copy, from 1.
    pub mirror: MirrorNum,
    /// The index in [`Chunk::stripes`].
    pub stripe: usize,
    /// Where on which device.
    pub place: DevicePhysical,
}

/// All direct copies of a block, by mirror number.
pub type Copies = SmallVec<[MirrorCopy; 4]>;

/// A part of a logical range that is contiguous on one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Where it starts in logical space.
    pub logical: Logical,
    /// In bytes.
    pub len_bytes: u64,
    /// The index in [`Chunk::stripes`].
    pub stripe: usize,
    /// Where it starts on its device.
    pub place: DevicePhysical,
}

/// One 64 KiB column of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// The index in [`Chunk::stripes`].
    pub stripe: usize,
    /// Where it starts on its device.
    pub place: DevicePhysical,
}

/// One row of a parity profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FullStripe {
    /// The number of the row in its chunk.
    pub row: u64,
    /// Where the row's data starts; column `k` starts `k` x 64 KiB later.
    pub logical: Logical,
    /// The data columns in logical order.
    pub data: SmallVec<[Column; 8]>,
    /// The first parity.
    pub p: Column,
    /// The second parity (RAID6).
    pub q: Option<Column>,
}

/// What a byte of a stripe is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It holds a logical address.
    Data {
        /// Which.
        logical: Logical,
        /// Which copy of it.
        mirror: MirrorNum,
        /// The data column of its row (0 where mirrored).
        column: u64,
    },
    /// It is first parity.
    P {
        /// Of this row.
        row: u64,
    },
    /// It is second parity.
    Q {
        /// Of this row.
        row: u64,
    },
    /// It holds nothing: outside the stripe, or in a last row that the chunk does not fill.
    Padding,
}

impl Chunk {
    /// How many direct copies each block has.
    pub fn mirrors(&self) -> u8 {
        self.profile().row().ncopies
    }

    /// How many rows of 64 KiB the stripes have; the last may be shorter than 64 KiB where mirrored.
    pub fn rows(&self) -> u64 {
        self.stripe_bytes().div_ceil(STRIPE_LEN_BYTES)
    }

    /// All direct copies of the byte at `at`, by mirror number; none outside the chunk. RAID5/6 have exactly one.
    pub fn copies(&self, at: Logical) -> Copies {
        (1..=self.mirrors()).filter_map(|mirror| self.copy(at, MirrorNum::new(mirror))).collect()
    }

    /// One direct copy of the byte at `at`; `None` outside the chunk or where there is no such mirror.
    pub fn copy(&self, at: Logical, mirror: MirrorNum) -> Option<MirrorCopy> {
        if !self.range().contains(&at) || mirror.raw() == 0 || mirror.raw() > self.mirrors() {
            return None;
        }
        let offset_bytes = at - self.start();
        let nth = usize::from(mirror.raw() - 1);
        let unit = offset_bytes / STRIPE_LEN_BYTES;
        let (row, column) = (unit / self.data_columns(), unit % self.data_columns());
        let in_row_bytes = row * STRIPE_LEN_BYTES + offset_bytes % STRIPE_LEN_BYTES;
        let (stripe, in_stripe_bytes) = match self.profile().row().layout {
            Layout::Mirrored => (nth, offset_bytes),
            Layout::Striped => (column as usize * self.group() + nth, in_row_bytes),
            Layout::Parity => (self.rotated(column, row), in_row_bytes),
        };
        Some(MirrorCopy { mirror, stripe, place: self.place(stripe, in_stripe_bytes) })
    }

    /// How many bytes from `at` on lie together on each device: to the end of the stripe unit, or of the chunk where
    /// mirrored. 0 outside the chunk.
    pub fn contiguous_bytes(&self, at: Logical) -> u64 {
        if !self.range().contains(&at) {
            return 0;
        }
        let left_bytes = self.end() - at;
        match self.profile().row().layout {
            Layout::Mirrored => left_bytes,
            Layout::Striped | Layout::Parity => {
                left_bytes.min(STRIPE_LEN_BYTES - (at - self.start()) % STRIPE_LEN_BYTES)
            }
        }
    }

    /// The part of `range` inside the chunk, cut where it changes device, as one mirror holds it. Nothing where there
    /// is no such mirror.
    pub fn pieces(&self, range: LogicalRange, mirror: MirrorNum) -> impl Iterator<Item = Piece> + '_ {
        let end = range.end.min(self.end());
        let mut at = range.start.max(self.start());
        std::iter::from_fn(move || {
            if at >= end {
                return None;
            }
            let copy = self.copy(at, mirror)?;
            let len_bytes = self.contiguous_bytes(at).min(end - at);
            let piece = Piece { logical: at, len_bytes, stripe: copy.stripe, place: copy.place };
            at = at + len_bytes;
            Some(piece)
        })
    }

    /// The row that holds the byte at `at`; `None` outside the chunk or where the profile has no parity.
    pub fn full_stripe(&self, at: Logical) -> Option<FullStripe> {
        let row_bytes = STRIPE_LEN_BYTES * self.data_columns();
        self.range().contains(&at).then(|| self.full_stripe_of_row((at - self.start()) / row_bytes)).flatten()
    }

    /// One row by its number; `None` past the last or where the profile has no parity.
    pub fn full_stripe_of_row(&self, row: u64) -> Option<FullStripe> {
        let nparity = u64::from(self.profile().row().nparity);
        if nparity == 0 || row >= self.rows() {
            return None;
        }
        let ndata = self.data_columns();
        let column = |k: u64| {
            let stripe = self.rotated(k, row);
            Column { stripe, place: self.place(stripe, row * STRIPE_LEN_BYTES) }
        };
        Some(FullStripe {
            row,
            logical: self.start() + row * ndata * STRIPE_LEN_BYTES,
            data: (0..ndata).map(column).collect(),
            p: column(ndata),
            q: (nparity > 1).then(|| column(ndata + 1)),
        })
    }

    /// What the byte `offset_in_stripe_bytes` into stripe number `stripe` is for.
    pub fn role_at(&self, stripe: usize, offset_in_stripe_bytes: u64) -> Role {
        if stripe >= self.stripes().len() || offset_in_stripe_bytes >= self.stripe_bytes() {
            return Role::Padding;
        }
        let row = offset_in_stripe_bytes / STRIPE_LEN_BYTES;
        let ndata = self.data_columns();
        let (column, nth) = match self.profile().row().layout {
            Layout::Mirrored => {
                return self.data_role(offset_in_stripe_bytes, stripe, 0);
            }
            Layout::Striped => ((stripe / self.group()) as u64, stripe % self.group()),
            Layout::Parity => {
                let n = self.stripes().len() as u64;
                match (stripe as u64 + n - row % n) % n {
                    k if k == ndata => return Role::P { row },
                    k if k > ndata => return Role::Q { row },
                    k => (k, 0),
                }
            }
        };
        let unit = row * ndata + column;
        self.data_role(unit * STRIPE_LEN_BYTES + offset_in_stripe_bytes % STRIPE_LEN_BYTES, nth, column)
    }

    /// The logical addresses whose rows lie in `[from_bytes, to_bytes)` of every stripe, clipped to the chunk. Both ends
    /// must be multiples of 64 KiB, or the end of the stripe.
    pub fn logical_window(&self, from_bytes: u64, to_bytes: u64) -> LogicalRange {
        let logical = |stripe_bytes: u64| {
            (self.start() + stripe_bytes.min(self.stripe_bytes()) * self.data_columns()).min(self.end())
        };
        logical(from_bytes)..logical(to_bytes)
    }

    fn data_role(&self, offset_bytes: u64, nth: usize, column: u64) -> Role {
        if offset_bytes >= self.len_bytes() {
            return Role::Padding;
        }
        // At most four copies: the table has no profile with more.
        let mirror = MirrorNum::new(nth as u8 + 1);
        Role::Data { logical: self.start() + offset_bytes, mirror, column }
    }

    /// Stripes that hold the same data within a column.
    fn group(&self) -> usize {
        usize::from(self.profile().row().sub_stripes)
    }

    /// The stripe that holds column `k` of `row`, data columns first, then P, then Q.
    fn rotated(&self, k: u64, row: u64) -> usize {
        let n = self.stripes().len() as u64;
        ((k + row % n) % n) as usize
    }

    fn place(&self, stripe: usize, in_stripe_bytes: u64) -> DevicePhysical {
        let (devid, offset) =
            self.stripes().get(stripe).map_or((DeviceId::default(), Physical::default()), |s| (s.devid, s.offset));
        DevicePhysical { devid, physical: offset + in_stripe_bytes }
    }
}

#[cfg(test)]
mod tests;
