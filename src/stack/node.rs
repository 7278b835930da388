//! The pieces that a device below btrfs is put together from: files, stretches of others behind one another, stripes.
//!
//! A node reads as the kernel's driver would, and can say where every byte is stored. It never writes.

use crate::device::{LowerPlace, Part, ReadDevice};
use crate::units::Physical;
use smallvec::SmallVec;
use std::io;
use std::sync::Arc;

/// Bytes that are put together from those of files.
pub(super) trait Node: Send + Sync {
    fn len(&self) -> u64;

    /// Reads as the kernel would: the first copy that can be read, or what parity gives.
    fn read(&self, at: u64, buf: &mut [u8]) -> io::Result<()>;

    /// Says where a range, which lies inside, is stored.
    fn cut(&self, at: u64, len_bytes: u64, parts: &mut Parts);

    /// See [`crate::device::Below::rebuilt`].
    fn rebuilt(&self, _at: u64, _len_bytes: usize) -> Vec<Vec<u8>> {
        Vec::new()
    }
}

/// Parts in order, without gaps.
#[derive(Debug, Default)]
pub(super) struct Parts(Vec<Part>);

impl Parts {
    /// Adds a part behind the last one; one that goes on where that one ends is made one with it.
    pub(super) fn push(&mut self, len_bytes: u64, copies: SmallVec<[LowerPlace; 2]>, row: Option<(usize, u64)>) {
        if len_bytes == 0 {
            return;
        }
        if let Some(last) = self.0.last_mut().filter(|last| row.is_none() && goes_on(last, &copies)) {
            last.len_bytes += len_bytes;
            return;
        }
        let offset_bytes = self.0.last().map_or(0, |last| last.offset_bytes + last.len_bytes);
        self.0.push(Part { offset_bytes, len_bytes, copies, row });
    }

    pub(super) fn into_vec(self) -> Vec<Part> {
        self.0
    }
}

fn goes_on(last: &Part, copies: &[LowerPlace]) -> bool {
    let next = |place: &LowerPlace| LowerPlace { at: place.at + last.len_bytes, ..*place };
    last.row.is_none()
        && !copies.is_empty()
        && last.copies.len() == copies.len()
        && last.copies.iter().zip(copies).all(|(before, now)| next(before) == *now)
}

/// The first part of a range of a node.
pub(super) fn first_part(node: &dyn Node, at: u64, len_bytes: u64) -> Option<Part> {
    let mut parts = Parts::default();
    node.cut(at, len_bytes, &mut parts);
    parts.0.into_iter().next()
}

/// A file or block device.
pub(super) struct FileNode {
    pub(super) file: u32,
    pub(super) device: Arc<dyn ReadDevice>,
}

impl Node for FileNode {
    fn len(&self) -> u64 {
        self.device.len()
    }

    fn read(&self, at: u64, buf: &mut [u8]) -> io::Result<()> {
        self.device.read_at(Physical::new(at), buf)
    }

    fn cut(&self, at: u64, len_bytes: u64, parts: &mut Parts) {
        let place = LowerPlace { file: self.file, at: Physical::new(at), role: None };
        parts.push(len_bytes, SmallVec::from_elem(place, 1), None);
    }
}

/// A stretch of a [`Linear`].
pub(super) struct Stretch {
    pub(super) len_bytes: u64,
    pub(super) node: Arc<dyn Node>,
    /// Where it begins in `node`.
    pub(super) from: u64,
}

/// Stretches behind one another: a partition, a linear volume, a linear array.
pub(super) struct Linear {
    /// Each with where it begins.
    stretches: Vec<(u64, Stretch)>,
    len_bytes: u64,
}

impl Linear {
    /// `None` where a stretch leaves its node, or there is none.
    pub(super) fn new(stretches: Vec<Stretch>) -> Option<Self> {
        let mut len_bytes = 0_u64;
        let mut placed = Vec::with_capacity(stretches.len());
        for stretch in stretches {
            let end = stretch.from.checked_add(stretch.len_bytes)?;
            if end > stretch.node.len() || stretch.len_bytes == 0 {
                return None;
            }
            let next = len_bytes.checked_add(stretch.len_bytes)?;
            placed.push((len_bytes, stretch));
            len_bytes = next;
        }
        (len_bytes > 0).then_some(Self { stretches: placed, len_bytes })
    }

    /// The stretch that holds `at`, where that is in it, and how much is left.
    fn find(&self, at: u64) -> Option<(&Stretch, u64, u64)> {
        let after = self.stretches.partition_point(|(start, _)| *start <= at);
        let (start, stretch) = self.stretches.get(after.checked_sub(1)?)?;
        let within = at - start;
        (within < stretch.len_bytes).then(|| (stretch, stretch.from + within, stretch.len_bytes - within))
    }
}

