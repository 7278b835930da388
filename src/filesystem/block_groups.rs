//! Block group items: how much of each chunk is in use.

use super::Filesystem;
use crate::format::items::BlockGroupItem;
use crate::format::types::key_type;
use crate::format::{BlockGroupFlags, Key};
use crate::tree::Cursor;
use crate::units::Logical;
use crate::volume::{Chunk, Profile};

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

/// Readers of block group items: in an extent tree each item is a seek away from the next.
const READERS: usize = 16;
/// Fewer items than this are not worth a thread.
const ITEMS_PER_READER: usize = 16;

impl Filesystem {
    /// All block groups by address. Reads one path of the tree that holds their items for each, several at a time.
    pub fn block_groups(&self) -> Vec<BlockGroup> {
        let chunks: Vec<&Chunk> = self.chunks().iter().collect();
        let share = chunks.len().div_ceil(READERS).max(ITEMS_PER_READER);
        let (first, rest) = chunks.split_at(share.min(chunks.len()));
        std::thread::scope(|scope| {
            let readers: Vec<_> =
                rest.chunks(share).map(|chunks| (chunks, scope.spawn(|| self.block_groups_of(chunks)))).collect();
            let mut groups = self.block_groups_of(first);
            for (chunks, reader) in readers {
                groups.extend(reader.join().unwrap_or_else(|_| self.block_groups_of(chunks)));
            }
            groups
        })
    }

    fn block_groups_of(&self, chunks: &[&Chunk]) -> Vec<BlockGroup> {
        let tree = self.roots().block_group.or(self.roots().extent);
        let mut cursor = tree.map(|root| Cursor::new(self, root));
        let mut used = |start: Logical, length: u64| {
            let cursor = cursor.as_mut()?;
            let key = Key::new(start.raw(), key_type::BLOCK_GROUP_ITEM, length);
            cursor.seek(&key);
            let (found, bytes) = cursor.item()?;
            (found == key).then(|| BlockGroupItem::parse(bytes).ok().map(|item| item.used))?
        };
        let group = |chunk: &&Chunk| BlockGroup {
            start: chunk.start(),
            length_bytes: chunk.len_bytes(),
            used_bytes: used(chunk.start(), chunk.len_bytes()),
            flags: chunk.flags(),
            profile: chunk.profile(),
        };
        chunks.iter().map(group).collect()
    }
}
