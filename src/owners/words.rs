//! Places in trees, put into words: what the keys of a tree block stand for.

use super::blocks::{Last, Place};
use super::names::{Names, printable};
use super::trees::Trees;
use crate::format::Key;
use crate::format::items::InodeItem;
use crate::format::types::{key_type, object, tree_name};
use crate::tree::block::is_subvolume;
use crate::units::ObjectId;

/// The type bits of a directory in an inode's mode.
const S_IFMT: u32 = 0o170_000;
const S_IFDIR: u32 = 0o040_000;

/// Puts places into words.
pub(super) struct Speaker<'a, 'f> {
    pub(super) trees: &'a mut Trees<'f>,
    pub(super) names: &'a mut Names,
}

impl Speaker<'_, '_> {
    /// One lowercase clause without a full stop.
    pub(super) fn clause(&mut self, place: &Place) -> String {
        let Some(tree) = place.trees.first().copied() else { return "a block that no tree leads to".to_owned() };
        if place.first == Key::MIN && place.last == Last::Before(None) && !is_subvolume(tree) {
            return format!("root of the {}: all of it", tree_name(tree));
        }
        let kind = if place.level == 0 { "leaf".to_owned() } else { format!("node of level {}", place.level) };
        let shared = match place.trees.len() - 1 {
            0 => String::new(),
            1 => ", shared with 1 other subvolume".to_owned(),
            more => format!(", shared with {more} other subvolumes"),
        };
        if is_subvolume(tree) && tree != object::DATA_RELOC_TREE {
            let what = self.inodes(tree, place);
            return format!("{kind} of {}: {what}{shared}", self.subvolume(tree));
        }
        format!("{kind} of the {}: {}", tree_name(tree), what_keys_stand_for(tree, place))
    }

    fn subvolume(&mut self, id: ObjectId) -> String {
        if id == object::FS_TREE {
            return "the top-level subvolume".to_owned();
        }
        match &self.names.subvolume(self.trees, id).path {
            Some(path) => format!("subvolume {} (id {id})", printable(path)),
            None => format!("subvolume id {id}"),
        }
    }

    /// The inodes of a part of a subvolume: by name where it is a single one.
    fn inodes(&mut self, tree: ObjectId, place: &Place) -> String {
        let (first, last) = (place.first.objectid.raw(), place.last.object());
        if first != last {
            return match last {
                u64::MAX if first == 0 => "all of it".to_owned(),
                u64::MAX => format!("inodes from {first} on"),
                last => format!("inodes {first} to {last}"),
            };
        }
        let inode = place.first.objectid;
        let kind = if self.is_directory(tree, inode) { "directory" } else { "file" };
        let from = match place.first.item_type {
            key_type::EXTENT_DATA => format!(" from offset {}", place.first.offset),
            _ => String::new(),
        };
        match self.names.of(self.trees, tree, inode).first() {
            Some(path) => format!("{kind} /{}{from} (inode {inode})", printable(path)),
            None if inode == object::FIRST_FREE => "its top directory".to_owned(),
            None => format!("inode {inode}{from}"),
        }
    }

    fn is_directory(&mut self, tree: ObjectId, inode: ObjectId) -> bool {
        let Some(mut cursor) = self.trees.cursor(tree) else { return false };
        cursor.seek(&Key::new(inode.raw(), key_type::INODE_ITEM, 0));
        let item = cursor.item().filter(|(key, _)| (key.objectid, key.item_type) == (inode, key_type::INODE_ITEM));
        item.and_then(|(_, bytes)| InodeItem::parse(bytes).ok()).is_some_and(|item| item.mode & S_IFMT == S_IFDIR)
    }
}

/// The part of a tree without files between two keys.
fn what_keys_stand_for(tree: ObjectId, place: &Place) -> String {
    let (first, last) = (place.first, place.last);
    let objects = |what: &str| match (first.objectid.raw(), last.object()) {
        (first, last) if first == last => format!("{what} {first}"),
        (first, u64::MAX) => format!("{what} from {first} on"),
        (first, last) => format!("{what} {first} to {last}"),
    };
    // Up to where the keys go, as an address.
    let bound = |of: fn(&Key) -> u64| match last {
        Last::Within(key, reach) => Some(of(&key).saturating_add(reach)),
        Last::Before(key) => key.map(|key| of(&key)),
    };
    let addresses = |what: &str, of: fn(&Key) -> u64| match bound(of) {
        Some(end) if end > of(&first) => format!("{what} of logical [{}, {end})", of(&first)),
        _ => format!("{what} of logical {} and above", of(&first)),
    };
    match tree {
        object::EXTENT_TREE => addresses("allocation", |key| key.objectid.raw()),
        object::FREE_SPACE_TREE => addresses("free space", |key| key.objectid.raw()),
        object::BLOCK_GROUP_TREE => addresses("block groups", |key| key.objectid.raw()),
        object::CSUM_TREE => addresses("checksums", |key| key.offset),
        object::CHUNK_TREE => match (first.item_type, last) {
            (key_type::CHUNK_ITEM, _) => addresses("chunks", |key| key.offset),
            _ => "devices and chunks".to_owned(),
        },
        object::DEV_TREE => objects("device extents of devid"),
        object::ROOT_TREE => objects("the roots of trees"),
        _ => format!("keys from {first} on"),
    }
}