impl Node for Linear {
    fn len(&self) -> u64 {
        self.len_bytes
    }

    fn read(&self, mut at: u64, mut buf: &mut [u8]) -> io::Result<()> {
        while !buf.is_empty() {
            let (stretch, from, left) = self.find(at).ok_or(io::ErrorKind::UnexpectedEof)?;
            let (now, later) = buf.split_at_mut(left.min(buf.len() as u64) as usize);
            stretch.node.read(from, now)?;
            at += now.len() as u64;
            buf = later;
        }
        Ok(())
    }

    fn cut(&self, mut at: u64, mut len_bytes: u64, parts: &mut Parts) {
        while len_bytes > 0 {
            let Some((stretch, from, left)) = self.find(at) else { return };
            let now = left.min(len_bytes);
            stretch.node.cut(from, now, parts);
            (at, len_bytes) = (at + now, len_bytes - now);
        }
    }

    fn rebuilt(&self, at: u64, len_bytes: usize) -> Vec<Vec<u8>> {
        match self.find(at) {
            Some((stretch, from, left)) if len_bytes as u64 <= left => stretch.node.rebuilt(from, len_bytes),
            _ => Vec::new(),
        }
    }
}

/// Strips of equal size in turn: a striped volume, or a zone of RAID0.
pub(super) struct Striped {
    /// Each with where its strips begin.
    columns: Vec<(Arc<dyn Node>, u64)>,
    strip_bytes: u64,
    /// Of which kind each column is, for the places.
    roles: Option<Vec<u32>>,
    len_bytes: u64,
    /// The number of strips before the first one: the original layout of RAID0 goes on counting from zone to zone.
    strips_before: u64,
}

impl Striped {
    /// `None` where a column is too short, or there is none.
    pub(super) fn new(
        columns: Vec<(Arc<dyn Node>, u64)>,
        strip_bytes: u64,
        column_bytes: u64,
        roles: Option<Vec<u32>>,
        strips_before: u64,
    ) -> Option<Self> {
        let fits =
            |(node, from): &(Arc<dyn Node>, u64)| from.checked_add(column_bytes).is_some_and(|e| e <= node.len());
        let fit = !columns.is_empty() && columns.iter().all(fits) && strip_bytes > 0 && column_bytes > 0;
        let whole = column_bytes.is_multiple_of(strip_bytes.max(1));
        let len_bytes = column_bytes.checked_mul(columns.len() as u64)?;
        (fit && whole).then_some(Self { columns, strip_bytes, roles, len_bytes, strips_before })
    }

    /// The column, where in its node, and how much is left of the strip.
    fn find(&self, at: u64) -> Option<(usize, u64, u64)> {
        let (strip, within) = (at / self.strip_bytes, at % self.strip_bytes);
        let columns = self.columns.len() as u64;
        let column = ((self.strips_before + strip) % columns) as usize;
        let (_, from) = self.columns.get(column)?;
        Some((column, from + strip / columns * self.strip_bytes + within, self.strip_bytes - within))
    }
}

impl Node for Striped {
    fn len(&self) -> u64 {
        self.len_bytes
    }

    fn read(&self, mut at: u64, mut buf: &mut [u8]) -> io::Result<()> {
        while !buf.is_empty() {
            let (column, from, left) = self.find(at).ok_or(io::ErrorKind::UnexpectedEof)?;
            let (now, later) = buf.split_at_mut(left.min(buf.len() as u64) as usize);
            let (node, _) = self.columns.get(column).ok_or(io::ErrorKind::UnexpectedEof)?;
            node.read(from, now)?;
            at += now.len() as u64;
            buf = later;
        }
        Ok(())
    }

    fn cut(&self, mut at: u64, mut len_bytes: u64, parts: &mut Parts) {
        while len_bytes > 0 {
            let Some((column, from, left)) = self.find(at) else { return };
            let Some((node, _)) = self.columns.get(column) else { return };
            let role = self.roles.as_ref().and_then(|roles| roles.get(column).copied());
            let now = left.min(len_bytes);
            let Some(part) = first_part(&**node, from, now) else { return };
            let named = |place: LowerPlace| LowerPlace { role: place.role.or(role), ..place };
            parts.push(part.len_bytes, part.copies.into_iter().map(named).collect(), part.row);
            (at, len_bytes) = (at + part.len_bytes, len_bytes - part.len_bytes);
        }
    }

    fn rebuilt(&self, at: u64, len_bytes: usize) -> Vec<Vec<u8>> {
        match self.find(at) {
            Some((column, from, left)) if len_bytes as u64 <= left => {
                self.columns.get(column).map(|(node, _)| node.rebuilt(from, len_bytes)).unwrap_or_default()
            }
            _ => Vec::new(),
        }
    }
}
