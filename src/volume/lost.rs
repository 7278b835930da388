//! A member that is known to hold nothing: its device is gone, and a new one is to take its place.
//!
//! Such a member is no [`Member`](super::Member): it is in no [`Volume`](super::Volume), so nothing that it holds by accident
//! is ever read, compared with anything, or taken for the source of anything.

use super::DeviceSet;
use crate::format::items::DevItem;
use crate::units::DeviceId;

/// A missing member of a set. Made by [`DeviceSet::lost`] alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostMember {
    item: DevItem,
}

impl LostMember {
    /// Its number.
    pub fn devid(&self) -> DeviceId {
        self.item.devid
    }

    /// What the chunk tree knows of it.
    pub fn item(&self) -> &DevItem {
        &self.item
    }
}

impl DeviceSet {
    /// The missing member of this number; `None` where it is there, or was never one.
    pub fn lost(&self, devid: DeviceId) -> Option<LostMember> {
        self.missing().iter().find(|item| item.devid == devid).map(|item| LostMember { item: *item })
    }
}
