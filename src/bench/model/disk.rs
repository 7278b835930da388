//! Hard disks: seek by distance, rotation by angle, transfer by zone, look-ahead, shingles.
//!
//! * **Zones.** All tracks hold the same length of magnetic path, so that rate and track capacity are proportional to
//!   the radius: between the outer and the inner rate, the square of the rate falls linearly with the address.
//! * **Rotation.** Tracks are skewed so that reading on through them loses no revolution. Hence the angle of an address
//!   is the time that reading from the start of the disk up to it takes, modulo one revolution.
//! * **Seek.** single track + b * sqrt(distance in cylinders), with b such that the mean over random pairs is the
//!   average seek of the data sheet: E[sqrt(d)] = 8/15 for a distance d of two random cylinders, as part of the stroke.
//! * **Look-ahead.** After a read the disk reads on into its buffer, so that a reader that pauses finds the next blocks
//!   there; after a write the buffer hides the gap until the next one arrives.

use super::{Direction, transfer_ns};

/// The mean of the square root of the distance of two random cylinders, as part of the stroke.
const MEAN_SQRT_DISTANCE: f64 = 8.0 / 15.0;

/// Moments that differ by rounding only.
const SAME_MOMENT_NS: u64 = 1_000;

/// A hard disk by its figures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskModel {
    /// How much it holds.
    pub capacity_bytes: u64,
    /// Revolutions per minute.
    pub rpm: u32,
    /// Sustained rate at the first address, head and cylinder switches included.
    pub outer_bytes_per_second: u64,
    /// Sustained rate at the last address.
    pub inner_bytes_per_second: u64,
    /// Seek to the neighbouring track, settling included.
    pub single_track_seek_ns: u64,
    /// Average seek of a read.
    pub average_seek_ns: u64,
    /// What a seek before a write takes longer: the head must have settled better.
    pub write_settle_ns: u64,
    /// What a command costs before the head moves.
    pub command_ns: u64,
    /// What a command costs that finds its blocks in the buffer or coming up under the head.
    pub hit_ns: u64,
    /// Commands that the disk may reorder (NCQ).
    pub queue_depth: u32,
    /// How far it reads ahead into its buffer.
    pub look_ahead_bytes: u64,
    /// The host's side of the buffer.
    pub interface_bytes_per_second: u64,
    /// Set for a drive-managed shingled disk.
    pub shingles: Option<Shingles>,
}

/// What makes writes to a shingled disk dear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shingles {
    /// Tracks that can only be rewritten together.
    pub band_bytes: u64,
    /// Where writes go that continue no other, until it is full.
    pub cache_bytes: u64,
}

/// Where the head is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The address after the last one transferred.
    pub end: u64,
    /// When the head passed it.
    pub end_ns: u64,
    /// What it did there.
    pub direction: Direction,
    /// Bytes waiting in the persistent cache of a shingled disk.
    pub cached_bytes: u64,
}

impl Default for Head {
    fn default() -> Self {
        Self { end: 0, end_ns: 0, direction: Direction::Read, cached_bytes: 0 }
    }
}

/// How one request would go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    /// When the host has its answer.
    pub(crate) done_ns: u64,
    /// The head after it.
    pub(crate) head: Head,
    /// Time lost before the transfer: what a scheduler wants to be small.
    pub(crate) positioning_ns: u64,
    /// Whether the head has to go elsewhere, which ends the look-ahead.
    pub(crate) seek: bool,
}

impl DiskModel {
    /// Western Digital Ultrastar DC HC310.
    ///
    /// * Published: 6 TB, 7200 rpm; seek 7.4 ms to read and 8.2 ms to write on average, 0.23 ms to the next track (OEM
    ///   specification, revision 1.4, tables 5 to 7).
    /// * Named by its maker, without a document at hand: 255 MB/s sustained.
    /// * Derived: half of that rate inside, from the ratio of two disks of this size whose zones are published: 0.48 (31.0
    ///   of 64.8 MB/s, 7K500 below) and 0.47 (83 of 175 MB/s, Seagate Constellation ES.3 SAS product manual, 4.1.2).
    /// * Derived: 0.2 ms for a command, which is 7.7 ms with less 7.5 ms without the controller's overhead (Seagate
    ///   Constellation.2 SAS product manual, 5.2.1); 550 MB/s from the 600 MB/s of its interface less framing.
    /// * As the 7K500: a hit, and how far it reads ahead.
    pub const ULTRASTAR_HC310: Self = Self {
        capacity_bytes: 6_001_175_126_016,
        rpm: 7200,
        outer_bytes_per_second: 255_000_000,
        inner_bytes_per_second: 127_000_000,
        single_track_seek_ns: 230_000,
        average_seek_ns: 7_400_000,
        write_settle_ns: 800_000,
        command_ns: 200_000,
        hit_ns: 30_000,
        queue_depth: 32,
        look_ahead_bytes: 8 << 20,
        interface_bytes_per_second: 550_000_000,
        shingles: None,
    };

