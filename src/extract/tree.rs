//! One subvolume as files: names of a folder, inodes, extended attributes. Says of each answer whether something of it is
//! lost.

use super::entry::Trouble;
use crate::filesystem::{Filesystem, LiveSubvolume};
use crate::format::Key;
use crate::format::items::{DirEntries, FileExtent, FileExtentItem, InodeItem, InodeNames, RootRef, name_hash};
use crate::format::types::key_type;
use crate::tree::Cursor;
use crate::units::ObjectId;
use std::collections::VecDeque;

/// Names that are read at once.
const LISTING: usize = 1024;

/// One name in a folder.
#[derive(Clone, Debug)]
pub(super) struct Name {
    pub(super) name: Box<[u8]>,
    /// The inode or the root item.
    pub(super) location: Key,
}

/// Some of the names of a folder.
#[derive(Debug, Default)]
pub(super) struct Listing {
    pub(super) names: VecDeque<Name>,
    /// Where the next ones start; `None` after the last.
    pub(super) next: Option<u64>,
    /// Some names cannot be read.
    pub(super) is_lossy: bool,
}

/// An extended attribute.
pub(super) struct Attribute {
    pub(super) name: Vec<u8>,
    pub(super) value: Vec<u8>,
}

/// A subvolume that is looked into.
#[derive(Clone, Copy)]
pub(super) struct Subvolume<'f> {
    pub(super) fs: &'f Filesystem,
    pub(super) live: LiveSubvolume,
}

impl<'f> Subvolume<'f> {
    pub(super) fn id(&self) -> ObjectId {
        self.live.root.id
    }

