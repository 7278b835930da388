//! Linux software RAID as geometry: where the bytes of an array lie on its members, and which copy md reads.
//!
//! Pure arithmetic after `drivers/md/raid10.c`. Nothing here opens a device or knows btrfs.

mod raid10;
mod raid456;
mod read_balance;

pub use raid10::{BadGeometry, Copies, Copy, Layout, Raid10, UnknownLayout};
pub use raid456::{ParityLayout, Raid5Layout, Raid456, RowMembers};
pub use read_balance::ReadBalance;
