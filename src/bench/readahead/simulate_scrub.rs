//! The whole scrub over models in virtual time: planners, windows and reader threads as in `scrub`, and for the trees
//! the real readahead and read policy.

use super::script::{GroupScript, Reader, Script, Step, WindowRequests};
use super::shape::Shape;
use super::{Sample, Seen, Traffic};
use crate::bench::model::Direction;
use crate::bench::simulator::{Happening, Io, Simulator};
use crate::tree::ReadaheadMode;
use crate::tree::readahead::{BlockId, Issue, Limits, Outcome, Places, Readahead, StreamId, Take, Want};
use crate::units::{DeviceId, Logical, Physical};
use crate::volume::read_policy::{Completion, MirrorSelector, PolicyKind, Request, Selection};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::Duration;

/// As in `scrub`: threads per device, windows per batch and in flight per block group, with DUP and without, and the
/// cursors of a planner.
const THREADS: usize = 4;
const DUP_BATCH: (usize, usize) = (64, 128);
const BATCH: (usize, usize) = (4, 32);
const CURSORS_PER_PLANNER: usize = 4;
/// Leaves that stay in the block cache: 4 MiB of 16 KiB.
const LEAVES_CACHED: usize = 256;

/// Scrubs by `script` on the devices of `simulator`.
pub fn simulate_scrub(script: &Script, simulator: Simulator, policy: PolicyKind, mode: ReadaheadMode) -> Sample {
    let devices = script.extents.devices().to_vec();
    let limits = mode.for_cursors(CURSORS_PER_PLANNER * devices.len());
    let depth = limits.map_or(1, |limits| limits.depth);
    let mut rig = Rig {
        script,
        limits,
        machine: Readahead::new(devices.iter().copied(), depth, script.extents.block_bytes()),
        selector: MirrorSelector::new(policy, &devices, 4096),
        lanes: devices.iter().map(|_| Lane::default()).collect(),
        planners: devices.iter().map(|_| Planner::default()).collect(),
        waiting: (0..script.groups.len()).collect(),
        busy: BTreeSet::new(),
        opened: BTreeSet::new(),
        nodes: BTreeSet::new(),
        leaves: VecDeque::new(),
        windows: HashMap::new(),
        flying: HashMap::new(),
        traffic: Traffic::default(),
        tag: 0,
        devices,
        simulator,
    };
    rig.run();
    let seeks = rig.simulator.all_seeks();
    let seen = Seen { tree_blocks: script.tree_blocks(), lost_blocks: 0, bytes: script.bytes, digest: 0 };
    Sample { duration: Duration::from_nanos(rig.simulator.now_ns()), seen, traffic: Traffic { seeks, ..rig.traffic } }
}

/// One stripe of a window: its requests, one after the other, by one thread.
struct Task {
    window: u64,
    requests: VecDeque<(Physical, u64)>,
}

#[derive(Default)]
struct Lane {
    tasks: VecDeque<Task>,
    running: usize,
}

#[derive(Default)]
struct Planner {
    group: Option<usize>,
    step: usize,
    batch: Vec<WindowRequests>,
    in_flight: usize,
    /// A tree block that was asked for without readahead, or by readahead.
    awaits: Option<(Reader, Logical)>,
    /// All is queued; the devices are free for the next group.
    is_draining: bool,
}

enum Flight {
    Data(Task),
    Ahead(Box<Issue>),
    /// A planner's own read.
    Alone(usize, Selection),
}

struct Rig<'s> {
    script: &'s Script,
    limits: Option<Limits>,
    machine: Readahead<()>,
    selector: MirrorSelector,
    devices: Vec<DeviceId>,
    lanes: Vec<Lane>,
    planners: Vec<Planner>,
    waiting: VecDeque<usize>,
    busy: BTreeSet<DeviceId>,
    /// Groups whose streams are open.
    opened: BTreeSet<usize>,
    nodes: BTreeSet<Logical>,
    leaves: VecDeque<Logical>,
    /// By window: the planner, and stripes still to come.
    windows: HashMap<u64, (usize, usize)>,
    flying: HashMap<u64, Flight>,
    traffic: Traffic,
    tag: u64,
    simulator: Simulator,
}

