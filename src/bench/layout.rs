//! md RAID10 layouts over chunk sizes: one sequential reader or writer, as `dd` on the array, over modelled disks.
//!
//! Between `dd` and the disks stands the kernel, as far as it matters for the figures:
//! * the page cache reads ahead in windows of 128 KiB, or of two stripes where that is more (`raid10_run()` sets
//!   `ra_pages` so), and begins the next window when the reader enters the last one that was sent;
//! * written pages are flushed in order, 4 MiB at a time, as long as the queues take more;
//! * requests that touch on one device become one, up to 512 KiB (`max_sectors_kb`), and 128 wait per device
//!   (`nr_requests`).

use std::collections::{BTreeMap, VecDeque};

use rayon::prelude::*;

use super::model::{DeviceModel, Direction};
use super::simulator::{Happening, Io, Simulator};
use crate::md::{BadGeometry, Copy, Layout, Raid10, ReadBalance};

/// The kernel's default readahead.
const READAHEAD_MIN_BYTES: u64 = 128 << 10;
/// What md is asked for at a time. Until Linux 3.18 block devices had no `readpages()`: each page that `dd` read from
/// the raw array came to md as a request of its own.
const PAGE_BYTES: u64 = 4096;
/// What write-back sends in one go.
const FLUSH_BYTES: u64 = 4 << 20;
/// The longest request to a device.
const REQUEST_MAX_BYTES: u64 = 512 << 10;
/// How many requests may wait for a device before write-back stops: `nr_requests`.
const REQUESTS_MAX: usize = 128;
/// Windows that readahead has on their way: the one that is being read and the next.
const WINDOWS_AHEAD: usize = 2;

/// A measurement to make.
#[derive(Clone, Debug)]
pub struct LayoutSetup {
    /// The members, all of one model.
    pub model: DeviceModel,
    /// How many.
    pub devices: u32,
    /// Their size: the array takes all of it.
    pub member_bytes: u64,
    /// How much is read or written, from the start of the array.
    pub size_bytes: u64,
}

/// Reads or writes sequentially; the rate in bytes per second of virtual time.
pub fn sequential(
    setup: &LayoutSetup,
    layout: Layout,
    chunk_bytes: u64,
    direction: Direction,
) -> Result<f64, BadGeometry> {
    let array = Raid10::new(layout, setup.devices, chunk_bytes, setup.member_bytes)?;
    let window_bytes = match direction {
        Direction::Read => READAHEAD_MIN_BYTES.max(2 * array.stripe_bytes()),
        Direction::Write => FLUSH_BYTES,
    };
    let models = vec![setup.model.clone(); setup.devices as usize];
    let end = setup.size_bytes.min(array.len_bytes());
    let mut stream = Stream {
        array,
        balance: ReadBalance::new(layout, setup.devices),
        simulator: Simulator::new(&models, 1),
        direction,
        window_bytes,
        sent: 0,
        end,
        windows: VecDeque::new(),
        first_window: 0,
        requests: BTreeMap::new(),
        queued: vec![0; setup.devices as usize],
    };
    stream.run();
    Ok(end as f64 * 1e9 / stream.simulator.now_ns().max(1) as f64)
}

/// The rates of one layout, read or written, over chunk sizes.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Which layout.
    pub layout: Layout,
    /// Whether it was read or written.
    pub direction: Direction,
    /// Chunk size and bytes per second.
    pub points: Vec<(u64, f64)>,
}

/// Every layout at every chunk size, read and written.
pub fn sweep(setup: &LayoutSetup, layouts: &[Layout], chunks: &[u64]) -> Result<Vec<Series>, BadGeometry> {
    let of = |direction: Direction, layout: Layout| {
        let point = |&chunk: &u64| Ok((chunk, sequential(setup, layout, chunk, direction)?));
        Ok(Series { layout, direction, points: chunks.par_iter().map(point).collect::<Result<_, _>>()? })
    };
    let directions = [Direction::Read, Direction::Write];
    directions.iter().flat_map(|&direction| layouts.iter().map(move |&layout| of(direction, layout))).collect()
}

/// A piece of the array on one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Segment {
    copy: Copy,
    len_bytes: u64,
}

impl Segment {
    /// The requests that md saw.
    fn pages(self) -> impl Iterator<Item = Copy> {
        let Segment { copy, len_bytes } = self;
        (0..len_bytes.div_ceil(PAGE_BYTES)).map(move |page| Copy { at: copy.at + page * PAGE_BYTES, ..copy })
    }
}

struct Stream {
    array: Raid10,
    balance: ReadBalance,
    simulator: Simulator,
    direction: Direction,
    window_bytes: u64,
    sent: u64,
    end: u64,
    /// Requests outstanding per window that was sent, the oldest first.
    windows: VecDeque<usize>,
    first_window: u64,
    /// Window and segment of each request in flight, by tag.
    requests: BTreeMap<u64, (u64, Segment)>,
    /// Requests in flight per device.
    queued: Vec<usize>,
}

impl Stream {
    /// Sends window after window until all is done. The reader passes a window when all of it is there.
    fn run(&mut self) {
        let mut tag = 0;
        loop {
            while self.sent < self.end && self.may_send() {
                self.send(&mut tag);
            }
            let Some(Happening::Done { io, .. }) = self.simulator.advance() else { return };
            self.queued[io.device] -= 1;
            let Some((window, segment)) = self.requests.remove(&io.tag) else { continue };
            if self.direction == Direction::Read {
                for page in segment.pages() {
                    self.balance.complete(page, PAGE_BYTES);
                }
            }
            if let Some(left) = self.windows.get_mut((window - self.first_window) as usize) {
                *left -= 1;
            }
            while self.windows.front() == Some(&0) {
                self.windows.pop_front();
                self.first_window += 1;
            }
        }
    }

