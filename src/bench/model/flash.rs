//! Flash: requests take one of a number of channels for a time, then cross one link. And whatever behaves like that,
//! such as the disk of a virtual machine behind a throttle.

use super::{Direction, transfer_ns};

/// A device with channels and a link.
///
/// The figures follow from a data sheet: random reads per second at depth 1 give the time of one (less the link), that times the
/// random reads per second at full depth gives the number of channels; the sequential rate is the link's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlashModel {
    /// Requests that are served at the same time.
    pub channels: u32,
    /// How long a read of any size occupies its channel, before the link.
    pub read_ns: u64,
    /// How long a write occupies its channel.
    pub write_ns: u64,
    /// After which time a write is acknowledged (from a buffer), if a channel was free.
    pub write_ack_ns: u64,
    /// What all reads together get over the link.
    pub read_bytes_per_second: u64,
    /// What all writes together get over the link.
    pub write_bytes_per_second: u64,
    /// The time in the channel varies evenly by so many percent up and down.
    pub jitter_percent: u32,
}

impl FlashModel {
    /// Samsung SSD 850 EVO 1TB.
    ///
    /// * Published (data sheet): 540 / 520 MB/s; 4 KiB random reads 10,000 per second at depth 1 and 98,000 at depth 32;
    ///   random writes 40,000 and 90,000.
    /// * Derived: 100 us in channel and link; 98,000 / 10,000 channels, of which the link leaves 9; 9 / 90,000 s for a
    ///   write, acknowledged after 1 / 40,000 s.
    /// * Assumed: 20 % jitter.
    pub const SATA_850_EVO: Self = Self {
        channels: 9,
        read_ns: 100_000 - 7_585,
        write_ns: 100_000 - 7_877,
        write_ack_ns: 25_000,
        read_bytes_per_second: 540_000_000,
        write_bytes_per_second: 520_000_000,
        jitter_percent: 20,
    };

    /// Samsung SSD 970 EVO 1TB.
    ///
    /// * Published (the maker's table at its release, April 2018): 3,400 / 2,500 MB/s; 4 KiB random reads 15,000 per
    ///   second at depth 1 and 500,000 at depth 128; random writes 50,000 and 450,000.
    /// * Derived: 66.7 us in channel and link; 500,000 / 15,000 = 33 channels; 33 / 450,000 s for a write, acknowledged
    ///   after 1 / 50,000 s.
    /// * Assumed: 20 % jitter.
    pub const NVME_970_EVO: Self = Self {
        channels: 33,
        read_ns: 66_700 - 1_205,
        write_ns: 73_300 - 1_638,
        write_ack_ns: 20_000,
        read_bytes_per_second: 3_400_000_000,
        write_bytes_per_second: 2_500_000_000,
        jitter_percent: 20,
    };

    /// A disk of a virtual machine that may move 100 MB/s and answer some 7,800 requests a second, reads and writes
    /// together. The first figure is that of the linux-btrfs thread of October 2020; the second follows from that of
    /// October 2024, where 20.3 MiB/s of 4 KiB reads over two mirrors and as many writes to both make
    /// 1.5 x 20.3 MiB/s for each.
    pub const THROTTLED_VM: Self = Self {
        channels: 1,
        read_ns: 128_000,
        write_ns: 128_000,
        write_ack_ns: 128_000,
        read_bytes_per_second: 100_000_000,
        write_bytes_per_second: 100_000_000,
        jitter_percent: 20,
    };

    /// The time in a channel, and the time until the host may be answered (both before the link).
    pub(crate) fn channel_ns(&self, direction: Direction) -> (u64, u64) {
        match direction {
            Direction::Read => (self.read_ns, self.read_ns),
            Direction::Write => (self.write_ns, self.write_ack_ns.min(self.write_ns)),
        }
    }

    /// With one channel requests pass one by one, and each takes the longer of its time there and on the link: a throttle
    /// with a limit on requests and one on bytes.
    pub(crate) fn is_throttle(&self) -> bool {
        self.channels <= 1
    }

    /// The time on the link; for a throttle what that adds to the time in the channel.
    pub(crate) fn link_ns(&self, direction: Direction, len_bytes: u64) -> u64 {
        let (rate, channel_ns) = match direction {
            Direction::Read => (self.read_bytes_per_second, self.read_ns),
            Direction::Write => (self.write_bytes_per_second, self.write_ns),
        };
        let link_ns = transfer_ns(len_bytes, rate);
        if self.is_throttle() { link_ns.saturating_sub(channel_ns) } else { link_ns }
    }
}
