//! Judges one copy of one window by itself: checksums, tree block headers, structure. Says nothing of other copies.

use super::finding::{Evidence, Problem};
use super::links::BlockLink;
use super::tally::Counters;
use super::window::{Run, RunKind, Window};
use crate::format::{self, PrivateMarks};
use crate::tree::block::check_block;
use crate::tree::{BadBlock, ParentCheck, TreeGeometry};
use crate::units::Logical;
use crate::volume::STRIPE_LEN_BYTES;
use xxhash_rust::xxh3::xxh3_128;

/// Sectors of a buffer that the device did not give: sector number in the buffer, ascending, with the errno (`None` for
/// past the end of the device).
pub(super) type Unreadable = Vec<(usize, Option<i32>)>;

/// One bad block of one copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BadPiece {
    pub(super) logical: Logical,
    /// The sector size, or the node size.
    pub(super) len_bytes: u64,
    /// Index in [`Window::runs`].
    pub(super) run: usize,
    pub(super) problem: Problem,
    pub(super) evidence: Evidence,
}

/// One copy of a tree block whose checksum, address, generation and owner are right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockPrint {
    pub(super) at: Logical,
    pub(super) fingerprint: u128,
    /// Its content cannot be right all the same.
    pub(super) is_odd: bool,
}

impl BadPiece {
    /// Is it a tree block that is what was written there, though its content cannot be right?
    pub(super) fn is_odd_block(&self, run: &Run) -> bool {
        self.problem == Problem::Structure && matches!(run.kind, RunKind::Tree(_))
    }
}

/// What one copy of a window looks like.
#[derive(Default)]
pub(super) struct CopyVerdict {
    /// Ascending by address.
    pub(super) bad: Vec<BadPiece>,
    /// Of each readable sector without checksum: a fingerprint to compare between copies, ascending by address.
    pub(super) fingerprints: Vec<(Logical, u128)>,
    /// The same of each tree block that verifies.
    pub(super) blocks: Vec<BlockPrint>,
    pub(super) counters: Counters,
    pub(super) links: Vec<BlockLink>,
    /// What a vendor's kernel has written into right blocks, by block.
    pub(super) marks: Vec<(Logical, PrivateMarks)>,
}

impl CopyVerdict {
    /// Of the sector without checksum at `at`, where it was read.
    pub(super) fn fingerprint_at(&self, at: Logical) -> Option<u128> {
        let number = self.fingerprints.binary_search_by_key(&at, |(at, _)| *at).ok()?;
        self.fingerprints.get(number).map(|(_, fingerprint)| *fingerprint)
    }
}

/// Verifies what stripe number `stripe` holds of `window` in `bytes`; with `compare`, sectors without checksum and tree
/// blocks are made ready to be held against their other copies.
pub(super) fn verify(
    window: &Window,
    stripe: usize,
    bytes: &[u8],
    unreadable: &Unreadable,
    geometry: &TreeGeometry,
    compare: bool,
) -> CopyVerdict {
    let mut copy = Copy { window, geometry, unreadable, verdict: CopyVerdict::default(), run: 0 };
    for (number, run) in window.runs.iter().enumerate() {
        copy.run = number;
        for (piece, offset) in window.pieces_on(run, stripe) {
            let Some(data) = bytes.get(offset..offset + piece.len_bytes as usize) else { continue };
            copy.count(run, piece.logical, piece.len_bytes);
            match &run.kind {
                RunKind::Summed(first) => copy.summed(run, *first, piece.logical, offset, data),
                RunKind::Unsummed => copy.unsummed(piece.logical, offset, data, compare),
                RunKind::Tree(check) => copy.tree(piece.logical, offset, data, check, compare),
            }
        }
    }
    copy.verdict
}

struct Copy<'a> {
    window: &'a Window,
    geometry: &'a TreeGeometry,
    unreadable: &'a Unreadable,
    verdict: CopyVerdict,
    run: usize,
}

