//! The lost member's column of a row: data by P and Q, P and Q by the data.
//!
//! Also sectors that are not allocated are made again where an allocated one stands beside them: P and Q count them in.

use super::{ColumnBytes, RowJudge, UNIT};
use crate::scrub::lost::{RebuiltBytes, StripeBuilder};
use crate::scrub::window::RunKind;
use crate::volume::raid56::{Row, RowColumn, p_parity, pq_parity, recover};
use crate::volume::{Column, STRIPE_LEN_BYTES};
use std::ops::Range;

/// What a sector of a column is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    /// Not allocated.
    Nothing,
    /// With a checksum.
    Proved,
    /// Without.
    Unsummed,
}

impl RowJudge<'_> {
    /// Fills the builder's column of this row. `columns` are the data columns as far as they are proved; what can be known
    /// without proof is added to them.
    pub(super) fn fill_lost(&self, columns: &mut [ColumnBytes], builder: &mut StripeBuilder) -> RebuiltBytes {
        let held = self.held(columns.len());
        let sectors: Vec<usize> = (0..UNIT / self.sectorsize())
            .filter(|sector| held.iter().any(|column| column.get(*sector).is_some_and(|h| *h != Held::Nothing)))
            .collect();
        for sector in &sectors {
            self.complete(*sector, columns, &held);
        }
        let number = self.full.data.iter().position(|column| column.stripe == builder.stripe);
        match number {
            Some(number) => self.fill_data(number, &sectors, columns, &held, builder),
            None => self.fill_parity(&sectors, columns, &held, builder),
        }
    }

    /// By data column and sector.
    fn held(&self, columns: usize) -> Vec<Vec<Held>> {
        let mut held = vec![vec![Held::Nothing; UNIT / self.sectorsize()]; columns];
        for block in self.blocks() {
            let sectors = block.offset / self.sectorsize()..(block.offset + block.len) / self.sectorsize();
            let kind = if block.run.kind == RunKind::Unsummed { Held::Unsummed } else { Held::Proved };
            held.get_mut(block.column)
                .and_then(|column| column.get_mut(sectors))
                .into_iter()
                .flatten()
                .for_each(|h| *h = kind);
        }
        held
    }

    /// Puts in what the rest of the row says of sectors that no checksum could prove.
    fn complete(&self, sector: usize, columns: &mut [ColumnBytes], held: &[Vec<Held>]) {
        let kind = |column: usize| held.get(column).and_then(|h| h.get(sector)).copied().unwrap_or(Held::Nothing);
        let is_wrong = |c: &ColumnBytes| c.wrong.get(sector).copied().unwrap_or(true);
        for target in 0..columns.len() {
            if kind(target) == Held::Proved || !columns.get(target).is_some_and(is_wrong) {
                continue;
            }
            let right = {
                let is_believed = |number: usize, c: &ColumnBytes| {
                    number != target && !is_wrong(c) && self.is_believed(number, kind(number))
                };
                let numbered = columns.iter().enumerate();
                let data: Vec<Option<&[u8]>> = numbered
                    .map(|(number, c)| is_believed(number, c).then(|| c.bytes.as_ref()?.get(self.range_of(sector)))?)
                    .collect();
                let q = self.full.q.as_ref().and_then(|q| self.parity_sector(q, sector));
                let row = Row { data: &data, p: self.parity_sector(&self.full.p, sector), q };
                let nothing_bad = |_: usize, _: RowColumn| false;
                recover(row, target, self.sectorsize(), nothing_bad, |_| true).map(|found| found.bytes)
            };
            if let Some(right) = right {
                put_sector(columns, target, self.range_of(sector), &right);
            }
        }
    }

    /// Whether a sector that is not known to be wrong is what it should be: it has been verified, its member has seen all
    /// transactions, or its member is missing and it was made here.
    fn is_believed(&self, column: usize, held: Held) -> bool {
        held == Held::Proved || self.full.data.get(column).is_some_and(|c| !self.bench.is_stale(c.place.devid))
    }

    fn range_of(&self, sector: usize) -> Range<usize> {
        sector * self.sectorsize()..(sector + 1) * self.sectorsize()
    }

    fn parity_sector(&self, column: &Column, sector: usize) -> Option<&[u8]> {
        let (bytes, failed) = self.read(column).filter(|_| self.bench.has_vote(column.place.devid))?;
        (!failed.contains(&sector)).then_some(bytes)?.get(self.range_of(sector))
    }

    fn offset_in_window(&self, sector: usize) -> usize {
        (self.full.row * STRIPE_LEN_BYTES - self.window.from_bytes) as usize + sector * self.sectorsize()
    }

    fn fill_data(
        &self,
        number: usize,
        sectors: &[usize],
        columns: &[ColumnBytes],
        held: &[Vec<Held>],
        builder: &mut StripeBuilder,
    ) -> RebuiltBytes {
        let mut bytes = RebuiltBytes::default();
        let Some(column) = columns.get(number) else { return bytes };
        let sectorsize = self.sectorsize() as u64;
        for sector in sectors {
            let kind = held.get(number).and_then(|h| h.get(*sector)).copied().unwrap_or(Held::Nothing);
            let is_wrong = column.wrong.get(*sector).copied().unwrap_or(true);
            let right = column.bytes.as_ref().filter(|_| !is_wrong).and_then(|b| b.get(self.range_of(*sector)));
            let is_there = right.is_some_and(|right| builder.put(self.offset_in_window(*sector), right));
            match (kind, is_there) {
                (Held::Nothing, _) => {}
                (Held::Proved, true) => bytes.from_parity += sectorsize,
                (Held::Unsummed, true) => {
                    bytes.from_parity += sectorsize;
                    bytes.unproved += sectorsize;
                }
                (Held::Proved | Held::Unsummed, false) => bytes.lost += sectorsize,
            }
        }
        bytes
    }

    fn fill_parity(
        &self,
        sectors: &[usize],
        columns: &[ColumnBytes],
        held: &[Vec<Held>],
        builder: &mut StripeBuilder,
    ) -> RebuiltBytes {
        let data: Vec<Option<&[u8]>> = columns.iter().map(|c| c.bytes.as_deref()).collect();
        let mut parity = vec![0; UNIT];
        if self.full.p.stripe == builder.stripe {
            p_parity(&mut parity, &data);
        } else {
            pq_parity(&mut vec![0; UNIT], &mut parity, &data);
        }
        let mut bytes = RebuiltBytes::default();
        let sectorsize = self.sectorsize() as u64;
        for sector in sectors {
            let kind = |number: usize| held.get(number).and_then(|h| h.get(*sector)).copied().unwrap_or(Held::Nothing);
            let is_known = columns
                .iter()
                .enumerate()
                .all(|(number, c)| c.wrong.get(*sector) == Some(&false) && self.is_believed(number, kind(number)));
            let right = is_known.then(|| parity.get(self.range_of(*sector))).flatten();
            if right.is_some_and(|right| builder.put(self.offset_in_window(*sector), right)) {
                bytes.from_parity += sectorsize;
                let is_unproved = (0..columns.len()).any(|number| kind(number) == Held::Unsummed);
                bytes.unproved += if is_unproved { sectorsize } else { 0 };
            } else {
                bytes.lost += sectorsize;
            }
        }
        bytes
    }
}

fn put_sector(columns: &mut [ColumnBytes], target: usize, range: Range<usize>, right: &[u8]) {
    let Some(column) = columns.get_mut(target) else { return };
    let sector = range.start / range.len().max(1);
    if let Some(to) = column.bytes.get_or_insert_with(|| vec![0; UNIT]).get_mut(range) {
        to.copy_from_slice(right);
        column.wrong.iter_mut().skip(sector).take(1).for_each(|wrong| *wrong = false);
    }
}
