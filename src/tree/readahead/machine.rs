//! The state machine itself: what is wanted, on its way, and here.

use super::elevator::Elevator;
use super::window::Window;
use super::{BlockId, Limits, Places, Position, StreamId, Want};
use crate::tree::ParentCheck;
use crate::units::{DeviceId, DevicePhysical, Physical};
use crate::volume::read_policy::{MirrorSelector, Request, Selection};
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// One request to one device.
#[derive(Debug)]
pub struct Issue {
    /// The device.
    pub device: DeviceId,
    /// Where it starts.
    pub at: Physical,
    /// How much, in bytes.
    pub len_bytes: u64,
    /// The blocks in it, ascending.
    pub pieces: SmallVec<[Piece; 8]>,
    /// To be reported to the selector, once.
    pub selection: Option<Selection>,
}

/// One block of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Which.
    pub id: BlockId,
    /// Where it starts in the request.
    pub offset_bytes: u64,
    /// What is promised of it.
    pub check: ParentCheck,
}

/// How the read of one block ended.
#[derive(Debug)]
pub enum Outcome<T> {
    /// It is here, and these are its children (none for a leaf).
    Here(T, Vec<Want>),
    /// This copy is of no use.
    Bad,
}

/// What the walker gets.
#[derive(Debug, PartialEq, Eq)]
pub enum Take<T> {
    /// The block.
    Here(T),
    /// It is on its way, or will be.
    Coming,
    /// Nobody has pointed to it, or it was passed over.
    Unknown,
}

#[derive(Debug)]
enum State<T> {
    Pending,
    /// In the elevators of its devices, or of the one that the policy has chosen.
    Wanted(Option<Selection>),
    OnItsWay,
    ToRebuild,
    Here(T),
}

#[derive(Debug)]
struct Entry<T> {
    position: Position,
    check: ParentCheck,
    /// Copies not tried yet.
    copies: Places,
    state: State<T>,
}

/// The blocks of all streams and the elevators of all devices. `T` is a block once it is here.
#[derive(Debug)]
pub struct Readahead<T> {
    depth: usize,
    block_bytes: u32,
    entries: HashMap<BlockId, Entry<T>>,
    windows: BTreeMap<StreamId, Window>,
    elevators: BTreeMap<DeviceId, Elevator>,
    rebuilds: BTreeSet<BlockId>,
    /// Selections of blocks that nobody wants any more.
    forgotten: Vec<Selection>,
}

impl<T> Readahead<T> {
    /// Nothing is wanted yet. `depth` is per device; `block_bytes` is the size of a tree block.
    pub fn new(devices: impl IntoIterator<Item = DeviceId>, depth: usize, block_bytes: u32) -> Self {
        Self {
            depth: depth.max(1),
            block_bytes,
            entries: HashMap::new(),
            windows: BTreeMap::new(),
            elevators: devices.into_iter().map(|devid| (devid, Elevator::default())).collect(),
            rebuilds: BTreeSet::new(),
            forgotten: Vec::new(),
        }
    }

    /// Opens a stream. One that is open already starts anew.
    pub fn open(&mut self, stream: StreamId, limits: &Limits) {
        self.close(stream);
        self.windows.insert(stream, Window::new(limits, self.block_bytes));
    }

    /// Ends a stream; what it wanted is dropped.
    pub fn close(&mut self, stream: StreamId) {
        let last = Position { slots: [u16::MAX; Position::LEVELS] };
        self.pass(stream, last);
        self.windows.remove(&stream);
    }

    /// Wants a root of a stream's walk.
    pub fn add(&mut self, stream: StreamId, want: Want) {
        let position = Position::root(want.slot);
        self.insert(stream, position, want);
        self.fill(stream);
    }

    /// Whether nothing is wanted or on its way.
    pub fn is_done(&self) -> bool {
        !self.entries.values().any(|entry| !matches!(entry.state, State::Here(_)))
    }

    /// Blocks known: those here, wanted, and pointed to.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True where no block is known.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether some device could be given work.
    pub fn has_work(&self) -> bool {
        !self.rebuilds.is_empty() || self.elevators.values().any(|e| e.in_flight < self.depth && !e.is_empty())
    }

    /// What `device` should read next: nothing where it has enough to do, or there is nothing for it.
    pub fn next(&mut self, device: DeviceId, selector: &MirrorSelector, now_ns: u64) -> Option<Issue> {
        loop {
            let elevator = self.elevators.get(&device).filter(|e| e.in_flight < self.depth)?;
            let (at, id) = elevator.first()?;
            let Some(selection) = self.consent(device, id, selector, now_ns) else { continue };
            return Some(self.issue(device, at, id, selection));
        }
    }

