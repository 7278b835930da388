//! What is remembered of the commit that a run saw, and whether a file system has come from there: by new commits on top
//! of it, or has it been put back to an earlier state, and perhaps used from there, or are other devices in it now?
//!
//! What is reachable and not newer than a remembered commit was reachable then. So a root that is not newer must be the one
//! remembered, block and checksum; and where the super block still has the remembered transaction among its backup roots,
//! that must name the same root tree. For extents, see [`super::extent_sample`].

use crate::checksum::Digest;
use crate::filesystem::Filesystem;
use crate::format::Key;
use crate::format::items::{DevReplaceItem, DevReplaceState};
use crate::format::node::CSUM_FIELD_BYTES;
use crate::format::types::{object, tree_name};
use crate::tree::{BlockSource, Cursor, TreeRoot};
use crate::units::{DeviceId, Generation, Logical, ObjectId};
use std::collections::BTreeMap;
use thiserror::Error;
use uuid::Uuid;

/// Roots remembered: of more, those of the newest generations.
const MAX_ROOTS: usize = 256;

/// A commit that a run saw.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Commit {
    /// Its generation.
    pub generation: Generation,
    /// The roots that there were, the root tree first; none where an earlier version did not remember them.
    pub roots: Vec<RootMark>,
    /// There were more.
    pub has_more_roots: bool,
    /// The devices that were read.
    pub devices: BTreeMap<DeviceId, Uuid>,
    /// The last device replace that came to its end.
    pub replaced: Option<Replaced>,
}

/// One root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RootMark {
    /// The tree.
    pub tree: ObjectId,
    /// The root block's address.
    pub bytenr: Logical,
    /// And generation.
    pub generation: Generation,
    /// And checksum, where it could be read.
    pub checksum: Option<Digest>,
}

/// A device replace that has finished: the new device has the number and the uuid of the old one, and nothing says which
/// it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replaced {
    /// When it began, in seconds since 1970.
    pub time_started: u64,
}

/// Why nothing can be built on what is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Break {
    /// The state is of an earlier version of its format, or showed itself to be of another past.
    #[error("which roots there were is not remembered")]
    NotRemembered,
    /// The file system is older than the commit.
    #[error("the generation went back from {then} to {now}: the file system was put back to an earlier state")]
    WentBack {
        /// The generation remembered.
        then: Generation,
        /// The generation now.
        now: Generation,
    },
    /// A root that is not newer is another.
    #[error(
        "the root of the {} of generation {generation} is not the one remembered: the file system was put back to an \
         earlier state and used from there", tree_name(*.tree)
    )]
    OtherRoot {
        /// The tree.
        tree: ObjectId,
        /// The generation of the root there is.
        generation: Generation,
    },
    /// Extents that are not newer were not there.
    #[error(
        "{count} extents are older than generation {then} and were not there: the file system was put back to an \
         earlier state and used from there"
    )]
    OtherExtents {
        /// At least so many, or parts of the extent tree that hold them.
        count: u64,
        /// The generation remembered.
        then: Generation,
    },
    /// A device was missing.
    #[error("devid {devid} was not there")]
    NotRead {
        /// Its number.
        devid: DeviceId,
    },
    /// A device has another uuid.
    #[error("devid {devid} is another device than it was")]
    OtherDevice {
        /// Its number.
        devid: DeviceId,
    },
    /// A device was replaced.
    #[error("a device was replaced since")]
    Replaced,
}

impl Commit {
    /// The last commit of `fs`.
    pub fn of(fs: &Filesystem) -> Self {
        let (mut roots, root_tree) = (fs.all_roots(), fs.roots().root.at);
        roots.sort_by_key(|root| (root.at != root_tree, std::cmp::Reverse(root.generation)));
        let has_more_roots = roots.len() > MAX_ROOTS;
        roots.truncate(MAX_ROOTS);
        Self {
            generation: fs.superblock().generation(),
            roots: roots.iter().filter_map(|root| RootMark::of(fs, root)).collect(),
            has_more_roots,
            devices: fs.members().map(|member| (member.devid(), member.uuid())).collect(),
            replaced: replaced(fs),
        }
    }

