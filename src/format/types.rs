//! Numbers of the disk format that have names: key types, well-known objects, block group flags
//! (kernel: `include/uapi/linux/btrfs_tree.h`). Names only; what the items hold is in `items`.

use super::private::private_tree_name;
use crate::units::ObjectId;
use std::fmt;

/// Key types (`BTRFS_*_KEY`), by their kernel names.
#[allow(missing_docs, reason = "the names are the documentation")]
pub mod key_type {
    pub const INODE_ITEM: u8 = 1;
    pub const INODE_REF: u8 = 12;
    pub const INODE_EXTREF: u8 = 13;
    pub const XATTR_ITEM: u8 = 24;
    pub const VERITY_DESC_ITEM: u8 = 36;
    pub const VERITY_MERKLE_ITEM: u8 = 37;
    pub const ORPHAN_ITEM: u8 = 48;
    pub const DIR_LOG_ITEM: u8 = 60;
    pub const DIR_LOG_INDEX: u8 = 72;
    pub const DIR_ITEM: u8 = 84;
    pub const DIR_INDEX: u8 = 96;
    pub const EXTENT_DATA: u8 = 108;
    pub const EXTENT_CSUM: u8 = 128;
    pub const ROOT_ITEM: u8 = 132;
    pub const ROOT_BACKREF: u8 = 144;
    pub const ROOT_REF: u8 = 156;
    pub const EXTENT_ITEM: u8 = 168;
    pub const METADATA_ITEM: u8 = 169;
    pub const EXTENT_OWNER_REF: u8 = 172;
    pub const TREE_BLOCK_REF: u8 = 176;
    pub const EXTENT_DATA_REF: u8 = 178;
    pub const EXTENT_REF_V0: u8 = 180;
    pub const SHARED_BLOCK_REF: u8 = 182;
    pub const SHARED_DATA_REF: u8 = 184;
    pub const BLOCK_GROUP_ITEM: u8 = 192;
    pub const FREE_SPACE_INFO: u8 = 198;
    pub const FREE_SPACE_EXTENT: u8 = 199;
    pub const FREE_SPACE_BITMAP: u8 = 200;
    pub const DEV_EXTENT: u8 = 204;
    pub const DEV_ITEM: u8 = 216;
    pub const CHUNK_ITEM: u8 = 228;
    pub const RAID_STRIPE: u8 = 230;
    pub const QGROUP_STATUS: u8 = 240;
    pub const QGROUP_INFO: u8 = 242;
    pub const QGROUP_LIMIT: u8 = 244;
    pub const QGROUP_RELATION: u8 = 246;
    pub const TEMPORARY_ITEM: u8 = 248;
    pub const PERSISTENT_ITEM: u8 = 249;
    pub const DEV_REPLACE: u8 = 250;
    pub const UUID_SUBVOL: u8 = 251;
    pub const UUID_RECEIVED_SUBVOL: u8 = 252;
    pub const STRING_ITEM: u8 = 253;
}

/// Well-known objects (`BTRFS_*_OBJECTID`), by their kernel names. Trees are named by the object of their root item.
#[allow(missing_docs, reason = "the names are the documentation")]
pub mod object {
    use super::ObjectId;

