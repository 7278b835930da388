//! One verified tree block. A [`TreeBlock`] in hand has proved its checksum, address, file system, and everything its
//! parent promised; there is no other way to make one.
//!
//! Follows the kernel's `btrfs_tree_parent_check`, `btrfs_validate_extent_buffer` and
//! `scrub_verify_one_metadata`; unlike the last, the checksum is judged first, for nothing in a block that fails it can
//! be believed.

use crate::checksum::{ChecksumType, Digest};
use crate::format::node::{self, CSUM_FIELD_BYTES, HEADER_BYTES, Header, KeyPtr, MAX_LEVEL};
use crate::format::types::object;
use crate::format::{Key, TreeRules};
use crate::units::{Generation, Logical, ObjectId};
use thiserror::Error;
use uuid::Uuid;

/// What all tree blocks of one file system have in common.
#[derive(Clone, Debug)]
pub struct TreeGeometry {
    /// Sizes, checksum algorithm, features.
    pub rules: TreeRules,
    /// The fsid that blocks carry, first; behind it those of seed file systems.
    pub fsids: Vec<Uuid>,
    /// The chunk tree's uuid, once the chunk root has been read.
    pub chunk_tree_uuid: Option<Uuid>,
}

impl TreeGeometry {
    /// Bytes of a tree block.
    pub fn nodesize(&self) -> u32 {
        self.rules.nodesize
    }

    /// Bytes of a data sector.
    pub fn sectorsize(&self) -> u32 {
        self.rules.sectorsize
    }

    /// The checksum algorithm.
    pub fn csum_type(&self) -> ChecksumType {
        self.rules.csum_type
    }
}

/// What whoever points to a block promises of it. `None` means that nothing is promised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ParentCheck {
    /// Its level.
    pub level: Option<u8>,
    /// Its generation.
    pub generation: Option<Generation>,
    /// Its first key.
    pub first_key: Option<Key>,
    /// The tree it is in.
    pub owner: Option<ObjectId>,
}

impl ParentCheck {
    /// The same without a generation that lies beyond the last transaction: such a promise cannot be right, and proves
    /// nothing against a block. Log trees are of the transaction to come.
    #[must_use]
    pub fn believable(self, newest: Generation) -> Self {
        let is_log = self.owner == Some(object::TREE_LOG);
        Self { generation: self.generation.filter(|generation| is_log || *generation <= newest), ..self }
    }
}

/// Why a block is not the one it should be. `have` is in the block, `expect` comes from outside.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum BadBlock {
    #[error("bad checksum, have {have} expect {expect}")]
    Checksum { have: Digest, expect: Digest },
    #[error("bad bytenr, have {have} expect {expect}")]
    Bytenr { have: Logical, expect: Logical },
    #[error("bad fsid, have {have} expect {expect}")]
    Fsid { have: Uuid, expect: Uuid },
    #[error("bad chunk tree uuid, have {have} expect {expect}")]
    ChunkUuid { have: Uuid, expect: Uuid },
    #[error("bad generation, have {have} expect {expect}")]
    Generation { have: Generation, expect: Generation },
    #[error("bad level, have {have} expect {expect}")]
    Level { have: u8, expect: u8 },
    #[error("bad owner, have {have} expect {expect}")]
    Owner { have: ObjectId, expect: ObjectId },
    #[error("bad first key, have {have} expect {expect}")]
    FirstKey { have: Key, expect: Key },
    #[error("{nritems} items do not fit a block of level {level}")]
    ItemCount { nritems: u32, level: u8 },
}

/// Proves the bytes of one copy against the file system and the promise. Bytes that are not a whole block fail their
/// checksum.
pub fn check_block(
    bytes: &[u8],
    at: Logical,
    geometry: &TreeGeometry,
    check: &ParentCheck,
) -> Result<Header, BadBlock> {
    let stored = Digest::new(bytes.get(..geometry.csum_type().digest_len()).unwrap_or(&[]));
    let computed = geometry.csum_type().digest(bytes.get(CSUM_FIELD_BYTES..).unwrap_or(&[]));
    let bad_checksum = BadBlock::Checksum { have: computed, expect: stored };
    if computed != stored || bytes.len() != geometry.nodesize() as usize {
        return Err(bad_checksum);
    }
    let header = Header::parse(bytes).ok_or(bad_checksum)?;
    check_identity(&header, at, geometry)?;
    check_promise(bytes, &header, check)?;
    let capacity = node::max_nritems(bytes.len(), header.level);
    if header.level > MAX_LEVEL || header.nritems as usize > capacity {
        return Err(BadBlock::ItemCount { nritems: header.nritems, level: header.level });
    }
    Ok(header)
}