    /// Hitachi Deskstar 7K500.
    ///
    /// * Published: 500 GB, 7200 rpm, 64.8 MB/s sustained in zone 0 (76.3 MB/s within a track) and 31.0 MB/s in zone 29
    ///   (specification, table 10), seek 8.5 ms to read and 9.2 ms to write on average, 16 MB buffer.
    /// * Derived: changing the track takes what lies between the two rates, a track of 636 kB in 9.8 ms instead of
    ///   8.33 ms, hence 1.48 ms. A command takes what its table of 4096 random reads (55.5 s, 105 % of the sum) leaves
    ///   beside seek and half a turn: 0.23 ms. 250 MB/s from the 300 MB/s of its interface less framing.
    /// * 0.03 ms for a hit in the buffer: Ultrastar 146Z10 specification of the same maker.
    /// * Assumed: half of the buffer is for reading ahead.
    pub const DESKSTAR_7K500: Self = Self {
        capacity_bytes: 500_107_862_016,
        rpm: 7200,
        outer_bytes_per_second: 64_800_000,
        inner_bytes_per_second: 31_000_000,
        single_track_seek_ns: 1_480_000,
        average_seek_ns: 8_500_000,
        write_settle_ns: 700_000,
        command_ns: 230_000,
        hit_ns: 30_000,
        queue_depth: 32,
        look_ahead_bytes: 8 << 20,
        interface_bytes_per_second: 250_000_000,
        shingles: None,
    };

    /// Seagate Archive HDD 8TB.
    ///
    /// * Published: 190 MB/s and a cache for writes of almost 20 GB (reviews at its release). Bands of 15 to 40 MiB as
    ///   found from outside by Aghayev and Desnoyers ("Skylight", FAST 2015): 30 MiB here.
    /// * Named by its maker, without a document at hand: 5900 rpm, seek 12 ms on average.
    /// * Closest published: 1.0 ms to the next track and 1 ms more before a write are those of a disk with the same
    ///   average seek (Hitachi 5K320 specification, tables 5 and 7).
    /// * As the HC310: half of the rate inside, a command, a hit, the interface.
    pub const ARCHIVE_8TB: Self = Self {
        capacity_bytes: 8_001_563_222_016,
        rpm: 5900,
        outer_bytes_per_second: 190_000_000,
        inner_bytes_per_second: 95_000_000,
        single_track_seek_ns: 1_000_000,
        average_seek_ns: 12_000_000,
        write_settle_ns: 1_000_000,
        command_ns: 200_000,
        hit_ns: 30_000,
        queue_depth: 32,
        look_ahead_bytes: 8 << 20,
        interface_bytes_per_second: 550_000_000,
        shingles: Some(Shingles { band_bytes: 30 << 20, cache_bytes: 20_000_000_000 }),
    };

    /// One revolution.
    pub(crate) fn revolution_ns(&self) -> u64 {
        60_000_000_000 / u64::from(self.rpm.max(1))
    }

    /// The rate at `at`, in bytes per second.
    fn rate(&self, at: u64) -> f64 {
        let (outer, inner) = (self.outer_bytes_per_second as f64, self.inner_bytes_per_second as f64);
        let place = (at as f64 / self.capacity_bytes.max(1) as f64).min(1.0);
        (outer * outer - place * (outer * outer - inner * inner)).max(1.0).sqrt()
    }

    /// The time that reading from the start of the disk up to `at` takes: the integral of 1 / rate.
    fn media_ns(&self, at: u64) -> u64 {
        let (outer, rate) = (self.outer_bytes_per_second as f64, self.rate(at));
        // With rate(x)^2 = outer^2 - kx, the integral is 2 (outer - rate) / k = 2x / (outer + rate): no cancellation.
        (2.0e9 * at.min(self.capacity_bytes) as f64 / (outer + rate)) as u64
    }