impl<'a> Copy<'a> {
    fn unreadable_in(&self, offset: usize, len: usize) -> &'a [(usize, Option<i32>)] {
        unreadable_in(self.unreadable, offset, len, self.geometry.sectorsize())
    }

    /// Counts as the kernel does: an extent once per 64 KiB unit of the block group that it touches.
    fn count(&mut self, run: &Run, logical: Logical, len_bytes: u64) {
        let offset = logical - self.window.chunk.start();
        let mut units = (offset + len_bytes).div_ceil(STRIPE_LEN_BYTES) - offset / STRIPE_LEN_BYTES;
        if run.continues && logical == run.logical && !offset.is_multiple_of(STRIPE_LEN_BYTES) {
            units -= 1;
        }
        let counters = &mut self.verdict.counters;
        if matches!(run.kind, RunKind::Tree(_)) {
            counters.tree_extents_scrubbed += units;
            counters.tree_bytes_scrubbed += len_bytes;
        } else {
            counters.data_extents_scrubbed += units;
            counters.data_bytes_scrubbed += len_bytes;
        }
    }

    fn summed(&mut self, run: &Run, first_sum: usize, at: Logical, offset: usize, data: &[u8]) {
        let sectorsize = self.geometry.sectorsize() as usize;
        let digest_len = self.geometry.csum_type().digest_len();
        let skip = (at - run.logical) as usize / sectorsize * digest_len;
        let sums = self.window.sums.get(first_sum + skip..).unwrap_or(&[]);
        let mut bad = Vec::new();
        self.geometry.csum_type().verify_sectors(data, sectorsize, sums, &mut |sector| bad.push(sector));
        let failed = self.unreadable_in(offset, data.len());
        let mut failed = failed.iter().peekable();
        let mut next_bad = bad.into_iter().peekable();
        loop {
            let unreadable = failed.peek().map(|(sector, errno)| (*sector - offset / sectorsize, *errno));
            match (unreadable, next_bad.peek().copied()) {
                (Some((sector, errno)), wrong) if wrong.is_none_or(|w| sector <= w) => {
                    failed.next();
                    if wrong == Some(sector) {
                        next_bad.next();
                    }
                    self.push_sector(at, sector, Problem::ReadError, Evidence::Errno(errno));
                }
                (_, Some(sector)) => {
                    next_bad.next();
                    let bytes = data.get(sector * sectorsize..(sector + 1) * sectorsize).unwrap_or(&[]);
                    let have = self.geometry.csum_type().digest(bytes);
                    let stored = sums.get(sector * digest_len..(sector + 1) * digest_len).unwrap_or(&[]);
                    let expect = crate::checksum::Digest::new(stored);
                    self.push_sector(at, sector, Problem::Checksum, Evidence::Checksum { have, expect });
                }
                (_, None) => break,
            }
        }
    }

    fn unsummed(&mut self, at: Logical, offset: usize, data: &[u8], compare: bool) {
        let sectorsize = self.geometry.sectorsize() as usize;
        self.verdict.counters.no_csum += (data.len() / sectorsize) as u64;
        let failed = self.unreadable_in(offset, data.len());
        let first = offset / sectorsize;
        if compare {
            let lost = |sector: usize| failed.binary_search_by_key(&(first + sector), |(s, _)| *s).is_ok();
            for (sector, bytes) in data.chunks_exact(sectorsize).enumerate().filter(|(s, _)| !lost(*s)) {
                self.verdict.fingerprints.push((at + (sector * sectorsize) as u64, xxh3_128(bytes)));
            }
        }
        for (sector, errno) in failed {
            self.push_sector(at, sector - first, Problem::ReadError, Evidence::Errno(*errno));
        }
    }

    fn tree(&mut self, at: Logical, offset: usize, data: &[u8], check: &ParentCheck, compare: bool) {
        let bad = match self.unreadable_in(offset, data.len()).first() {
            Some((_, errno)) => Some((Problem::ReadError, Evidence::Errno(*errno))),
            None => self.judge_block(at, data, check),
        };
        let is_odd = matches!(&bad, Some((Problem::Structure, _)));
        if compare && (bad.is_none() || is_odd) {
            self.verdict.blocks.push(BlockPrint { at, fingerprint: xxh3_128(data), is_odd });
        }
        if let Some((problem, evidence)) = bad {
            let len_bytes = data.len() as u64;
            self.verdict.bad.push(BadPiece { logical: at, len_bytes, run: self.run, problem, evidence });
        }
    }

    fn judge_block(&mut self, at: Logical, data: &[u8], check: &ParentCheck) -> Option<(Problem, Evidence)> {
        let mut marks = PrivateMarks::default();
        let bad = judge_block_noting(at, data, check, self.geometry, &mut marks);
        if bad.is_none() {
            self.verdict.links.extend(BlockLink::of(at, data));
            if !marks.is_empty() {
                self.verdict.marks.push((at, marks));
            }
        }
        bad
    }

    fn push_sector(&mut self, at: Logical, sector: usize, problem: Problem, evidence: Evidence) {
        let len_bytes = u64::from(self.geometry.sectorsize());
        let logical = at + sector as u64 * len_bytes;
        self.verdict.bad.push(BadPiece { logical, len_bytes, run: self.run, problem, evidence });
    }
}

