//! Which member is to be made again, and why it must not be.

use crate::filesystem::Filesystem;
use crate::format::items::DevReplaceItem;
use crate::repair::{Refusal, check_may_write, check_same_history};
use crate::tree::Cursor;
use crate::units::DeviceId;
use crate::volume::{LostMember, SetWarning};
use std::path::PathBuf;
use thiserror::Error;

/// Why nothing is rebuilt. Nothing has been written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RebuildRefusal {
    /// The file system must not be written to by this program, or its members do not belong together.
    #[error(transparent)]
    FileSystem(#[from] Refusal),
    /// A device that was given among the survivors is none.
    #[error("{0}")]
    NotSurvivor(Box<SetWarning>),
    /// All members are there.
    #[error("no member is missing")]
    NothingMissing,
    /// The member that was asked for is there.
    #[error("devid {devid} is not missing: it is {path}", path = .path.display())]
    NotMissing {
        /// Its number.
        devid: DeviceId,
        /// Where it is.
        path: PathBuf,
    },
    /// There is no such member.
    #[error("there is no devid {devid}, missing are {}", Devids(.missing))]
    Unknown {
        /// The number asked for.
        devid: DeviceId,
        /// Those that are missing.
        missing: Vec<DeviceId>,
    },
    /// One has to be chosen.
    #[error("several members are missing: {}", Devids(.0))]
    Several(Vec<DeviceId>),
    /// Devid 0 is what a device replace writes to.
    #[error("a device replace is under way: there is a member with devid 0")]
    DevidZero,
    /// The kernel will go on with it at the next mount.
    #[error("a device replace of devid {src_devid} is under way")]
    ReplaceUnderWay {
        /// The device that is being replaced.
        src_devid: DeviceId,
    },
    /// The device tree does not say.
    #[error("whether a device replace is under way cannot be read from the device tree")]
    ReplaceUnknown,
    /// A seed has a file system of its own, and what grew from it does not change it.
    #[error("devid {devid} is a seed device of another file system")]
    Seed {
        /// The member.
        devid: DeviceId,
    },
    /// The file system is a seed itself.
    #[error("the file system is a seed: others may have grown from it")]
    IsSeed,
    /// Where the lost member has its stripes is not known.
    #[error("the chunk tree cannot be read whole")]
    ChunkTree,
    /// What the newest trees say is not known.
    #[error("the newest trees cannot be read, and an older one stands in")]
    OldTrees,
    /// Its device item has no size, or one that no file can have.
    #[error("the device item of devid {devid} says that it is {total_bytes} bytes long")]
    Size {
        /// The member.
        devid: DeviceId,
        /// Its size.
        total_bytes: u64,
    },
}

struct Devids<'a>(&'a [DeviceId]);

impl std::fmt::Display for Devids<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (nth, devid) in self.0.iter().enumerate() {
            write!(f, "{}devid {devid}", if nth == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

/// The member to be made again: `devid`, or the one that is missing.
pub fn find_lost(fs: &Filesystem, devid: Option<DeviceId>) -> Result<LostMember, RebuildRefusal> {
    check_may_write(fs)?;
    if let Some(warning) = fs.set().warnings().iter().find(|warning| is_no_survivor(warning)) {
        return Err(RebuildRefusal::NotSurvivor(Box::new(warning.clone())));
    }
    if fs.members().all(|member| member.is_seed()) {
        return Err(RebuildRefusal::IsSeed);
    }
    if fs.device_items().is_none() || !fs.knowledge().knows_all_places() {
        return Err(RebuildRefusal::ChunkTree);
    }
    if !fs.lost_roots().is_empty() || fs.knowledge().is_older() {
        return Err(RebuildRefusal::OldTrees);
    }
    check_no_replace(fs)?;
    check_same_history(fs)?;
    let lost = choose(fs, devid)?;
    let (devid, item) = (lost.devid(), lost.item());
    if item.fsid != fs.superblock().metadata_uuid() {
        return Err(RebuildRefusal::Seed { devid });
    }
    if item.total_bytes == 0 || i64::try_from(item.total_bytes).is_err() {
        return Err(RebuildRefusal::Size { devid, total_bytes: item.total_bytes });
    }
    Ok(lost)
}

fn choose(fs: &Filesystem, devid: Option<DeviceId>) -> Result<LostMember, RebuildRefusal> {
    let missing: Vec<DeviceId> = fs.set().missing().iter().map(|item| item.devid).collect();
    let devid = match (devid, missing.as_slice()) {
        (Some(devid), _) => devid,
        (None, []) => return Err(RebuildRefusal::NothingMissing),
        (None, [only]) => *only,
        (None, _) => return Err(RebuildRefusal::Several(missing)),
    };
    if let Some(member) = fs.volume().member(devid) {
        return Err(RebuildRefusal::NotMissing { devid, path: member.path().to_owned() });
    }
    fs.set().lost(devid).ok_or(RebuildRefusal::Unknown { devid, missing })
}

/// A device that was given and is not used: taken for a survivor by whoever gave it.
fn is_no_survivor(warning: &SetWarning) -> bool {
    matches!(warning, SetWarning::NotBtrfs { .. } | SetWarning::NotListed { .. })
}

fn check_no_replace(fs: &Filesystem) -> Result<(), RebuildRefusal> {
    let zero = DeviceId::default();
    if fs.volume().member(zero).is_some() || fs.set().missing().iter().any(|item| item.devid == zero) {
        return Err(RebuildRefusal::DevidZero);
    }
    let Some(tree) = fs.roots().dev else { return Err(RebuildRefusal::ReplaceUnknown) };
    let mut cursor = Cursor::new(fs, tree);
    cursor.seek(&DevReplaceItem::KEY);
    let item = match cursor.item() {
        Some((key, bytes)) if key == DevReplaceItem::KEY => Some(DevReplaceItem::parse(bytes)),
        _ => None,
    };
    if !cursor.take_lost().is_empty() {
        return Err(RebuildRefusal::ReplaceUnknown);
    }
    match item {
        Some(Ok(item)) if item.is_under_way() => Err(RebuildRefusal::ReplaceUnderWay { src_devid: item.src_devid }),
        None | Some(Ok(_)) => Ok(()),
        Some(Err(_)) => Err(RebuildRefusal::ReplaceUnknown),
    }
}
