//! What cannot all be true of a file system, although every block of it verifies: two structures that must agree and do
//! not, or knowledge that is lost. Plain values; what follows from them is decided elsewhere.

use crate::format::Key;
use crate::format::items::ItemError;
use crate::format::types::tree_name;
use crate::tree::{LostBlock, LostSubtree};
use crate::units::{DeviceId, DevicePhysical, Generation, Logical, ObjectId, Physical};
use crate::volume::{ChunkError, ChunkProblem};
use thiserror::Error;

/// One contradiction, and what it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contradiction {
    /// The chunk, block group or tree block that it is about.
    pub at: Logical,
    /// Where that is on a device, if the contradiction says so.
    pub place: Option<DevicePhysical>,
    /// The tree that the odd one of the two stands in.
    pub tree: ObjectId,
    /// What does not agree.
    pub conflict: Conflict,
}

/// What does not agree. Kernel: `read_one_chunk`, `btrfs_verify_dev_extents` in fs/btrfs/volumes.c, `read_one_block_group`,
/// `check_chunk_block_group_mappings` in fs/btrfs/block-group.c; progs: `check_block_groups` and the accounting of
/// `btrfs check`.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum Conflict {
    #[error("chunk item {key}: {why}")]
    ChunkItem { key: Key, why: ItemError },
    #[error("chunk item {key}: {why}")]
    Chunk { key: Key, why: ChunkError },
    #[error("device item {key}: {why}")]
    DeviceItem { key: Key, why: ItemError },
    #[error("the system chunk array of the super block has this chunk otherwise than the chunk tree")]
    SystemArray,
    #[error("the system chunk array of the super block has this chunk, the chunk tree has not")]
    NotInChunkTree,
    #[error("the chunk tree has this system chunk, the system chunk array of the super block has not")]
    NotInSystemArray,
    #[error("a stripe is on devid {devid}, which no device item has")]
    NoDevice { devid: DeviceId },
    #[error("a stripe is on devid {devid} with another device uuid than the device item has")]
    DeviceUuid { devid: DeviceId },
    #[error("the device extents on devid {devid} take {have} bytes, its device item says {expect}")]
    DeviceBytes { devid: DeviceId, have: u64, expect: u64 },
    #[error("the device tree has no device extent for the stripe at devid={devid} physical={physical}")]
    NoDevExtent { devid: DeviceId, physical: Physical },
    #[error("the device extent at devid={devid} physical={physical} ({length} bytes) is no stripe of this chunk")]
    NoStripe { devid: DeviceId, physical: Physical, length: u64 },
    #[error("the device extent on devid {devid} ends at {end}, its device item at {total}")]
    BeyondDevice { devid: DeviceId, end: u64, total: u64 },
    #[error("a pointer of the tree leads here, and no chunk maps it")]
    Unmapped,
    #[error("no block group item for this chunk")]
    NoBlockGroup,
    #[error("the block group item {key} is of no chunk")]
    NoChunk { key: Key },
    #[error("the block group item has other flags than the chunk, have {have:#x} expect {expect:#x}")]
    GroupFlags { have: u64, expect: u64 },
    #[error("the block group item {key}: {why}")]
    GroupItem { key: Key, why: ItemError },
    #[error("an extent item lies outside all chunks: {key}")]
    ExtentOutside { key: Key },
    #[error("{count} extent items of this block group make no sense")]
    ExtentItems { count: u64 },
    #[error("the block group item says that {expect} bytes are used, {have} were found")]
    Used { have: u64, expect: u64 },
    #[error("{}: keys from {} to {} are lost with block {}: {}", tree_of(.0), .0.first, end_of(.0), .0.at, .0.why)]
    Lost(Box<LostSubtree>),
    #[error(
        "chunk tree: no copy of its root can be used ({why}); {chunks} chunks of unknown age, found by looking through the \
         system chunks, stand in"
    )]
    Scanned { chunks: usize, why: LostBlock },
    #[error("{}: the root is unusable ({why}), the backup root of generation {generation} stands in", tree_name(*tree))]
    OlderRoot { tree: ObjectId, generation: Generation, why: LostBlock },
}

impl Contradiction {
    /// What is true of a chunk item, by what the chunk map says of it.
    pub(super) fn of_chunk(tree: ObjectId, at: Logical, conflict: Conflict) -> Self {
        let place = match &conflict {
            Conflict::Chunk {
                why: ChunkError { problem: ChunkProblem::StripesOverlap { devid, physical, .. }, .. },
                ..
            } => Some(DevicePhysical { devid: *devid, physical: *physical }),
            _ => None,
        };
        Self { at, place, tree, conflict }
    }

    /// Keys of a tree that are lost.
    pub fn of_lost(lost: LostSubtree) -> Self {
        let tree = lost.check.owner.unwrap_or_default();
        Self { at: lost.at, place: None, tree, conflict: Conflict::Lost(Box::new(lost)) }
    }
}

fn tree_of(lost: &LostSubtree) -> String {
    lost.check.owner.map_or_else(|| "a tree".to_owned(), |owner| tree_name(owner).to_string())
}

fn end_of(lost: &LostSubtree) -> String {
    lost.end.map_or_else(|| "the end".to_owned(), |key| key.to_string())
}