/// The unreadable sectors of `[offset, offset + len)` of a buffer.
pub(super) fn unreadable_in(
    unreadable: &Unreadable,
    offset: usize,
    len: usize,
    sectorsize: u32,
) -> &[(usize, Option<i32>)] {
    let sectorsize = sectorsize as usize;
    let from = unreadable.partition_point(|(sector, _)| *sector < offset / sectorsize);
    let to = unreadable.partition_point(|(sector, _)| *sector < (offset + len).div_ceil(sectorsize));
    unreadable.get(from..to).unwrap_or(&[])
}

/// What is wrong with the bytes of a tree block, if anything.
pub(super) fn judge_block(
    at: Logical,
    data: &[u8],
    check: &ParentCheck,
    geometry: &TreeGeometry,
) -> Option<(Problem, Evidence)> {
    judge_block_noting(at, data, check, geometry, &mut PrivateMarks::default())
}

/// The same; what a vendor's kernel has written is noted in `marks`.
fn judge_block_noting(
    at: Logical,
    data: &[u8],
    check: &ParentCheck,
    geometry: &TreeGeometry,
    marks: &mut PrivateMarks,
) -> Option<(Problem, Evidence)> {
    match check_block(data, at, geometry, check) {
        Err(why) => Some(classify(&why)),
        Ok(_) => format::check_structure_noting(data, &geometry.rules, marks)
            .err()
            .map(|why| (Problem::Structure, Evidence::Text(why.to_string().into()))),
    }
}

/// The problem and evidence of a report.
pub(super) fn classify(why: &BadBlock) -> (Problem, Evidence) {
    fn number(have: u64, expect: u64) -> Evidence {
        Evidence::Number { have, expect }
    }
    match *why {
        BadBlock::Checksum { have, expect } => (Problem::Checksum, Evidence::Checksum { have, expect }),
        BadBlock::Bytenr { have, expect } => (Problem::Bytenr, number(have.raw(), expect.raw())),
        BadBlock::Fsid { have, expect } => (Problem::Fsid, Evidence::Uuid { have, expect }),
        BadBlock::ChunkUuid { have, expect } => (Problem::ChunkUuid, Evidence::Uuid { have, expect }),
        BadBlock::Generation { have, expect } => (Problem::Generation, number(have.raw(), expect.raw())),
        BadBlock::Level { have, expect } => (Problem::Level, number(have.into(), expect.into())),
        BadBlock::Owner { have, expect } => (Problem::Owner, number(have.raw(), expect.raw())),
        BadBlock::FirstKey { have, expect } => (Problem::FirstKey, Evidence::Key { have, expect }),
        BadBlock::ItemCount { .. } => (Problem::Structure, Evidence::Text(why.to_string().into())),
    }
}
