//! Features of a file system, and which of them this program can read or write. An unknown incompat bit stops
//! everything, an unknown read-only-compat bit stops writing (kernel: `include/uapi/linux/btrfs.h`).

use thiserror::Error;

bitflags::bitflags! {
    /// Features without which a file system cannot be read (`BTRFS_FEATURE_INCOMPAT_*`).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct IncompatFlags: u64 {
        /// References to extents name trees and parents (all since 2.6.31).
        const MIXED_BACKREF = 1;
        /// Another subvolume than the top-level one is mounted by default.
        const DEFAULT_SUBVOL = 1 << 1;
        /// Block groups may hold data and metadata together.
        const MIXED_GROUPS = 1 << 2;
        /// Some data is packed with LZO.
        const COMPRESS_LZO = 1 << 3;
        /// Some data is packed with Zstandard.
        const COMPRESS_ZSTD = 1 << 4;
        /// Nodes may be larger than a page.
        const BIG_METADATA = 1 << 5;
        /// An inode may have more names in one directory than fit in an item.
        const EXTENDED_IREF = 1 << 6;
        /// Block groups of profile raid5 or raid6.
        const RAID56 = 1 << 7;
        /// Extent items of tree blocks have the level in the key.
        const SKINNY_METADATA = 1 << 8;
        /// Holes of files have no items.
        const NO_HOLES = 1 << 9;
        /// The uuid in the metadata is not the fsid.
        const METADATA_UUID = 1 << 10;
        /// Block groups of profile raid1c3 or raid1c4.
        const RAID1C34 = 1 << 11;
        /// Laid out for zoned devices.
        const ZONED = 1 << 12;
        /// Several extent trees.
        const EXTENT_TREE_V2 = 1 << 13;
        /// Data is placed by a tree of its own.
        const RAID_STRIPE_TREE = 1 << 14;
        /// Extents remember the subvolume that made them.
        const SIMPLE_QUOTA = 1 << 16;
        /// Block groups may be moved by a tree of remappings.
        const REMAP_TREE = 1 << 17;
        const _ = !0;
    }
}

bitflags::bitflags! {
    /// Features without which a file system can be read but not written (`BTRFS_FEATURE_COMPAT_RO_*`).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct CompatRoFlags: u64 {
        /// Free space is kept in a tree.
        const FREE_SPACE_TREE = 1;
        /// And the tree is up to date.
        const FREE_SPACE_TREE_VALID = 1 << 1;
        /// Some files are sealed with fs-verity.
        const VERITY = 1 << 2;
        /// Block group items are in a tree of their own.
        const BLOCK_GROUP_TREE = 1 << 3;
        const _ = !0;
    }
}

bitflags::bitflags! {
    /// States of a file system (`BTRFS_SUPER_FLAG_*`, `BTRFS_HEADER_FLAG_*`).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct SuperFlags: u64 {
        /// Written at least once.
        const WRITTEN = 1;
        /// With relocation trees.
        const RELOC = 1 << 1;
        /// An error was met and recorded.
        const ERROR = 1 << 2;
        /// A seed: read-only, others grow from it.
        const SEEDING = 1 << 32;
        /// Restored from a metadata dump: the data blocks have no content.
        const METADUMP = 1 << 33;
        /// The same, with the chunk tree left as it was.
        const METADUMP_V2 = 1 << 34;
        /// The fsid is being rewritten in every block.
        const CHANGING_FSID = 1 << 35;
        /// The fsid is being changed in the super blocks.
        const CHANGING_FSID_V2 = 1 << 36;
        /// Being converted to or from a block group tree.
        const CHANGING_BG_TREE = 1 << 38;
        /// The data checksums are being converted.
        const CHANGING_DATA_CSUM = 1 << 39;
        /// The metadata checksums are being converted.
        const CHANGING_META_CSUM = 1 << 40;
        const _ = !0;
    }
}

/// Incompat features that are understood.
const SUPPORTED_INCOMPAT: IncompatFlags = IncompatFlags::MIXED_BACKREF
    .union(IncompatFlags::DEFAULT_SUBVOL)
    .union(IncompatFlags::MIXED_GROUPS)
    .union(IncompatFlags::COMPRESS_LZO)
    .union(IncompatFlags::COMPRESS_ZSTD)
    .union(IncompatFlags::BIG_METADATA)
    .union(IncompatFlags::EXTENDED_IREF)
    .union(IncompatFlags::RAID56)
    .union(IncompatFlags::SKINNY_METADATA)
    .union(IncompatFlags::NO_HOLES)
    .union(IncompatFlags::METADATA_UUID)
    .union(IncompatFlags::RAID1C34)
    .union(IncompatFlags::ZONED)
    .union(IncompatFlags::SIMPLE_QUOTA);

