//! Parity that is old rather than rotten: what an unclean stop leaves where data reached its devices and the parity of
//! the row did not (the write hole). Pure; only says what the bytes prove.
//!
//! A sector of parity is stale on account of one data column where
//!
//! * P and Q are both wrong and agree on what that column held before: `Q error = 2^column x P error`; or
//! * the error is all of that column's data: parity as if nothing had ever been written there.
//!
//! Older contents other than zeros cannot be told from rot by P alone.

use crate::volume::raid56::{exp2, mul_into, xor_into};

/// The same sector of every column of a row: parity as read, and as it should be.
pub(super) struct ParitySector<'a> {
    /// The data columns, as they should be.
    pub(super) data: &'a [Option<&'a [u8]>],
    /// First parity, read and right; `None` where it was not read.
    pub(super) p: Option<(&'a [u8], &'a [u8])>,
    /// Second parity.
    pub(super) q: Option<(&'a [u8], &'a [u8])>,
}

impl ParitySector<'_> {
    /// The data column that parity has missed a write of; `None` where nothing proves it, and where parity is right.
    pub(super) fn missed_column(&self) -> Option<usize> {
        let (p, q) = (self.p.map(error), self.q.map(error));
        let is_wrong = |error: &Vec<u8>| error.iter().any(|byte| *byte != 0);
        let (p, q) = (p.filter(is_wrong), q.filter(is_wrong));
        let agree = |column: usize| match (&p, &q) {
            (Some(p), Some(q)) => scaled(p, column) == *q,
            (Some(p), None) => self.data_of(column) == Some(p),
            (None, Some(q)) => self.data_of(column).is_some_and(|data| scaled(data, column) == *q),
            (None, None) => false,
        };
        (0..self.data.len()).find(|column| agree(*column))
    }

    fn data_of(&self, column: usize) -> Option<&[u8]> {
        self.data.get(column).copied().flatten()
    }
}

fn error((read, right): (&[u8], &[u8])) -> Vec<u8> {
    let mut error = read.to_vec();
    xor_into(&mut error, right);
    error
}

fn scaled(bytes: &[u8], column: usize) -> Vec<u8> {
    let mut scaled = vec![0; bytes.len()];
    mul_into(&mut scaled, bytes, exp2(column));
    scaled
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volume::raid56::pq_parity;

    const LEN: usize = 64;

    fn column(seed: u8) -> Vec<u8> {
        (0..LEN as u8).map(|at| at.wrapping_mul(seed).wrapping_add(seed)).collect()
    }

    fn parity(columns: &[Vec<u8>]) -> (Vec<u8>, Vec<u8>) {
        let data: Vec<Option<&[u8]>> = columns.iter().map(|column| Some(&column[..])).collect();
        let (mut p, mut q) = (vec![0; LEN], vec![0; LEN]);
        pq_parity(&mut p, &mut q, &data);
        (p, q)
    }

    fn missed(now: &[Vec<u8>], p: Option<&[u8]>, q: Option<&[u8]>) -> Option<usize> {
        let data: Vec<Option<&[u8]>> = now.iter().map(|column| Some(&column[..])).collect();
        let (right_p, right_q) = parity(now);
        let sector = ParitySector { data: &data, p: p.map(|p| (p, &right_p[..])), q: q.map(|q| (q, &right_q[..])) };
        sector.missed_column()
    }

    #[test]
    fn two_parities_that_agree_on_an_older_column_name_it() {
        let then = [column(3), column(5), column(7)];
        let now = [column(3), column(5), column(99)];
        let (p, q) = parity(&then);
        assert_eq!(missed(&now, Some(&p), Some(&q)), Some(2));
        let (mut p, rotten) = (p, column(1));
        p[9] ^= 1;
        assert_eq!(missed(&now, Some(&p), Some(&q)), None);
        assert_eq!(missed(&now, Some(&rotten), Some(&q)), None);
    }

    #[test]
    fn one_parity_names_a_column_that_was_empty_before() {
        let now = [column(3), column(5)];
        let (p, q) = parity(&[column(3), vec![0; LEN]]);
        assert_eq!(missed(&now, Some(&p), None), Some(1));
        assert_eq!(missed(&now, None, Some(&q)), Some(1));
        assert_eq!(missed(&now, Some(&column(11)), None), None);
    }

    #[test]
    fn right_parity_has_missed_nothing() {
        let now = [column(3), column(5)];
        let (p, q) = parity(&now);
        assert_eq!(missed(&now, Some(&p), Some(&q)), None);
    }
}
