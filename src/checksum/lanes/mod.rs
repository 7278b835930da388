//! Checksums of many sectors at once, one sector in each lane of a vector register: how a processor without enough
//! instructions for one message is kept busy with several.
//!
//! Decides which implementation hashes a run, once in the life of the program, from what the processor has. SHA-256
//! comes from `tape-sha256` (SHA instructions of x86 and ARM over four messages, AVX2, AVX-512, NEON, chosen there),
//! `BLAKE2b` from here where there is AVX-512, else from `blake2b_simd` (AVX2). With `MIRRORTOOL_HASH_LANES=off` in the
//! environment neither is used, so that a test can hold the two ways against each other.

#[cfg(target_arch = "x86_64")]
mod blake2b;
#[cfg(test)]
mod tests;

use blake2b_simd::Params;
use blake2b_simd::many::{HashManyJob, hash_many};
use sha2::{Digest as _, Sha256};
use smallvec::SmallVec;
use std::sync::OnceLock;

/// Sectors hashed side by side by SHA-256: the lanes of AVX-512, and a multiple of all narrower ones.
const SHA256_BATCH: usize = 16;
/// Sectors hashed side by side by `BLAKE2b`: the lanes of AVX-512, two rounds of AVX2.
const BLAKE2B_BATCH: usize = 8;
/// Length of both digests.
const DIGEST_BYTES: usize = 32;

/// How a run of sectors is hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lanes {
    /// As many sectors at once as the processor has lanes for.
    Widest,
    /// What the crates for single messages do.
    Off,
}

impl Lanes {
    /// What this process uses.
    pub(super) fn chosen() -> Self {
        static CHOSEN: OnceLock<Lanes> = OnceLock::new();
        *CHOSEN.get_or_init(|| match std::env::var_os("MIRRORTOOL_HASH_LANES") {
            Some(value) if value == "off" => Self::Off,
            _ => Self::Widest,
        })
    }

    /// Calls `visit` with the number and SHA-256 of each sector of `data`, in order; the last one may be short.
    pub(super) fn each_sha256(self, data: &[u8], sector_bytes: usize, visit: &mut impl FnMut(usize, &[u8])) {
        if self == Self::Off {
            data.chunks(sector_bytes).enumerate().for_each(|(index, s)| visit(index, &Sha256::digest(s)));
            return;
        }
        let mut digests = [[0; DIGEST_BYTES]; SHA256_BATCH];
        for (batch_index, batch) in data.chunks(sector_bytes.saturating_mul(SHA256_BATCH)).enumerate() {
            let sectors: SmallVec<[&[u8]; SHA256_BATCH]> = batch.chunks(sector_bytes).collect();
            let Some(digests) = digests.get_mut(..sectors.len()) else { continue };
            tape_sha256::hash_many(&sectors, digests);
            for (index, digest) in digests.iter().enumerate() {
                visit(batch_index * SHA256_BATCH + index, digest);
            }
        }
    }

    /// The same with `BLAKE2b` of 32 bytes.
    pub(super) fn each_blake2b(self, data: &[u8], sector_bytes: usize, visit: &mut impl FnMut(usize, &[u8])) {
        let mut params = Params::new();
        params.hash_length(DIGEST_BYTES);
        for (batch_index, batch) in data.chunks(sector_bytes.saturating_mul(BLAKE2B_BATCH)).enumerate() {
            let first = batch_index * BLAKE2B_BATCH;
            if let Some(digests) = self.blake2b_of_eight(batch, sector_bytes) {
                digests.iter().enumerate().for_each(|(index, digest)| visit(first + index, digest));
                continue;
            }
            let mut jobs: SmallVec<[HashManyJob<'_>; BLAKE2B_BATCH]> =
                batch.chunks(sector_bytes).map(|sector| HashManyJob::new(&params, sector)).collect();
            hash_many(jobs.iter_mut());
            for (index, job) in jobs.iter().enumerate() {
                visit(first + index, job.to_hash().as_bytes());
            }
        }
    }

    #[cfg(target_arch = "x86_64")]
    fn blake2b_of_eight(self, batch: &[u8], sector_bytes: usize) -> Option<[[u8; DIGEST_BYTES]; BLAKE2B_BATCH]> {
        if self == Self::Off { None } else { blake2b::digest8(batch, sector_bytes) }
    }

    #[cfg(not(target_arch = "x86_64"))]
    #[allow(clippy::unused_self, reason = "there is nothing to choose from")]
    fn blake2b_of_eight(self, _: &[u8], _: usize) -> Option<[[u8; DIGEST_BYTES]; BLAKE2B_BATCH]> {
        None
    }
}
