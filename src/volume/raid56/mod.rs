//! The algebra of RAID5/6 rows: P is the sum of the data columns in GF(2^8), Q the sum of column `k` times `2^k`.
//!
//! The field is that of the kernel's `lib/raid6`: polynomial 0x11d, generator 2. Here is only arithmetic on bytes in
//! memory; which columns were read, and whether what comes out is right, is the business of the callers. A column
//! given as `None` counts as zeros.

mod field;
mod kernels;
mod recover;

pub use recover::{MAX_RECOVERY_TRIES, Recovered, RecoverySource, Row, RowColumn, candidates, recover};

pub(crate) use field::exp2;

use field::MulTable;

/// Sums stay in the first-level cache while the columns are added one by one.
const STRIP_BYTES: usize = 4096;

/// Adds `src` to `dst`, byte by byte, as far as both reach.
pub fn xor_into(dst: &mut [u8], src: &[u8]) {
    for (to, from) in dst.iter_mut().zip(src) {
        *to ^= from;
    }
}

/// Adds `factor` times `src` to `dst`, as far as both reach.
pub fn mul_into(dst: &mut [u8], src: &[u8], factor: u8) {
    match factor {
        0 => {}
        1 => xor_into(dst, src),
        _ => kernels::mul_into(dst, src, &MulTable::new(factor)),
    }
}

/// Sets `p` to the P of these data columns.
///
/// # Panics
/// Where a column is not as long as `p`.
pub fn p_parity(p: &mut [u8], data: &[Option<&[u8]>]) {
    assert_equal_lengths(p.len(), data);
    for (strip, at) in p.chunks_mut(STRIP_BYTES).zip((0..).step_by(STRIP_BYTES)) {
        strip.fill(0);
        for column in data.iter().flatten() {
            xor_into(strip, column.get(at..).unwrap_or_default());
        }
    }
}

/// Sets `p` and `q` to the P and Q of these data columns.
///
/// # Panics
/// Where a column is not as long as `p`, or `q` is not.
pub fn pq_parity(p: &mut [u8], q: &mut [u8], data: &[Option<&[u8]>]) {
    assert_equal_lengths(p.len(), data);
    assert_eq!(p.len(), q.len(), "p and q of one row");
    kernels::pq_parity(p, q, data);
}

fn assert_equal_lengths(len: usize, data: &[Option<&[u8]>]) {
    assert!(data.iter().flatten().all(|column| column.len() == len), "all columns of a row are of one length");
}

#[cfg(test)]
mod tests {
    use super::field::{exp2, mul};
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    /// Columns of one length that start at odd addresses.
    fn columns() -> impl Strategy<Value = (Vec<Vec<u8>>, usize)> {
        (0..300_usize, 0..33_usize, 1..7_usize)
            .prop_flat_map(|(len, shift, n)| (vec(vec(any::<u8>(), len + shift), n), Just(shift)))
    }

    fn naive_pq(data: &[Option<&[u8]>], len: usize) -> (Vec<u8>, Vec<u8>) {
        let byte = |k: usize, i: usize| data[k].map_or(0, |column| column[i]);
        let p = (0..len).map(|i| (0..data.len()).fold(0, |sum, k| sum ^ byte(k, i))).collect();
        let q = (0..len).map(|i| (0..data.len()).fold(0, |sum, k| sum ^ mul(exp2(k), byte(k, i)))).collect();
        (p, q)
    }

    proptest! {
        #[test]
        fn parity_equals_the_sums_done_byte_by_byte((columns, shift) in columns(), absent in 0..9_usize) {
            let data: Vec<Option<&[u8]>> =
                columns.iter().enumerate().map(|(k, column)| (k != absent).then_some(&column[shift..])).collect();
            let len = columns[0].len() - shift;
            let (mut p, mut q) = (vec![1; len + shift], vec![2; len + shift]);
            let expect = naive_pq(&data, len);
            pq_parity(&mut p[shift..], &mut q[shift..], &data);
            prop_assert_eq!((&p[shift..], &q[shift..]), (&expect.0[..], &expect.1[..]));
            p.fill(3);
            p_parity(&mut p[shift..], &data);
            prop_assert_eq!(&p[shift..], &expect.0[..]);
            prop_assert!(p[..shift].iter().all(|byte| *byte == 3));
        }

        #[test]
        fn every_instruction_set_gives_the_same(len in 0..700_usize, factor in 2..=255_u8, seed in any::<u64>()) {
            let column = |salt: u64| -> Vec<u8> {
                (0..len as u64).map(|i| (i.wrapping_mul(seed | 1).wrapping_add(salt) >> 7) as u8).collect()
            };
            let (a, b) = (column(1), column(99));
            let data = [Some(&a[..]), None, Some(&b[..])];
            let expect = naive_pq(&data, len);
            let product: Vec<u8> = a.iter().zip(&b).map(|(to, from)| to ^ mul(factor, *from)).collect();
            for set in kernels::InstructionSet::available() {
                let (mut p, mut q, mut scaled) = (vec![0; len], vec![0; len], a.clone());
                set.pq_parity(&mut p, &mut q, &data);
                prop_assert_eq!((&p, &q), (&expect.0, &expect.1), "{:?}", set);
                set.mul_into(&mut scaled, &b, &MulTable::new(factor));
                prop_assert_eq!(&scaled, &product, "{:?}", set);
            }
        }
    }

    #[test]
    fn a_known_row_has_the_parity_the_kernel_writes() {
        let data: [Option<&[u8]>; 3] = [Some(&[0x01]), Some(&[0x80]), Some(&[0xff])];
        let (mut p, mut q) = ([0], [0]);
        pq_parity(&mut p, &mut q, &data);
        // 0x80 x 2 = 0x1d, 0xff x 4 = 0xdb in this field.
        assert_eq!((p, q), ([0x01 ^ 0x80 ^ 0xff], [0x01 ^ 0x1d ^ 0xdb]));
    }
}