    /// The seek from one address to another; 0 within a track.
    fn seek_ns(&self, from: u64, to: u64) -> u64 {
        let track_bytes = self.rate(from) * self.revolution_ns() as f64 / 1e9;
        if (from.abs_diff(to) as f64) < track_bytes {
            return 0;
        }
        let stroke = (self.outer_bytes_per_second as f64 - self.inner_bytes_per_second as f64).abs().max(1.0);
        let distance = ((self.rate(from) - self.rate(to)).abs() / stroke).min(1.0);
        let rise_ns = self.average_seek_ns.saturating_sub(self.single_track_seek_ns) as f64 / MEAN_SQRT_DISTANCE;
        self.single_track_seek_ns + (rise_ns * distance.sqrt()) as u64
    }

    /// How a request at `at` would go if it were started at `now_ns`.
    pub(crate) fn access(&self, head: &Head, direction: Direction, at: u64, len_bytes: u64, now_ns: u64) -> Access {
        let by_seeking = self.by_seeking(head, direction, at, len_bytes, now_ns);
        // Within a revolution both ways meet the blocks at the same moment, and staying is no seek.
        let best = match self.by_going_on(head, direction, at, len_bytes, now_ns) {
            Some(going_on) if going_on.done_ns <= by_seeking.done_ns + SAME_MOMENT_NS => going_on,
            _ => by_seeking,
        };
        self.with_shingles(best, direction, len_bytes)
    }

    /// Letting the platter turn under the head (or having let it, into the buffer) until the blocks have passed.
    fn by_going_on(&self, head: &Head, direction: Direction, at: u64, len_bytes: u64, now_ns: u64) -> Option<Access> {
        let ahead = at.checked_sub(head.end)?;
        if direction != head.direction || (direction == Direction::Write && ahead > 0) {
            return None;
        }
        let media_ns = self.media_ns(at + len_bytes) - self.media_ns(head.end);
        let buffer_ns = transfer_ns(self.look_ahead_bytes, self.rate(head.end) as u64);
        // The buffer is full after buffer_ns; until then the head has kept going since the last request.
        let from_ns = head.end_ns.max(now_ns.saturating_sub(buffer_ns));
        let host_ns = now_ns + self.hit_ns + transfer_ns(len_bytes, self.interface_bytes_per_second);
        let end_ns = from_ns + media_ns;
        let own_ns = self.media_ns(at + len_bytes) - self.media_ns(at);
        let positioning_ns = (end_ns - own_ns).saturating_sub(now_ns);
        let head = Head { end: at + len_bytes, end_ns, direction, ..*head };
        Some(Access { done_ns: end_ns.max(host_ns), head, positioning_ns, seek: false })
    }

    /// Moving the head, then waiting for the blocks to come round.
    fn by_seeking(&self, head: &Head, direction: Direction, at: u64, len_bytes: u64, now_ns: u64) -> Access {
        let settle_ns = if direction == Direction::Write { self.write_settle_ns } else { 0 };
        let arrived_ns = now_ns + self.command_ns + self.seek_ns(head.end, at) + settle_ns;
        let turn_ns = self.revolution_ns();
        // The head passed head.end at end_ns; the angle from there to `at`, in time.
        let angle_ns =
            (i128::from(self.media_ns(at)) - i128::from(self.media_ns(head.end))).rem_euclid(i128::from(turn_ns));
        let passes_ns = head.end_ns + angle_ns as u64;
        let turns = arrived_ns.saturating_sub(passes_ns).div_ceil(turn_ns);
        let start_ns = passes_ns + turns * turn_ns;
        let end_ns = start_ns + self.media_ns(at + len_bytes) - self.media_ns(at);
        let head = Head { end: at + len_bytes, end_ns, direction, ..*head };
        Access { done_ns: end_ns, head, positioning_ns: start_ns.saturating_sub(now_ns), seek: true }
    }

