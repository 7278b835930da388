//! Claims about the state machine, driven without threads: requests end in whatever order the test draws.

use super::*;
use crate::units::{DeviceId, Generation, Physical};
use crate::volume::read_policy::{Completion, MirrorSelector, PolicyKind};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet, HashMap};

const BLOCK: u32 = 4096;
const STREAM: StreamId = StreamId(7);

/// A tree, where its blocks are, and which copies are bad.
struct Tree {
    nodes: Vec<Node>,
    devices: usize,
    copies: usize,
    bad: BTreeSet<(u64, usize)>,
}

struct Node {
    level: u8,
    children: Vec<usize>,
    place: u64,
}

impl Tree {
    /// A tree of this height with `fanout` children per node, blocks in an order drawn by `seed`.
    fn new(height: u8, fanout: usize, devices: usize, copies: usize, seed: u64) -> Self {
        let mut tree = Self { nodes: Vec::new(), devices, copies: copies.min(devices), bad: BTreeSet::new() };
        tree.grow(height, fanout);
        let mut places: Vec<u64> = (0..tree.nodes.len() as u64).map(|n| n * 3).collect();
        let mut state = seed;
        for n in (1..places.len()).rev() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            places.swap(n, (state >> 33) as usize % (n + 1));
        }
        tree.nodes.iter_mut().zip(places).for_each(|(node, place)| node.place = place);
        tree
    }

    fn grow(&mut self, level: u8, fanout: usize) -> usize {
        let index = self.nodes.len();
        self.nodes.push(Node { level, children: Vec::new(), place: 0 });
        if level > 0 {
            let children = (0..fanout).map(|_| self.grow(level - 1, fanout)).collect();
            self.nodes[index].children = children;
        }
        index
    }

    fn at(&self, index: usize) -> Logical {
        Logical::new(self.nodes[index].place * u64::from(BLOCK))
    }

    fn want(&self, slot: usize, index: usize) -> Want {
        let at = self.at(index);
        let check = ParentCheck {
            level: Some(self.nodes[index].level),
            generation: Some(Generation::new(index as u64)),
            ..ParentCheck::default()
        };
        let first = self.nodes[index].place as usize;
        let copy = |n: usize| DevicePhysical {
            devid: DeviceId::new(((first + n) % self.devices) as u64),
            physical: Physical::new(at.raw() + 77 * 4096 * n as u64),
        };
        Want { at, check, slot, copies: (0..self.copies).map(copy).collect() }
    }

    fn children(&self, index: usize) -> Vec<Want> {
        self.nodes[index].children.iter().enumerate().map(|(slot, child)| self.want(slot, *child)).collect()
    }

    fn index_of(piece: &Piece) -> usize {
        piece.check.generation.unwrap().raw() as usize
    }
}

/// Drives the machine over a tree.
struct Driver<'t> {
    tree: &'t Tree,
    machine: Readahead<usize>,
    selector: MirrorSelector,
    depth: usize,
    flying: Vec<Issue>,
    /// Reads of each copy.
    reads: HashMap<(usize, DeviceId), usize>,
    rebuilt: BTreeMap<usize, usize>,
    most_known: usize,
    requests: usize,
}

impl<'t> Driver<'t> {
    fn new(tree: &'t Tree, limits: &Limits, policy: PolicyKind) -> Self {
        let devices: Vec<DeviceId> = (0..tree.devices as u64).map(DeviceId::new).collect();
        let mut machine = Readahead::new(devices.clone(), limits.depth, BLOCK);
        machine.open(STREAM, limits);
        machine.add(STREAM, tree.want(0, 0));
        let selector = MirrorSelector::new(policy, &devices, BLOCK);
        let (reads, rebuilt) = (HashMap::new(), BTreeMap::new());
        Self {
            tree,
            machine,
            selector,
            depth: limits.depth,
            flying: Vec::new(),
            reads,
            rebuilt,
            most_known: 0,
            requests: 0,
        }
    }

