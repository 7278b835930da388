//! What tells bytes apart where they are not kept: before and after a write, and per 512 bytes for what a power cut may
//! have torn.

use std::fmt;
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

/// What a disk writes as a whole or not at all.
pub(super) const ATOM_BYTES: usize = 512;

/// 128 bits of xxh3. Guards against accidents, not against forgery: what is written has been verified otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fingerprint(u128);

impl Fingerprint {
    /// Of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(xxh3_128(bytes))
    }

    pub(super) fn to_le_bytes(self) -> [u8; 16] {
        self.0.to_le_bytes()
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// One number per started 512 bytes.
pub(super) fn atoms(bytes: &[u8]) -> impl Iterator<Item = u64> + '_ {
    bytes.chunks(ATOM_BYTES).map(xxh3_64)
}