    /// A write that continues no other goes to the persistent cache; once that is full, each must make room by
    /// rewriting its share of a band (read it, write it).
    fn with_shingles(&self, access: Access, direction: Direction, len_bytes: u64) -> Access {
        let (Some(shingles), Direction::Write, true) = (self.shingles, direction, access.seek) else { return access };
        let cached_bytes = access.head.cached_bytes.saturating_add(len_bytes);
        if cached_bytes <= shingles.cache_bytes {
            return Access { head: Head { cached_bytes, ..access.head }, ..access };
        }
        let clean_ns = transfer_ns(2 * shingles.band_bytes, self.rate(access.head.end) as u64);
        let head = Head { end_ns: access.head.end_ns + clean_ns, ..access.head };
        Access { done_ns: access.done_ns + clean_ns, head, ..access }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISK: DiskModel = DiskModel::DESKSTAR_7K500;

    /// Reads `count` blocks of `len` bytes, `step` apart, each sent when the one before is done; bytes per second.
    fn rate_of(disk: &DiskModel, start: u64, len: u64, step: u64, count: u64) -> f64 {
        let mut head = Head { end: start, ..Head::default() };
        let mut now_ns = 0;
        for block in 0..count {
            let access = disk.access(&head, Direction::Read, start + block * step, len, now_ns);
            (head, now_ns) = (access.head, access.done_ns);
        }
        (count * len) as f64 * 1e9 / now_ns as f64
    }

    #[test]
    fn reading_on_gets_the_sustained_rate_of_its_zone() {
        let outer = rate_of(&DISK, 0, 128 << 10, 128 << 10, 1000);
        assert!((outer / 64.8e6 - 1.0).abs() < 0.01, "{outer}");
        let inner = rate_of(&DISK, DISK.capacity_bytes - (1 << 30), 128 << 10, 128 << 10, 1000);
        assert!((inner / 31.0e6 - 1.0).abs() < 0.02, "{inner}");
    }

    #[test]
    fn a_random_read_costs_average_seek_and_half_a_turn() {
        let mut random = crate::bench::random::Random::new(1);
        let (mut head, mut now_ns) = (Head::default(), 0);
        for _ in 0..20_000 {
            // Random cylinders: the square root makes the radius even rather than the address.
            let place = random.below(1 << 20) as f64 / f64::from(1 << 20);
            let rate = 31.0e6 + place * (64.8e6 - 31.0e6);
            let at = ((64.8e6_f64.powi(2) - rate * rate) / (64.8e6_f64.powi(2) - 31.0e6_f64.powi(2)) * 4.9e11) as u64;
            let access = DISK.access(&head, Direction::Read, at, 4096, now_ns);
            (head, now_ns) = (access.head, access.done_ns);
        }
        let mean_ms = now_ns as f64 / 20_000.0 / 1e6;
        let expect_ms = 0.23 + 8.5 + 8.333 / 2.0 + 0.08;
        assert!((mean_ms / expect_ms - 1.0).abs() < 0.03, "{mean_ms} {expect_ms}");
    }

    #[test]
    fn skipping_less_than_a_turn_is_no_faster_than_reading_and_skipping_many_turns_is() {
        let half = rate_of(&DISK, 0, 128 << 10, 256 << 10, 1000);
        assert!(half < 0.51 * 64.8e6, "{half}");
        let far = rate_of(&DISK, 0, 4 << 20, 8 << 20, 100);
        assert!(far > 0.85 * 64.8e6, "{far}");
    }

    #[test]
    fn a_reader_that_pauses_finds_the_next_blocks_in_the_buffer() {
        let first = DISK.access(&Head::default(), Direction::Read, 0, 64 << 10, 0);
        let later = first.done_ns + 5_000_000;
        let next = DISK.access(&first.head, Direction::Read, 64 << 10, 64 << 10, later);
        assert!(next.done_ns - later < 1_000_000, "{}", next.done_ns - later);
    }

    #[test]
    fn a_full_persistent_cache_makes_scattered_writes_dear_and_leaves_reads_alone() {
        let disk = DiskModel {
            shingles: Some(Shingles { band_bytes: 30 << 20, cache_bytes: 8192 }),
            ..DiskModel::ARCHIVE_8TB
        };
        let mut head = Head::default();
        let mut took_ms = Vec::new();
        for write in 0..4_u64 {
            let access = disk.access(&head, Direction::Write, (write + 1) << 32, 4096, head.end_ns);
            took_ms.push((access.done_ns - head.end_ns) / 1_000_000);
            head = access.head;
        }
        assert!(took_ms[1] < 40 && took_ms[2] > 300, "{took_ms:?}");
        let read = disk.access(&head, Direction::Read, 0, 4096, head.end_ns);
        assert!(read.done_ns - head.end_ns < 50_000_000);
    }
}
