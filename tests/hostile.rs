//! Images made to harm: changed bytes with a checksum that fits again, in super blocks and nodes, on all copies at once.
//! Whatever they say, the library neither panics nor hangs, and its memory stays bounded. The seed is fixed; for longer
//! runs `FUZZ_ROUNDS=100 cargo test --release --test hostile` tries so many times as many, each round from seeds of its own.

// A failed unwrap in a test is a failed test.
#![allow(clippy::unwrap_used)]

mod common;

use common::random::Random;
use common::{check_all, fixture, library};
use mirrortool::checksum::ChecksumType;
use mirrortool::device::{MemoryDevice, ReadDevice};
use mirrortool::format::SUPERBLOCK_OFFSETS;
use mirrortool::report::{Encoding, Report, write_document};
use mirrortool::units::Physical;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// Changes per fixture.
const SUPERBLOCK_MUTATIONS: usize = 50;
const NODE_MUTATIONS: usize = 150;
/// One scrub of a fixture takes some 20 ms; longer than this is a hang.
const PATIENCE: Duration = Duration::from_secs(60);
/// Buffers of some runs at once, and the test itself.
const MAX_MEMORY_KIB: u64 = 768 * 1024;

const SUPERBLOCK_BYTES: usize = 4096;
const CSUM_BYTES: usize = 32;
const FSID: std::ops::Range<usize> = 0x20..0x30;
const HEADER_BYTES: usize = 101;

/// How many times as many as usual.
fn fuzz_rounds() -> u64 {
    std::env::var("FUZZ_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(1)
}

/// A device with some other bytes here and there.
struct Patched {
    base: Arc<dyn ReadDevice>,
    patches: Vec<(u64, Vec<u8>)>,
}

impl ReadDevice for Patched {
    fn len(&self) -> u64 {
        self.base.len()
    }

    fn read_at(&self, at: Physical, buf: &mut [u8]) -> io::Result<()> {
        self.base.read_at(at, buf)?;
        for (start, bytes) in &self.patches {
            for (i, &byte) in bytes.iter().enumerate() {
                let offset = (start + i as u64).wrapping_sub(at.raw());
                if offset < buf.len() as u64 {
                    buf[offset as usize] = byte;
                }
            }
        }
        Ok(())
    }
}

/// The copies of one block: (index of the device, offset on it).
#[derive(Clone, Debug)]
struct Block {
    length: usize,
    places: Vec<(usize, u64)>,
}

/// A fixture, taken apart.
struct Victim {
    name: String,
    paths: Vec<PathBuf>,
    devices: Vec<Arc<dyn ReadDevice>>,
    csum: ChecksumType,
    superblocks: Block,
    nodes: Vec<Block>,
}

/// Bytes to change in every copy of a block.
#[derive(Clone, Debug)]
struct Mutation {
    block: Block,
    edits: Vec<(usize, u8)>,
}

impl fmt::Display for Mutation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes at {:?}, changed: {:x?}", self.block.length, self.block.places, self.edits)
    }
}

impl Victim {
    fn new(name: &str) -> Self {
        let paths = fixture::shared(name).paths;
        let facts = fixture::facts(name);
        let csum = ChecksumType::ALL.into_iter().find(|c| c.name() == facts.csum_type).unwrap();
        let nodes = find_nodes(&paths, facts.nodesize as usize, csum);
        let places =
            (0..paths.len()).flat_map(|n| SUPERBLOCK_OFFSETS[..2].iter().map(move |at| (n, at.raw()))).collect();
        let devices = paths.iter().map(|path| library::device(path)).collect();
        let superblocks = Block { length: SUPERBLOCK_BYTES, places };
        Self { name: name.to_owned(), paths, devices, csum, superblocks, nodes }
    }

    /// The devices with that block changed and its checksums made to fit.
    fn mutated(&self, mutation: &Mutation) -> Vec<Arc<dyn ReadDevice>> {
        let mut patches = vec![Vec::new(); self.devices.len()];
        for &(device, at) in &mutation.block.places {
            let mut bytes = vec![0; mutation.block.length];
            self.devices[device].read_at(Physical::new(at), &mut bytes).unwrap();
            for &(offset, value) in &mutation.edits {
                bytes[offset] = value;
            }
            let digest = self.csum.digest(&bytes[CSUM_BYTES..]);
            bytes[..digest.as_bytes().len()].copy_from_slice(digest.as_bytes());
            patches[device].push((at, bytes));
        }
        let patched = self.devices.iter().zip(patches);
        patched
            .map(|(base, patches)| Arc::new(Patched { base: Arc::clone(base), patches }) as Arc<dyn ReadDevice>)
            .collect()
    }

    fn mutations(&self) -> Vec<Mutation> {
        let rounds = 0..fuzz_rounds();
        rounds.flat_map(|round| self.mutations_of_round(round)).collect()
    }

