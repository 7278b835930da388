//! The same workloads over the members of a real file system, in real time. Reads only: where a workload writes, it
//! reads instead.
//!
//! A thread per request in flight: what a queue of that depth costs beside it is nothing next to a system call. The page
//! cache is left to the engine that the members were opened with; block devices are read directly.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use smallvec::SmallVec;

use super::{DeviceCount, Outcome};
use crate::bench::statistics::Latencies;
use crate::bench::workload::{Job, Step, Workload};
use crate::device::AlignedVec;
use crate::filesystem::Filesystem;
use crate::units::{DeviceId, Logical, LogicalRange};
use crate::volume::read_policy::{Completion, MirrorSelector, PolicyKind, Request};
use crate::volume::{Chunk, MirrorCopy};

/// Threads of all jobs together; a deeper workload is run less deep.
const THREADS_MAX: usize = 256;

/// The alignment that direct reads want at most.
const PAGE_BYTES: usize = 4096;

/// The block groups with data, as extents to read.
pub fn data_extents(filesystem: &Filesystem) -> Vec<LogicalRange> {
    filesystem.chunks().iter().filter(|chunk| chunk.holds_data()).map(Chunk::range).collect()
}

/// Runs the workload of one round over the real members under a policy.
pub fn measure(filesystem: &Filesystem, workload: &Workload, policy: PolicyKind, seed: u64) -> Outcome {
    let devids: Vec<DeviceId> = filesystem.members().map(|member| member.devid()).collect();
    let round = Round {
        filesystem,
        selector: MirrorSelector::new(policy, &devids, filesystem.superblock().sectorsize()),
        start: Instant::now(),
        buffer_bytes: workload.shape.request_bytes() as usize,
    };
    let lanes: Vec<Lane> = workload.start(seed).into_iter().map(Lane::new).collect();
    let threads = (THREADS_MAX / lanes.len().max(1)).clamp(1, workload.iodepth.max(1) as usize);
    let counts = Mutex::new(Counts::new(&devids));
    std::thread::scope(|scope| {
        for lane in &lanes {
            for _ in 0..threads {
                scope.spawn(|| {
                    let own = round.serve(lane, Counts::new(&devids));
                    locked(&counts).merge(&own);
                });
            }
        }
    });
    let elapsed_ns = round.now_ns();
    let Counts { devices, latencies, read_bytes, reads, lost } =
        counts.into_inner().unwrap_or_else(PoisonError::into_inner);
    Outcome { elapsed_ns, read_bytes, reads, lost, latencies, devices }
}

struct Round<'a> {
    filesystem: &'a Filesystem,
    selector: MirrorSelector,
    start: Instant,
    buffer_bytes: usize,
}

/// A job and the threads that serve it.
struct Lane {
    state: Mutex<LaneState>,
    /// Told when a request has ended.
    ended: Condvar,
    stream: u64,
}

struct LaneState {
    job: Job,
    in_flight: u32,
}

impl Lane {
    fn new(job: Job) -> Self {
        let stream = job.stream;
        Self { state: Mutex::new(LaneState { job, in_flight: 0 }), ended: Condvar::new(), stream }
    }

    /// The next request; `None` when the job is done. One that must be alone waits for the others, and holds back those
    /// that come after it until it has started.
    fn next(&self) -> Option<(Logical, u64)> {
        let mut state = locked(&self.state);
        let Step::Ask { logical, len_bytes, alone, .. } = state.job.step() else { return None };
        while alone && state.in_flight > 0 {
            state = self.ended.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.in_flight += 1;
        Some((logical, len_bytes))
    }

    fn done(&self) {
        locked(&self.state).in_flight -= 1;
        self.ended.notify_all();
    }
}

/// A panic in another thread leaves counters that are still good.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Clone)]
struct Counts {
    devices: Vec<DeviceCount>,
    latencies: Latencies,
    read_bytes: u64,
    reads: u64,
    lost: u64,
}

impl Counts {
    fn new(devids: &[DeviceId]) -> Self {
        let devices = devids.iter().map(|&devid| DeviceCount { devid, ..DeviceCount::default() }).collect();
        Self { devices, latencies: Latencies::default(), read_bytes: 0, reads: 0, lost: 0 }
    }

    fn count(&mut self, devid: DeviceId, ok: bool, len_bytes: u64) {
        let Some(device) = self.devices.iter_mut().find(|device| device.devid == devid) else { return };
        if ok {
            device.reads += 1;
            device.bytes += len_bytes;
        } else {
            device.errors += 1;
        }
    }

    fn merge(&mut self, other: &Self) {
        for (mine, its) in self.devices.iter_mut().zip(&other.devices) {
            mine.reads += its.reads;
            mine.bytes += its.bytes;
            mine.errors += its.errors;
        }
        self.latencies.merge(&other.latencies);
        self.read_bytes += other.read_bytes;
        self.reads += other.reads;
        self.lost += other.lost;
    }
}

impl Round<'_> {
    fn now_ns(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Asks for one request of the job after the other until there are none.
    fn serve(&self, lane: &Lane, mut counts: Counts) -> Counts {
        let mut buffer = AlignedVec::new(self.buffer_bytes, PAGE_BYTES);
        while let Some((logical, len_bytes)) = lane.next() {
            let started_ns = self.now_ns();
            if self.read(lane.stream, logical, len_bytes, &mut buffer, &mut counts) {
                counts.reads += 1;
                counts.read_bytes += len_bytes;
                counts.latencies.add(self.now_ns() - started_ns);
            } else {
                counts.lost += 1;
            }
            lane.done();
        }
        counts
    }

    /// Reads a range piece by piece; false where a piece could not be read anywhere.
    fn read(&self, stream: u64, start: Logical, len_bytes: u64, buffer: &mut [u8], counts: &mut Counts) -> bool {
        let mut at = start;
        while at < start + len_bytes {
            let Ok(chunk) = self.filesystem.chunks().lookup(at) else { return false };
            let piece_bytes = chunk.contiguous_bytes(at).min((start + len_bytes) - at);
            let Some(into) = buffer.get_mut(..piece_bytes as usize).filter(|into| !into.is_empty()) else {
                return false;
            };
            if !self.read_piece(chunk, Request { logical: at, len_bytes: piece_bytes, stream }, into, counts) {
                return false;
            }
            at = at + piece_bytes;
        }
        true
    }

    /// Reads from the copy that the policy picks; when that fails, from the others.
    fn read_piece(&self, chunk: &Chunk, request: Request, into: &mut [u8], counts: &mut Counts) -> bool {
        let mut copies: SmallVec<[MirrorCopy; 4]> = chunk.copies(request.logical).into_iter().collect();
        loop {
            let candidates: SmallVec<[DeviceId; 4]> = copies.iter().map(|copy| copy.place.devid).collect();
            let submitted_ns = self.now_ns();
            let Some(selection) = self.selector.select(&candidates, &request, submitted_ns) else { return false };
            let place = copies.remove(selection.index).place;
            let device = self.filesystem.device(place.devid);
            let ok = device.is_some_and(|device| device.read_at(place.physical, into).is_ok());
            let now_ns = self.now_ns();
            let latency_ns = now_ns.saturating_sub(submitted_ns);
            self.selector.report(selection, &Completion { latency_ns, bytes: request.len_bytes, ok, now_ns });
            counts.count(place.devid, ok, request.len_bytes);
            if ok {
                return true;
            }
        }
    }
}
