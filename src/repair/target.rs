//! The members as they are written: opened for writing elsewhere, held against what the plan was made from.

use crate::device::WriteDevice;
use crate::filesystem::Filesystem;
use crate::format::{SUPERBLOCK_BYTES, SUPERBLOCK_OFFSETS, Superblock};
use crate::units::DeviceId;
use std::collections::BTreeMap;
use std::sync::Arc;
use thiserror::Error;
use uuid::Uuid;

/// The devices that may be written.
pub struct Target {
    devices: BTreeMap<DeviceId, Arc<dyn WriteDevice>>,
}

/// Why a device is not the one that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TargetError {
    /// No member has this number.
    #[error("devid {devid} is no member")]
    NotMember {
        /// The number.
        devid: DeviceId,
    },
    /// Its size has changed.
    #[error("devid {devid} is {have_bytes} bytes long, expected {expect_bytes}")]
    Size {
        /// The device.
        devid: DeviceId,
        /// Its size now.
        have_bytes: u64,
        /// Its size when it was looked at.
        expect_bytes: u64,
    },
    /// It has no super block with the uuid of the member.
    #[error("devid {devid} is not the device with uuid {expect} any more")]
    Uuid {
        /// The device.
        devid: DeviceId,
        /// The uuid of the member.
        expect: Uuid,
    },
}

impl Target {
    /// Takes devices that were opened for writing, and refuses one that is not the member it is said to be.
    pub fn new(
        fs: &Filesystem,
        devices: impl IntoIterator<Item = (DeviceId, Arc<dyn WriteDevice>)>,
    ) -> Result<Self, TargetError> {
        let devices: BTreeMap<DeviceId, Arc<dyn WriteDevice>> = devices.into_iter().collect();
        for (devid, device) in &devices {
            let devid = *devid;
            let member = fs.volume().member(devid).ok_or(TargetError::NotMember { devid })?;
            let (have_bytes, expect_bytes) = (device.len(), member.device().len());
            if have_bytes != expect_bytes {
                return Err(TargetError::Size { devid, have_bytes, expect_bytes });
            }
            if !carries(&**device, member.uuid()) {
                return Err(TargetError::Uuid { devid, expect: member.uuid() });
            }
        }
        Ok(Self { devices })
    }

    pub(super) fn device(&self, devid: DeviceId) -> Option<&Arc<dyn WriteDevice>> {
        self.devices.get(&devid)
    }
}

fn carries(device: &dyn WriteDevice, uuid: Uuid) -> bool {
    SUPERBLOCK_OFFSETS.into_iter().any(|at| {
        let mut bytes = [0; SUPERBLOCK_BYTES];
        device.read_at(at, &mut bytes).is_ok()
            && Superblock::parse(&bytes, at).is_ok_and(|superblock| superblock.dev_item().uuid == uuid)
    })
}
