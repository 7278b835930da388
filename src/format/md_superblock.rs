//! The super blocks of md members: versions 0.90 (of either byte order), 1.0, 1.1 and 1.2.
//!
//! Decides whether bytes are an md super block in the place where they were read, and what it says of its array and of
//! its member. Never reads a device. Kernel: `super_90_load`, `super_90_validate`, `super_1_load`, `super_1_validate`
//! and `calc_sb_1_csum` in `drivers/md/md.c`; `mdp_superblock_1` and `mdp_super_t` in `include/uapi/linux/raid/md_p.h`.

use super::le::{be_u32, le_u16, le_u32, le_u64};
use thiserror::Error;
use uuid::Uuid;

/// The longest super block.
pub const MD_SUPERBLOCK_BYTES: usize = 4096;
/// Both formats begin with it.
const MAGIC: u32 = 0xa92b_4efc;
const SECTOR_BYTES: u64 = 512;
/// Devices that version 1 has room for: `(4096 - 256) / 2`.
const MAX_DEVICES: usize = 1920;
/// Devices that version 0.90 has room for.
const MAX_DEVICES_090: usize = 27;
/// Feature bits that are known.
const KNOWN_FEATURES: u32 = 0x1fff;

/// Which format, and with it the place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MdVersion {
    /// 64 to 128 KiB before the end.
    V090,
    /// 8 to 12 KiB before the end.
    V10,
    /// At the start.
    V11,
    /// 4 KiB from the start.
    V12,
}

impl MdVersion {
    /// In the order to be tried: those that leave the start of the device to the data come first.
    pub const ALL: [Self; 4] = [Self::V10, Self::V090, Self::V11, Self::V12];

    /// As md writes it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::V090 => "0.90",
            Self::V10 => "1.0",
            Self::V11 => "1.1",
            Self::V12 => "1.2",
        }
    }

    /// The byte where the super block of a device of `len` bytes is.
    pub fn place(self, len: u64) -> Option<u64> {
        let sectors = len / SECTOR_BYTES;
        let sector = match self {
            Self::V090 => (sectors & !127).checked_sub(128)?,
            Self::V10 => sectors.checked_sub(16)? & !7,
            Self::V11 => 0,
            Self::V12 => 8,
        };
        let at = sector * SECTOR_BYTES;
        (at + MD_SUPERBLOCK_BYTES as u64 <= len).then_some(at)
    }
}

/// What stands in the way of writing, or of more than reading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is a bit of the super block")]
pub struct MdFeatures {
    /// Being given another shape.
    pub reshape: bool,
    /// A device keeps a journal.
    pub journal: bool,
    /// A partial parity log.
    pub ppl: bool,
    /// Several hosts.
    pub clustered: bool,
    /// Stands in for another member.
    pub replacement: bool,
    /// The layout of RAID0 means something.
    pub raid0_layout: bool,
    /// Not stopped cleanly, or never in sync.
    pub unclean: bool,
}

/// What a member's super block says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MdSuperblock {
    /// The format.
    pub version: MdVersion,
    /// The array.
    pub set_uuid: Uuid,
    /// This member.
    pub device_uuid: Uuid,
    /// 0, 1, 4, 5, 6, 10, or -1 for linear.
    pub level: i32,
    /// By the level.
    pub layout: u32,
    /// Used of each member.
    pub member_bytes: u64,
    /// 0 where the level has none.
    pub chunk_bytes: u64,
    /// Slots.
    pub raid_disks: u32,
    /// Where the data begins.
    pub data_offset_bytes: u64,
    /// How much there is from there.
    pub data_bytes: u64,
    /// Counts the changes of the array.
    pub events: u64,
    /// The number of this member.
    pub dev_number: u32,
    /// By the number of a member: its slot, or 0xffff spare, 0xfffe faulty, 0xfffd journal.
    pub roles: Vec<u16>,
    /// In sync below it only, counted from the start of the data.
    pub recovery_offset_bytes: Option<u64>,
    /// The list of bad blocks: where it is, how long, and the shift of its numbers.
    pub bad_blocks: Option<(u64, usize, u32)>,
    /// What else there is.
    pub features: MdFeatures,
}

/// A role of [`MdSuperblock::roles`].
pub mod role {
    /// From here on they are no slots.
    pub const FIRST_SPECIAL: u16 = 0xff00;
    /// Keeps the journal.
    pub const JOURNAL: u16 = 0xfffd;
    /// Failed.
    pub const FAULTY: u16 = 0xfffe;
    /// Spare.
    pub const SPARE: u16 = 0xffff;
}

/// Why bytes are not a super block that can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum MdSuperblockError {
    /// Something else is there.
    #[error("no md super block")]
    Magic,
    /// It is one, of a version that is not known.
    #[error("md super block of version {0}, expected 0 or 1")]
    Version(u32),
    /// It is damaged.
    #[error("md super block with checksum {have:08x}, expected {expect:08x}")]
    Checksum {
        /// Computed.
        have: u32,
        /// Stored.
        expect: u32,
    },
    /// It was made for another place: that of a partition seen through the whole disk, say.
    #[error("md super block for byte {have}, found at {expect}")]
    Place {
        /// Stored.
        have: u64,
        /// Where it was read.
        expect: u64,
    },
    /// Bits that are not known.
    #[error("md super block with unknown feature bits {0:#x}")]
    Features(u32),
    /// A number is out of bounds.
    #[error("md super block whose {0} makes no sense")]
    Field(&'static str),
}

