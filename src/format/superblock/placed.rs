//! A super block made for one place of one member, from that of another member, and proved before anybody gets it.

use super::{SUPERBLOCK_BYTES, Superblock, SuperblockError};
use crate::format::items::DevItem;
use crate::units::{DeviceId, Physical};
use thiserror::Error;

/// 4 KiB that are a super block at their place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedSuperblock {
    at: Physical,
    bytes: [u8; SUPERBLOCK_BYTES],
}

/// Why no super block can be made for a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NotPlaced {
    /// The number is that of a device that a replace is writing to.
    #[error("devid 0 is no member of its own")]
    DevidZero,
    /// What came out does not hold.
    #[error("the super block for devid {devid} would not hold: {error}")]
    Invalid {
        /// The member.
        devid: DeviceId,
        /// What is wrong.
        error: SuperblockError,
    },
    /// What came out says something else than the one it was made from.
    #[error("the super block for devid {devid} would differ in more than its member")]
    Differs {
        /// The member.
        devid: DeviceId,
    },
}

impl PlacedSuperblock {
    /// Where it belongs.
    pub fn at(&self) -> Physical {
        self.at
    }

    /// What to write there.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl Superblock {
    /// The super block that the member of `item` has at `at`, in a file system of `num_devices`. All but these three and the
    /// checksum is as it is here.
    pub fn for_member(&self, at: Physical, item: &DevItem, num_devices: u64) -> Result<PlacedSuperblock, NotPlaced> {
        let devid = item.devid;
        if devid == DeviceId::default() {
            return Err(NotPlaced::DevidZero);
        }
        let bytes = self.with_place(at, item, num_devices);
        let made = Superblock::parse(&bytes, at).map_err(|error| NotPlaced::Invalid { devid, error })?;
        let back = made.with_place(self.bytenr(), self.dev_item(), self.num_devices());
        let says_so = made.dev_item() == item && made.bytenr() == at && made.num_devices() == num_devices;
        if !says_so || back != self.as_bytes() {
            return Err(NotPlaced::Differs { devid });
        }
        Ok(PlacedSuperblock { at, bytes })
    }
}