fn stream_of(group: usize, reader: Reader) -> StreamId {
    StreamId(group as u32 * 2 + u32::from(reader == Reader::Sums))
}

impl Rig<'_> {
    fn run(&mut self) {
        loop {
            while (0..self.planners.len()).filter(|nth| self.plan(*nth)).count() > 0 {}
            self.issue_ahead();
            (0..self.lanes.len()).for_each(|device| self.serve(device));
            match self.simulator.advance() {
                Some(Happening::Done { io, submitted_ns, .. }) => self.done(io, submitted_ns),
                Some(Happening::Timer(_)) => {}
                None => return,
            }
        }
    }

    fn submit(&mut self, devid: DeviceId, at: Physical, len_bytes: u64, flight: Flight) {
        let Some(device) = self.devices.iter().position(|d| *d == devid) else { return };
        self.tag += 1;
        self.traffic.reads += 1;
        self.traffic.bytes += len_bytes;
        self.flying.insert(self.tag, flight);
        self.simulator.submit(Io { device, direction: Direction::Read, at, len_bytes, tag: self.tag });
    }

    fn shape(&self, reader: Reader) -> &Shape {
        match reader {
            Reader::Extents => &self.script.extents,
            Reader::Sums => &self.script.sums,
        }
    }

    /// Lets a planner go on as far as it can. True where it did something.
    fn plan(&mut self, nth: usize) -> bool {
        let Some(group) = self.planners.get(nth).and_then(|planner| planner.group) else { return self.take_group(nth) };
        let Some(script) = self.script.groups.get(group) else { return false };
        let mut moved = false;
        loop {
            let step = self.planners.get(nth).and_then(|planner| script.steps.get(planner.step));
            let went_on = match step {
                Some(Step::Block(reader, at)) => self.has_block(nth, group, *reader, *at),
                Some(Step::Window(window)) => self.window(nth, script, window),
                None => return self.finish_group(nth, group, script) || moved,
            };
            if !went_on {
                return moved;
            }
            moved = true;
            if let Some(planner) = self.planners.get_mut(nth) {
                planner.step += 1;
            }
        }
    }

    fn take_group(&mut self, nth: usize) -> bool {
        let is_free = |group: &usize| {
            self.script.groups.get(*group).is_some_and(|g| g.devices.iter().all(|devid| !self.busy.contains(devid)))
        };
        let Some(place) = self.waiting.iter().position(is_free) else { return false };
        let Some(group) = self.waiting.remove(place) else { return false };
        let Some(script) = self.script.groups.get(group) else { return false };
        self.busy.extend(&script.devices);
        if let Some(planner) = self.planners.get_mut(nth) {
            *planner = Planner { group: Some(group), ..Planner::default() };
        }
        if self.limits.is_some() {
            let shares = |next: &&usize| {
                self.script.groups.get(**next).is_some_and(|g| g.devices.iter().any(|d| script.devices.contains(d)))
            };
            let next = self.waiting.iter().find(shares).copied();
            self.open(group);
            if let Some(next) = next {
                self.open(next);
            }
        }
        true
    }

    /// The streams of a group's cursors.
    fn open(&mut self, group: usize) {
        let (Some(limits), true) = (self.limits, self.opened.insert(group)) else { return };
        for reader in [Reader::Extents, Reader::Sums] {
            let stream = stream_of(group, reader);
            self.machine.open(stream, &limits);
            let shape = self.shape(reader);
            let roots: Vec<Want> = shape.roots().iter().filter_map(|root| shape.want(0, *root)).collect();
            for root in roots {
                self.machine.add(stream, root);
            }
        }
    }

    /// Whether a cursor has the block that it needs; asks for it otherwise.
    fn has_block(&mut self, nth: usize, group: usize, reader: Reader, at: Logical) -> bool {
        if self.limits.is_some() {
            let taken = self.machine.take(BlockId { stream: stream_of(group, reader), at });
            if taken != Take::Unknown {
                return taken == Take::Here(());
            }
        }
        if self.nodes.contains(&at) || self.leaves.contains(&at) {
            return true;
        }
        let Some(planner) = self.planners.get_mut(nth).filter(|planner| planner.awaits.is_none()) else { return false };
        planner.awaits = Some((reader, at));
        let copies: Places = self.shape(reader).block_at(at).map(|block| block.copies.clone()).unwrap_or_default();
        let candidates: Vec<DeviceId> = copies.iter().map(|copy| copy.devid).collect();
        let len_bytes = u64::from(self.script.extents.block_bytes());
        let request = Request { logical: at, len_bytes, stream: nth as u64 };
        let selection = self.selector.select(&candidates, &request, self.simulator.now_ns());
        if let Some((selection, place)) = selection.and_then(|s| Some((s, *copies.get(s.index)?))) {
            self.submit(place.devid, place.physical, len_bytes, Flight::Alone(nth, selection));
            return false;
        }
        self.arrive(nth);
        true
    }

    /// A planner's own read is here.
    fn arrive(&mut self, nth: usize) {
        let Some((reader, at)) = self.planners.get_mut(nth).and_then(|planner| planner.awaits.take()) else { return };
        if self.shape(reader).block_at(at).is_some_and(|block| block.check.level > Some(0)) {
            self.nodes.insert(at);
            return;
        }
        self.leaves.push_back(at);
        if self.leaves.len() > LEAVES_CACHED {
            self.leaves.pop_front();
        }
    }

    /// Whether a window could be put into its batch, and the batch be queued if that is full.
    fn window(&mut self, nth: usize, script: &GroupScript, window: &WindowRequests) -> bool {
        let (batch, most) = if script.is_dup { DUP_BATCH } else { BATCH };
        let Some(planner) = self.planners.get_mut(nth) else { return false };
        if planner.batch.len() + 1 >= batch && planner.in_flight + batch > most {
            return false;
        }
        planner.batch.push(window.clone());
        if planner.batch.len() >= batch {
            self.flush(nth);
        }
        true
    }

    /// Queues a batch: the first stripe of all its windows, then the second, and so on.
    fn flush(&mut self, nth: usize) {
        let Some(planner) = self.planners.get_mut(nth) else { return };
        let batch = std::mem::take(&mut planner.batch);
        planner.in_flight += batch.len();
        let first = self.tag;
        self.tag += batch.len() as u64;
        for (number, window) in (first..).zip(&batch) {
            self.windows.insert(number, (nth, window.len()));
        }
        let stripes = batch.iter().map(Vec::len).max().unwrap_or(0);
        for stripe in 0..stripes {
            for (window, parts) in (first..).zip(&batch) {
                let Some((devid, requests)) = parts.get(stripe) else { continue };
                let device = self.devices.iter().position(|d| d == devid);
                if let Some(lane) = device.and_then(|device| self.lanes.get_mut(device)) {
                    lane.tasks.push_back(Task { window, requests: requests.iter().copied().collect() });
                }
            }
        }
    }

    /// The group's devices are free once all is queued, its planner once all is read.
    fn finish_group(&mut self, nth: usize, group: usize, script: &GroupScript) -> bool {
        self.flush(nth);
        let Some(planner) = self.planners.get_mut(nth) else { return false };
        let first = !std::mem::replace(&mut planner.is_draining, true);
        let is_over = planner.in_flight == 0;
        if is_over {
            planner.group = None;
        }
        if first {
            self.busy.retain(|devid| !script.devices.contains(devid));
            for reader in [Reader::Extents, Reader::Sums] {
                self.machine.close(stream_of(group, reader));
            }
        }
        first || is_over
    }

    /// Gives a lane's free threads work.
    fn serve(&mut self, device: usize) {
        let Some(devid) = self.devices.get(device).copied() else { return };
        while let Some(lane) = self.lanes.get_mut(device).filter(|lane| lane.running < THREADS) {
            let Some(task) = lane.tasks.pop_front() else { return };
            lane.running += 1;
            self.next_request(devid, task);
        }
    }

    fn next_request(&mut self, devid: DeviceId, mut task: Task) {
        if let Some((at, len_bytes)) = task.requests.pop_front() {
            return self.submit(devid, at, len_bytes, Flight::Data(task));
        }
        if let Some(lane) = self.devices.iter().position(|d| *d == devid).and_then(|device| self.lanes.get_mut(device))
        {
            lane.running -= 1;
        }
        let Some((nth, left)) = self.windows.get_mut(&task.window) else { return };
        *left -= 1;
        if *left == 0 {
            let nth = *nth;
            self.windows.remove(&task.window);
            if let Some(planner) = self.planners.get_mut(nth) {
                planner.in_flight -= 1;
            }
        }
    }

    fn issue_ahead(&mut self) {
        for devid in self.devices.clone() {
            while let Some(issue) = self.machine.next(devid, &self.selector, self.simulator.now_ns()) {
                self.submit(devid, issue.at, issue.len_bytes, Flight::Ahead(Box::new(issue)));
            }
        }
        self.machine.take_forgotten().into_iter().for_each(|selection| self.selector.forget(selection));
    }

    fn done(&mut self, io: Io, submitted_ns: u64) {
        let now_ns = self.simulator.now_ns();
        let latency_ns = now_ns - submitted_ns;
        self.traffic.busy_ns += latency_ns;
        let completion = Completion { latency_ns, bytes: io.len_bytes, ok: true, now_ns };
        match self.flying.remove(&io.tag) {
            Some(Flight::Data(task)) => {
                let devid = self.devices.get(io.device).copied().unwrap_or_default();
                self.next_request(devid, task);
            }
            Some(Flight::Alone(nth, selection)) => {
                self.selector.report(selection, &completion);
                self.arrive(nth);
            }
            Some(Flight::Ahead(issue)) => {
                issue.selection.into_iter().for_each(|selection| self.selector.report(selection, &completion));
                let outcomes: Vec<_> = issue.pieces.iter().map(|piece| self.outcome(piece.id)).collect();
                self.machine.complete(&issue, outcomes);
            }
            None => {}
        }
    }

    /// A node's children that hold something of the group's addresses.
    fn outcome(&self, id: BlockId) -> Outcome<()> {
        let (group, reader) =
            (id.stream.0 as usize / 2, if id.stream.0 % 2 == 1 { Reader::Sums } else { Reader::Extents });
        let (shape, Some(script)) = (self.shape(reader), self.script.groups.get(group)) else {
            return Outcome::Here((), Vec::new());
        };
        let children = shape.block_at(id.at).map(|block| &block.children[..]).unwrap_or_default();
        let first_of = |index: &u32| shape.block(*index).and_then(|block| block.check.first_key);
        let address = |key: crate::format::Key| match reader {
            Reader::Extents => key.objectid.raw(),
            Reader::Sums => key.offset,
        };
        let holds = |slot: usize| {
            let starts = children.get(slot).and_then(first_of).is_some_and(|key| address(key) < script.range.end.raw());
            let ends = children.get(slot + 1).and_then(first_of);
            starts && ends.is_none_or(|next| address(next) > script.range.start.raw())
        };
        let wants = (0..children.len()).filter(|slot| holds(*slot));
        Outcome::Here((), wants.filter_map(|slot| shape.want(slot, *children.get(slot)?)).collect())
    }
}
