//! On-disk structures of btrfs: bytes in, proved values out. No I/O, no panic on any input.

mod key;
pub mod node;

pub use key::Key;