    /// Gives every device what it takes.
    fn issue(&mut self) {
        for devid in (0..self.tree.devices as u64).map(DeviceId::new) {
            while let Some(issue) = self.machine.next(devid, &self.selector, 0) {
                for piece in &issue.pieces {
                    *self.reads.entry((Tree::index_of(piece), devid)).or_default() += 1;
                }
                self.flying.push(issue);
                self.requests += 1;
            }
            assert!(self.flying.iter().filter(|i| i.device == devid).count() <= self.depth);
        }
        while let Some((id, check)) = self.machine.next_rebuild() {
            let index = check.generation.unwrap().raw() as usize;
            *self.rebuilt.entry(index).or_default() += 1;
            self.machine.finish(id, index, self.tree.children(index));
        }
        self.most_known = self.most_known.max(self.machine.len());
    }

    fn complete(&mut self, nth: usize) {
        let issue = self.flying.swap_remove(nth % self.flying.len());
        let outcome = |piece: &Piece| {
            let index = Tree::index_of(piece);
            let copy = self.tree.want(0, index).copies.iter().position(|c| c.devid == issue.device).unwrap();
            if self.tree.bad.contains(&(index as u64, copy)) {
                Outcome::Bad
            } else {
                Outcome::Here(index, self.tree.children(index))
            }
        };
        let outcomes: Vec<_> = issue.pieces.iter().map(outcome).collect();
        if let Some(selection) = issue.selection {
            self.selector
                .report(selection, &Completion { latency_ns: 1000, bytes: issue.len_bytes, ok: true, now_ns: 0 });
        }
        self.machine.complete(&issue, outcomes);
        self.machine.take_forgotten().into_iter().for_each(|selection| self.selector.forget(selection));
    }

    /// Walks the whole tree; the blocks in the order in which they came.
    fn walk(&mut self, draws: &[usize]) -> Vec<usize> {
        let (mut seen, mut stack, mut draws) = (Vec::new(), vec![0], draws.iter().cycle());
        while let Some(index) = stack.pop() {
            let id = BlockId { stream: STREAM, at: self.tree.at(index) };
            loop {
                self.issue();
                match self.machine.take(id) {
                    Take::Here(block) => {
                        seen.push(block);
                        break;
                    }
                    Take::Coming => {
                        self.issue();
                        if !self.flying.is_empty() {
                            self.complete(*draws.next().unwrap());
                        }
                    }
                    Take::Unknown => panic!("block {index} is not known"),
                }
            }
            stack.extend(self.tree.nodes[index].children.iter().rev());
        }
        seen
    }
}

fn pipeline(depth: usize, blocks: u64) -> Limits {
    Limits { depth, window_bytes: blocks * u64::from(BLOCK), descends: true, in_batches: false }
}

fn policies() -> impl Strategy<Value = PolicyKind> {
    prop::sample::select(vec![
        PolicyKind::Pid,
        PolicyKind::ROUND_ROBIN,
        PolicyKind::Devid(DeviceId::new(1)),
        "latency".parse().unwrap(),
        PolicyKind::Auto,
    ])
}

proptest! {
    #[test]
    fn every_block_is_delivered_once_and_in_order_and_each_copy_read_at_most_once(
        (height, fanout) in (0_u8..4, 1_usize..7),
        (devices, copies, depth) in (1_usize..5, 1_usize..4, 1_usize..9),
        (window, descends, in_batches) in (1_u64..200, any::<bool>(), any::<bool>()),
        bad in prop::collection::btree_set((0_u64..300, 0_usize..3), 0..80),
        draws in prop::collection::vec(any::<usize>(), 1..50),
        policy in policies(),
        seed in any::<u64>(),
    ) {
        let mut tree = Tree::new(height, fanout, devices, copies, seed);
        tree.bad = bad;
        let limits = Limits { depth, window_bytes: window * u64::from(BLOCK), descends, in_batches };
        let mut driver = Driver::new(&tree, &limits, policy);
        let seen = driver.walk(&draws);
        prop_assert_eq!(seen, (0..tree.nodes.len()).collect::<Vec<_>>());
        prop_assert!(driver.machine.is_done() && driver.machine.is_empty());
        for index in 0..tree.nodes.len() {
            let good = (0..tree.copies).filter(|copy| !tree.bad.contains(&(index as u64, *copy))).count();
            let reads: Vec<_> = driver.reads.iter().filter(|((i, _), _)| *i == index).map(|(_, count)| *count).collect();
            prop_assert!(reads.iter().all(|count| *count == 1), "block {}: {:?}", index, reads);
            prop_assert!(reads.len() <= tree.copies - good + 1);
            prop_assert_eq!(driver.rebuilt.get(&index).copied().unwrap_or(0), usize::from(good == 0));
        }
    }
}