    pub(super) fn cursor(&self) -> Cursor<'f, Filesystem> {
        Cursor::new(self.fs, self.live.root)
    }

    /// An inode.
    pub(super) fn inode(&self, inode: ObjectId) -> Result<InodeItem, Trouble> {
        let mut cursor = self.cursor();
        let key = Key::new(inode.raw(), key_type::INODE_ITEM, 0);
        cursor.seek(&key);
        let found = cursor.item().filter(|(found, _)| *found == key);
        found.and_then(|(_, bytes)| InodeItem::parse(bytes).ok()).ok_or(Trouble::InodeLost)
    }

    /// The names of a folder whose index is `from` or above.
    pub(super) fn listing(&self, folder: ObjectId, from: u64) -> Listing {
        let mut listing = Listing::default();
        let mut cursor = self.cursor();
        let first = Key::new(folder.raw(), key_type::DIR_INDEX, from);
        cursor.seek(&first);
        while let Some((key, bytes)) = cursor.item() {
            if (key.objectid, key.item_type) != (folder, key_type::DIR_INDEX) {
                break;
            }
            if listing.names.len() >= LISTING {
                listing.next = Some(key.offset);
                break;
            }
            for entry in DirEntries::new(bytes) {
                match entry {
                    Ok(entry) => listing.names.push_back(Name { name: entry.name.into(), location: entry.location }),
                    Err(_) => listing.is_lossy = true,
                }
            }
            cursor.advance();
        }
        let last = Key::new(folder.raw(), key_type::DIR_INDEX, listing.next.map_or(u64::MAX, |next| next - 1));
        listing.is_lossy |= is_lossy(&mut cursor, &first, &last);
        listing
    }

    /// One name of a folder.
    pub(super) fn look_up(&self, folder: ObjectId, name: &[u8]) -> Option<Key> {
        let mut cursor = self.cursor();
        let key = Key::new(folder.raw(), key_type::DIR_ITEM, name_hash(name).into());
        cursor.seek(&key);
        let (_, bytes) = cursor.item().filter(|(found, _)| *found == key)?;
        DirEntries::new(bytes).filter_map(Result::ok).find(|entry| entry.name == name).map(|entry| entry.location)
    }

    /// A folder has one name, and knows it: what says so of itself twice would be walked for ever. Follows the kernel's
    /// `btrfs_get_parent`, which looks for the first one too.
    pub(super) fn is_folder_here(&self, folder: ObjectId, parent: ObjectId, name: &[u8]) -> bool {
        let mut cursor = self.cursor();
        cursor.seek(&Key::new(folder.raw(), key_type::INODE_REF, 0));
        let Some((key, bytes)) = cursor.item() else { return false };
        let is_ref = key.objectid == folder && matches!(key.item_type, key_type::INODE_REF | key_type::INODE_EXTREF);
        let first = InodeNames::new(&key, bytes).next().and_then(Result::ok).filter(|_| is_ref);
        first.is_some_and(|first| first.parent == parent && first.name == name)
    }

    /// Whether subvolume `child` has this name here. The entry that a snapshot keeps of it is an empty folder.
    pub(super) fn holds_subvolume(&self, child: ObjectId, parent: ObjectId, name: &[u8]) -> Result<bool, Trouble> {
        let mut cursor = Cursor::new(self.fs, self.fs.roots().root);
        let key = Key::new(self.id().raw(), key_type::ROOT_REF, child.raw());
        cursor.seek(&key);
        let found = cursor.item().filter(|(found, _)| *found == key);
        let found = found.and_then(|(_, bytes)| RootRef::parse(bytes).ok());
        let is_it = found.is_some_and(|found| found.dirid == parent && found.name == name);
        if !is_it && is_lossy(&mut cursor, &key, &key) { Err(Trouble::NamesLost) } else { Ok(is_it) }
    }

    /// All extended attributes of an inode, and whether some are lost.
    pub(super) fn attributes(&self, inode: ObjectId) -> (Vec<Attribute>, bool) {
        let mut cursor = self.cursor();
        let first = Key::new(inode.raw(), key_type::XATTR_ITEM, 0);
        cursor.seek(&first);
        let mut found = Vec::new();
        while let Some((key, bytes)) = cursor.item() {
            if (key.objectid, key.item_type) != (inode, key_type::XATTR_ITEM) {
                break;
            }
            let whole = DirEntries::new(bytes).filter_map(Result::ok);
            found.extend(whole.map(|entry| Attribute { name: entry.name.to_vec(), value: entry.data.to_vec() }));
            cursor.advance();
        }
        let last = Key::new(inode.raw(), key_type::XATTR_ITEM, u64::MAX);
        let is_lossy = is_lossy(&mut cursor, &first, &last);
        (found, is_lossy)
    }

    /// Where a symbolic link leads.
    pub(super) fn target(&self, inode: ObjectId, size: u64) -> Result<Vec<u8>, Trouble> {
        let mut cursor = self.cursor();
        let key = Key::new(inode.raw(), key_type::EXTENT_DATA, 0);
        cursor.seek(&key);
        let (_, bytes) = cursor.item().filter(|(found, _)| *found == key).ok_or(Trouble::ExtentsLost)?;
        let item = FileExtentItem::parse(bytes).map_err(|_| Trouble::ExtentsWrong)?;
        let FileExtent::Inline(data) = item.extent else { return Err(Trouble::ExtentsWrong) };
        let target = usize::try_from(size).ok().and_then(|size| data.get(..size)).ok_or(Trouble::ExtentsWrong)?;
        if target.is_empty() || target.contains(&0) { Err(Trouble::ExtentsWrong) } else { Ok(target.to_vec()) }
    }
}

/// Whether something of `[first, last]` is lost.
pub(super) fn is_lossy(cursor: &mut Cursor<'_, Filesystem>, first: &Key, last: &Key) -> bool {
    cursor.take_lost().iter().any(|lost| lost.first <= *last && lost.end.is_none_or(|end| end > *first))
}

/// Whether a file in a folder may have this name.
pub(super) fn is_possible_name(name: &[u8]) -> bool {
    !name.is_empty()
        && name.len() <= 255
        && name != b"."
        && name != b".."
        && !name.iter().any(|b| matches!(b, b'/' | 0))
}

#[cfg(test)]
mod tests {
    use super::is_possible_name;

    #[test]
    fn no_name_leads_anywhere_but_into_its_folder() {
        for name in [&b""[..], b".", b"..", b"a/b", b"/", b"../x", b"a\0b", &[b'x'; 256]] {
            assert!(!is_possible_name(name), "{name:?}");
        }
        for name in [&b"a"[..], b"...", b"..a", b" ", b"\xff\n", &[b'x'; 255]] {
            assert!(is_possible_name(name), "{name:?}");
        }
    }
}
