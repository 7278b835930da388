//! Block group items: how much of each chunk is in use.

use super::{Conflict, Filesystem};
use crate::format::items::BlockGroupItem;
use crate::format::types::key_type;
use crate::format::{BlockGroupFlags, Key};
use crate::tree::Cursor;
use crate::units::Logical;
use crate::volume::{Chunk, Profile};

/// One block group.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    /// What is wrong with its item.
    pub odd: Option<Conflict>,
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

    /// One block group.
    pub fn block_group(&self, chunk: &Chunk) -> BlockGroup {
        block_group_by(chunk, self.group_cursor().as_mut())
    }

    fn block_groups_of(&self, chunks: &[&Chunk]) -> Vec<BlockGroup> {
        let mut cursor = self.group_cursor();
        chunks.iter().map(|chunk| block_group_by(chunk, cursor.as_mut())).collect()
    }

    fn group_cursor(&self) -> Option<Cursor<'_, Self>> {
        let tree = self.roots().block_group.or(self.roots().extent);
        tree.map(|root| Cursor::new(self, root))
    }
}

fn block_group_by(chunk: &Chunk, cursor: Option<&mut Cursor<'_, Filesystem>>) -> BlockGroup {
    let item = cursor.map_or(Ok(None), |cursor| find_item(chunk, cursor));
    BlockGroup {
        start: chunk.start(),
        length_bytes: chunk.len_bytes(),
        used_bytes: item.as_ref().ok().and_then(|item| item.map(|item| item.used)),
        flags: chunk.flags(),
        profile: chunk.profile(),
        odd: item.err(),
    }
}

/// The item of a chunk; `None` where it is lost, an error where it is not there or cannot be right.
fn find_item(chunk: &Chunk, cursor: &mut Cursor<'_, Filesystem>) -> Result<Option<BlockGroupItem>, Conflict> {
    let key = Key::new(chunk.start().raw(), key_type::BLOCK_GROUP_ITEM, chunk.len_bytes());
    cursor.seek(&key);
    let Some((_, bytes)) = cursor.item().filter(|(found, _)| *found == key) else {
        return if cursor.take_lost().is_empty() { Err(Conflict::NoBlockGroup) } else { Ok(None) };
    };
    let item = BlockGroupItem::parse(bytes).map_err(|why| Conflict::GroupItem { key, why })?;
    let (have, expect) = (item.flags.kind(), chunk.flags().kind());
    if have != expect {
        return Err(Conflict::GroupFlags { have: have.bits(), expect: expect.bits() });
    }
    Ok(Some(item))
}