#[test]
fn a_window_bounds_what_is_known() {
    let tree = Tree::new(3, 20, 2, 1, 5);
    let mut driver = Driver::new(&tree, &pipeline(8, 64), PolicyKind::Auto);
    driver.walk(&[0, 3, 1]);
    assert!(driver.most_known <= 64 + 3 * 20 + 64, "{}", driver.most_known);
}

#[test]
fn a_device_reads_upwards_whatever_the_order_of_the_keys() {
    let tree = Tree::new(1, 200, 1, 1, 9);
    let mut driver = Driver::new(&tree, &pipeline(1, 1000), PolicyKind::Auto);
    driver.issue();
    driver.complete(0);
    let mut places = Vec::new();
    loop {
        driver.issue();
        let Some(issue) = driver.flying.first() else { break };
        places.push(issue.at);
        driver.complete(0);
    }
    let turns = places.windows(2).filter(|pair| pair[0] > pair[1]).count();
    assert!(turns <= 1, "{places:?}");
}

#[test]
fn neighbours_are_one_request() {
    let mut tree = Tree::new(1, 64, 1, 1, 3);
    for (place, node) in tree.nodes.iter_mut().enumerate() {
        node.place = place as u64;
    }
    let mut driver = Driver::new(&tree, &pipeline(4, 1000), PolicyKind::Auto);
    assert_eq!(driver.walk(&[0]).len(), 65);
    assert_eq!(driver.requests, 1 + 64 * BLOCK as usize / REQUEST_BYTES as usize);
}

#[test]
fn what_the_walker_passes_over_is_dropped_and_not_read() {
    let tree = Tree::new(1, 100, 1, 1, 4);
    let mut driver = Driver::new(&tree, &pipeline(1, 1000), PolicyKind::Auto);
    driver.issue();
    driver.complete(0);
    let last = BlockId { stream: STREAM, at: tree.at(100) };
    assert_eq!(driver.machine.take(last), Take::Coming);
    assert_eq!(driver.machine.len(), 1);
    driver.issue();
    driver.complete(0);
    assert_eq!(driver.machine.take(last), Take::Here(100));
    assert_eq!(driver.machine.take(BlockId { at: tree.at(50), ..last }), Take::Unknown);
    assert!(driver.machine.is_empty());
}

#[test]
fn a_fixed_policy_is_obeyed() {
    let tree = Tree::new(2, 9, 2, 2, 8);
    let mut driver = Driver::new(&tree, &pipeline(4, 1000), PolicyKind::Devid(DeviceId::new(1)));
    driver.walk(&[2, 1]);
    assert!(driver.reads.keys().all(|(_, devid)| *devid == DeviceId::new(1)));
}

#[test]
fn batches_leave_the_disk_alone_until_half_of_the_window_is_used() {
    let tree = Tree::new(1, 200, 1, 1, 6);
    let limits = Limits { in_batches: true, ..pipeline(1, 64) };
    let mut driver = Driver::new(&tree, &limits, PolicyKind::Auto);
    let mut bursts = 0;
    for index in 0..=200 {
        let id = BlockId { stream: STREAM, at: tree.at(index) };
        driver.issue();
        bursts += usize::from(!driver.flying.is_empty());
        while !driver.flying.is_empty() {
            driver.complete(0);
            driver.issue();
        }
        assert_eq!(driver.machine.take(id), Take::Here(index));
    }
    assert!(bursts <= 2 + 200 / 32, "{bursts}");
}

#[test]
fn streams_have_windows_of_their_own() {
    let tree = Tree::new(1, 50, 1, 1, 6);
    let mut driver = Driver::new(&tree, &pipeline(4, 8), PolicyKind::Auto);
    let other = StreamId(9);
    driver.machine.open(other, &pipeline(4, 8));
    driver.machine.add(other, tree.want(0, 0));
    driver.walk(&[0, 5]);
    assert_eq!(driver.machine.take(BlockId { stream: other, at: tree.at(0) }), Take::Here(0));
    driver.machine.close(other);
    assert!(driver.machine.is_empty());
}
