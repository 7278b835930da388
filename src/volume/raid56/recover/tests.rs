//! Rows with known damage: what can be recovered is, from where it should be, and nothing else is.

use super::*;
use proptest::prelude::*;

const SECTOR: usize = 16;

/// A row in memory that can be damaged.
#[derive(Clone, Debug)]
struct Columns {
    data: Vec<Option<Vec<u8>>>,
    p: Option<Vec<u8>>,
    q: Option<Vec<u8>>,
}

impl Columns {
    fn new(ndata: usize, sectors: usize, seed: u64) -> Self {
        let byte =
            |k: usize, i: usize| (seed.wrapping_mul(2 * k as u64 + 3).wrapping_add((i * i + 7 * i) as u64) >> 3) as u8;
        let data = (0..ndata).map(|k| Some((0..sectors * SECTOR).map(|i| byte(k, i)).collect())).collect();
        let mut row = Self { data, p: None, q: None };
        row.write_parity();
        row
    }

    fn write_parity(&mut self) {
        let len = self.data[0].as_ref().unwrap().len();
        let (mut p, mut q) = (vec![0; len], vec![0; len]);
        pq_parity(&mut p, &mut q, &self.slices());
        (self.p, self.q) = (Some(p), Some(q));
    }

    fn slices(&self) -> Vec<Option<&[u8]>> {
        self.data.iter().map(Option::as_deref).collect()
    }

    fn column(&mut self, column: RowColumn) -> &mut Option<Vec<u8>> {
        match column {
            RowColumn::Data(k) => &mut self.data[k],
            RowColumn::P => &mut self.p,
            RowColumn::Q => &mut self.q,
        }
    }

    /// Every column is spoilt in its own way, so that no two errors cancel out.
    fn spoil(&mut self, column: RowColumn, sector: usize) {
        let salt = match column {
            RowColumn::Data(k) => 40 + 6 * k,
            RowColumn::P => 10,
            RowColumn::Q => 20,
        };
        let bytes = self.column(column).as_mut().unwrap();
        for (i, byte) in bytes[sector * SECTOR..][..SECTOR].iter_mut().enumerate() {
            *byte ^= (i * i * (salt / 2 + 3) + 32 * sector + salt) as u8 | 1;
        }
    }

    fn recover(&self, target: usize, good: &[u8]) -> Option<Recovered> {
        self.recover_knowing(target, good, |_, _| false).0
    }

    fn recover_knowing(
        &self,
        target: usize,
        good: &[u8],
        known_bad: impl Fn(usize, RowColumn) -> bool,
    ) -> (Option<Recovered>, usize) {
        let mut tries = 0;
        let row = Row { data: &self.slices(), p: self.p.as_deref(), q: self.q.as_deref() };
        let found = recover(row, target, SECTOR, known_bad, |bytes| {
            tries += 1;
            bytes == good
        });
        (found, tries)
    }
}

fn all_columns(ndata: usize) -> Vec<RowColumn> {
    (0..ndata).map(RowColumn::Data).chain([RowColumn::P, RowColumn::Q]).collect()
}

proptest! {
    #[test]
    fn raid6_recovers_from_any_two_columns_whether_wrong_or_missing(
        ndata in 1..7_usize, target in any::<prop::sample::Index>(), other in any::<prop::sample::Index>(),
        missing in any::<[bool; 2]>(), seed in any::<u64>(),
    ) {
        let mut row = Columns::new(ndata, 2, seed);
        let target = target.index(ndata);
        let good = row.data[target].clone().unwrap();
        for (column, missing) in [RowColumn::Data(target), *other.get(&all_columns(ndata))].into_iter().zip(missing) {
            if missing || row.column(column).is_none() {
                *row.column(column) = None;
            } else {
                row.spoil(column, 0);
                row.spoil(column, 1);
            }
        }
        prop_assert_eq!(row.recover(target, &good).map(|found| found.bytes), Some(good));
    }

    #[test]
    fn each_sector_may_have_lost_other_columns(ndata in 2..6_usize, others in any::<[prop::sample::Index; 4]>(), seed in any::<u64>()) {
        let mut row = Columns::new(ndata, 4, seed);
        let good = row.data[0].clone().unwrap();
        let mut bad = Vec::new();
        for (sector, other) in others.iter().enumerate() {
            for column in [RowColumn::Data(0), *other.get(&all_columns(ndata)[1..])] {
                row.spoil(column, sector);
                bad.push((sector, column));
            }
        }
        prop_assert_eq!(row.recover(0, &good).map(|found| found.bytes), Some(good.clone()));
        let (found, tries) = row.recover_knowing(0, &good, |sector, column| bad.contains(&(sector, column)));
        prop_assert_eq!(found.map(|found| found.bytes), Some(good));
        prop_assert!(tries <= ndata + 2, "told which columns are bad, it still tried {} ways", tries);
    }

    #[test]
    fn three_bad_columns_are_never_healed_into_something_else(ndata in 2..6_usize, seed in any::<u64>()) {
        let mut row = Columns::new(ndata, 1, seed);
        let good = row.data[0].clone().unwrap();
        for column in [RowColumn::Data(0), RowColumn::Data(1), RowColumn::P] {
            row.spoil(column, 0);
        }
        prop_assert_eq!(row.recover(0, &good), None);
    }
}