fn check_identity(header: &Header, at: Logical, geometry: &TreeGeometry) -> Result<(), BadBlock> {
    if header.bytenr != at {
        return Err(BadBlock::Bytenr { have: header.bytenr, expect: at });
    }
    if !geometry.fsids.contains(&header.fsid) {
        let expect = geometry.fsids.first().copied().unwrap_or_default();
        return Err(BadBlock::Fsid { have: header.fsid, expect });
    }
    match geometry.chunk_tree_uuid {
        Some(expect) if expect != header.chunk_tree_uuid => {
            Err(BadBlock::ChunkUuid { have: header.chunk_tree_uuid, expect })
        }
        _ => Ok(()),
    }
}

fn check_promise(bytes: &[u8], header: &Header, check: &ParentCheck) -> Result<(), BadBlock> {
    if let Some(expect) = check.generation.filter(|g| *g != header.generation) {
        return Err(BadBlock::Generation { have: header.generation, expect });
    }
    if let Some(expect) = check.level.filter(|l| *l != header.level) {
        return Err(BadBlock::Level { have: header.level, expect });
    }
    if let Some(expect) = check.owner.filter(|o| !owner_fits(header.owner, *o)) {
        return Err(BadBlock::Owner { have: header.owner, expect });
    }
    if let Some(expect) = check.first_key {
        let have = node::key_at(bytes, header.level, 0).unwrap_or_default();
        if have != expect {
            return Err(BadBlock::FirstKey { have, expect });
        }
    }
    Ok(())
}

/// Snapshots share blocks, so a block of one subvolume may stand in the tree of another (`btrfs_check_eb_owner`).
fn owner_fits(have: ObjectId, expect: ObjectId) -> bool {
    have == expect || (is_subvolume(have) && is_subvolume(expect))
}

/// True for the trees that hold files: the first subvolume, all others, and the relocation trees made from them.
pub fn is_subvolume(root: ObjectId) -> bool {
    matches!(root, object::FS_TREE | object::TREE_RELOC | object::DATA_RELOC_TREE)
        || (object::FIRST_FREE..=object::LAST_FREE).contains(&root)
}

/// A block that verified.
#[derive(Debug)]
pub struct TreeBlock {
    bytes: Box<[u8]>,
    header: Header,
}

impl TreeBlock {
    /// The block in `bytes`, if it is the one expected at `at`.
    pub fn verify(
        bytes: Box<[u8]>,
        at: Logical,
        geometry: &TreeGeometry,
        check: &ParentCheck,
    ) -> Result<Self, BadBlock> {
        let header = check_block(&bytes, at, geometry, check)?;
        Ok(Self { bytes, header })
    }

    /// Does the block also keep this promise? (For a block that was verified for another parent.)
    pub fn keeps(&self, check: &ParentCheck) -> Result<(), BadBlock> {
        check_promise(&self.bytes, &self.header, check)
    }

    /// What the block says of itself.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// All of its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Its memory, for another block.
    pub(super) fn into_bytes(self) -> Box<[u8]> {
        self.bytes
    }

    /// 0 for leaves.
    pub fn level(&self) -> u8 {
        self.header.level
    }

    /// Number of items or pointers.
    pub fn len(&self) -> usize {
        self.header.nritems as usize
    }

    /// True for a block with no items, such as the leaf of an empty tree.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The item in `slot` of a leaf; `None` past the last, in a node, or where the item lies outside the block.
    pub fn item(&self, slot: usize) -> Option<(Key, &[u8])> {
        (self.level() == 0 && slot < self.len()).then(|| node::item(&self.bytes, slot))?
    }

    /// The pointer in `slot` of a node; `None` past the last and in a leaf.
    pub fn key_ptr(&self, slot: usize) -> Option<KeyPtr> {
        (self.level() > 0 && slot < self.len()).then(|| node::key_ptr(&self.bytes, slot))?
    }

    /// The key in `slot`.
    pub fn key(&self, slot: usize) -> Option<Key> {
        (slot < self.len()).then(|| node::key_at(&self.bytes, self.level(), slot))?
    }

    /// The last slot whose key is at or below `key`; `None` where even the first is above.
    pub fn slot_floor(&self, key: &Key) -> Option<usize> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.key(middle).is_some_and(|k| k <= *key) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low.checked_sub(1)
    }

    /// What this node promises of the child in `slot`.
    pub fn child_check(&self, ptr: &KeyPtr) -> ParentCheck {
        ParentCheck {
            level: self.level().checked_sub(1),
            generation: Some(ptr.generation),
            first_key: Some(ptr.key),
            owner: Some(self.header.owner),
        }
    }
}

const _: () = assert!(HEADER_BYTES > CSUM_FIELD_BYTES);
