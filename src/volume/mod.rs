//! From logical addresses to places on devices: profiles, geometry, parity, sets of members.

mod chunk;
mod chunk_map;
mod geometry;
mod profile;
pub mod raid56;
pub mod read_policy;
pub mod redundancy;
#[cfg(test)]
mod testing;

pub use chunk::{Chunk, ChunkError, ChunkProblem, STRIPE_LEN_BYTES};
pub use chunk_map::{ChunkMap, Unmapped};
pub use geometry::{Column, Copies, FullStripe, MirrorCopy, Piece, Role};
pub use profile::{Layout, Profile, ProfileError, ProfileRow};
