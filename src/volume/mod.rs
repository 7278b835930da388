//! From logical addresses to places on devices: profiles, geometry, parity, sets of members.

mod chunk;
mod chunk_map;
mod geometry;
mod lost;
mod member;
mod profile;
pub mod raid56;
mod read;
pub mod read_policy;
pub mod redundancy;
mod set;
mod standing;
#[cfg(test)]
pub(crate) mod testing;

pub use chunk::{Chunk, ChunkError, ChunkProblem, STRIPE_LEN_BYTES};
pub use chunk_map::{ChunkMap, Unmapped};
pub use geometry::{Column, Copies, FullStripe, MirrorCopy, Piece, Role};
pub use lost::LostMember;
pub use member::{Member, NotBtrfs, Opened, SuperblockCopy, SuperblockDefect, superblock_places};
pub use profile::{Layout, Profile, ProfileError, ProfileRow};
pub use read::{CopyError, Volume};
pub use set::{DeviceSet, SetError, SetOptions, SetWarning};
pub use standing::Standing;
