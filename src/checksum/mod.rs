//! The four checksum algorithms of btrfs (kernel: `fs/btrfs/fs.c`, `btrfs_csums`): one block, or a run of sectors.
//!
//! Decides nothing: a block matches what is stored or it does not. What the bytes are and where they came from is not
//! known here, and no input can make it panic.

mod digest;
mod flipped;
mod hash;
mod lanes;
#[cfg(test)]
mod tests;

pub use digest::{ChecksumType, Digest};
pub use flipped::BitPosition;
