//! The quantities of btrfs as types of their own: two addresses cannot be added, a logical address cannot be handed
//! to a device, and a difference of addresses is a length in bytes.
//!
//! All arithmetic saturates: a hostile image must not be able to wrap an address around.

use std::fmt;
use std::ops::{Add, Range, Sub};

const _: () = assert!(usize::BITS == 64, "buffers and addresses are mixed freely; 32-bit hosts are not supported");

macro_rules! address {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u64);

        impl $name {
            /// The address as stored on disk, in bytes.
            pub const fn new(bytes: u64) -> Self {
                Self(bytes)
            }

            /// The plain number, in bytes.
            pub const fn raw(self) -> u64 {
                self.0
            }

            /// This address rounded down to a multiple of `step_bytes` (which must not be zero).
            #[must_use]
            pub const fn align_down(self, step_bytes: u64) -> Self {
                Self(self.0 - self.0 % step_bytes)
            }
        }

        impl Add<u64> for $name {
            type Output = Self;
            fn add(self, length_bytes: u64) -> Self {
                Self(self.0.saturating_add(length_bytes))
            }
        }

        impl Sub for $name {
            type Output = u64;
            fn sub(self, earlier: Self) -> u64 {
                self.0.saturating_sub(earlier.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

address! {
    /// An address in btrfs's own address space (`bytenr`), mapped to devices by the chunk tree.
    Logical
}
address! {
    /// A byte offset on one device or in one image file.
    Physical
}

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name($inner);

        impl $name {
            /// The value as stored on disk.
            pub const fn new(raw: $inner) -> Self {
                Self(raw)
            }

            /// The plain number.
            pub const fn raw(self) -> $inner {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number! {
    /// The number of a member device within its file system (`devid`).
    DeviceId(u64)
}
number! {
    /// A transaction number (`generation`, `transid`).
    Generation(u64)
}
number! {
    /// The number of an object in a tree: a root, an inode, a device, ...
    ObjectId(u64)
}
number! {
    /// Which copy of a block is meant, from 1 as everywhere in btrfs. For parity: 1 is P, 2 is Q.
    MirrorNum(u8)
}

/// A place on one member device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DevicePhysical {
    /// The member.
    pub devid: DeviceId,
    /// The byte offset on it.
    pub physical: Physical,
}

/// A half-open range of logical addresses.
pub type LogicalRange = Range<Logical>;

/// The length of a range in bytes; 0 where the end is not above the start.
pub fn range_len(range: &LogicalRange) -> u64 {
    range.end - range.start
}
