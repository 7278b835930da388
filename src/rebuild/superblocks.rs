//! The super blocks of the new member: made from the newest one of the file system and the chunk tree's device item, written
//! from the last place to the first.

use super::RebuildError;
use super::target::put;
use crate::filesystem::Filesystem;
use crate::format::PlacedSuperblock;
use crate::lease::LeasedDevice;
use crate::volume::{LostMember, superblock_places};

/// All of them, the first last; made before anything is written, so that one that cannot be made is known at once.
pub(super) fn superblocks_of(fs: &Filesystem, lost: &LostMember) -> Result<Vec<PlacedSuperblock>, RebuildError> {
    let num_devices = fs.device_items().unwrap_or_else(|| fs.superblock().num_devices());
    let places = superblock_places(lost.item().total_bytes).rev();
    places.map(|at| Ok(fs.superblock().for_member(at, lost.item(), num_devices)?)).collect()
}

/// Writes one after the other, each synced and read back before the next.
pub(super) fn write_superblocks(device: &LeasedDevice, superblocks: &[PlacedSuperblock]) -> Result<(), RebuildError> {
    superblocks.iter().try_for_each(|superblock| Ok(put(device, superblock.at(), superblock.bytes())?))
}