#[test]
fn two_bad_data_columns_need_both_parities() {
    let mut row = Columns::new(4, 1, 5);
    let good = row.data[1].clone().unwrap();
    row.spoil(RowColumn::Data(1), 0);
    row.spoil(RowColumn::Data(3), 0);
    assert_eq!(row.recover(1, &good).unwrap().source(), Some(RecoverySource::PQ { with: 3 }));
}

#[test]
fn bad_data_and_bad_p_leave_q() {
    let mut row = Columns::new(4, 1, 6);
    let good = row.data[2].clone().unwrap();
    row.spoil(RowColumn::Data(2), 0);
    row.spoil(RowColumn::P, 0);
    assert_eq!(row.recover(2, &good).unwrap().source(), Some(RecoverySource::Q));
}

#[test]
fn a_p_that_agrees_with_the_bad_data_does_not_outvote_q() {
    let mut row = Columns::new(4, 4, 7);
    let (good, q) = (row.data[2].clone().unwrap(), row.q.clone());
    for sector in 0..4 {
        row.spoil(RowColumn::Data(2), sector);
    }
    row.write_parity();
    row.q = q;
    let found = row.recover(2, &good).unwrap();
    assert_eq!((found.source(), found.bytes), (Some(RecoverySource::Q), good));
}

#[test]
fn raid5_recovers_one_column_and_no_more() {
    let mut row = Columns::new(3, 2, 8);
    row.q = None;
    let good = row.data[0].clone().unwrap();
    row.data[0] = None;
    assert_eq!(row.recover(0, &good).unwrap().source(), Some(RecoverySource::P));
    row.data[1] = None;
    assert_eq!(row.recover(0, &good), None);
}

#[test]
fn a_good_sector_is_kept_where_its_neighbours_columns_are_bad() {
    let mut row = Columns::new(3, 4, 9);
    row.q = None;
    let good = row.data[0].clone().unwrap();
    row.spoil(RowColumn::Data(0), 1);
    row.spoil(RowColumn::Data(2), 3);
    let found = row.recover(0, &good).unwrap();
    assert_eq!((found.source(), &found.bytes), (Some(RecoverySource::P), &good));
    assert_eq!(found.sources[1], RecoverySource::P);
    assert_eq!(found.sources[3], RecoverySource::AsRead);
}

#[test]
fn columns_known_to_be_bad_are_used_last() {
    let mut row = Columns::new(5, 1, 10);
    let good = row.data[0].clone().unwrap();
    let bad = [RowColumn::Data(0), RowColumn::Data(4)];
    for column in bad {
        row.spoil(column, 0);
    }
    assert_eq!(row.recover_knowing(0, &good, |_, column| bad.contains(&column)).1, 1);
    assert_eq!(row.recover_knowing(0, &good, |_, _| false).1, 6);
}

#[test]
fn a_hopeless_block_costs_a_bounded_number_of_tries() {
    let mut row = Columns::new(6, 16, 11);
    for sector in 0..16 {
        for column in all_columns(6) {
            row.spoil(column, sector);
        }
    }
    let (found, tries) = row.recover_knowing(0, &[], |_, _| false);
    let sources_alone = 2 + 5;
    assert_eq!((found, tries), (None, sources_alone + MAX_RECOVERY_TRIES));
}
