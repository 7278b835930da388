//! The walk over models in virtual time: the state machine and the read policy are the real ones, only the devices and
//! the clock are not. The processor costs nothing here.

use super::shape::Shape;
use super::{Sample, Seen, Traffic};
use crate::bench::model::Direction;
use crate::bench::simulator::{Happening, Io, Simulator};
use crate::device::{Coalesce, Limits as Joining};
use crate::tree::ReadaheadMode;
use crate::tree::readahead::{BlockId, Issue, Limits, Outcome, Readahead, StreamId, Take};
use crate::units::{DeviceId, DevicePhysical, Physical};
use crate::volume::read_policy::{Completion, MirrorSelector, PolicyKind, Request, Selection};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::{DefaultHasher, Hasher as _};
use std::time::Duration;

/// A read policy takes the sector size for its smallest run.
const SECTOR_BYTES: u32 = 4096;
const WALK: StreamId = StreamId(0);

/// Walks `shape` on the devices of `simulator`, which are in the order of [`Shape::devices`].
pub fn simulate_walk(shape: &Shape, simulator: Simulator, policy: PolicyKind, mode: ReadaheadMode) -> Sample {
    let seen = expected(shape);
    let mut rig = Rig::new(shape, simulator, policy);
    match mode.for_walk() {
        None => rig.one_by_one(),
        Some(limits) => rig.ahead(&limits),
    }
    let duration = Duration::from_nanos(rig.simulator.now_ns());
    let traffic = Traffic { seeks: rig.simulator.all_seeks(), ..rig.traffic };
    Sample { duration, seen: Seen { tree_blocks: rig.walked, digest: rig.hasher.finish(), ..seen }, traffic }
}

/// The least that the model allows, in ns: every device reads its blocks in ascending order, each block from one mirror
/// only, all of them known from the start.
pub fn bound_ns(shape: &Shape, simulator: Simulator) -> u64 {
    let mut rig = Rig::new(shape, simulator, PolicyKind::Pid);
    let mut places: BTreeMap<DeviceId, Vec<Physical>> = BTreeMap::new();
    for (nth, block) in shape.blocks().iter().enumerate() {
        let mut devices: Vec<&DevicePhysical> = block.copies.iter().collect();
        devices.dedup_by_key(|place| place.devid);
        if let Some(place) = devices.get(nth % devices.len().max(1)) {
            places.entry(place.devid).or_default().push(place.physical);
        }
    }
    let joining =
        Joining { gap_bytes: crate::tree::readahead::GAP_BYTES, request_bytes: crate::tree::readahead::REQUEST_BYTES };
    let mut queues: Vec<VecDeque<_>> = Vec::new();
    for devid in shape.devices() {
        let mut own = places.remove(devid).unwrap_or_default();
        own.sort_unstable();
        let blocks = own.into_iter().map(|at| at..at + u64::from(shape.block_bytes()));
        queues.push(Coalesce::new(blocks, joining).collect());
    }
    let send = |rig: &mut Rig<'_>, queue: &mut VecDeque<std::ops::Range<Physical>>, device: usize| {
        if let Some(request) = queue.pop_front() {
            rig.submit(device, request.start, request.end - request.start, 0);
        }
    };
    for (device, queue) in queues.iter_mut().enumerate() {
        (0..32).for_each(|_| send(&mut rig, queue, device));
    }
    while let Some(happening) = rig.simulator.advance() {
        if let Happening::Done { io, .. } = happening
            && let Some(queue) = queues.get_mut(io.device)
        {
            send(&mut rig, queue, io.device);
        }
    }
    rig.simulator.now_ns()
}

/// What a walk over the shape sees, but for order and digest.
fn expected(shape: &Shape) -> Seen {
    let bytes = shape.blocks().len() as u64 * u64::from(shape.block_bytes());
    Seen { bytes, ..Seen::default() }
}

struct Rig<'s> {
    shape: &'s Shape,
    simulator: Simulator,
    selector: MirrorSelector,
    traffic: Traffic,
    walked: u64,
    hasher: DefaultHasher,
    tag: u64,
}

impl<'s> Rig<'s> {
    fn new(shape: &'s Shape, simulator: Simulator, policy: PolicyKind) -> Self {
        let selector = MirrorSelector::new(policy, shape.devices(), SECTOR_BYTES);
        let (traffic, hasher) = (Traffic::default(), DefaultHasher::new());
        Self { shape, simulator, selector, traffic, walked: 0, hasher, tag: 0 }
    }

    fn submit(&mut self, device: usize, at: Physical, len_bytes: u64, tag: u64) {
        self.traffic.reads += 1;
        self.traffic.bytes += len_bytes;
        self.simulator.submit(Io { device, direction: Direction::Read, at, len_bytes, tag });
    }

    fn device(&self, devid: DeviceId) -> Option<usize> {
        self.shape.devices().iter().position(|device| *device == devid)
    }

