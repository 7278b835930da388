//! One run: jobs ask, the selector picks, the simulator answers, failed reads turn to the copies that are left.

use std::collections::BTreeMap;

use smallvec::SmallVec;

use super::{DeviceCount, Outcome, Piece, Setup};
use crate::bench::model::Direction;
use crate::bench::simulator::{Happening, Io, Simulator};
use crate::bench::statistics::Latencies;
use crate::bench::workload::{Job, Step};
use crate::units::{DeviceId, Logical};
use crate::volume::read_policy::{Completion, MirrorSelector, PolicyKind, Request, Selection};

/// The sector size of the modelled file system.
const SECTORSIZE_BYTES: u32 = 4096;

/// A request of a job on its way.
struct Operation {
    job: usize,
    direction: Direction,
    started_ns: u64,
    len_bytes: u64,
    /// Pieces that are still to be done; of a write each copy counts.
    outstanding: usize,
    /// Whether a piece could not be read anywhere.
    lost: bool,
}

/// A read of a piece of an operation.
struct Part {
    operation: u64,
    /// With the copies that have not failed yet.
    piece: Piece,
    selection: Option<Selection>,
}

struct JobState {
    job: Job,
    in_flight: u32,
    /// A request that must wait until nothing is in flight.
    held: Option<Step>,
}

pub(super) struct Run<'a> {
    setup: &'a Setup,
    selector: MirrorSelector,
    simulator: Simulator,
    jobs: Vec<JobState>,
    operations: BTreeMap<u64, Operation>,
    parts: BTreeMap<u64, Part>,
    next_tag: u64,
    outcome: Outcome,
}

fn devid_of(device: usize) -> DeviceId {
    DeviceId::new(device as u64 + 1)
}

impl<'a> Run<'a> {
    pub(super) fn new(setup: &'a Setup, kind: PolicyKind, seed: u64) -> Self {
        let devids: Vec<_> = (0..setup.models.len()).map(devid_of).collect();
        let mut simulator = Simulator::new(&setup.models, seed);
        for event in &setup.events {
            if let Some(device) = devids.iter().position(|&devid| devid == event.devid) {
                simulator.change_at(event.at_ns, device, event.condition);
            }
        }
        let jobs = setup.workload.start(seed).into_iter();
        Self {
            setup,
            selector: MirrorSelector::new(kind, &devids, SECTORSIZE_BYTES),
            simulator,
            jobs: jobs.map(|job| JobState { job, in_flight: 0, held: None }).collect(),
            operations: BTreeMap::new(),
            parts: BTreeMap::new(),
            next_tag: 0,
            outcome: Outcome {
                elapsed_ns: 0,
                read_bytes: 0,
                reads: 0,
                lost: 0,
                latencies: Latencies::default(),
                devices: devids.into_iter().map(|devid| DeviceCount { devid, ..DeviceCount::default() }).collect(),
            },
        }
    }

    /// Sends what job `number` may have in flight.
    fn feed(&mut self, number: usize) {
        loop {
            let state = &mut self.jobs[number];
            if state.in_flight >= self.setup.workload.iodepth.max(1) {
                return;
            }
            let step = state.held.take().unwrap_or_else(|| state.job.step());
            let Step::Ask { logical, len_bytes, direction, alone } = step else { return };
            if alone && state.in_flight > 0 {
                state.held = Some(step);
                return;
            }
            state.in_flight += 1;
            self.begin(number, logical, len_bytes, direction);
        }
    }