    /// Has `fs` come from this commit, with the same devices? A device that is new there has nothing old on it.
    pub fn leads_to(&self, fs: &Filesystem) -> Result<(), Break> {
        let now = fs.superblock().generation();
        if self.roots.is_empty() {
            return Err(Break::NotRemembered);
        }
        if now < self.generation {
            return Err(Break::WentBack { then: self.generation, now });
        }
        for root in fs.all_roots() {
            let Some(generation) = root.generation.filter(|generation| *generation <= self.generation) else {
                continue;
            };
            if !self.has(fs, &root) {
                return Err(Break::OtherRoot { tree: root.id, generation });
            }
        }
        self.check_backup_roots(fs)?;
        for member in fs.members() {
            let devid = member.devid();
            if self.devices.get(&devid).is_some_and(|uuid| *uuid != member.uuid()) {
                return Err(Break::OtherDevice { devid });
            }
        }
        match replaced(fs).filter(|now| self.replaced != Some(*now)) {
            Some(_) => Err(Break::Replaced),
            None => Ok(()),
        }
    }

    /// The same for a scrub to go on with: what it has seen it has seen on all devices that are there now.
    pub fn goes_on_in(&self, fs: &Filesystem) -> Result<(), Break> {
        self.leads_to(fs)?;
        let absent = fs.members().map(|member| member.devid()).find(|devid| !self.devices.contains_key(devid));
        absent.map_or(Ok(()), |devid| Err(Break::NotRead { devid }))
    }

    /// The next sitting of a scrub sees `now`: what is remembered of all of them is on the devices that all had.
    pub fn go_on(&mut self, now: Self) {
        let devices = std::mem::take(&mut self.devices);
        *self = now;
        self.devices.retain(|devid, uuid| devices.get(devid) == Some(uuid));
    }

    /// Is this root, which is not newer than the commit, one of those that there were?
    fn has(&self, fs: &Filesystem, root: &TreeRoot) -> bool {
        let mut marks = self.roots.iter().filter(|mark| mark.tree == root.id).peekable();
        if marks.peek().is_none() {
            return self.has_more_roots;
        }
        let checksum = checksum(fs, root);
        marks.any(|mark| {
            let is_there = mark.bytenr == root.at && Some(mark.generation) == root.generation;
            is_there && (checksum.is_none() || mark.checksum.is_none() || checksum == mark.checksum)
        })
    }

    fn check_backup_roots(&self, fs: &Filesystem) -> Result<(), Break> {
        let root_tree = self.roots.iter().find(|mark| mark.tree == object::ROOT_TREE);
        let Some(mark) = root_tree.filter(|mark| mark.generation == self.generation) else { return Ok(()) };
        let backups = fs.superblock().backup_roots().map(|backup| backup.tree_root);
        let is_other = |root: &crate::format::TreeRoot| root.bytenr != mark.bytenr && root.bytenr != Logical::default();
        match backups.iter().find(|root| root.generation == self.generation && is_other(root)) {
            Some(root) => Err(Break::OtherRoot { tree: mark.tree, generation: root.generation }),
            None => Ok(()),
        }
    }
}

impl RootMark {
    fn of(fs: &Filesystem, root: &TreeRoot) -> Option<Self> {
        let generation = root.generation?;
        Some(Self { tree: root.id, bytenr: root.at, generation, checksum: checksum(fs, root) })
    }
}

/// The checksum that the root block carries, if a copy of it is good.
fn checksum(fs: &Filesystem, root: &TreeRoot) -> Option<Digest> {
    let block = fs.read_block(root.at, &root.check()).ok()?;
    let field = block.bytes().get(..CSUM_FIELD_BYTES.min(fs.geometry().csum_type().digest_len()))?;
    Some(Digest::new(field))
}

fn replaced(fs: &Filesystem) -> Option<Replaced> {
    let key: Key = DevReplaceItem::KEY;
    let mut cursor = Cursor::new(fs, fs.roots().dev?);
    cursor.seek(&key);
    let (_, bytes) = cursor.item().filter(|(found, _)| *found == key)?;
    let item = DevReplaceItem::parse(bytes).ok().filter(|item| item.state == DevReplaceState::Finished)?;
    Some(Replaced { time_started: item.time_started })
}
