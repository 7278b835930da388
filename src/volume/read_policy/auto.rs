//! `auto`: the device that is expected to answer first, by what it has been measured to do.
//!
//! For each candidate: the latency its curve gives for one more read in flight, apart for reads that continue a run on
//! that device and for reads that do not. So work is sent in proportion to service, all devices are kept busy, no herd
//! forms (what is in flight counts at once, not after it has completed), and a run stays where it is as long as the
//! device gains from it: on a hard disk for megabytes, on flash not at all.
//!
//! Expectations within 20 % count as equal; then a run is continued, else the device with less in flight takes it, else
//! the turn goes round. A device that stops answering is as slow as its silence is long. How a slow one is tried again
//! is in `curve`.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use super::curve::{Curve, DepthStep, Expectation};
use super::device_table::DeviceTable;
use super::streams::Streams;
use super::{Completion, ReadPolicy, Request, Ticket};
use crate::units::DeviceId;

/// Expectations that differ by less than a fifth are the same.
const VARIANCE_DIVISOR: u64 = 5;
/// Bit of a ticket: the read continued a run.
const CONTIGUOUS_BIT: u32 = 1 << 8;

#[derive(Default)]
struct Device {
    in_flight: AtomicU32,
    /// When a read last completed, or the first was sent after idleness.
    progress_ns: AtomicU64,
    contiguous: Curve,
    apart: Curve,
}

impl Device {
    fn curve(&self, contiguous: bool) -> &Curve {
        if contiguous { &self.contiguous } else { &self.apart }
    }
}

pub(super) struct Auto {
    devices: DeviceTable<Device>,
    streams: Streams,
    turn: AtomicU32,
}

/// One candidate as seen at the moment of choice.
struct Prospect {
    expected: Expectation,
    contiguous: bool,
    in_flight: u32,
}

impl Auto {
    pub(super) fn new(devids: &[DeviceId]) -> Self {
        Self { devices: DeviceTable::new(devids), streams: Streams::new(), turn: AtomicU32::new(0) }
    }

    fn prospect(&self, devid: DeviceId, run_on: Option<DeviceId>, now_ns: u64) -> Prospect {
        let contiguous = run_on == Some(devid);
        let Some(device) = self.devices.of(devid) else {
            return Prospect { expected: Expectation::default(), contiguous, in_flight: 0 };
        };
        let in_flight = device.in_flight.load(Relaxed);
        let step = DepthStep::of(in_flight.saturating_add(1));
        let silence_ns = if in_flight == 0 { 0 } else { now_ns.saturating_sub(device.progress_ns.load(Relaxed)) };
        let going_on = device.contiguous.expected(step, now_ns);
        // Going elsewhere is never faster than going on.
        let mut expected = if contiguous { going_on } else { going_on.max(device.apart.expected(step, now_ns)) };
        expected.latency_ns = expected.latency_ns.max(silence_ns);
        Prospect { expected, contiguous, in_flight }
    }
}

impl Prospect {
    /// Whether this is as good as `least`, as far as can be told: within a fifth, and within half of what single reads
    /// differ by (of an average over some 16 of them, twice its error).
    fn is_as_good_as(&self, least: Expectation) -> bool {
        let deviation_ns = self.expected.deviation_ns.max(least.deviation_ns);
        let margin_ns = least.latency_ns / VARIANCE_DIVISOR + deviation_ns / 2;
        self.expected.latency_ns <= least.latency_ns.saturating_add(margin_ns)
    }
}

impl ReadPolicy for Auto {
    fn choose(&self, candidates: &[DeviceId], request: &Request, now_ns: u64) -> (usize, Ticket) {
        let run_on = self.streams.device_before(request.stream, request.logical);
        let prospects: smallvec::SmallVec<[Prospect; 4]> =
            candidates.iter().map(|&devid| self.prospect(devid, run_on, now_ns)).collect();
        let least = prospects.iter().map(|prospect| prospect.expected).min().unwrap_or_default();
        let turn = self.turn.fetch_add(1, Relaxed) as usize;
        let best = prospects
            .iter()
            .enumerate()
            .filter(|(_, prospect)| prospect.is_as_good_as(least))
            .min_by_key(|&(index, prospect)| {
                (!prospect.contiguous, prospect.in_flight, (index + turn) % candidates.len())
            })
            .map_or(0, |(index, _)| index);

        let (devid, contiguous) = (candidates[best], prospects[best].contiguous);
        self.streams.record(request.stream, request.logical + request.len_bytes, devid);
        let Some(device) = self.devices.of(devid) else { return (best, Ticket::default()) };
        let before = device.in_flight.fetch_add(1, Relaxed);
        if before == 0 {
            device.progress_ns.store(now_ns, Relaxed);
        }
        let step = DepthStep::of(before.saturating_add(1)).index() as u32;
        (best, Ticket(step | if contiguous { CONTIGUOUS_BIT } else { 0 }))
    }

    fn observe(&self, devid: DeviceId, ticket: Ticket, done: &Completion) {
        let Some(device) = self.devices.of(devid) else { return };
        let _ = device.in_flight.fetch_update(Relaxed, Relaxed, |reads| reads.checked_sub(1));
        device.progress_ns.store(done.now_ns, Relaxed);
        // A failure is often quick; it must not make a device attractive.
        if done.ok {
            let step = DepthStep::from_index((ticket.0 & !CONTIGUOUS_BIT) as usize);
            device.curve(ticket.0 & CONTIGUOUS_BIT != 0).learn(step, done.latency_ns, done.now_ns);
        }
    }

    fn forget(&self, devid: DeviceId, _ticket: Ticket) {
        let Some(device) = self.devices.of(devid) else { return };
        let _ = device.in_flight.fetch_update(Relaxed, Relaxed, |reads| reads.checked_sub(1));
    }
}
