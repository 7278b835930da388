//! The places of super blocks: nothing else may be written there, and a super block may not be written where the place
//! is allocated to something else.
//!
//! Kernel: `exclude_super_stripes` in `fs/btrfs/block-group.c` keeps allocations off these places, so either case is
//! damage of its own.

use crate::filesystem::Filesystem;
use crate::format::items::ExtentItem;
use crate::format::types::key_type;
use crate::format::{Key, SUPERBLOCK_BYTES};
use crate::tree::Cursor;
use crate::units::{DevicePhysical, Logical, LogicalRange, Physical};
use crate::volume::{Member, Role, STRIPE_LEN_BYTES};

/// What an extent tree has at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Occupant {
    /// Nothing is stored there.
    None,
    /// The extent at this address is, or its parity.
    Extent(Logical),
    /// The part of the extent tree that knows is lost.
    Unknown,
}

/// Whether `[start, end)` of a member has bytes of a super block.
pub(crate) fn touches_superblock(member: &Member, start: Physical, end: Physical) -> bool {
    let copies = member.superblock_copies().iter();
    copies.map(|copy| copy.at).any(|at| at < end && start < at + SUPERBLOCK_BYTES as u64)
}

/// The block of data or metadata that is stored, or whose parity is, where the super block at `place` is.
pub(crate) fn occupant(fs: &Filesystem, place: DevicePhysical) -> Occupant {
    let Some((chunk, role)) = fs.chunks().role_at(place) else { return Occupant::None };
    let range = match role {
        Role::Data { logical, .. } => logical..logical + SUPERBLOCK_BYTES as u64,
        Role::P { row } | Role::Q { row } => {
            let Some(full) = chunk.full_stripe_of_row(row) else { return Occupant::None };
            full.logical..full.logical + full.data.len() as u64 * STRIPE_LEN_BYTES
        }
        Role::Padding => return Occupant::None,
    };
    extent_in(fs, range)
}

/// The first extent that has a byte of `range`.
fn extent_in(fs: &Filesystem, range: LogicalRange) -> Occupant {
    let Some(root) = fs.roots().extent else { return Occupant::Unknown };
    let mut cursor = Cursor::new(fs, root);
    // The extent before the range may reach into it; between it and the range there may be its backreferences.
    cursor.seek_floor(&Key::new(range.start.raw(), u8::MAX, u64::MAX));
    let mut first = cursor.key().map_or(range.start.raw(), |key| key.objectid.raw());
    cursor.seek(&Key::new(first, 0, 0));
    while let Some((key, bytes)) = cursor.item() {
        first = key.objectid.raw();
        if Logical::new(first) >= range.end {
            break;
        }
        let len_bytes = match key.item_type {
            key_type::EXTENT_ITEM => key.offset,
            key_type::METADATA_ITEM => u64::from(fs.geometry().nodesize()),
            _ => 0,
        };
        let is_extent = len_bytes > 0 && ExtentItem::parse(&key, bytes).is_ok();
        if is_extent && Logical::new(first) + len_bytes > range.start {
            return Occupant::Extent(Logical::new(first));
        }
        cursor.advance();
    }
    if cursor.take_lost().is_empty() { Occupant::None } else { Occupant::Unknown }
}