    pub const ROOT_TREE: ObjectId = ObjectId::new(1);
    pub const EXTENT_TREE: ObjectId = ObjectId::new(2);
    pub const CHUNK_TREE: ObjectId = ObjectId::new(3);
    pub const DEV_TREE: ObjectId = ObjectId::new(4);
    pub const FS_TREE: ObjectId = ObjectId::new(5);
    pub const ROOT_TREE_DIR: ObjectId = ObjectId::new(6);
    pub const CSUM_TREE: ObjectId = ObjectId::new(7);
    pub const QUOTA_TREE: ObjectId = ObjectId::new(8);
    pub const UUID_TREE: ObjectId = ObjectId::new(9);
    pub const FREE_SPACE_TREE: ObjectId = ObjectId::new(10);
    pub const BLOCK_GROUP_TREE: ObjectId = ObjectId::new(11);
    pub const RAID_STRIPE_TREE: ObjectId = ObjectId::new(12);
    pub const REMAP_TREE: ObjectId = ObjectId::new(13);
    /// The object of all device items in the chunk tree.
    pub const DEV_ITEMS: ObjectId = ObjectId::new(1);
    /// The object of all chunk items in the chunk tree.
    pub const FIRST_CHUNK_TREE: ObjectId = ObjectId::new(256);
    /// The first inode, and the first subvolume.
    pub const FIRST_FREE: ObjectId = ObjectId::new(256);
    /// The last inode, and the last subvolume.
    pub const LAST_FREE: ObjectId = ObjectId::new(u64::MAX - 255);
    /// Of a vendor's kernel: what each subvolume uses.
    pub const SYNO_SUBVOL_USAGE: ObjectId = ObjectId::new(u64::MAX - 205);
    pub const BALANCE: ObjectId = ObjectId::new(u64::MAX - 3);
    pub const ORPHAN: ObjectId = ObjectId::new(u64::MAX - 4);
    pub const TREE_LOG: ObjectId = ObjectId::new(u64::MAX - 5);
    pub const TREE_LOG_FIXUP: ObjectId = ObjectId::new(u64::MAX - 6);
    pub const TREE_RELOC: ObjectId = ObjectId::new(u64::MAX - 7);
    pub const DATA_RELOC_TREE: ObjectId = ObjectId::new(u64::MAX - 8);
    pub const EXTENT_CSUM: ObjectId = ObjectId::new(u64::MAX - 9);
    pub const FREE_SPACE: ObjectId = ObjectId::new(u64::MAX - 10);
    pub const FREE_INO: ObjectId = ObjectId::new(u64::MAX - 11);
}

/// The length of one stripe in bytes (`BTRFS_STRIPE_LEN`), the only one in use.
pub const STRIPE_LEN: u64 = 64 << 10;
/// The longest name of a directory entry in bytes (`BTRFS_NAME_LEN`).
pub const NAME_LEN: usize = 255;

bitflags::bitflags! {
    /// What a block group or chunk holds, and how it is spread (`BTRFS_BLOCK_GROUP_*`).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct BlockGroupFlags: u64 {
        /// File data.
        const DATA = 1;
        /// The chunk tree.
        const SYSTEM = 1 << 1;
        /// All other trees.
        const METADATA = 1 << 2;
        /// Striped.
        const RAID0 = 1 << 3;
        /// Two copies on two devices.
        const RAID1 = 1 << 4;
        /// Two copies on one device.
        const DUP = 1 << 5;
        /// Striped pairs.
        const RAID10 = 1 << 6;
        /// Striped with one parity.
        const RAID5 = 1 << 7;
        /// Striped with two parities.
        const RAID6 = 1 << 8;
        /// Three copies.
        const RAID1C3 = 1 << 9;
        /// Four copies.
        const RAID1C4 = 1 << 10;
        /// All that says what is stored.
        const TYPE_MASK = 7;
        /// All that says how it is spread; none of them means "single".
        const PROFILE_MASK = 0x7f8;
        const _ = !0;
    }
}

impl BlockGroupFlags {
    /// The bits that say what is stored.
    #[must_use]
    pub fn kind(self) -> Self {
        self & Self::TYPE_MASK
    }

    /// The bits that say how it is spread.
    #[must_use]
    pub fn profile(self) -> Self {
        self & Self::PROFILE_MASK
    }
}

