//! Computing and comparing checksums. The algorithm is matched once per call, outside the loop over the sectors.
//!
//! Three algorithms have two implementations, each the faster at its job: `blake2` and `sha2` for one block, lanes side
//! by side (`lanes`) for runs; `crc32c` for one block, `crc-fast` for runs, whose sectors come from memory and not from
//! the cache (2.7 times as fast there). All find the CPU's instructions at run time.

use super::lanes::Lanes;
use super::{ChecksumType, Digest};
use blake2::Blake2b256;
use crc_fast::CrcAlgorithm;
use sha2::{Digest as _, Sha256};

impl ChecksumType {
    /// The checksum of one block.
    pub fn digest(self, data: &[u8]) -> Digest {
        match self {
            Self::Crc32c => Digest::new(&crc32c_bytes(data)),
            Self::Xxhash64 => Digest::new(&xxhash64_bytes(data)),
            Self::Sha256 => Digest::new(&Sha256::digest(data)),
            Self::Blake2b => Digest::new(&Blake2b256::digest(data)),
        }
    }

    /// Whether `data` has the checksum `stored`. Of a longer field (the 32 bytes of a tree block's header) the first
    /// [`digest_len`](Self::digest_len) bytes count; a shorter one never matches.
    pub fn matches(self, data: &[u8], stored: &[u8]) -> bool {
        stored.get(..self.digest_len()).is_some_and(|stored| self.digest(data).as_bytes() == stored)
    }

    /// Calls `bad` with the number of each sector of `data` that does not match, in ascending order.
    ///
    /// `stored` holds one checksum after the other, as a checksum item does. A sector without a whole stored checksum
    /// is bad, and so is a last sector of fewer than `sector_bytes` bytes.
    pub fn verify_sectors(self, data: &[u8], sector_bytes: usize, stored: &[u8], bad: &mut dyn FnMut(usize)) {
        let whole = data.len() / sector_bytes.max(1);
        let mut expected = stored.chunks_exact(self.digest_len());
        self.each_digest(data, sector_bytes, &mut |sector, digest| {
            let expect = expected.next();
            if sector >= whole || expect != Some(digest) {
                bad(sector);
            }
        });
    }

    /// Appends the checksum of each sector of `data` to `digests`, as a checksum item holds them. A last sector of
    /// fewer than `sector_bytes` bytes is hashed as it is.
    pub fn digest_sectors(self, data: &[u8], sector_bytes: usize, digests: &mut Vec<u8>) {
        digests.reserve(data.len().div_ceil(sector_bytes.max(1)).saturating_mul(self.digest_len()));
        self.each_digest(data, sector_bytes, &mut |_, digest| digests.extend_from_slice(digest));
    }

    fn each_digest(self, data: &[u8], sector_bytes: usize, visit: &mut impl FnMut(usize, &[u8])) {
        let sectors = data.chunks(sector_bytes.max(1)).enumerate();
        match self {
            Self::Crc32c => sectors.for_each(|(index, sector)| visit(index, &crc32c_bytes_of_run(sector))),
            Self::Xxhash64 => sectors.for_each(|(index, sector)| visit(index, &xxhash64_bytes(sector))),
            Self::Sha256 => Lanes::chosen().each_sha256(data, sector_bytes.max(1), visit),
            Self::Blake2b => Lanes::chosen().each_blake2b(data, sector_bytes.max(1), visit),
        }
    }
}

fn crc32c_bytes(data: &[u8]) -> [u8; 4] {
    crc32c::crc32c(data).to_le_bytes()
}

fn crc32c_bytes_of_run(sector: &[u8]) -> [u8; 4] {
    // The low half: the function serves 64-bit checksums as well.
    (crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, sector) as u32).to_le_bytes()
}

fn xxhash64_bytes(data: &[u8]) -> [u8; 8] {
    xxhash_rust::xxh64::xxh64(data, 0).to_le_bytes()
}