/// Read-only-compat features that are understood.
const SUPPORTED_COMPAT_RO: CompatRoFlags = CompatRoFlags::FREE_SPACE_TREE
    .union(CompatRoFlags::FREE_SPACE_TREE_VALID)
    .union(CompatRoFlags::VERITY)
    .union(CompatRoFlags::BLOCK_GROUP_TREE);

/// Why a file system that is a valid btrfs cannot be read, or not be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum UnsupportedFeature {
    /// Several extent trees, no backrefs for metadata.
    #[error("feature not supported: extent-tree-v2 (incompat bit 13)")]
    ExtentTreeV2,
    /// Data is not where the chunk tree says.
    #[error("feature not supported: raid-stripe-tree (incompat bit 14)")]
    RaidStripeTree,
    /// Block groups may have moved without their addresses.
    #[error("feature not supported: remap-tree (incompat bit 17)")]
    RemapTree,
    /// An incompat bit that has no name here.
    #[error("feature not known: incompat bit {bit}")]
    UnknownIncompat {
        /// From 0.
        bit: u32,
    },
    /// A read-only-compat bit that has no name here: reading is safe, writing is not.
    #[error("feature not known, writing is not safe: read-only-compat bit {bit}")]
    UnknownCompatRo {
        /// From 0.
        bit: u32,
    },
    /// A conversion was cut off, and blocks of both forms may be present.
    #[error("an interrupted conversion has to be finished first: {conversion} (super block flag bit {})", .conversion.bit())]
    ConversionUnderway {
        /// What is being converted.
        conversion: Conversion,
    },
    /// A super block flag that has no name here: nobody knows what it does to the trees.
    #[error("state not known: super block flag bit {bit}")]
    UnknownFlag {
        /// From 0.
        bit: u32,
    },
}

/// Work of `btrfstune` that was cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Conversion {
    /// The fsid in every block.
    #[error("change of the fsid (uuid) in all blocks")]
    Fsid,
    /// The fsid in the super blocks alone; the blocks keep theirs as the metadata uuid.
    #[error("change of the fsid (uuid) in the super blocks, with a metadata_uuid")]
    MetadataUuid,
    /// To a block group tree, or back.
    #[error("conversion to or from the block group tree")]
    BlockGroupTree,
    /// The checksums of data.
    #[error("change of the data checksums")]
    DataChecksums,
    /// The checksums of tree blocks and super blocks.
    #[error("change of the metadata checksums")]
    MetadataChecksums,
}

impl Conversion {
    /// All of them, by bit.
    pub const ALL: [Self; 5] =
        [Self::Fsid, Self::MetadataUuid, Self::BlockGroupTree, Self::DataChecksums, Self::MetadataChecksums];

    /// The flag that says so in the super blocks.
    pub fn flag(self) -> SuperFlags {
        match self {
            Self::Fsid => SuperFlags::CHANGING_FSID,
            Self::MetadataUuid => SuperFlags::CHANGING_FSID_V2,
            Self::BlockGroupTree => SuperFlags::CHANGING_BG_TREE,
            Self::DataChecksums => SuperFlags::CHANGING_DATA_CSUM,
            Self::MetadataChecksums => SuperFlags::CHANGING_META_CSUM,
        }
    }

    /// The number of that flag, from 0.
    pub fn bit(self) -> u32 {
        self.flag().bits().trailing_zeros()
    }
}

/// States in which a file system can be read (kernel: `BTRFS_SUPER_FLAG_SUPP`, which refuses all others).
const SUPPORTED_FLAGS: SuperFlags = SuperFlags::WRITTEN
    .union(SuperFlags::RELOC)
    .union(SuperFlags::ERROR)
    .union(SuperFlags::SEEDING)
    .union(SuperFlags::METADUMP)
    .union(SuperFlags::METADUMP_V2);

