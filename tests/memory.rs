//! A walk with readahead over 1,000,000 tree blocks stays below 64 MiB of memory. Alone in its process: what is looked at
//! is the process's own high-water mark.

// A failed unwrap is a failed test, also in the helpers.
#![allow(clippy::unwrap_used)]

use mirrortool::checksum::ChecksumType;
use mirrortool::format::{IncompatFlags, Key, SuperFlags, TreeRules};
use mirrortool::tree::readahead::Places;
use mirrortool::tree::{
    BlockSource, CopySource, LostBlock, ParentCheck, ReadaheadMode, TreeBlock, TreeGeometry, TreeRoot, Visit, Visitor,
    prefetch, walk,
};
use mirrortool::units::{DeviceId, DevicePhysical, Generation, Logical, ObjectId, Physical};
use mirrortool::volume::read_policy::{MirrorSelector, PolicyKind};
use std::sync::Arc;
use uuid::Uuid;

const NODESIZE: usize = 4096;
/// Pointers that fit a node.
const FANOUT: u64 = 121;
const LEAVES: u64 = 1_000_000;
const ROOT_LEVEL: u8 = 3;
const GENERATION: u64 = 9;
const OWNER: u64 = 2;

/// A tree whose blocks are made when they are read.
struct Synthetic {
    geometry: TreeGeometry,
    selector: MirrorSelector,
}

impl Synthetic {
    fn new() -> Self {
        let rules = TreeRules {
            nodesize: NODESIZE as u32,
            sectorsize: 4096,
            csum_type: ChecksumType::Crc32c,
            incompat: IncompatFlags::empty(),
            flags: SuperFlags::empty(),
            generation: Generation::new(GENERATION),
            has_unknown_features: false,
        };
        let geometry = TreeGeometry { rules, fsids: vec![Uuid::nil()], chunk_tree_uuid: None };
        Self { geometry, selector: MirrorSelector::new(PolicyKind::Auto, &[DeviceId::new(1)], 4096) }
    }

    fn root() -> TreeRoot {
        TreeRoot {
            id: ObjectId::new(OWNER),
            at: address(ROOT_LEVEL, 0),
            level: ROOT_LEVEL,
            generation: Some(Generation::new(GENERATION)),
        }
    }

    /// The bytes of the block at `at`.
    fn make(&self, at: Logical, block: &mut [u8]) {
        let (level, index) = ((at.raw() >> 40) as u8, (at.raw() & ((1 << 40) - 1)) / NODESIZE as u64);
        block.fill(0);
        block[48..56].copy_from_slice(&at.raw().to_le_bytes());
        block[80..88].copy_from_slice(&GENERATION.to_le_bytes());
        block[88..96].copy_from_slice(&OWNER.to_le_bytes());
        block[100] = level;
        let children =
            if level == 0 { index..index + 1 } else { index * FANOUT..((index + 1) * FANOUT).min(blocks(level - 1)) };
        block[96..100].copy_from_slice(&(u32::try_from(children.end - children.start).unwrap()).to_le_bytes());
        for (slot, child) in children.enumerate() {
            let first = if level == 0 { child } else { child * FANOUT.pow(u32::from(level - 1)) };
            let place = 101 + slot * if level == 0 { 25 } else { 33 };
            block[place..place + 8].copy_from_slice(&first.to_le_bytes());
            if level > 0 {
                block[place + 17..place + 25].copy_from_slice(&address(level - 1, child).raw().to_le_bytes());
                block[place + 25..place + 33].copy_from_slice(&GENERATION.to_le_bytes());
            }
        }
        let digest = self.geometry.csum_type().digest(&block[32..]);
        block[..4].copy_from_slice(&digest.as_bytes()[..4]);
    }
}

/// How many blocks a level has.
fn blocks(level: u8) -> u64 {
    (0..level).fold(LEAVES, |below, _| below.div_ceil(FANOUT))
}

fn address(level: u8, index: u64) -> Logical {
    Logical::new((u64::from(level) << 40) + index * NODESIZE as u64)
}

impl BlockSource for Synthetic {
    fn read_block(&self, at: Logical, check: &ParentCheck) -> Result<Arc<TreeBlock>, LostBlock> {
        let mut bytes = vec![0; NODESIZE].into_boxed_slice();
        self.make(at, &mut bytes);
        TreeBlock::verify(bytes, at, &self.geometry, check).map(Arc::new).map_err(|why| LostBlock::Bad { at, why })
    }
}

impl CopySource for Synthetic {
    fn geometry(&self) -> &TreeGeometry {
        &self.geometry
    }

    fn devices(&self) -> Vec<DeviceId> {
        vec![DeviceId::new(1)]
    }

    fn copies(&self, at: Logical) -> Places {
        [DevicePhysical { devid: DeviceId::new(1), physical: Physical::new(at.raw()) }].into_iter().collect()
    }

    fn read_place(&self, place: DevicePhysical, buf: &mut [u8]) -> bool {
        let at = |nth: usize| Logical::new(place.physical.raw() + (nth * NODESIZE) as u64);
        buf.chunks_mut(NODESIZE).enumerate().for_each(|(nth, block)| self.make(at(nth), block));
        true
    }

    fn cached(&self, _: Logical) -> Option<Arc<TreeBlock>> {
        None
    }

    fn keep(&self, _: &Arc<TreeBlock>) {}

    fn selector(&self) -> &MirrorSelector {
        &self.selector
    }

    fn clock_ns(&self) -> u64 {
        0
    }
}

#[derive(Default)]
struct Count {
    leaves: u64,
    last: Option<Key>,
}

impl Visitor for Count {
    fn block(&mut self, block: &Arc<TreeBlock>) -> Visit {
        if block.level() == 0 {
            let key = block.key(0);
            assert!(key > self.last);
            self.last = key;
            self.leaves += 1;
        }
        Visit::Into
    }

    fn lost(&mut self, at: Logical, _: &ParentCheck, why: &LostBlock) {
        panic!("{at} is lost: {why}");
    }
}

/// The process's high-water mark, in KiB.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn a_walk_over_a_million_blocks_takes_less_than_64_mib() {
    let source = Synthetic::new();
    let mut count = Count::default();
    let limits = ReadaheadMode::default().for_walk().unwrap();
    prefetch(&source, limits, |ahead| walk(&ahead.follow_once(&[Synthetic::root()]), &Synthetic::root(), &mut count));
    assert_eq!(count.leaves, LEAVES);
    let peak_kib = peak_kib();
    println!("{peak_kib} KiB at most");
    assert!(peak_kib < 64 << 10, "{peak_kib} KiB");
}