    fn visit(&mut self, index: u32) {
        self.walked += 1;
        self.hasher.write_u32(index);
    }

    fn report(&mut self, selection: Selection, submitted_ns: u64, bytes: u64, ok: bool) {
        let now_ns = self.simulator.now_ns();
        let latency_ns = now_ns - submitted_ns;
        self.selector.report(selection, &Completion { latency_ns, bytes, ok, now_ns });
    }

    /// Depth first, one read at a time.
    fn one_by_one(&mut self) {
        let mut stack: Vec<u32> = self.shape.roots().iter().rev().copied().collect();
        while let Some((index, block)) = stack.pop().and_then(|index| Some((index, self.shape.block(index)?))) {
            let candidates: Vec<DeviceId> = block.copies.iter().map(|copy| copy.devid).collect();
            let bytes = u64::from(self.shape.block_bytes());
            let request = Request { logical: block.at, len_bytes: bytes, stream: 0 };
            let selection = self.selector.select(&candidates, &request, self.simulator.now_ns());
            let place = selection.and_then(|selection| block.copies.get(selection.index));
            if let (Some(selection), Some(place)) = (selection, place)
                && let Some(device) = self.device(place.devid)
            {
                self.submit(device, place.physical, bytes, 0);
                if let Some(Happening::Done { submitted_ns, ok, .. }) = self.simulator.advance() {
                    self.traffic.busy_ns += self.simulator.now_ns() - submitted_ns;
                    self.report(selection, submitted_ns, bytes, ok);
                }
            }
            self.visit(index);
            stack.extend(block.children.iter().rev());
        }
    }

    /// As the threaded driver does it.
    fn ahead(&mut self, limits: &Limits) {
        let shape = self.shape;
        let mut machine: Readahead<()> =
            Readahead::new(shape.devices().iter().copied(), limits.depth, shape.block_bytes());
        machine.open(WALK, limits);
        for (slot, root) in shape.roots().iter().enumerate() {
            shape.want(slot, *root).into_iter().for_each(|want| machine.add(WALK, want));
        }
        let mut flying: HashMap<u64, Issue> = HashMap::new();
        let mut stack: Vec<u32> = shape.roots().iter().rev().copied().collect();
        loop {
            self.walk_on(&mut machine, &mut stack);
            self.issue(&mut machine, &mut flying);
            match self.simulator.advance() {
                Some(Happening::Done { io, submitted_ns, ok }) => {
                    let Some(issue) = flying.remove(&io.tag) else { continue };
                    self.traffic.busy_ns += self.simulator.now_ns() - submitted_ns;
                    if let Some(selection) = issue.selection {
                        self.report(selection, submitted_ns, issue.len_bytes, ok);
                    }
                    let outcomes = issue.pieces.iter().map(|piece| self.outcome(piece.id, ok));
                    machine.complete(&issue, outcomes.collect::<Vec<_>>());
                }
                None if stack.is_empty() => return,
                // Nothing is on its way: only blocks without a copy can be missing.
                None if !self.rebuild(&mut machine) => return,
                Some(Happening::Timer(_)) | None => {}
            }
        }
    }

    /// The walker takes what is there.
    fn walk_on(&mut self, machine: &mut Readahead<()>, stack: &mut Vec<u32>) {
        while let Some(index) = stack.pop() {
            let Some(block) = self.shape.block(index) else { continue };
            if machine.take(BlockId { stream: WALK, at: block.at }) == Take::Coming {
                stack.push(index);
                return;
            }
            self.visit(index);
            stack.extend(block.children.iter().rev());
        }
    }

    fn issue(&mut self, machine: &mut Readahead<()>, flying: &mut HashMap<u64, Issue>) {
        for (device, devid) in self.shape.devices().iter().enumerate() {
            while let Some(issue) = machine.next(*devid, &self.selector, self.simulator.now_ns()) {
                self.tag += 1;
                self.submit(device, issue.at, issue.len_bytes, self.tag);
                flying.insert(self.tag, issue);
            }
        }
        machine.take_forgotten().into_iter().for_each(|selection| self.selector.forget(selection));
    }

    fn rebuild(&mut self, machine: &mut Readahead<()>) -> bool {
        let Some((id, _)) = machine.next_rebuild() else { return false };
        machine.finish(id, (), self.children(id));
        true
    }

    fn outcome(&self, id: BlockId, ok: bool) -> Outcome<()> {
        if ok { Outcome::Here((), self.children(id)) } else { Outcome::Bad }
    }

    fn children(&self, id: BlockId) -> Vec<crate::tree::readahead::Want> {
        let children = self.shape.block_at(id.at).map(|block| &block.children[..]).unwrap_or_default();
        children.iter().enumerate().filter_map(|(slot, child)| self.shape.want(slot, *child)).collect()
    }
}
