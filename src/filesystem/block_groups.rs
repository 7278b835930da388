//! Block group items: how much of each chunk is in use.

use super::Filesystem;
use crate::format::items::BlockGroupItem;
use crate::format::types::key_type;
use crate::format::{BlockGroupFlags, Key};
use crate::tree::Cursor;
use crate::units::Logical;
use crate::volume::Profile;

/// One block group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockGroup {
    /// Where its chunk starts.
    pub start: Logical,
    /// In bytes of logical space.
    pub length_bytes: u64,
    /// Bytes allocated in it; `None` where its item is lost.
    pub used_bytes: Option<u64>,
    /// Kind and profile, as in the chunk.
    pub flags: BlockGroupFlags,
    /// The profile.
    pub profile: Profile,
}

impl Filesystem {
    /// All block groups by address. Reads one path of the tree that holds their items for each.
    pub fn block_groups(&self) -> Vec<BlockGroup> {
        let tree = self.roots().block_group.or(self.roots().extent);
        let mut cursor = tree.map(|root| Cursor::new(self, root));
        let mut used = |start: Logical, length: u64| {
            let cursor = cursor.as_mut()?;
            let key = Key::new(start.raw(), key_type::BLOCK_GROUP_ITEM, length);
            cursor.seek(&key);
            let (found, bytes) = cursor.item()?;
            (found == key).then(|| BlockGroupItem::parse(bytes).ok().map(|item| item.used))?
        };
        let group = |chunk: &crate::volume::Chunk| BlockGroup {
            start: chunk.start(),
            length_bytes: chunk.len_bytes(),
            used_bytes: used(chunk.start(), chunk.len_bytes()),
            flags: chunk.flags(),
            profile: chunk.profile(),
        };
        self.chunks().iter().map(group).collect()
    }
}
