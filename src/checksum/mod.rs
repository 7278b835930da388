//! The four checksum algorithms of btrfs (kernel: `fs/btrfs/fs.c`, `btrfs_csums`): one block, or a run of sectors.

mod digest;

pub use digest::{ChecksumType, Digest};
