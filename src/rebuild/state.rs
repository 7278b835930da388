//! How far a rebuild has come: all that is on stable storage of the new device, and has been read back.

use super::Marker;
use crate::filesystem::Filesystem;
use crate::scrub::commit::Commit;
use crate::scrub::history::History;
use crate::units::{DeviceId, Generation};
use crate::volume::LostMember;
use std::time::SystemTime;
use uuid::Uuid;

/// What has to be remembered to go on.
#[derive(Clone, Debug)]
pub struct RebuildState {
    /// The block groups and sections that are done, and what was found on the way.
    pub history: History,
    /// The member.
    pub devid: DeviceId,
    /// The uuid of the member.
    pub uuid: Uuid,
    /// The generation of the file system, which must not change.
    pub generation: Generation,
    /// The run that began it, as in the [`Marker`].
    pub run: Uuid,
}

impl RebuildState {
    /// Of a rebuild that begins now. `run` is a number that no other has.
    pub fn new(fs: &Filesystem, lost: &LostMember, run: Uuid, now: SystemTime) -> Self {
        let superblock = fs.superblock();
        let mut history = History::new(superblock.fsid());
        history.begin(String::new(), Commit::of(fs), now);
        Self { history, devid: lost.devid(), uuid: lost.item().uuid, generation: superblock.generation(), run }
    }

    /// Whether it is about this member of this file system as it is now.
    pub fn is_about(&self, fs: &Filesystem, lost: &LostMember) -> bool {
        let superblock = fs.superblock();
        (self.history.fsid, self.generation) == (superblock.fsid(), superblock.generation())
            && (self.devid, self.uuid) == (lost.devid(), lost.item().uuid)
    }

    /// What stands on the new device meanwhile.
    pub fn marker(&self) -> Marker {
        Marker { fsid: self.history.fsid, uuid: self.uuid, run: self.run }
    }
}

/// Keeps the state, on stable storage.
pub trait StateStore: Sync {
    /// What the state says has happened; now it may be kept.
    fn keep(&self, state: &RebuildState);
}
