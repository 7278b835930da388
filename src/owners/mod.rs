//! From addresses to what lives there: the subvolumes, files and offsets that a data extent belongs to, what a tree block
//! holds, and whether the content of a sector is defined at all.
//! Reads trees through [`Filesystem`](crate::filesystem::Filesystem); never judges and never writes.
//!
//! Everything here is best effort on a damaged file system: what cannot be read is left out, and the answer says that
//! it is not whole. Kernel: fs/btrfs/backref.c.

mod blocks;
mod files;
mod losses;
mod lost_now;
mod names;
mod orphaned;
mod packed;
mod pieces;
mod references;
mod roots_of;
mod rows;
mod stray;
mod table;
mod trees;
mod unwritten;
mod words;

pub use files::FileUse;
pub use losses::{SubvolumeLoss, SubvolumeLosses, subvolume_losses};
pub use lost_now::{LostNow, lost_now};
pub use names::{Subvolume, printable};
pub use packed::{PackedExtent, packed_among};
pub use table::{OwnerTable, Owners};
pub use unwritten::Unwritten;
