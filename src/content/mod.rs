//! The data of extents: read from whichever copy or parity its checksums prove right, and unpacked where it is compressed.
//!
//! Reads what it is asked for and says of each sector how far it is proved; judges no copy for a report and writes
//! nothing. Kernel: `btrfs_submit_bio` and its retries in fs/btrfs/bio.c, which know neither parity nor more than one
//! try.

mod proved;
mod readers;
pub(crate) mod sums;
mod unsummed;

pub use proved::{BadSector, DataReader, Fault, Reading};