/// The kernel's name of a key type, without the prefix and `_KEY`; `None` where there is no such type.
pub fn key_type_name(item_type: u8) -> Option<&'static str> {
    Some(match item_type {
        key_type::INODE_ITEM => "INODE_ITEM",
        key_type::INODE_REF => "INODE_REF",
        key_type::INODE_EXTREF => "INODE_EXTREF",
        key_type::XATTR_ITEM => "XATTR_ITEM",
        key_type::VERITY_DESC_ITEM => "VERITY_DESC_ITEM",
        key_type::VERITY_MERKLE_ITEM => "VERITY_MERKLE_ITEM",
        key_type::ORPHAN_ITEM => "ORPHAN_ITEM",
        key_type::DIR_LOG_ITEM => "DIR_LOG_ITEM",
        key_type::DIR_LOG_INDEX => "DIR_LOG_INDEX",
        key_type::DIR_ITEM => "DIR_ITEM",
        key_type::DIR_INDEX => "DIR_INDEX",
        key_type::EXTENT_DATA => "EXTENT_DATA",
        key_type::EXTENT_CSUM => "EXTENT_CSUM",
        key_type::ROOT_ITEM => "ROOT_ITEM",
        key_type::ROOT_BACKREF => "ROOT_BACKREF",
        key_type::ROOT_REF => "ROOT_REF",
        key_type::EXTENT_ITEM => "EXTENT_ITEM",
        key_type::METADATA_ITEM => "METADATA_ITEM",
        key_type::EXTENT_OWNER_REF => "EXTENT_OWNER_REF",
        key_type::TREE_BLOCK_REF => "TREE_BLOCK_REF",
        key_type::EXTENT_DATA_REF => "EXTENT_DATA_REF",
        key_type::EXTENT_REF_V0 => "EXTENT_REF_V0",
        key_type::SHARED_BLOCK_REF => "SHARED_BLOCK_REF",
        key_type::SHARED_DATA_REF => "SHARED_DATA_REF",
        key_type::BLOCK_GROUP_ITEM => "BLOCK_GROUP_ITEM",
        key_type::FREE_SPACE_INFO => "FREE_SPACE_INFO",
        key_type::FREE_SPACE_EXTENT => "FREE_SPACE_EXTENT",
        key_type::FREE_SPACE_BITMAP => "FREE_SPACE_BITMAP",
        key_type::DEV_EXTENT => "DEV_EXTENT",
        key_type::DEV_ITEM => "DEV_ITEM",
        key_type::CHUNK_ITEM => "CHUNK_ITEM",
        key_type::RAID_STRIPE => "RAID_STRIPE",
        key_type::QGROUP_STATUS => "QGROUP_STATUS",
        key_type::QGROUP_INFO => "QGROUP_INFO",
        key_type::QGROUP_LIMIT => "QGROUP_LIMIT",
        key_type::QGROUP_RELATION => "QGROUP_RELATION",
        key_type::TEMPORARY_ITEM => "TEMPORARY_ITEM",
        key_type::PERSISTENT_ITEM => "PERSISTENT_ITEM",
        key_type::DEV_REPLACE => "DEV_REPLACE",
        key_type::UUID_SUBVOL => "UUID_SUBVOL",
        key_type::UUID_RECEIVED_SUBVOL => "UUID_RECEIVED_SUBVOL",
        key_type::STRING_ITEM => "STRING_ITEM",
        _ => return None,
    })
}

/// A tree as people call it: its name where it has one, else `subvolume N`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeName(ObjectId);

/// The name of the tree whose root item has this object.
pub fn tree_name(root: ObjectId) -> TreeName {
    TreeName(root)
}

impl fmt::Display for TreeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            object::ROOT_TREE => "root tree",
            object::EXTENT_TREE => "extent tree",
            object::CHUNK_TREE => "chunk tree",
            object::DEV_TREE => "device tree",
            object::FS_TREE => "top-level subvolume",
            object::CSUM_TREE => "checksum tree",
            object::QUOTA_TREE => "quota tree",
            object::UUID_TREE => "uuid tree",
            object::FREE_SPACE_TREE => "free space tree",
            object::BLOCK_GROUP_TREE => "block group tree",
            object::RAID_STRIPE_TREE => "raid stripe tree",
            object::REMAP_TREE => "remap tree",
            object::TREE_LOG => "log tree",
            object::TREE_RELOC => "relocation tree",
            object::DATA_RELOC_TREE => "data relocation tree",
            object::SYNO_SUBVOL_USAGE => return f.write_str("private tree -206 (SYNO_SUBVOL_USAGE)"),
            other => match private_tree_name(other) {
                Some(name) => return write!(f, "private tree {other} ({name})"),
                None => return write!(f, "subvolume {other}"),
            },
        })
    }
}