    /// A block of which no copy is left to try: to be rebuilt, or found lost, by whoever knows how.
    pub fn next_rebuild(&mut self) -> Option<(BlockId, ParentCheck)> {
        let id = self.rebuilds.pop_first()?;
        let entry = self.entries.get_mut(&id)?;
        entry.state = State::OnItsWay;
        Some((id, entry.check))
    }

    /// A request has ended. `outcomes` are those of its pieces, in their order.
    pub fn complete(&mut self, issue: &Issue, outcomes: impl IntoIterator<Item = Outcome<T>>) {
        if let Some(elevator) = self.elevators.get_mut(&issue.device) {
            elevator.in_flight = elevator.in_flight.saturating_sub(1);
        }
        for (piece, outcome) in issue.pieces.iter().zip(outcomes) {
            match outcome {
                Outcome::Here(block, children) => self.finish(piece.id, block, children),
                Outcome::Bad => self.retry(issue.device, piece.id),
            }
        }
    }

    /// A block is here. Of one that was passed over meanwhile nothing is kept.
    pub fn finish(&mut self, id: BlockId, block: T, children: Vec<Want>) {
        let Some(entry) = self.on_its_way(id) else { return };
        entry.state = State::Here(block);
        let (position, level) = (entry.position, entry.check.level.unwrap_or(0));
        let Some(window) = self.windows.get_mut(&id.stream) else { return };
        window.arrived(position);
        if level > 0 && !children.is_empty() {
            window.learn_fanout(children.len());
        }
        for child in children {
            self.insert(id.stream, position.child(child.slot), child);
        }
        self.fill(id.stream);
    }

    /// The walker of a stream has come to the block at `at`: what lies before it in the order of the walk is dropped. A
    /// block that is here is handed over; one that is not is let in whatever the window holds.
    pub fn take(&mut self, id: BlockId) -> Take<T> {
        let Some(entry) = self.entries.get(&id) else { return Take::Unknown };
        let position = entry.position;
        self.pass(id.stream, position);
        let is_here = matches!(self.entries.get(&id), Some(Entry { state: State::Here(_), .. }));
        if !is_here {
            if self.windows.get_mut(&id.stream).is_some_and(|window| window.let_in(position)) {
                self.want(id);
            }
            self.fill(id.stream);
            return Take::Coming;
        }
        let entry = self.entries.remove(&id);
        if let Some(window) = self.windows.get_mut(&id.stream) {
            window.remove(position);
        }
        self.fill(id.stream);
        match entry.map(|entry| entry.state) {
            Some(State::Here(block)) => Take::Here(block),
            _ => Take::Unknown,
        }
    }

    /// Selections that came to nothing since the last call; the selector must be told to forget them.
    pub fn take_forgotten(&mut self) -> Vec<Selection> {
        std::mem::take(&mut self.forgotten)
    }

    /// A block that the stream knows already keeps its place, or takes an earlier one.
    fn insert(&mut self, stream: StreamId, position: Position, want: Want) {
        let id = BlockId { stream, at: want.at };
        let Some(window) = self.windows.get_mut(&stream).filter(|window| position >= window.front()) else { return };
        match self.entries.get_mut(&id) {
            None => {
                window.insert(position, want.at, want.level());
                let (check, copies) = (want.check, want.copies);
                self.entries.insert(id, Entry { position, check, copies, state: State::Pending });
            }
            Some(entry) if matches!(entry.state, State::Pending) && position < entry.position => {
                window.remove(entry.position);
                window.insert(position, want.at, want.level());
                entry.position = position;
            }
            Some(_) => {}
        }
    }

    /// Lets blocks in while there is room.
    fn fill(&mut self, stream: StreamId) {
        while let Some(at) = self.windows.get_mut(&stream).and_then(Window::let_in_next) {
            self.want(BlockId { stream, at });
        }
    }

    /// Puts a block into the elevators of its copies' devices.
    fn want(&mut self, id: BlockId) {
        let Some(entry) = self.entries.get_mut(&id) else { return };
        entry.copies.retain(|copy| self.elevators.contains_key(&copy.devid));
        if entry.copies.is_empty() {
            entry.state = State::ToRebuild;
            self.rebuilds.insert(id);
            return;
        }
        entry.state = State::Wanted(None);
        for copy in first_on_each(&entry.copies) {
            if let Some(elevator) = self.elevators.get_mut(&copy.devid) {
                elevator.insert(copy.physical, id);
            }
        }
    }

