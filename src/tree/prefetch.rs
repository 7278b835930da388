//! The threaded driver of the readahead state machine: workers read and verify what it says, walkers take blocks in the
//! order of their walk.
//!
//! The only part of `tree` with threads. It knows devices by number: [`CopySource`] reads. What a walker gets through a
//! [`Stream`] is what the source itself would give it: a block that the machine does not know, or that keeps another
//! promise than the one asked for, is read by the source at once.

use super::block::{ParentCheck, TreeBlock, TreeGeometry};
use super::readahead::{
    BlockId, Issue, Limits, Outcome, Piece, Places, REQUEST_BYTES, Readahead, StreamId, Take, Want,
};
use super::seen::SeenBlocks;
use super::source::{BlockSource, LostBlock, TreeRoot};
use crate::device::{BufferPool, PooledBuffer};
use crate::format::Key;
use crate::units::{DeviceId, DevicePhysical, Logical};
use crate::volume::read_policy::{Completion, MirrorSelector};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Threads of one driver: two devices at full depth, or many at less. Each costs a buffer of 128 KiB.
const WORKERS_MAX: usize = 64;
/// What a worker needs of stack: it reads, hashes and stores.
const STACK_BYTES: usize = 128 << 10;
/// Blocks that a walker may still hold when its stream looks at them again: a path, and a few leaves.
const GIVEN: usize = 12;

/// Where single copies come from.
pub trait CopySource: BlockSource {
    /// What all blocks have in common.
    fn geometry(&self) -> &TreeGeometry;

    /// The devices that are there.
    fn devices(&self) -> Vec<DeviceId>;

    /// The copies of the block at `at` that lie whole on one present device, in mirror order.
    fn copies(&self, at: Logical) -> Places;

    /// Fills `buf` from one place. False where that fails.
    fn read_place(&self, place: DevicePhysical, buf: &mut [u8]) -> bool;

    /// A block that is in memory anyway.
    fn cached(&self, at: Logical) -> Option<Arc<TreeBlock>>;

    /// Keeps a node for the next descent.
    fn keep(&self, block: &Arc<TreeBlock>);

    /// Which mirror to read from.
    fn selector(&self) -> &MirrorSelector;

    /// The selector's clock.
    fn clock_ns(&self) -> u64;
}

type Block = Result<Arc<TreeBlock>, LostBlock>;

/// What a stream wants of its trees.
struct Follow {
    keys: Range<Key>,
    /// What the walker has had, where it wants each block once.
    seen: Option<SeenBlocks>,
    /// What the walker was given last. When it has let go of a block, the memory serves for another one: left to the
    /// allocator, which keeps memory apart for each thread, a walk would come to take several times its window.
    given: VecDeque<Arc<TreeBlock>>,
}

struct State {
    machine: Readahead<Block>,
    follows: BTreeMap<StreamId, Follow>,
    /// Memory for blocks to come: never more than all windows once held.
    spare: Vec<Box<[u8]>>,
    /// Workers that wait for work.
    idle: usize,
    /// Walkers that wait for a block.
    waiting: usize,
    closed: bool,
}

/// Workers at work for any number of streams.
pub struct Prefetch<'s, S: CopySource + ?Sized> {
    source: &'s S,
    limits: Limits,
    state: Mutex<State>,
    work: Condvar,
    news: Condvar,
    next_stream: AtomicU32,
}

