//! Which key types a tree may hold. Where a tree is not known, every type that exists is allowed.
//!
//! The kernel asks for none of this: a key type that its tree does not use is never looked up. It is asked for here
//! because no kernel and no mkfs writes such an item, and a bit that flipped in memory does: what it was is lost.

use crate::format::Key;
use crate::format::private::{is_private_key, private_tree_name};
use crate::format::types::{key_type, key_type_name, object};
use crate::units::ObjectId;

/// Whether a tree that belongs to `owner` may hold an item with this key.
pub(super) fn is_allowed(owner: ObjectId, key: &Key) -> bool {
    // These two may be in any tree.
    if matches!(key.item_type, key_type::TEMPORARY_ITEM | key_type::PERSISTENT_ITEM) {
        return true;
    }
    match owner {
        object::ROOT_TREE => in_root_tree(key),
        object::EXTENT_TREE => in_extent_tree(key.item_type) || key.item_type == key_type::BLOCK_GROUP_ITEM,
        object::CHUNK_TREE => matches!(key.item_type, key_type::DEV_ITEM | key_type::CHUNK_ITEM),
        object::DEV_TREE => matches!(key.item_type, key_type::DEV_EXTENT | key_type::DEV_REPLACE),
        object::CSUM_TREE => key.item_type == key_type::EXTENT_CSUM,
        object::QUOTA_TREE => (key_type::QGROUP_STATUS..=key_type::QGROUP_RELATION).contains(&key.item_type),
        object::UUID_TREE => in_uuid_tree(key.item_type),
        object::FREE_SPACE_TREE => (key_type::FREE_SPACE_INFO..=key_type::FREE_SPACE_BITMAP).contains(&key.item_type),
        object::BLOCK_GROUP_TREE => key.item_type == key_type::BLOCK_GROUP_ITEM,
        object::TREE_LOG | object::TREE_LOG_FIXUP => {
            in_subvolume(key) || matches!(key.item_type, key_type::EXTENT_CSUM | key_type::ROOT_ITEM)
        }
        object::TREE_RELOC | object::DATA_RELOC_TREE => in_subvolume(key),
        other if is_subvolume(other) => in_subvolume(key) || in_private_subvolume(key.item_type),
        other if private_tree_name(other).is_some() => {
            key_type_name(key.item_type).is_some() || is_private_key(key.item_type)
        }
        _ => key_type_name(key.item_type).is_some() || is_free_space_header(key),
    }
}

/// Whether a tree is a subvolume (kernel: `is_fstree`): the top-level one, or a number that people gave.
pub(super) fn is_subvolume(owner: ObjectId) -> bool {
    // The top 16 bits are the level of a quota group; negative numbers are trees of the kernel's own.
    owner == object::FS_TREE || (object::FIRST_FREE.raw()..1 << 48).contains(&owner.raw())
}

/// The header of a free space cache or of the abandoned inode cache has a key of type 0.
fn is_free_space_header(key: &Key) -> bool {
    key.item_type == 0 && key.objectid == object::FREE_SPACE
}

fn in_subvolume(key: &Key) -> bool {
    is_free_space_header(key)
        || matches!(
            key.item_type,
            key_type::INODE_ITEM
                | key_type::INODE_REF
                | key_type::INODE_EXTREF
                | key_type::XATTR_ITEM
                | key_type::VERITY_DESC_ITEM
                | key_type::VERITY_MERKLE_ITEM
                | key_type::ORPHAN_ITEM
                | key_type::DIR_LOG_ITEM
                | key_type::DIR_LOG_INDEX
                | key_type::DIR_ITEM
                | key_type::DIR_INDEX
                | key_type::EXTENT_DATA
        )
}

/// What a vendor keeps in subvolumes: how much they use.
fn in_private_subvolume(item_type: u8) -> bool {
    matches!(item_type, 162 | 163 | 165)
}

/// mkfs.btrfs 4.16 to 4.19 made a directory inode in it, with its name, which nobody uses.
fn in_uuid_tree(item_type: u8) -> bool {
    matches!(
        item_type,
        key_type::UUID_SUBVOL | key_type::UUID_RECEIVED_SUBVOL | key_type::INODE_ITEM | key_type::INODE_REF
    )
}

/// Free space caches are files, and they are in the root tree.
fn in_root_tree(key: &Key) -> bool {
    in_subvolume(key) || matches!(key.item_type, key_type::ROOT_ITEM | key_type::ROOT_REF | key_type::ROOT_BACKREF)
}

fn in_extent_tree(item_type: u8) -> bool {
    matches!(
        item_type,
        key_type::EXTENT_ITEM
            | key_type::METADATA_ITEM
            | key_type::EXTENT_OWNER_REF
            | key_type::TREE_BLOCK_REF
            | key_type::EXTENT_DATA_REF
            | key_type::SHARED_BLOCK_REF
            | key_type::SHARED_DATA_REF
    )
}
