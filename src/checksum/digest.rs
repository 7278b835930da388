//! Which algorithm, and its result as a small value.

use std::fmt;

/// The checksum algorithm of a file system (`csum_type` of the super block).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChecksumType {
    /// CRC-32C, 4 bytes.
    Crc32c,
    /// xxHash64, 8 bytes.
    Xxhash64,
    /// SHA-256, 32 bytes.
    Sha256,
    /// BLAKE2b with a 256 bit digest, 32 bytes.
    Blake2b,
}

/// A checksum: up to 32 bytes, as stored on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Digest {
    bytes: [u8; 32],
    len: u8,
}

impl Digest {
    /// The first 32 bytes of `bytes` at most.
    pub fn new(bytes: &[u8]) -> Self {
        let mut digest = Self { bytes: [0; 32], len: bytes.len().min(32) as u8 };
        for (to, from) in digest.bytes.iter_mut().zip(bytes) {
            *to = *from;
        }
        digest
    }

    /// The bytes as stored on disk.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or(&self.bytes)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x")?;
        self.as_bytes().iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}
