//! From addresses to what lives there: which file extents refer to a data extent, and whether their content is defined.
//! Reads trees through [`Filesystem`](crate::filesystem::Filesystem); never judges and never writes.
//!
//! Everything here is best effort on a damaged file system: what cannot be read is left out, and the answer says that
//! it is not whole. Kernel: fs/btrfs/backref.c.

mod pieces;
mod references;
mod trees;
mod unwritten;

pub use unwritten::Unwritten;