    /// Whether `device` is to read the block, and the selection for it. Where the policy sends the block to another
    /// device it is taken from all but that one.
    #[allow(clippy::option_option, reason = "no; yes, with what the policy chose or without a choice")]
    fn consent(
        &mut self,
        device: DeviceId,
        id: BlockId,
        selector: &MirrorSelector,
        now_ns: u64,
    ) -> Option<Option<Selection>> {
        let entry = self.entries.get_mut(&id)?;
        if let State::Wanted(Some(selection)) = &entry.state {
            return (selection.devid == device).then_some(Some(*selection));
        }
        let candidates: SmallVec<[DeviceId; 4]> = first_on_each(&entry.copies).map(|copy| copy.devid).collect();
        let request =
            Request { logical: id.at, len_bytes: u64::from(self.block_bytes), stream: u64::from(id.stream.0) };
        let Some(selection) = selector.select(&candidates, &request, now_ns) else { return Some(None) };
        if selection.devid == device {
            return Some(Some(selection));
        }
        entry.state = State::Wanted(Some(selection));
        for copy in first_on_each(&entry.copies).filter(|copy| copy.devid != selection.devid) {
            if let Some(elevator) = self.elevators.get_mut(&copy.devid) {
                elevator.remove(copy.physical, id);
            }
        }
        None
    }

    /// Makes a request of the block at `at` and its neighbours.
    fn issue(&mut self, device: DeviceId, at: Physical, id: BlockId, selection: Option<Selection>) -> Issue {
        let block_bytes = u64::from(self.block_bytes);
        let mut pieces = SmallVec::new();
        let (mut end, mut next) = (at, Some((at, id)));
        while let Some((place, id)) = next {
            pieces.extend(self.set_out(id, place - at));
            end = place + block_bytes;
            let elevator = self.elevators.get(&device);
            next = elevator.and_then(|e| e.neighbour(at, end, id, block_bytes)).filter(|(_, id)| !self.is_bound(*id));
        }
        if let Some(elevator) = self.elevators.get_mut(&device) {
            elevator.in_flight += 1;
            elevator.advance(end);
        }
        Issue { device, at, len_bytes: end - at, pieces, selection }
    }

    /// Whether the block has a selection of its own, which must be reported by itself.
    fn is_bound(&self, id: BlockId) -> bool {
        matches!(self.entries.get(&id), Some(Entry { state: State::Wanted(Some(_)), .. }))
    }

    /// The block is being read: nobody else wants it.
    fn set_out(&mut self, id: BlockId, offset_bytes: u64) -> Option<Piece> {
        let entry = self.entries.get_mut(&id)?;
        entry.state = State::OnItsWay;
        unwant(&mut self.elevators, &entry.copies, id);
        Some(Piece { id, offset_bytes, check: entry.check })
    }

    /// A block that was sent for. One that was passed over meanwhile, and wanted anew for another parent, is another one.
    fn on_its_way(&mut self, id: BlockId) -> Option<&mut Entry<T>> {
        self.entries.get_mut(&id).filter(|entry| matches!(entry.state, State::OnItsWay))
    }

    /// The copy that was read is of no use.
    fn retry(&mut self, device: DeviceId, id: BlockId) {
        let Some(entry) = self.on_its_way(id) else { return };
        // The first on that device is the one that was read.
        if let Some(tried) = entry.copies.iter().position(|copy| copy.devid == device) {
            entry.copies.remove(tried);
        }
        self.want(id);
    }

    /// Drops what a stream has passed over.
    fn pass(&mut self, stream: StreamId, position: Position) {
        let Some(window) = self.windows.get_mut(&stream) else { return };
        for at in window.pass(position) {
            let id = BlockId { stream, at };
            let Some(entry) = self.entries.remove(&id) else { continue };
            self.rebuilds.remove(&id);
            if let State::Wanted(selection) = entry.state {
                self.forgotten.extend(selection);
                unwant(&mut self.elevators, &entry.copies, id);
            }
        }
    }
}

/// Takes a block out of the elevators of its devices.
fn unwant(elevators: &mut BTreeMap<DeviceId, Elevator>, copies: &Places, id: BlockId) {
    for copy in first_on_each(copies) {
        if let Some(elevator) = elevators.get_mut(&copy.devid) {
            elevator.remove(copy.physical, id);
        }
    }
}

/// Of several copies on one device (DUP) the first: the others are for when that is bad.
fn first_on_each(copies: &Places) -> impl Iterator<Item = &DevicePhysical> {
    let is_first = |&(nth, copy): &(usize, &DevicePhysical)| !copies.iter().take(nth).any(|c| c.devid == copy.devid);
    copies.iter().enumerate().filter(is_first).map(|(_, copy)| copy)
}