impl MdSuperblock {
    /// The super block in `bytes`, which were read at `at` of a device of `len` bytes as one of `version`.
    pub fn parse(bytes: &[u8], version: MdVersion, at: u64, len: u64) -> Result<Self, MdSuperblockError> {
        match version {
            MdVersion::V090 => parse_090(bytes, at),
            _ => parse_1(bytes, version, at, len),
        }
    }

    /// The slot of the member with this number, as this super block sees it.
    pub fn role_of(&self, dev_number: u32) -> u16 {
        self.roles.get(dev_number as usize).copied().unwrap_or(role::SPARE)
    }
}

fn parse_1(bytes: &[u8], version: MdVersion, at: u64, len: u64) -> Result<MdSuperblock, MdSuperblockError> {
    let (u16_at, u32_at, u64_at) = (|at| le_u16(bytes, at), |at| le_u32(bytes, at), |at| le_u64(bytes, at));
    if u32_at(0) != MAGIC {
        return Err(MdSuperblockError::Magic);
    }
    if u32_at(4) != 1 {
        return Err(MdSuperblockError::Version(u32_at(4)));
    }
    let max_dev = u32_at(220) as usize;
    if max_dev > MAX_DEVICES {
        return Err(MdSuperblockError::Field("number of devices"));
    }
    let (have, expect) = (checksum_1(bytes, 256 + 2 * max_dev), u32_at(216));
    if have != expect {
        return Err(MdSuperblockError::Checksum { have, expect });
    }
    let place = u64_at(144).saturating_mul(SECTOR_BYTES);
    if place != at {
        return Err(MdSuperblockError::Place { have: place, expect: at });
    }
    let features = u32_at(8);
    if features & !KNOWN_FEATURES != 0 {
        return Err(MdSuperblockError::Features(features & !KNOWN_FEATURES));
    }
    let has = |bit: u32| features & bit != 0;
    let bytes_of = |sectors: u64| sectors.checked_mul(SECTOR_BYTES).ok_or(MdSuperblockError::Field("size"));
    let (data_offset_bytes, data_bytes) = (bytes_of(u64_at(128))?, bytes_of(u64_at(136))?);
    if data_offset_bytes.checked_add(data_bytes).is_none_or(|end| end > len) {
        return Err(MdSuperblockError::Field("data area"));
    }
    let member_bytes = bytes_of(u64_at(80))?;
    let (level, raid_disks) = (u32_at(72).cast_signed(), u32_at(92));
    // Of linear and RAID0 each member gives all that it has.
    let member_bytes = if matches!(level, -1 | 0) { data_bytes } else { member_bytes };
    if member_bytes > data_bytes {
        return Err(MdSuperblockError::Field("size"));
    }
    let bad_blocks = has(8).then(|| {
        let offset = i64::from(u32_at(188).cast_signed()) * SECTOR_BYTES.cast_signed();
        let list_bytes = usize::from(u16_at(186)) * SECTOR_BYTES as usize;
        let shift = u32::from(bytes.get(185).copied().unwrap_or_default());
        at.checked_add_signed(offset).map(|at| (at, list_bytes, shift))
    });
    let resync_offset = u64_at(208);
    let is_redundant = !matches!(level, -1 | 0);
    Ok(MdSuperblock {
        version,
        set_uuid: uuid_at(bytes, 16),
        device_uuid: uuid_at(bytes, 168),
        level,
        layout: u32_at(76),
        member_bytes,
        chunk_bytes: u64::from(u32_at(88)) * SECTOR_BYTES,
        raid_disks: checked_disks(raid_disks)?,
        data_offset_bytes,
        data_bytes,
        events: u64_at(200),
        dev_number: u32_at(160),
        roles: (0..max_dev).map(|number| u16_at(256 + 2 * number)).collect(),
        recovery_offset_bytes: has(2).then(|| u64_at(152).saturating_mul(SECTOR_BYTES)),
        bad_blocks: bad_blocks.flatten(),
        features: MdFeatures {
            reshape: has(4) || has(32) || has(64),
            journal: has(512),
            ppl: has(1024) || has(2048),
            clustered: has(256),
            replacement: has(16),
            raid0_layout: has(4096),
            unclean: is_redundant && resync_offset.saturating_mul(SECTOR_BYTES) < member_bytes,
        },
    })
}

fn checked_disks(raid_disks: u32) -> Result<u32, MdSuperblockError> {
    let in_bounds = (1..=MAX_DEVICES as u32).contains(&raid_disks);
    in_bounds.then_some(raid_disks).ok_or(MdSuperblockError::Field("number of members"))
}

