//! The nine profiles as rows of a table (kernel: `btrfs_raid_array` in `fs/btrfs/volumes.c`).
//!
//! Everything that differs between profiles and is a number stands here; the three ways of laying out bytes that
//! the rows name are in [`geometry`](super::geometry). Nothing here looks at a chunk or a device.

use crate::format::BlockGroupFlags;
use std::fmt;
use thiserror::Error;

/// How the blocks of a block group are spread over devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Profile {
    /// One copy on one device.
    Single,
    /// Two copies on one device.
    Dup,
    /// Striped, no redundancy.
    Raid0,
    /// Two copies on two devices.
    Raid1,
    /// Three copies on three devices.
    Raid1c3,
    /// Four copies on four devices.
    Raid1c4,
    /// Striped pairs of copies.
    Raid10,
    /// Striped with one parity.
    Raid5,
    /// Striped with two parities.
    Raid6,
}

/// The three ways in which nine profiles lay out their bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Every stripe holds the whole chunk.
    Mirrored,
    /// Stripe units of 64 KiB go round the columns; a column is `sub_stripes` stripes that hold the same.
    Striped,
    /// As striped, with one or two parity columns in each row, all columns rotating by one stripe per row.
    Parity,
}

/// One row of the profile table. Field names are the kernel's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProfileRow {
    /// The name as btrfs-progs prints it (`RAID1C3`, `single`).
    pub name: &'static str,
    /// The bit in a chunk's type; none for single.
    pub block_group_flag: BlockGroupFlags,
    /// Stripes that hold the same data within a striped column.
    pub sub_stripes: u16,
    /// Stripes of a chunk that one device holds.
    pub dev_stripes: u16,
    /// Copies of each block that can be read directly.
    pub ncopies: u8,
    /// Parity columns of each row.
    pub nparity: u8,
    /// Devices that may fail without loss of data.
    pub tolerated_failures: u8,
    /// The fewest devices of a chunk.
    pub devs_min: u16,
    /// How bytes are laid out.
    pub layout: Layout,
}

const SINGLE: ProfileRow = ProfileRow {
    name: "single",
    block_group_flag: BlockGroupFlags::empty(),
    sub_stripes: 1,
    dev_stripes: 1,
    ncopies: 1,
    nparity: 0,
    tolerated_failures: 0,
    devs_min: 1,
    layout: Layout::Mirrored,
};

const fn mirrored(name: &'static str, block_group_flag: BlockGroupFlags, copies: u8) -> ProfileRow {
    ProfileRow {
        name,
        block_group_flag,
        ncopies: copies,
        tolerated_failures: copies - 1,
        devs_min: copies as u16,
        ..SINGLE
    }
}

const fn parity(name: &'static str, block_group_flag: BlockGroupFlags, nparity: u8) -> ProfileRow {
    ProfileRow {
        name,
        block_group_flag,
        nparity,
        tolerated_failures: nparity,
        devs_min: nparity as u16 + 1,
        layout: Layout::Parity,
        ..SINGLE
    }
}

/// In the order of [`Profile`].
const TABLE: [ProfileRow; 9] = [
    SINGLE,
    ProfileRow { name: "DUP", block_group_flag: BlockGroupFlags::DUP, dev_stripes: 2, ncopies: 2, ..SINGLE },
    ProfileRow { name: "RAID0", block_group_flag: BlockGroupFlags::RAID0, layout: Layout::Striped, ..SINGLE },
    mirrored("RAID1", BlockGroupFlags::RAID1, 2),
    mirrored("RAID1C3", BlockGroupFlags::RAID1C3, 3),
    mirrored("RAID1C4", BlockGroupFlags::RAID1C4, 4),
    ProfileRow { sub_stripes: 2, layout: Layout::Striped, ..mirrored("RAID10", BlockGroupFlags::RAID10, 2) },
    parity("RAID5", BlockGroupFlags::RAID5, 1),
    parity("RAID6", BlockGroupFlags::RAID6, 2),
];

/// More than one profile bit is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("invalid profile flags {:#x}, expect 0 or 1 bit of {:#x}", .flags.bits(), BlockGroupFlags::PROFILE_MASK.bits())]
pub struct ProfileError {
    /// The chunk type as read.
    pub flags: BlockGroupFlags,
}

impl Profile {
    /// All profiles, in table order.
    pub const ALL: [Self; 9] = [
        Self::Single,
        Self::Dup,
        Self::Raid0,
        Self::Raid1,
        Self::Raid1c3,
        Self::Raid1c4,
        Self::Raid10,
        Self::Raid5,
        Self::Raid6,
    ];

    /// The numbers of this profile.
    pub const fn row(self) -> &'static ProfileRow {
        &TABLE[self as usize]
    }

    /// The profile of a chunk's or block group's type: exactly one of the profile bits, or none for single. Other bits
    /// are not looked at.
    pub fn from_flags(flags: BlockGroupFlags) -> Result<Self, ProfileError> {
        let bit = flags.profile();
        Self::ALL.into_iter().find(|profile| profile.row().block_group_flag == bit).ok_or(ProfileError { flags })
    }
}

/// Lower case, as in reports: `single`, `raid1c3`.
impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.row().name.to_ascii_lowercase())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_profile_is_found_by_its_flag_whatever_the_type_bits_say() {
        for profile in Profile::ALL {
            for kind in [BlockGroupFlags::DATA, BlockGroupFlags::SYSTEM, BlockGroupFlags::TYPE_MASK] {
                assert_eq!(Profile::from_flags(profile.row().block_group_flag | kind), Ok(profile));
            }
        }
    }

    #[test]
    fn two_profile_bits_are_refused() {
        let error = Profile::from_flags(BlockGroupFlags::from_bits_retain(0x19)).unwrap_err();
        assert_eq!(error.to_string(), "invalid profile flags 0x19, expect 0 or 1 bit of 0x7f8");
    }

    #[test]
    fn names_are_those_of_btrfs_and_of_the_reports() {
        assert_eq!(Profile::Raid1c3.row().name, "RAID1C3");
        assert_eq!(Profile::Single.row().name, "single");
        let names: Vec<String> = Profile::ALL.iter().map(ToString::to_string).collect();
        assert_eq!(names.join(" "), "single dup raid0 raid1 raid1c3 raid1c4 raid10 raid5 raid6");
    }
}
