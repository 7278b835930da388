//! States of work that outlives a mount: an interrupted balance (`struct btrfs_balance_item`) and a device replace
//! (`struct btrfs_dev_replace_item`).

use super::{ItemError, exact, prefix};
use crate::format::Key;
use crate::format::types::{key_type, object};
use crate::units::{DeviceId, Physical};
use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

#[derive(FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawBalanceItem {
    flags: U64,
    data: [u8; 136],
    meta: [u8; 136],
    sys: [u8; 136],
    unused: [U64; 4],
}

const _: () = assert!(size_of::<RawBalanceItem>() == 448);

bitflags::bitflags! {
    /// What a balance works on (`BTRFS_BALANCE_*`).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct BalanceFlags: u64 {
        /// Data block groups.
        const DATA = 1;
        /// System block groups.
        const SYSTEM = 1 << 1;
        /// Metadata block groups.
        const METADATA = 1 << 2;
        /// Also where it lowers the redundancy.
        const FORCE = 1 << 3;
        /// Was interrupted before.
        const RESUME = 1 << 4;
        const _ = !0;
    }
}

/// A balance that is under way or paused. Its item is in the root tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BalanceItem {
    /// What it works on.
    pub flags: BalanceFlags,
}

impl BalanceItem {
    /// The key of the item.
    pub const KEY: Key = Key::new(object::BALANCE.raw(), key_type::TEMPORARY_ITEM, 0);

    /// Parses the bytes of the item.
    pub fn parse(bytes: &[u8]) -> Result<Self, ItemError> {
        let raw: &RawBalanceItem = exact("balance item", bytes)?;
        Ok(Self { flags: BalanceFlags::from_bits_retain(raw.flags.get()) })
    }
}

#[derive(FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawDevReplaceItem {
    src_devid: U64,
    cursor_left: U64,
    cursor_right: U64,
    cont_reading_from_srcdev_mode: U64,
    replace_state: U64,
    time_started: U64,
    time_stopped: U64,
    num_write_errors: U64,
    num_uncorrectable_read_errors: U64,
}

const _: () = assert!(size_of::<RawDevReplaceItem>() == 72);

/// How far a device replace is (`BTRFS_IOCTL_DEV_REPLACE_STATE_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DevReplaceState {
    /// There never was one.
    NeverStarted,
    /// Under way when the file system was last written.
    Started,
    /// Done.
    Finished,
    /// Given up.
    Canceled,
    /// Stopped by an unmount, goes on with the next mount.
    Suspended,
}

/// The replacement of a device by the one with devid 0. Its item is in the device tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DevReplaceItem {
    /// The device that is being replaced.
    pub src_devid: DeviceId,
    /// What is below has been copied.
    pub cursor_left: Physical,
    /// What is above has not been copied.
    pub cursor_right: Physical,
    /// How far it is.
    pub state: DevReplaceState,
    /// When it began, in seconds since 1970.
    pub time_started: u64,
}

impl DevReplaceItem {
    /// The key of the item.
    pub const KEY: Key = Key::new(0, key_type::DEV_REPLACE, 0);

    /// Parses the bytes of the item; newer kernels may append to it.
    pub fn parse(bytes: &[u8]) -> Result<Self, ItemError> {
        let item = "device replace item";
        let (raw, _): (&RawDevReplaceItem, _) = prefix(item, bytes)?;
        let state = match raw.replace_state.get() {
            0 => DevReplaceState::NeverStarted,
            1 => DevReplaceState::Started,
            2 => DevReplaceState::Finished,
            3 => DevReplaceState::Canceled,
            4 => DevReplaceState::Suspended,
            have => return Err(ItemError::Value { item, field: "replace_state", have, expect: "0 to 4" }),
        };
        Ok(Self {
            src_devid: DeviceId::new(raw.src_devid.get()),
            cursor_left: Physical::new(raw.cursor_left.get()),
            cursor_right: Physical::new(raw.cursor_right.get()),
            state,
            time_started: raw.time_started.get(),
        })
    }

    /// Whether the device with devid 0 is half written.
    pub fn is_under_way(&self) -> bool {
        matches!(self.state, DevReplaceState::Started | DevReplaceState::Suspended)
    }
}
