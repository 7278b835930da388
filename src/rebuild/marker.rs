//! What stands in the place of the first super block while a member is being made: no tool takes the device for a member,
//! and the next run knows what it is.
//!
//! A few lines of text, so that whoever looks at the device can read it. All of it lies in the first 512 bytes: a power cut
//! leaves it whole or not there.

use crate::format::{SUPERBLOCK_BYTES, SUPERBLOCK_OFFSETS};
use crate::units::Physical;
use std::fmt::Write as _;
use uuid::Uuid;

const TITLE: &str = "mirrortool rebuild";

/// Says which member a device is becoming.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marker {
    /// The file system.
    pub fsid: Uuid,
    /// The member.
    pub uuid: Uuid,
    /// The run that began it.
    pub run: Uuid,
}

impl Marker {
    /// Its place: that of the first super block.
    pub const AT: Physical = SUPERBLOCK_OFFSETS[0];

    /// What is written.
    pub fn to_bytes(self) -> [u8; SUPERBLOCK_BYTES] {
        let mut text = String::new();
        let Self { fsid, uuid, run } = self;
        // Writing to a string does not fail.
        let _ = write!(text, "{TITLE}\nfsid {fsid}\nuuid {uuid}\nrun {run}\n");
        let mut bytes = [0; SUPERBLOCK_BYTES];
        bytes.iter_mut().zip(text.bytes()).for_each(|(to, from)| *to = from);
        bytes
    }

    /// The marker in these bytes, if they are one.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let text = bytes.split(|byte| *byte == 0).next()?;
        let mut lines = std::str::from_utf8(text).ok()?.lines();
        (lines.next()? == TITLE).then_some(())?;
        let mut value = |name: &str| Uuid::parse_str(lines.next()?.strip_prefix(name)?.trim()).ok();
        let marker = Self { fsid: value("fsid ")?, uuid: value("uuid ")?, run: value("run ")? };
        (marker.to_bytes() == *bytes).then_some(marker)
    }
}

#[cfg(test)]
mod tests {
    use super::Marker;
    use uuid::Uuid;

    #[test]
    fn a_marker_is_read_back_and_nothing_else_is_one() {
        let marker = Marker { fsid: Uuid::from_u128(1), uuid: Uuid::from_u128(2), run: Uuid::from_u128(3) };
        let mut bytes = marker.to_bytes();
        assert_eq!(Marker::parse(&bytes), Some(marker));
        assert!(bytes[512..].iter().all(|byte| *byte == 0));
        bytes[4000] = 1;
        assert_eq!(Marker::parse(&bytes), None);
        assert_eq!(Marker::parse(&[0; 4096]), None);
    }
}
