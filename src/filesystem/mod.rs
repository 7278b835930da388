//! Bootstrap, and the opened file system: super blocks, then the generation to use, then the chunk tree, then the roots.
//!
//! `volume` needs the chunk tree and `tree` needs `volume`; this module alone knows how the circle is cut: the super
//! block carries the chunks of the chunk tree itself. Kernel: `open_ctree` in fs/btrfs/disk-io.c.

mod block_groups;
mod bootstrap;
mod cache;
mod chunk_scan;
mod chunk_tree;
mod contradiction;
mod history;
mod knowledge;
mod log_root;
mod moved;
mod roots;
mod source;

pub use block_groups::BlockGroup;
pub use bootstrap::OpenError;
pub use contradiction::{Conflict, Contradiction};
pub use history::{SplitBrain, SplitProof};
pub use knowledge::Knowledge;
pub use log_root::LogRoot;
pub use roots::{LiveSubvolume, Roots, find_root};

use crate::device::ReadDevice;
use crate::format::Superblock;
use crate::format::items::DevItem;
use crate::tree::{ParentCheck, TreeGeometry};
use crate::units::{DeviceId, Logical};
use crate::volume::read_policy::{MirrorSelector, PolicyKind};
use crate::volume::{ChunkMap, DeviceSet, Member, Volume};
use cache::BlockCache;
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// How to open a file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenOptions {
    /// Which mirror to read where one copy is enough.
    pub read_policy: PolicyKind,
}

/// An opened file system: the chunk map is whole, the roots are known. What lies below them may still be damaged.
pub struct Filesystem {
    set: DeviceSet,
    options: OpenOptions,
    volume: Volume,
    geometry: TreeGeometry,
    roots: Roots,
    log: LogRoot,
    knowledge: Knowledge,
    lost_roots: Vec<(Logical, ParentCheck)>,
    dev_items: Vec<DevItem>,
    knows_devices: bool,
    unlisted: OnceLock<Vec<(Logical, ParentCheck)>>,
    selector: MirrorSelector,
    cache: BlockCache,
    opened: Instant,
    /// Found when first asked for.
    splits: OnceLock<Vec<SplitBrain>>,
}

impl Filesystem {
    /// The super block that was used: the best copy of the newest generation.
    pub fn superblock(&self) -> &Superblock {
        self.set.superblock()
    }

    /// The members as they were given, with all their super block copies.
    pub fn set(&self) -> &DeviceSet {
        &self.set
    }

    /// Devices and chunks.
    pub fn volume(&self) -> &Volume {
        &self.volume
    }

    /// All chunks.
    pub fn chunks(&self) -> &ChunkMap {
        self.volume.chunks()
    }

    /// The members that are there, by devid.
    pub fn members(&self) -> impl Iterator<Item = &Arc<Member>> {
        self.volume.members().map(|(_, member)| member)
    }

    /// One member's device, if it is there.
    pub fn device(&self, devid: DeviceId) -> Option<&Arc<dyn ReadDevice>> {
        self.volume.member(devid).map(|member| member.device())
    }

    /// What all tree blocks have in common.
    pub fn geometry(&self) -> &TreeGeometry {
        &self.geometry
    }

    /// The trees.
    pub fn roots(&self) -> &Roots {
        &self.roots
    }

    /// What the first super block copies say of a log tree.
    pub fn log(&self) -> &LogRoot {
        &self.log
    }

    /// How far what is known may be written by, and what does not agree.
    pub fn knowledge(&self) -> &Knowledge {
        &self.knowledge
    }

    /// Root blocks that could not be used because no copy is right, with what was promised of them.
    pub fn lost_roots(&self) -> &[(Logical, ParentCheck)] {
        &self.lost_roots
    }

    /// The number of device items in the chunk tree, `None` where not all of it could be read.
    pub fn device_items(&self) -> Option<u64> {
        self.knows_devices.then_some(self.dev_items.len() as u64)
    }

    /// The device items of the chunk tree, as many as could be read.
    pub fn dev_items(&self) -> &[DevItem] {
        &self.dev_items
    }

    /// Tree blocks that the trees lead to and the extent tree does not list, as far as somebody has looked.
    pub fn unlisted(&self) -> &[(Logical, ParentCheck)] {
        self.unlisted.get().map_or(&[], Vec::as_slice)
    }

    /// Keeps what a look at all trees has found, for whoever looks at a part of them next.
    pub fn note_unlisted(&self, blocks: Vec<(Logical, ParentCheck)>) {
        // Of two that look at the same time each has seen the same.
        let _ = self.unlisted.set(blocks);
    }

    /// The policy and its back-off, with what it has learned.
    pub fn selector(&self) -> &MirrorSelector {
        &self.selector
    }

    /// Nanoseconds since the file system was opened: the clock of the read policy.
    pub fn clock_ns(&self) -> u64 {
        u64::try_from(self.opened.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// A number of its own for each thread: what the kernel's `pid` policy takes from the process.
fn stream_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    thread_local!(static ID: Cell<u64> = Cell::new(NEXT.fetch_add(1, Ordering::Relaxed)));
    ID.get()
}
