//! GF(2^8) with the polynomial 0x11d, in which 2 generates all 255 elements but zero (kernel: `lib/raid6/mktables.c`).

const POLYNOMIAL: u8 = 0x1d;

/// `EXP[i]` is `2^i`.
const EXP: [u8; 255] = {
    let mut table = [0; 255];
    let mut value = 1;
    let mut i = 0;
    while i < 255 {
        table[i] = value;
        value = double(value);
        i += 1;
    }
    table
};

/// `LOG[EXP[i]]` is `i`; `LOG[0]` means nothing.
const LOG: [u8; 256] = {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 255 {
        table[EXP[i] as usize] = i as u8;
        i += 1;
    }
    table
};

/// Twice `value`.
pub(super) const fn double(value: u8) -> u8 {
    (value << 1) ^ ((value >> 7) * POLYNOMIAL)
}

/// 2 to the power of `exponent`.
pub(crate) fn exp2(exponent: usize) -> u8 {
    EXP[exponent % 255]
}

/// The product.
pub(super) fn mul(a: u8, b: u8) -> u8 {
    if a == 0 || b == 0 {
        return 0;
    }
    exp2(usize::from(LOG[usize::from(a)]) + usize::from(LOG[usize::from(b)]))
}

/// The number that times `a` is 1; of zero, which has none, zero.
pub(super) fn inverse(a: u8) -> u8 {
    if a == 0 { 0 } else { exp2(255 - usize::from(LOG[usize::from(a)])) }
}

/// All products of one factor, by the low and the high half of the other: what a byte shuffle can look up.
pub(super) struct MulTable {
    pub(super) low: [u8; 16],
    pub(super) high: [u8; 16],
}

impl MulTable {
    pub(super) fn new(factor: u8) -> Self {
        let product = |other: usize| mul(factor, other as u8);
        Self { low: std::array::from_fn(product), high: std::array::from_fn(|nibble| product(nibble << 4)) }
    }

    pub(super) fn product(&self, byte: u8) -> u8 {
        self.low[usize::from(byte & 15)] ^ self.high[usize::from(byte >> 4)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The product by shifting and adding, without tables.
    fn long_hand(a: u8, b: u8) -> u8 {
        (0..8).rev().fold(0, |sum, bit| double(sum) ^ if b >> bit & 1 == 1 { a } else { 0 })
    }

    #[test]
    fn products_and_inverses_are_those_of_long_multiplication() {
        for a in 0..=255 {
            let table = MulTable::new(a);
            for b in 0..=255 {
                assert_eq!(mul(a, b), long_hand(a, b));
                assert_eq!(table.product(b), long_hand(a, b));
            }
            assert_eq!(mul(a, inverse(a)), u8::from(a != 0));
        }
    }

    #[test]
    fn two_generates_all_but_zero() {
        let mut seen: Vec<u8> = (0..255).map(exp2).collect();
        seen.sort_unstable();
        assert!(seen.into_iter().eq(1..=255));
        assert_eq!(exp2(255), 1);
    }
}
