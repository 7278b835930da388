//! Which single bit of a block, turned back, makes it match its checksum.
//!
//! CRC-32C is linear: what a turned bit changes in the checksum depends on its place alone, so the place follows from
//! the difference of the checksums without hashing. The other algorithms are searched, bit by bit, with what lies
//! before the bit hashed only once. Never changes the data.

use super::{ChecksumType, Digest};
use blake2::Blake2b256;
use sha2::{Digest as _, Sha256};
use xxhash_rust::xxh64::Xxh64;

/// The polynomial of CRC-32C, bits reversed.
const CRC32C_POLYNOMIAL: u32 = 0x82f6_3b78;
/// Bytes that are searched from one state of the hash: the largest block of the algorithms.
const STEP_BYTES: usize = 128;

/// The place of a bit in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BitPosition {
    /// The byte.
    pub byte: usize,
    /// The bit in it, 0 is the lowest.
    pub bit: u8,
}

impl BitPosition {
    /// Turns the bit; nothing happens past the end.
    pub fn turn(self, data: &mut [u8]) {
        if let Some(byte) = data.get_mut(self.byte) {
            *byte ^= 1 << self.bit;
        }
    }
}

impl ChecksumType {
    /// The bit among the first `within_bytes` bytes of `data` that has to be turned for `data` to have the checksum
    /// `stored` (see [`matches`](Self::matches)). Costs some nanoseconds a bit with CRC-32C, and half the time of
    /// hashing all of `data` a bit with the others.
    pub fn flipped_bit(self, data: &[u8], stored: &[u8], within_bytes: usize) -> Option<BitPosition> {
        let expect = Digest::new(stored.get(..self.digest_len())?);
        match self {
            Self::Crc32c => flipped_bit_of_crc32c(data, expect).filter(|at| at.byte < within_bytes),
            Self::Xxhash64 => search(Xxh64::new(0), data, expect, within_bytes),
            Self::Sha256 => search(Sha256::new(), data, expect, within_bytes),
            Self::Blake2b => search(Blake2b256::new(), data, expect, within_bytes),
        }
    }
}

/// Walks the difference of the checksums back through the register, from the last bit to the first, until it is what a
/// bit leaves that has just been shifted in. No two places within 2^31 bits have the same difference.
fn flipped_bit_of_crc32c(data: &[u8], expect: Digest) -> Option<BitPosition> {
    let expect = u32::from_le_bytes(expect.as_bytes().try_into().ok()?);
    let mut difference = crc32c::crc32c(data) ^ expect;
    if difference == 0 {
        return None;
    }
    for byte in (0..data.len()).rev() {
        for bit in (0..8).rev() {
            if difference == CRC32C_POLYNOMIAL {
                return Some(BitPosition { byte, bit });
            }
            // The polynomial has its top bit set, a shifted register has not: it tells whether a one was shifted out.
            difference = match difference >> 31 {
                0 => difference << 1,
                _ => ((difference ^ CRC32C_POLYNOMIAL) << 1) | 1,
            };
        }
    }
    None
}

/// A hash that can go on from the same state many times.
trait Resumable: Clone {
    fn feed(&mut self, data: &[u8]);
    fn finish(self) -> Digest;
}

impl Resumable for Xxh64 {
    fn feed(&mut self, data: &[u8]) {
        self.update(data);
    }

    fn finish(self) -> Digest {
        Digest::new(&self.digest().to_le_bytes())
    }
}

impl Resumable for Sha256 {
    fn feed(&mut self, data: &[u8]) {
        self.update(data);
    }

    fn finish(self) -> Digest {
        Digest::new(&self.finalize())
    }
}

impl Resumable for Blake2b256 {
    fn feed(&mut self, data: &[u8]) {
        self.update(data);
    }

    fn finish(self) -> Digest {
        Digest::new(&self.finalize())
    }
}

fn search(mut state: impl Resumable, data: &[u8], expect: Digest, within_bytes: usize) -> Option<BitPosition> {
    let mut rest = data.to_vec();
    let end = data.len().min(within_bytes);
    for from in (0..end).step_by(STEP_BYTES) {
        let step_end = (from + STEP_BYTES).min(data.len());
        for byte in from..step_end.min(end) {
            for bit in 0..8 {
                let at = BitPosition { byte, bit };
                at.turn(&mut rest);
                let mut tried = state.clone();
                tried.feed(rest.get(from..)?);
                if tried.finish() == expect {
                    return Some(at);
                }
                at.turn(&mut rest);
            }
        }
        state.feed(data.get(from..step_end)?);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(len: usize) -> Vec<u8> {
        (0..len).map(|i| (i * 131 + i / 256) as u8).collect()
    }

    fn flipped(bits: &[BitPosition], len: usize) -> Vec<u8> {
        let mut data = block(len);
        for bit in bits {
            bit.turn(&mut data);
        }
        data
    }

    #[test]
    fn each_bit_of_a_small_block_is_found_with_each_algorithm() {
        for sum in ChecksumType::ALL {
            for len in [1, 31, 135] {
                let stored = sum.digest(&block(len));
                for (byte, bit) in (0..len).flat_map(|byte| (0..8).map(move |bit| (byte, bit))) {
                    let at = BitPosition { byte, bit };
                    assert_eq!(sum.flipped_bit(&flipped(&[at], len), stored.as_bytes(), len), Some(at), "{sum} {len}");
                }
            }
        }
    }

    #[test]
    fn each_bit_of_a_64_kib_block_is_found_with_crc32c() {
        let len = 65536;
        let stored = ChecksumType::Crc32c.digest(&block(len));
        for byte in (0..len).step_by(61).chain([len - 1]) {
            let at = BitPosition { byte, bit: (byte % 8) as u8 };
            assert_eq!(ChecksumType::Crc32c.flipped_bit(&flipped(&[at], len), stored.as_bytes(), len), Some(at));
        }
    }

    #[test]
    fn nothing_is_found_in_right_data_past_the_limit_and_for_two_bits() {
        let [first, second] = [BitPosition { byte: 7, bit: 3 }, BitPosition { byte: 299, bit: 0 }];
        for sum in ChecksumType::ALL {
            let stored = sum.digest(&block(300));
            let find = |bits: &[BitPosition], within| sum.flipped_bit(&flipped(bits, 300), stored.as_bytes(), within);
            assert_eq!(find(&[], 300), None, "{sum}");
            assert_eq!(find(&[first, second], 300), None, "{sum}");
            assert_eq!((find(&[second], 299), find(&[second], 300)), (None, Some(second)), "{sum}");
            assert_eq!(sum.flipped_bit(&block(300), &[], 300), None, "{sum}: no checksum");
            assert_eq!(sum.flipped_bit(&[], stored.as_bytes(), 300), None, "{sum}: no data");
        }
    }
}
