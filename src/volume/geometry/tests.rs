//! The arithmetic of the geometry against a table that is filled row by row, and against itself run backwards.

use super::*;
use crate::volume::Profile;
use crate::volume::testing::{START, any_chunk, chunk};
use proptest::prelude::*;
use std::collections::HashSet;

/// What one 64 KiB unit of a stripe holds: the number of a unit of logical space and the copy, or a parity.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Cell {
    Unit(u64, u8),
    P,
    Q,
}

/// `table[row][stripe]`, dealt out like cards: no division, no modulus.
fn deal(profile: Profile, stripes: usize, rows: usize) -> Vec<Vec<Cell>> {
    let mut next = 0..;
    let mut unit = |mirror| Cell::Unit(next.next().unwrap(), mirror);
    let deal_row = |row: usize| -> Vec<Cell> {
        match profile {
            Profile::Raid0 => (0..stripes).map(|_| unit(1)).collect(),
            Profile::Raid10 => (0..stripes / 2)
                .flat_map(|_| match unit(1) {
                    Cell::Unit(number, _) => [Cell::Unit(number, 1), Cell::Unit(number, 2)],
                    _ => unreachable!(),
                })
                .collect(),
            Profile::Raid5 | Profile::Raid6 => {
                let parities: &[Cell] = if profile == Profile::Raid5 { &[Cell::P] } else { &[Cell::P, Cell::Q] };
                let mut cells: Vec<Cell> = (0..stripes - parities.len()).map(|_| unit(1)).collect();
                cells.extend_from_slice(parities);
                for _ in 0..row {
                    cells.rotate_right(1);
                }
                cells
            }
            _ => {
                let Cell::Unit(number, _) = unit(1) else { unreachable!() };
                (1..=stripes as u8).map(|mirror| Cell::Unit(number, mirror)).collect()
            }
        }
    };
    (0..rows).map(deal_row).collect()
}

fn cell_of(chunk: &Chunk, role: Role) -> Option<Cell> {
    match role {
        Role::Data { logical, mirror, .. } => {
            Some(Cell::Unit((logical - chunk.start()) / STRIPE_LEN_BYTES, mirror.raw()))
        }
        Role::P { .. } => Some(Cell::P),
        Role::Q { .. } => Some(Cell::Q),
        Role::Padding => None,
    }
}

proptest! {
    #[test]
    fn every_unit_is_where_dealing_the_cards_puts_it(chunk in any_chunk()) {
        let stripes = chunk.stripes().len();
        for (row, cells) in deal(chunk.profile(), stripes, chunk.rows() as usize).into_iter().enumerate() {
            for (stripe, cell) in cells.into_iter().enumerate() {
                let at_bytes = row as u64 * STRIPE_LEN_BYTES;
                let role = chunk.role_at(stripe, at_bytes);
                let filled = !matches!(cell, Cell::Unit(unit, _) if unit * STRIPE_LEN_BYTES >= chunk.len_bytes());
                prop_assert_eq!(cell_of(&chunk, role), filled.then_some(cell));
                let Some(full) = chunk.full_stripe_of_row(row as u64) else { continue };
                match cell {
                    Cell::P => prop_assert_eq!(full.p.stripe, stripe),
                    Cell::Q => prop_assert_eq!(full.q.map(|q| q.stripe), Some(stripe)),
                    Cell::Unit(unit, _) => {
                        let column = full.data[(unit - (full.logical - chunk.start()) / STRIPE_LEN_BYTES) as usize];
                        prop_assert_eq!(column.stripe, stripe);
                        prop_assert_eq!(column.place.physical, chunk.stripes()[stripe].offset + at_bytes);
                    }
                }
            }
        }
    }

    #[test]
    fn a_logical_byte_comes_back_from_each_of_its_copies(chunk in any_chunk(), offset in any::<u64>()) {
        let at = chunk.start() + offset % chunk.len_bytes();
        let copies = chunk.copies(at);
        prop_assert_eq!(copies.len(), usize::from(chunk.profile().row().ncopies));
        for copy in &copies {
            let in_stripe_bytes = copy.place.physical - chunk.stripes()[copy.stripe].offset;
            let Role::Data { logical, mirror, .. } = chunk.role_at(copy.stripe, in_stripe_bytes) else {
                return Err(TestCaseError::fail("a copy that is no data"));
            };
            prop_assert_eq!((logical, mirror), (at, copy.mirror));
        }
    }

    #[test]
    fn no_two_sectors_share_a_place(chunk in any_chunk()) {
        let mut seen = HashSet::new();
        for sector in 0..chunk.len_bytes() / 4096 {
            for copy in chunk.copies(chunk.start() + sector * 4096) {
                prop_assert!(seen.insert(copy.place));
            }
        }
        for full in (0..chunk.rows()).filter_map(|row| chunk.full_stripe_of_row(row)) {
            for parity in [Some(full.p), full.q].into_iter().flatten() {
                let sectors = (0..16).map(|sector| DevicePhysical { physical: parity.place.physical + sector * 4096, ..parity.place });
                for place in sectors {
                    prop_assert!(seen.insert(place));
                }
            }
        }
    }

    #[test]
    fn pieces_cover_the_range_in_order_and_never_cross_a_unit(chunk in any_chunk(), a in any::<u64>(), b in any::<u64>()) {
        let (a, b) = (a % (chunk.len_bytes() + 1), b % (chunk.len_bytes() + 1));
        let range = chunk.start() + a.min(b)..chunk.start() + a.max(b);
        for mirror in (1..=chunk.mirrors()).map(MirrorNum::new) {
            let mut at = range.start;
            for piece in chunk.pieces(range.clone(), mirror) {
                prop_assert_eq!(piece.logical, at);
                prop_assert!(piece.len_bytes > 0);
                for byte in [0, piece.len_bytes - 1] {
                    let copy = chunk.copy(at + byte, mirror).unwrap();
                    prop_assert_eq!(copy.stripe, piece.stripe);
                    prop_assert_eq!(copy.place.physical, piece.place.physical + byte);
                }
                at = at + piece.len_bytes;
            }
            prop_assert_eq!(at, range.end);
        }
    }

    #[test]
    fn a_window_holds_exactly_the_addresses_whose_rows_are_in_it(chunk in any_chunk(), a in 0..200_u64, b in 0..200_u64) {
        let (from, to) = (a.min(b) * STRIPE_LEN_BYTES, a.max(b) * STRIPE_LEN_BYTES);
        let window = chunk.logical_window(from, to);
        for sector in 0..chunk.len_bytes() / 4096 {
            let at = chunk.start() + sector * 4096;
            let copy = chunk.copies(at)[0];
            let in_stripe_bytes = copy.place.physical - chunk.stripes()[copy.stripe].offset;
            prop_assert_eq!(window.contains(&at), (from..to).contains(&in_stripe_bytes));
        }
    }
}