/// Reads ahead while `body` runs; `limits` hold for each of its streams. The threads end with it.
pub fn prefetch<S: CopySource + ?Sized, R>(source: &S, limits: Limits, body: impl FnOnce(&Prefetch<'_, S>) -> R) -> R {
    let devices = source.devices();
    let workers = limits.depth.saturating_mul(devices.len()).clamp(1, WORKERS_MAX);
    // On huge pages: a request for a block of 16 KiB is one segment then, and a third more of them are done in a second.
    let pool = BufferPool::new(workers, REQUEST_BYTES as usize);
    let machine = Readahead::new(devices, limits.depth, source.geometry().nodesize());
    let state = State { machine, follows: BTreeMap::new(), spare: Vec::new(), idle: 0, waiting: 0, closed: false };
    let shared = Prefetch {
        source,
        limits,
        state: Mutex::new(state),
        work: Condvar::new(),
        news: Condvar::new(),
        next_stream: AtomicU32::new(0),
    };
    std::thread::scope(|scope| {
        let _ends = CloseOnDrop(&shared);
        let mut started = 0;
        for (nth, buffer) in pool.iter().flat_map(|pool| (0..workers).map(|nth| (nth, pool.take()))) {
            let worker = std::thread::Builder::new().stack_size(STACK_BYTES);
            let shared = &shared;
            started += usize::from(worker.spawn_scoped(scope, move || shared.serve(nth, buffer)).is_ok());
        }
        if started == 0 {
            // Nobody would ever bring a block: every stream reads for itself.
            shared.lock().closed = true;
        }
        body(&shared)
    })
}

struct CloseOnDrop<'p, 's, S: CopySource + ?Sized>(&'p Prefetch<'s, S>);

impl<S: CopySource + ?Sized> Drop for CloseOnDrop<'_, '_, S> {
    fn drop(&mut self) {
        self.0.lock().closed = true;
        self.0.work.notify_all();
        self.0.news.notify_all();
    }
}

impl<'s, S: CopySource + ?Sized> Prefetch<'s, S> {
    /// Starts to read the tree under `root` as far as it holds `keys`.
    pub fn follow(&self, root: TreeRoot, keys: Range<Key>) -> Stream<'_, 's, S> {
        self.stream(&[root], Follow { keys, seen: None, given: VecDeque::new() })
    }

    /// Starts to read whole trees one after the other, for a walker that visits a block that is in several of them only
    /// in the first.
    pub fn follow_once(&self, roots: &[TreeRoot]) -> Stream<'_, 's, S> {
        self.stream(
            roots,
            Follow { keys: Key::MIN..Key::MAX, seen: Some(SeenBlocks::default()), given: VecDeque::new() },
        )
    }

    fn stream(&self, roots: &[TreeRoot], follow: Follow) -> Stream<'_, 's, S> {
        let id = StreamId(self.next_stream.fetch_add(1, Ordering::Relaxed));
        let wants: Vec<Want> =
            roots.iter().enumerate().map(|(slot, root)| self.want(slot, root.at, root.check())).collect();
        let mut state = self.lock();
        state.machine.open(id, &self.limits);
        state.follows.insert(id, follow);
        for want in wants {
            state.machine.add(id, want);
        }
        self.wake(&state);
        Stream { shared: self, id }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls one worker; it calls the next as long as there is work.
    fn wake(&self, state: &State) {
        if state.idle > 0 && state.machine.has_work() {
            self.work.notify_one();
        }
    }

    fn want(&self, slot: usize, at: Logical, check: ParentCheck) -> Want {
        Want { at, check, slot, copies: self.source.copies(at) }
    }

    /// What one worker does until the driver is closed.
    fn serve(&self, nth: usize, mut buffer: PooledBuffer) {
        let devices = self.source.devices();
        let mut turn = nth;
        let mut state = self.lock();
        while !state.closed {
            if let Some((id, check)) = state.machine.next_rebuild() {
                self.wake(&state);
                drop(state);
                let block = self.source.read_block(id.at, &check);
                state = self.lock();
                let children = block.as_ref().map(|block| self.children(&state, id.stream, block)).unwrap_or_default();
                state.machine.finish(id, block, children);
                self.tell(&state);
                continue;
            }
            turn += 1;
            let next = (0..devices.len()).find_map(|n| {
                let device = *devices.get((turn + n) % devices.len())?;
                state.machine.next(device, self.source.selector(), self.source.clock_ns())
            });
            let Some(issue) = next else {
                state.idle += 1;
                state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.idle -= 1;
                continue;
            };
            self.wake(&state);
            let mut spare = state.memory_for(&issue);
            drop(state);
            let blocks = self.read(&issue, &mut buffer, &mut spare);
            state = self.complete(&issue, blocks);
        }
    }

    fn tell(&self, state: &State) {
        if state.waiting > 0 {
            self.news.notify_all();
        }
        self.wake(state);
    }

    fn complete(&self, issue: &Issue, blocks: Vec<Option<Arc<TreeBlock>>>) -> MutexGuard<'_, State> {
        let stream = issue.pieces.first().map(|piece| piece.id.stream).unwrap_or_default();
        let mut state = self.lock();
        let outcome = |block: Option<Arc<TreeBlock>>| match block {
            Some(block) => {
                let children = self.children(&state, stream, &block);
                Outcome::Here(Ok(block), children)
            }
            None => Outcome::Bad,
        };
        let outcomes: Vec<_> = blocks.into_iter().map(outcome).collect();
        state.machine.complete(issue, outcomes);
        for selection in state.machine.take_forgotten() {
            self.source.selector().forget(selection);
        }
        self.tell(&state);
        state
    }

    /// The children of a node that its stream wants.
    fn children(&self, state: &State, stream: StreamId, block: &TreeBlock) -> Vec<Want> {
        let Some(follow) = state.follows.get(&stream).filter(|_| block.level() > 0) else { return Vec::new() };
        let holds = |slot: &usize| {
            block.key(*slot).is_some_and(|first| first < follow.keys.end)
                && block.key(slot + 1).is_none_or(|next| next > follow.keys.start)
        };
        let want = |slot: usize| {
            let ptr = block.key_ptr(slot)?;
            let is_new = follow.seen.as_ref().is_none_or(|seen| !seen.contains(ptr.child));
            is_new.then(|| self.want(slot, ptr.child, block.child_check(&ptr)))
        };
        (0..block.len()).filter(holds).filter_map(want).collect()
    }

    /// The blocks of a request that verify.
    fn read(&self, issue: &Issue, buffer: &mut [u8], spare: &mut Vec<Box<[u8]>>) -> Vec<Option<Arc<TreeBlock>>> {
        let selector = self.source.selector();
        let cached: Vec<_> = issue.pieces.iter().map(|piece| self.source.cached(piece.id.at)).collect();
        if cached.iter().all(Option::is_some) {
            issue.selection.into_iter().for_each(|selection| selector.forget(selection));
            let keeps = |(block, check): (Option<Arc<TreeBlock>>, _)| block.filter(|b| b.keeps(check).is_ok());
            return cached.into_iter().zip(issue.pieces.iter().map(|piece| &piece.check)).map(keeps).collect();
        }
        let len = issue.len_bytes as usize;
        let Some(bytes) = buffer.get_mut(..len) else { return Vec::new() };
        let started_ns = self.source.clock_ns();
        let ok = self.source.read_place(DevicePhysical { devid: issue.device, physical: issue.at }, bytes);
        if let Some(selection) = issue.selection {
            let now_ns = self.source.clock_ns();
            let latency_ns = now_ns.saturating_sub(started_ns);
            selector.report(selection, &Completion { latency_ns, bytes: issue.len_bytes, ok, now_ns });
        }
        if !ok && issue.pieces.len() > 1 {
            return issue.pieces.iter().map(|piece| self.read_alone(issue, piece, bytes, spare)).collect();
        }
        issue
            .pieces
            .iter()
            .map(|piece| if ok { self.verify(piece, bytes, piece.offset_bytes, spare) } else { None })
            .collect()
    }

    /// One bad sector costs one block, not all that were read with it.
    fn read_alone(
        &self,
        issue: &Issue,
        piece: &Piece,
        buffer: &mut [u8],
        spare: &mut Vec<Box<[u8]>>,
    ) -> Option<Arc<TreeBlock>> {
        let place = DevicePhysical { devid: issue.device, physical: issue.at + piece.offset_bytes };
        let bytes = buffer.get_mut(..self.source.geometry().nodesize() as usize)?;
        if self.source.read_place(place, bytes) { self.verify(piece, bytes, 0, spare) } else { None }
    }

    fn verify(
        &self,
        piece: &Piece,
        bytes: &[u8],
        offset_bytes: u64,
        spare: &mut Vec<Box<[u8]>>,
    ) -> Option<Arc<TreeBlock>> {
        let geometry = self.source.geometry();
        let start = offset_bytes as usize;
        let bytes = bytes.get(start..start + geometry.nodesize() as usize)?;
        let own = match spare.pop() {
            Some(mut own) if own.len() == bytes.len() => {
                own.copy_from_slice(bytes);
                own
            }
            _ => bytes.into(),
        };
        let block = Arc::new(TreeBlock::verify(own, piece.id.at, geometry, &piece.check).ok()?);
        if block.level() > 0 {
            self.source.keep(&block);
        }
        Some(block)
    }
}

impl State {
    /// Notes what a walker was given, and takes back the memory of what it has let go of.
    fn give(&mut self, stream: StreamId, at: Logical, block: &Block) {
        let Some(follow) = self.follows.get_mut(&stream) else { return };
        if let Some(seen) = &mut follow.seen {
            seen.insert(at);
        }
        follow.given.extend(block.as_ref().ok().map(Arc::clone));
        let oldest = if follow.given.len() > GIVEN { follow.given.pop_front() } else { None };
        self.spare.extend(oldest.and_then(Arc::into_inner).map(TreeBlock::into_bytes));
    }

    /// Memory for the blocks of a request.
    fn memory_for(&mut self, issue: &Issue) -> Vec<Box<[u8]>> {
        let from = self.spare.len().saturating_sub(issue.pieces.len());
        self.spare.split_off(from)
    }
}

/// The blocks of one walk, ahead of it. To be used by one walker at a time.
pub struct Stream<'p, 's, S: CopySource + ?Sized> {
    shared: &'p Prefetch<'s, S>,
    id: StreamId,
}

impl<S: CopySource + ?Sized> BlockSource for Stream<'_, '_, S> {
    fn read_block(&self, at: Logical, check: &ParentCheck) -> Block {
        let shared = self.shared;
        let mut state = shared.lock();
        let block = loop {
            if state.closed {
                break None;
            }
            let taken = state.machine.take(BlockId { stream: self.id, at });
            shared.wake(&state);
            match taken {
                Take::Here(block) => {
                    state.give(self.id, at, &block);
                    break Some(block);
                }
                Take::Unknown => break None,
                Take::Coming => {
                    state.waiting += 1;
                    state = shared.news.wait(state).unwrap_or_else(PoisonError::into_inner);
                    state.waiting -= 1;
                }
            }
        };
        drop(state);
        match block {
            Some(Ok(block)) if block.keeps(check).is_ok() => Ok(block),
            Some(Err(why)) => Err(why),
            _ => shared.source.read_block(at, check),
        }
    }
}

impl<S: CopySource + ?Sized> Drop for Stream<'_, '_, S> {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.machine.close(self.id);
        state.follows.remove(&self.id);
        for selection in state.machine.take_forgotten() {
            self.shared.source.selector().forget(selection);
        }
    }
}
