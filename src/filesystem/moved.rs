//! The same members at a later time: a file system that is in use elsewhere does not stay as it was opened.

use super::{Filesystem, OpenError};
use crate::format::{SUPERBLOCK_BYTES, Superblock};
use crate::units::Generation;
use crate::volume::Member;

impl Filesystem {
    /// The newest generation that any member's first super block has now; never below that of the opened one. Reads one
    /// super block of each member.
    pub fn generation_now(&self) -> Generation {
        let opened = self.superblock().generation();
        self.members().filter_map(|member| self.generation_of(member)).max().unwrap_or(opened).max(opened)
    }

    /// Opens the file system again from the same devices and with the same options, as it is now.
    pub fn reopen(&self) -> Result<Self, OpenError> {
        Self::open(self.set.probe_again()?, &self.options)
    }

    fn generation_of(&self, member: &Member) -> Option<Generation> {
        let at = member.superblock_copies().first()?.at;
        let mut bytes = vec![0; SUPERBLOCK_BYTES];
        member.device().read_at(at, &mut bytes).ok()?;
        let superblock = Superblock::parse(&bytes, at).ok()?;
        (superblock.fsid() == self.superblock().fsid()).then(|| superblock.generation())
    }
}