    fn begin(&mut self, job: usize, logical: Logical, len_bytes: u64, direction: Direction) {
        let mut pieces: SmallVec<[Piece; 4]> = SmallVec::new();
        let mut covered = 0;
        while covered < len_bytes {
            let piece = self.setup.layout.piece(self.setup.models.len(), logical + covered, len_bytes - covered);
            covered += piece.len_bytes;
            pieces.push(piece);
        }
        let operation = self.tag();
        let outstanding = match direction {
            Direction::Read => pieces.len(),
            Direction::Write => pieces.iter().map(|piece| piece.copies.len()).sum(),
        };
        let started_ns = self.simulator.now_ns();
        self.operations
            .insert(operation, Operation { job, direction, started_ns, len_bytes, outstanding, lost: false });
        for piece in pieces {
            match direction {
                Direction::Read => {
                    let tag = self.tag();
                    self.parts.insert(tag, Part { operation, piece, selection: None });
                    self.read(tag);
                }
                Direction::Write => piece.copies.iter().for_each(|&device| {
                    let Piece { at, len_bytes, .. } = piece;
                    self.simulator.submit(Io { device, direction, at, len_bytes, tag: operation });
                }),
            }
        }
    }

    fn tag(&mut self) -> u64 {
        self.next_tag += 1;
        self.next_tag
    }

    /// Reads a part from the copy that the policy picks of those left.
    fn read(&mut self, tag: u64) {
        let Some(part) = self.parts.get_mut(&tag) else { return };
        let Some(operation) = self.operations.get_mut(&part.operation) else { return };
        let Piece { logical, len_bytes, at, copies } = &part.piece;
        let stream = self.jobs[operation.job].job.stream;
        let request = Request { logical: *logical, len_bytes: *len_bytes, stream };
        let candidates: SmallVec<[DeviceId; 4]> = copies.iter().map(|&device| devid_of(device)).collect();
        if let Some(selection) = self.selector.select(&candidates, &request, self.simulator.now_ns()) {
            part.selection = Some(selection);
            let device = copies[selection.index];
            self.simulator.submit(Io { device, direction: Direction::Read, at: *at, len_bytes: *len_bytes, tag });
        } else {
            operation.lost = true;
            let number = part.operation;
            self.parts.remove(&tag);
            self.part_done(number);
        }
    }

    fn done(&mut self, io: Io, submitted_ns: u64, ok: bool) {
        let now_ns = self.simulator.now_ns();
        let Some(part) = self.parts.get_mut(&io.tag) else { return self.part_done(io.tag) };
        if let Some(selection) = part.selection.take() {
            let latency_ns = now_ns - submitted_ns;
            self.selector.report(selection, &Completion { latency_ns, bytes: io.len_bytes, ok, now_ns });
        }
        let count = &mut self.outcome.devices[io.device];
        if ok {
            count.reads += 1;
            count.bytes += io.len_bytes;
            let operation = part.operation;
            self.parts.remove(&io.tag);
            self.part_done(operation);
        } else {
            count.errors += 1;
            part.piece.copies.retain(|device| *device != io.device);
            self.read(io.tag);
        }
    }

    /// One piece less to wait for; after the last one the job may go on.
    fn part_done(&mut self, number: u64) {
        let Some(operation) = self.operations.get_mut(&number) else { return };
        operation.outstanding = operation.outstanding.saturating_sub(1);
        if operation.outstanding > 0 {
            return;
        }
        let Some(operation) = self.operations.remove(&number) else { return };
        let now_ns = self.simulator.now_ns();
        self.outcome.elapsed_ns = now_ns;
        if operation.lost {
            self.outcome.lost += 1;
        } else if operation.direction == Direction::Read {
            self.outcome.reads += 1;
            self.outcome.read_bytes += operation.len_bytes;
            self.outcome.latencies.add(now_ns - operation.started_ns);
        }
        self.jobs[operation.job].in_flight -= 1;
        self.feed(operation.job);
    }

    /// Runs until all jobs are done.
    pub(super) fn complete(mut self) -> Outcome {
        for number in 0..self.jobs.len() {
            self.feed(number);
        }
        while !self.operations.is_empty() {
            match self.simulator.advance() {
                Some(Happening::Done { io, submitted_ns, ok }) => self.done(io, submitted_ns, ok),
                Some(Happening::Timer(_)) => {}
                None => break,
            }
        }
        self.outcome
    }
}
