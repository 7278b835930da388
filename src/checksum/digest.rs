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
    /// `BLAKE2b` with a 256 bit digest, 32 bytes.
    Blake2b,
}

impl ChecksumType {
    /// All of them, in the order of their numbers on disk.
    pub const ALL: [Self; 4] = [Self::Crc32c, Self::Xxhash64, Self::Sha256, Self::Blake2b];

    /// The algorithm with this number on disk; `None` for a number that btrfs does not know.
    pub const fn from_raw(raw: u16) -> Option<Self> {
        match raw {
            0 => Some(Self::Crc32c),
            1 => Some(Self::Xxhash64),
            2 => Some(Self::Sha256),
            3 => Some(Self::Blake2b),
            _ => None,
        }
    }

    /// The number on disk.
    pub const fn raw(self) -> u16 {
        match self {
            Self::Crc32c => 0,
            Self::Xxhash64 => 1,
            Self::Sha256 => 2,
            Self::Blake2b => 3,
        }
    }

    /// The name that the kernel and btrfs-progs print.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Crc32c => "crc32c",
            Self::Xxhash64 => "xxhash64",
            Self::Sha256 => "sha256",
            Self::Blake2b => "blake2b",
        }
    }

    /// How many bytes a stored checksum has.
    pub const fn digest_len(self) -> usize {
        match self {
            Self::Crc32c => 4,
            Self::Xxhash64 => 8,
            Self::Sha256 | Self::Blake2b => 32,
        }
    }

    /// True where hashing outruns any disk, so that the reading thread may do it while the buffer is hot; the others
    /// (about 2 GB/s a core) are worth a pool of their own.
    pub const fn is_cheap(self) -> bool {
        match self {
            Self::Crc32c | Self::Xxhash64 => true,
            Self::Sha256 | Self::Blake2b => false,
        }
    }
}

impl fmt::Display for ChecksumType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
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

impl AsRef<[u8]> for Digest {
    fn as_ref(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x")?;
        self.as_bytes().iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}