    fn mutations_of_round(&self, round: u64) -> Vec<Mutation> {
        let seed = self.name.bytes().fold(2_u64 + round, |seed, b| seed.wrapping_mul(31).wrapping_add(b.into()));
        let rng = &mut Random(seed);
        // up to the end of the system chunk array, where the fields are
        let of_superblock =
            |rng: &mut Random| (self.superblocks.clone(), CSUM_BYTES + rng.index(0x32b + 160 - CSUM_BYTES));
        let of_node = |rng: &mut Random| {
            let block = rng.pick(&self.nodes).clone();
            let offset = match rng.index(4) {
                0 => CSUM_BYTES + rng.index(HEADER_BYTES - CSUM_BYTES),
                1 => HEADER_BYTES + rng.index(25 * 4),
                2 => HEADER_BYTES + rng.index(25 * 60),
                _ => block.length - 1 - rng.index(block.length / 2),
            };
            (block, offset)
        };
        let mut mutations = Vec::new();
        for i in 0..SUPERBLOCK_MUTATIONS + NODE_MUTATIONS {
            let (block, offset) = if i < SUPERBLOCK_MUTATIONS { of_superblock(rng) } else { of_node(rng) };
            let value = *rng.pick(&[0x00, 0x01, 0x7f, 0x80, 0xfe, 0xff, (rng.0 >> 7) as u8]);
            // half of them a single byte, half a run that makes wide fields huge or zero
            let run = *rng.pick(&[1, 1, 4, 8]);
            let edits = (offset..(offset + run).min(block.length)).map(|at| (at, value)).collect();
            mutations.push(Mutation { block, edits });
        }
        mutations
    }
}

/// All blocks of the images that are nodes by fsid and checksum, live or left over, with the places of equal copies.
fn find_nodes(paths: &[PathBuf], nodesize: usize, csum: ChecksumType) -> Vec<Block> {
    let mut found: BTreeMap<Vec<u8>, Vec<(usize, u64)>> = BTreeMap::new();
    for (device, path) in paths.iter().enumerate() {
        let mut fsid = vec![0; FSID.len()];
        let at = SUPERBLOCK_OFFSETS[0] + FSID.start as u64;
        library::device(path).read_at(at, &mut fsid).unwrap();
        fixture::for_each_block(path, |at, bytes| {
            for (i, block) in bytes.chunks_exact(nodesize).enumerate() {
                let at = at + (i * nodesize) as u64;
                let is_super = SUPERBLOCK_OFFSETS.iter().any(|place| place.raw() == at);
                if !is_super
                    && block[FSID] == fsid[..]
                    && csum.matches(&block[CSUM_BYTES..], &block[..csum.digest_len()])
                {
                    found.entry(block.to_vec()).or_default().push((device, at));
                }
            }
            Ok(())
        })
        .unwrap();
    }
    found.into_values().map(|places| Block { length: nodesize, places }).collect()
}

/// Scrubs, and renders the report, on a thread of its own: what went wrong is a panic or silence.
fn survives(paths: &[PathBuf], devices: Vec<Arc<dyn ReadDevice>>) -> Result<(), String> {
    let (done, wait) = mpsc::channel();
    let paths = paths.to_vec();
    let worker = thread::spawn(move || {
        if let Ok(outcome) = library::scrub_devices(&paths, &devices) {
            write_document(
                Report { command: "scrub", outcome: &outcome, repair: None, rebuilt: None },
                Encoding::Json,
                &mut io::sink(),
            )
            .unwrap();
        }
        done.send(()).unwrap();
    });
    match wait.recv_timeout(PATIENCE) {
        Err(mpsc::RecvTimeoutError::Timeout) => Err("hangs".to_owned()),
        _ => worker.join().map_err(|panic| {
            let text = panic.downcast_ref::<String>().cloned();
            format!("panics: {}", text.or(panic.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_default())
        }),
    }
}

fn memory_peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn changed_super_blocks_and_nodes_with_fitting_checksums_do_no_harm() {
    check_all(&fixture::names(), |name| {
        let victim = Victim::new(name);
        assert!(!victim.nodes.is_empty(), "{name}: no nodes found");
        let complaints: Vec<_> = victim
            .mutations()
            .iter()
            .filter_map(|mutation| {
                let why = survives(&victim.paths, victim.mutated(mutation)).err()?;
                Some(format!("{name}: {mutation} {why}"))
            })
            .collect();
        if complaints.is_empty() { Ok(()) } else { Err(complaints.join("\n")) }
    });
    assert!(memory_peak_kib() < MAX_MEMORY_KIB, "used {} KiB", memory_peak_kib());
}

/// Random bytes as whole images, from nothing but noise to noise behind a magic and checksum that fit.
#[test]
fn noise_is_refused_or_survived() {
    let somewhere = fixture::shared("single-crc32c").paths;
    let seeds: Vec<u64> = (1..=300 * fuzz_rounds()).collect();
    check_all(&seeds, |&seed| {
        let rng = &mut Random(seed);
        let mut image: Vec<u8> = (0..0x2_0000 + rng.index(5000)).map(|_| rng.next() as u8).collect();
        let superblock = &mut image[0x1_0000..0x1_1000];
        superblock[0x40..0x48].copy_from_slice(b"_BHRfS_M");
        if seed % 2 == 0 {
            superblock[0x30..0x38].copy_from_slice(&0x1_0000_u64.to_le_bytes());
            superblock[0x90..0x98].copy_from_slice(&[0, 0x10, 0, 0, 0, 0x40, 0, 0]);
            superblock[0xc4..0xc9].fill(0);
            let digest = ChecksumType::Crc32c.digest(&superblock[CSUM_BYTES..]);
            superblock[..4].copy_from_slice(digest.as_bytes());
        }
        survives(&somewhere, vec![Arc::new(MemoryDevice::new(image))]).map_err(|why| format!("seed {seed}: {why}"))
    });
}
