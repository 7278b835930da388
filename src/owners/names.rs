//! Names: of an inode, all of them, up to the top of its subvolume; of a subvolume, up to the top of the file system.

use super::trees::Trees;
use crate::format::Key;
use crate::format::items::{InodeNames, RootRef};
use crate::format::types::{key_type, object};
use crate::units::ObjectId;
use std::collections::HashMap;
use std::sync::Arc;

/// Names of one inode that are looked at: a file has no more links (`BTRFS_LINK_MAX`).
pub(super) const MAX_NAMES: usize = 65_535;
/// Directories above one another. The kernel sets no limit; circles end here.
const MAX_DEPTH: usize = 512;

/// A subvolume and where it lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subvolume {
    /// The number of its tree.
    pub id: ObjectId,
    /// From the top level, without a slash at its start; empty for the top level itself. `None` where it has no name.
    pub path: Option<Box<[u8]>>,
}

/// Looks names up; directories and subvolumes once each.
#[derive(Default)]
pub(super) struct Names {
    /// Paths of directories, with a slash at the end where they are not empty.
    directories: HashMap<(ObjectId, ObjectId), Arc<[u8]>>,
    subvolumes: HashMap<ObjectId, Arc<Subvolume>>,
}

impl Names {
    /// The paths of an inode, from the top of its subvolume, in order, at most [`MAX_NAMES`]; none for one without a name.
    pub(super) fn of(&mut self, trees: &mut Trees<'_>, root: ObjectId, inode: ObjectId) -> Vec<Box<[u8]>> {
        let links = links(trees, root, inode, MAX_NAMES);
        let mut paths: Vec<Box<[u8]>> =
            links.into_iter().map(|(parent, name)| self.join(trees, root, parent, &name)).collect();
        paths.sort();
        paths
    }

    /// The number of names of an inode.
    pub(super) fn count(trees: &mut Trees<'_>, root: ObjectId, inode: ObjectId) -> u64 {
        links(trees, root, inode, MAX_NAMES).len() as u64
    }

    /// The path of the entry `name` in directory `parent`.
    pub(super) fn join(&mut self, trees: &mut Trees<'_>, root: ObjectId, parent: ObjectId, name: &[u8]) -> Box<[u8]> {
        [&*self.directory(trees, root, parent), name].concat().into()
    }

    /// A subvolume by the number of its tree.
    pub(super) fn subvolume(&mut self, trees: &mut Trees<'_>, id: ObjectId) -> Arc<Subvolume> {
        if let Some(known) = self.subvolumes.get(&id) {
            return Arc::clone(known);
        }
        let found = Arc::new(Subvolume { id, path: self.subvolume_path(trees, id) });
        self.subvolumes.insert(id, Arc::clone(&found));
        found
    }

    fn subvolume_path(&mut self, trees: &mut Trees<'_>, id: ObjectId) -> Option<Box<[u8]>> {
        let (mut path, mut at): (Vec<u8>, ObjectId) = (Vec::new(), id);
        for _ in 0..MAX_DEPTH {
            if at == object::FS_TREE {
                return Some(path.into());
            }
            let (parent, dirid, name) = mount_point(trees, at)?;
            let below = if path.is_empty() { Vec::new() } else { [b"/", path.as_slice()].concat() };
            path = [&*self.directory(trees, parent, dirid), &name, &below].concat();
            at = parent;
        }
        None
    }

    /// The path of a directory with a slash at its end. The part that cannot be found is shown by the inode's number.
    fn directory(&mut self, trees: &mut Trees<'_>, root: ObjectId, inode: ObjectId) -> Arc<[u8]> {
        let mut below: Vec<(ObjectId, Vec<u8>)> = Vec::new();
        let mut at = inode;
        let mut path: Arc<[u8]> = loop {
            if at == object::FIRST_FREE {
                break Arc::from([]);
            }
            if let Some(known) = self.directories.get(&(root, at)) {
                break Arc::clone(known);
            }
            let link = links(trees, root, at, 1).pop().filter(|_| below.len() < MAX_DEPTH);
            let Some((parent, name)) = link else { break format!("<inode {at}>/").into_bytes().into() };
            below.push((at, name));
            at = parent;
        };
        for (inode, name) in below.into_iter().rev() {
            path = [&*path, &name, b"/"].concat().into();
            self.directories.insert((root, inode), Arc::clone(&path));
        }
        path
    }
}

/// Directory and name of the links of an inode.
fn links(trees: &mut Trees<'_>, root: ObjectId, inode: ObjectId, most: usize) -> Vec<(ObjectId, Vec<u8>)> {
    let mut links = Vec::new();
    let Some(mut cursor) = trees.cursor(root) else { return links };
    cursor.seek(&Key::new(inode.raw(), key_type::INODE_REF, 0));
    while let Some((key, bytes)) = cursor.item() {
        let is_name = matches!(key.item_type, key_type::INODE_REF | key_type::INODE_EXTREF);
        if key.objectid != inode || !is_name || links.len() >= most {
            break;
        }
        let names = InodeNames::new(&key, bytes).map_while(Result::ok);
        links.extend(names.map(|name| (name.parent, name.name.to_vec())));
        cursor.advance();
    }
    links.truncate(most);
    links
}

/// The subvolume, directory and name under which a subvolume is found.
fn mount_point(trees: &mut Trees<'_>, id: ObjectId) -> Option<(ObjectId, ObjectId, Vec<u8>)> {
    let mut cursor = trees.cursor(object::ROOT_TREE)?;
    cursor.seek(&Key::new(id.raw(), key_type::ROOT_BACKREF, 0));
    let (key, bytes) = cursor.item()?;
    if (key.objectid, key.item_type) != (id, key_type::ROOT_BACKREF) {
        return None;
    }
    let place = RootRef::parse(bytes).ok()?;
    Some((ObjectId::new(key.offset), place.dirid, place.name.to_vec()))
}

/// A name as people may see it: control characters and what is not UTF-8 are escaped, so that a name is never more than
/// a part of a line.
pub fn printable(name: &[u8]) -> String {
    let mut text = String::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        for letter in chunk.valid().chars() {
            if letter.is_control() || letter == '\\' {
                text.extend(letter.escape_default());
            } else {
                text.push(letter);
            }
        }
        text.extend(chunk.invalid().iter().flat_map(|byte| std::ascii::escape_default(*byte)).map(char::from));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_part_of_a_line_whatever_is_in_it() {
        assert_eq!(printable("grüße".as_bytes()), "grüße");
        assert_eq!(printable(b"a\nb\\c\xff\x1b[2J"), "a\\nb\\\\c\\xff\\u{1b}[2J");
    }
}