    fn may_send(&self) -> bool {
        match self.direction {
            Direction::Read => self.windows.len() < WINDOWS_AHEAD,
            Direction::Write => self.queued.iter().all(|&requests| requests < REQUESTS_MAX),
        }
    }

    /// Sends the next window.
    fn send(&mut self, tag: &mut u64) {
        let end = (self.sent + self.window_bytes).min(self.end);
        let segments = merge(self.segments(self.sent, end));
        self.sent = end;
        let window = self.first_window + self.windows.len() as u64;
        self.windows.push_back(segments.len());
        for segment in segments {
            *tag += 1;
            self.requests.insert(*tag, (window, segment));
            self.queued[segment.copy.device as usize] += 1;
            self.simulator.submit(Io {
                device: segment.copy.device as usize,
                direction: self.direction,
                at: segment.copy.at,
                len_bytes: segment.len_bytes,
                tag: *tag,
            });
        }
    }

    /// The pieces of a range: of each page the copy that md reads, or all of them to write.
    fn segments(&mut self, start: u64, end: u64) -> Vec<Segment> {
        let mut segments = Vec::new();
        let mut at = start;
        while at < end {
            let len_bytes = PAGE_BYTES.min(end - at);
            let copies = self.array.copies(at);
            match self.direction {
                Direction::Read => {
                    let chosen = self.balance.choose(&copies);
                    segments.push(Segment { copy: copies[chosen], len_bytes });
                }
                Direction::Write => segments.extend(copies.iter().map(|&copy| Segment { copy, len_bytes })),
            }
            at += len_bytes;
        }
        segments
    }
}

/// Joins pieces that touch on a device, in the order of their addresses.
fn merge(mut segments: Vec<Segment>) -> Vec<Segment> {
    segments.sort_by_key(|segment| segment.copy);
    let mut merged: Vec<Segment> = Vec::new();
    for segment in segments {
        match merged.last_mut() {
            Some(last)
                if last.copy.device == segment.copy.device
                    && last.copy.at + last.len_bytes == segment.copy.at
                    && last.len_bytes + segment.len_bytes <= REQUEST_MAX_BYTES =>
            {
                last.len_bytes += segment.len_bytes;
            }
            _ => merged.push(segment),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    /// MB/s with chunks of `chunk_kib`, on two disks of 2005; 512 MiB are enough for a steady state.
    fn rate(layout: &str, chunk_kib: u64, direction: Direction) -> f64 {
        let setup = LayoutSetup {
            model: DeviceModel::built_in("hdd-2005").unwrap(),
            devices: 2,
            member_bytes: 500_107_862_016,
            size_bytes: 512 << 20,
        };
        sequential(&setup, layout.parse().unwrap(), chunk_kib << 10, direction).unwrap() / 1e6
    }

    const CHUNKS_KIB: [u64; 13] = [4, 8, 16, 32, 64, 128, 256, 512, 1024, 1536, 2048, 3000, 4096];

    #[test]
    fn far_reads_from_both_disks_at_every_chunk_size() {
        // July 2008: f2 107 to 136 MB/s, n2 60 to 77, so that they are nearest at 4 MiB: 1.6. Here n2 begins to gain
        // from its second disk at 512 KiB already.
        for chunk in CHUNKS_KIB {
            let (far, near) = (rate("f2", chunk, Direction::Read), rate("n2", chunk, Direction::Read));
            let least = if chunk <= 512 { 1.7 } else { 1.5 };
            assert!(far >= least * near, "{chunk} KiB: f2 {far:.1}, n2 {near:.1}");
        }
    }

    #[test]
    fn offset_reads_as_one_disk_until_seeking_over_a_chunk_is_faster_than_reading_it() {
        // July 2008: o2 70 MB/s up to 512 KiB, 108 at 2 MiB.
        for chunk in [8, 64, 256] {
            let (offset, near) = (rate("o2", chunk, Direction::Read), rate("n2", chunk, Direction::Read));
            assert!((0.9..1.1).contains(&(offset / near)), "{chunk} KiB: o2 {offset:.1}, n2 {near:.1}");
        }
        assert!(rate("o2", 2048, Direction::Read) > 1.5 * rate("o2", 256, Direction::Read));
    }

    #[test]
    fn far_writes_pay_for_the_inner_half_of_the_disks() {
        // July 2008: f2 60 MB/s; n2 and o2 65 to 69, which is 8 to 14 % more.
        for chunk in CHUNKS_KIB {
            let write = |layout| rate(layout, chunk, Direction::Write);
            let (near, far, offset) = (write("n2"), write("f2"), write("o2"));
            for other in [near, offset] {
                let below = 1.0 - far / other;
                assert!((0.08..0.14).contains(&below), "{chunk} KiB: f2 {far:.1}, other {other:.1}");
            }
        }
    }

    #[test]
    fn pieces_that_touch_become_one_request_of_bounded_length() {
        let at = |device, kib: u64| Copy { device, at: crate::units::Physical::new(kib << 10) };
        let piece = |device, kib, len: u64| Segment { copy: at(device, kib), len_bytes: len << 10 };
        let pieces = vec![piece(0, 0, 256), piece(1, 0, 64), piece(0, 256, 256), piece(0, 512, 64), piece(1, 128, 64)];
        let merged = [piece(0, 0, 512), piece(0, 512, 64), piece(1, 0, 64), piece(1, 128, 64)];
        assert_eq!(merge(pieces), merged);
    }
}