/// Whether a file system with these features and flags can be read. Of the bits that prevent it the lowest is named, a
/// conversion before the others: it may be what the others came with.
pub(super) fn check_readable(incompat: IncompatFlags, flags: SuperFlags) -> Result<(), UnsupportedFeature> {
    if let Some(conversion) = Conversion::ALL.into_iter().find(|conversion| flags.contains(conversion.flag())) {
        return Err(UnsupportedFeature::ConversionUnderway { conversion });
    }
    let unknown = flags.difference(SUPPORTED_FLAGS);
    if !unknown.is_empty() {
        return Err(UnsupportedFeature::UnknownFlag { bit: unknown.bits().trailing_zeros() });
    }
    let unsupported = incompat.difference(SUPPORTED_INCOMPAT);
    if unsupported.is_empty() {
        return Ok(());
    }
    let bit = unsupported.bits().trailing_zeros();
    Err(match IncompatFlags::from_bits_retain(1 << bit) {
        IncompatFlags::EXTENT_TREE_V2 => UnsupportedFeature::ExtentTreeV2,
        IncompatFlags::RAID_STRIPE_TREE => UnsupportedFeature::RaidStripeTree,
        IncompatFlags::REMAP_TREE => UnsupportedFeature::RemapTree,
        _ => UnsupportedFeature::UnknownIncompat { bit },
    })
}

/// Read-only-compat bits that are not understood, the lowest first.
pub(super) fn unknown_compat_ro(compat_ro: CompatRoFlags) -> impl Iterator<Item = UnsupportedFeature> {
    let unknown = compat_ro.difference(SUPPORTED_COMPAT_RO).bits();
    (0..u64::BITS).filter(move |bit| unknown >> bit & 1 == 1).map(|bit| UnsupportedFeature::UnknownCompatRo { bit })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_we_refuse_are_named_and_unknown_ones_are_numbered() {
        let refused = |bits| check_readable(IncompatFlags::from_bits_retain(bits), SuperFlags::empty());
        assert_eq!(refused(0x1fff | 1 << 16), Ok(()));
        assert_eq!(refused(1 << 13), Err(UnsupportedFeature::ExtentTreeV2));
        assert_eq!(refused(1 << 14), Err(UnsupportedFeature::RaidStripeTree));
        assert_eq!(refused(1 << 17), Err(UnsupportedFeature::RemapTree));
        assert_eq!(refused(1 | 1 << 15), Err(UnsupportedFeature::UnknownIncompat { bit: 15 }));
        assert_eq!(refused(1 << 63), Err(UnsupportedFeature::UnknownIncompat { bit: 63 }));
        assert_eq!(UnsupportedFeature::UnknownIncompat { bit: 63 }.to_string(), "feature not known: incompat bit 63");
    }

    #[test]
    fn interrupted_conversions_are_refused_but_seeds_and_dumps_are_read() {
        let refused = |flags| check_readable(IncompatFlags::empty(), flags);
        for conversion in Conversion::ALL {
            let others = SuperFlags::WRITTEN | SuperFlags::from_bits_retain(1 << 3);
            let underway = UnsupportedFeature::ConversionUnderway { conversion };
            assert_eq!(refused(conversion.flag() | others), Err(underway), "{conversion}");
        }
        assert_eq!(Conversion::ALL.map(Conversion::bit), [35, 36, 38, 39, 40]);
        assert_eq!(refused(SuperFlags::WRITTEN | SuperFlags::SEEDING | SuperFlags::METADUMP_V2), Ok(()));
        assert_eq!(refused(SuperFlags::RELOC | SuperFlags::ERROR | SuperFlags::METADUMP), Ok(()));
    }

    #[test]
    fn every_flag_without_a_name_is_refused_by_its_number() {
        let known = [0, 1, 2, 32, 33, 34, 35, 36, 38, 39, 40];
        for bit in (0..u64::BITS).filter(|bit| !known.contains(bit)) {
            let refused = check_readable(IncompatFlags::empty(), SuperFlags::from_bits_retain(1 | 1 << bit));
            assert_eq!(refused, Err(UnsupportedFeature::UnknownFlag { bit }));
        }
    }

    #[test]
    fn unknown_read_only_bits_are_listed_one_by_one() {
        assert_eq!(unknown_compat_ro(CompatRoFlags::from_bits_retain(0xf)).count(), 0);
        let bits: Vec<_> = unknown_compat_ro(CompatRoFlags::from_bits_retain(0x8000_0000_0000_0011)).collect();
        assert_eq!(
            bits,
            [UnsupportedFeature::UnknownCompatRo { bit: 4 }, UnsupportedFeature::UnknownCompatRo { bit: 63 }]
        );
    }
}