#[test]
fn raid6_rotates_data_and_both_parities_by_one_stripe_per_row() {
    let chunk = chunk(Profile::Raid6, 4, 8);
    let second = chunk.full_stripe(START + 3 * STRIPE_LEN_BYTES).unwrap();
    assert_eq!((second.row, second.logical), (1, START + 2 * STRIPE_LEN_BYTES));
    assert_eq!(second.data.iter().map(|column| column.stripe).collect::<Vec<_>>(), [1, 2]);
    assert_eq!((second.p.stripe, second.q.map(|q| q.stripe)), (3, Some(0)));
    assert_eq!(second.p.place.physical, chunk.stripes()[3].offset + STRIPE_LEN_BYTES);
}

#[test]
fn raid10_puts_the_copies_of_a_column_on_neighbours() {
    let chunk = chunk(Profile::Raid10, 6, 4);
    let copies = chunk.copies(START + 4 * STRIPE_LEN_BYTES + 8192);
    assert_eq!(copies.iter().map(|copy| (copy.mirror.raw(), copy.stripe)).collect::<Vec<_>>(), [(1, 2), (2, 3)]);
    assert_eq!(copies[1].place.physical, chunk.stripes()[3].offset + (STRIPE_LEN_BYTES + 8192));
    assert_eq!(chunk.full_stripe(START), None);
}

#[test]
fn outside_the_chunk_there_is_nothing() {
    let chunk = chunk(Profile::Raid5, 3, 2);
    assert!(chunk.copies(chunk.end()).is_empty());
    assert!(chunk.copies(Logical::new(0)).is_empty());
    assert_eq!(chunk.copy(START, MirrorNum::new(0)), None);
    assert_eq!(chunk.copy(START, MirrorNum::new(2)), None);
    assert_eq!(chunk.contiguous_bytes(chunk.end()), 0);
    assert_eq!(chunk.full_stripe(chunk.end()), None);
    assert_eq!(chunk.full_stripe_of_row(2), None);
    assert_eq!(chunk.role_at(3, 0), Role::Padding);
    assert_eq!(chunk.role_at(0, u64::MAX), Role::Padding);
    assert_eq!(chunk.logical_window(u64::MAX, u64::MAX), chunk.end()..chunk.end());
    assert_eq!(chunk.pieces(chunk.end()..chunk.end() + 4096, MirrorNum::new(1)).count(), 0);
}
