//! On-disk structures of btrfs: bytes in, proved values out. No I/O, no panic on any input.

mod features;
pub mod items;
mod key;
pub(crate) mod le;
pub mod md_superblock;
pub mod node;
mod private;
mod signature;
mod superblock;
#[cfg(test)]
pub(crate) mod testing;
mod tree_checker;
pub mod types;

pub use features::{CompatRoFlags, Conversion, IncompatFlags, SuperFlags, UnsupportedFeature};
pub(crate) use key::DiskKey;
pub use key::Key;
pub use private::PrivateMarks;
pub use signature::{Signature, recognise};
pub use superblock::{
    BackupRoot, NotPlaced, PlacedSuperblock, SUPERBLOCK_BYTES, SUPERBLOCK_MAGIC, SUPERBLOCK_OFFSETS, Superblock,
    SuperblockError, SysChunk, TreeRoot,
};
pub use tree_checker::{Problem, StructureError, TreeRules, check_structure, check_structure_noting};
pub use types::BlockGroupFlags;