/// The sum of all words but the checksum itself, its halves added once.
fn checksum_1(bytes: &[u8], len: usize) -> u32 {
    let bytes = bytes.get(..len).unwrap_or(bytes);
    let words = bytes.chunks_exact(4);
    let rest = u64::from(le_u16(words.remainder(), 0));
    let sum = words.enumerate().filter(|(nth, _)| *nth != 216 / 4).map(|(_, word)| u64::from(le_u32(word, 0)));
    let sum = sum.sum::<u64>() + rest;
    (sum as u32).wrapping_add((sum >> 32) as u32)
}

fn uuid_at(bytes: &[u8], at: usize) -> Uuid {
    bytes.get(at..at + 16).and_then(|bytes| Uuid::from_slice(bytes).ok()).unwrap_or_default()
}

/// Words of version 0.90.
mod word {
    pub(super) const MAJOR: usize = 1;
    pub(super) const MINOR: usize = 2;
    pub(super) const SET_UUID: [usize; 4] = [5, 13, 14, 15];
    pub(super) const LEVEL: usize = 7;
    pub(super) const SIZE_KIB: usize = 8;
    pub(super) const RAID_DISKS: usize = 10;
    pub(super) const STATE: usize = 33;
    pub(super) const CHECKSUM: usize = 38;
    pub(super) const EVENTS: usize = 39;
    pub(super) const LAYOUT: usize = 64;
    pub(super) const CHUNK_BYTES: usize = 65;
    pub(super) const DISKS: usize = 128;
    pub(super) const THIS_DISK: usize = 992;
}

fn parse_090(bytes: &[u8], at: u64) -> Result<MdSuperblock, MdSuperblockError> {
    let is_big_endian = match (le_u32(bytes, 0), be_u32(bytes, 0)) {
        (MAGIC, _) => false,
        (_, MAGIC) => true,
        _ => return Err(MdSuperblockError::Magic),
    };
    let word = |nth: usize| if is_big_endian { be_u32(bytes, nth * 4) } else { le_u32(bytes, nth * 4) };
    if word(word::MAJOR) != 0 || !matches!(word(word::MINOR), 90 | 91) {
        return Err(MdSuperblockError::Version(word(word::MAJOR)));
    }
    let sum: u64 = (0..1024).filter(|nth| *nth != word::CHECKSUM).map(|nth| u64::from(word(nth))).sum();
    let (have, expect) = ((sum as u32).wrapping_add((sum >> 32) as u32), word(word::CHECKSUM));
    if fold(have) != fold(expect) {
        return Err(MdSuperblockError::Checksum { have, expect });
    }
    let member_bytes = u64::from(word(word::SIZE_KIB)) << 10;
    let level = word(word::LEVEL).cast_signed();
    let member_bytes = if matches!(level, -1 | 0) { at } else { member_bytes };
    if member_bytes > at {
        return Err(MdSuperblockError::Field("size"));
    }
    // The number of a device is its place in the list; state bits: 0 faulty, 1 active, 2 in sync.
    let role_at = |first: usize| match word(first + 4) {
        state if state & 1 != 0 => role::FAULTY,
        state if state & 6 == 6 => u16::try_from(word(first + 3)).unwrap_or(role::SPARE),
        _ => role::SPARE,
    };
    let low_high = if is_big_endian { (1, 0) } else { (0, 1) };
    let set_uuid: Vec<u8> = word::SET_UUID.into_iter().flat_map(|nth| word(nth).to_le_bytes()).collect();
    let dev_number = word(word::THIS_DISK);
    let mut device_uuid = set_uuid.clone();
    device_uuid.iter_mut().zip(dev_number.wrapping_add(1).to_le_bytes()).for_each(|(byte, number)| *byte ^= number);
    let is_redundant = !matches!(level, -1 | 0);
    Ok(MdSuperblock {
        version: MdVersion::V090,
        set_uuid: uuid_at(&set_uuid, 0),
        device_uuid: uuid_at(&device_uuid, 0),
        level,
        layout: word(word::LAYOUT),
        member_bytes,
        chunk_bytes: u64::from(word(word::CHUNK_BYTES)),
        raid_disks: checked_disks(word(word::RAID_DISKS))?,
        data_offset_bytes: 0,
        data_bytes: at,
        events: u64::from(word(word::EVENTS + low_high.1)) << 32 | u64::from(word(word::EVENTS + low_high.0)),
        dev_number,
        roles: (0..MAX_DEVICES_090).map(|number| role_at(word::DISKS + 32 * number)).collect(),
        recovery_offset_bytes: None,
        bad_blocks: None,
        features: MdFeatures {
            reshape: word(word::MINOR) == 91,
            unclean: is_redundant && word(word::STATE) & 1 == 0,
            ..MdFeatures::default()
        },
    })
}

/// Some architectures stored the sum folded to 16 bits.
fn fold(sum: u32) -> u32 {
    let sum = (sum & 0xffff) + (sum >> 16);
    (sum & 0xffff) + (sum >> 16)
}
