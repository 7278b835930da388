//! Judges the rows of a RAID5/6 window: rebuilds what is bad, then holds P and Q against the data as it should be.
//!
//! Only those sectors of parity count that stand beside an allocated sector: the kernel writes no others, and mkfs leaves
//! rubbish in between (`scrub_raid56_parity_stripe` masks them likewise). Parity is unknown, and not judged, where a block
//! of the row can be neither read nor rebuilt. A row that holds data without checksums and does not add up cannot be
//! decided, unless Q agrees with the data against P or P against Q. Data without content (preallocated, never written)
//! counts as not allocated. Columns on members that missed transactions: [`suspects`].

mod lost;
mod pq;
mod suspects;

use super::finding::{Evidence, Problem, RepairState};
use super::judge::{Bench, Found, accept, lost_copy, salvage};
use super::mend::{Fix, LostCopy, MAX_LOST_COPIES, Source};
use super::sink::Tally;
use super::stream::StripeCopy;
use super::verify::BadPiece;
use super::window::{Run, RunKind, Window};
use crate::units::{DevicePhysical, Logical, MirrorNum};
use crate::volume::raid56::{Recovered, Row, RowColumn, recover};
use crate::volume::{Column, FullStripe, MirrorCopy, STRIPE_LEN_BYTES};
use std::collections::{BTreeMap, BTreeSet};
use suspects::Suspect;

const UNIT: usize = STRIPE_LEN_BYTES as usize;

/// Adds to `tally` what the columns of a parity window say together.
pub(super) fn judge_rows(window: &Window, copies: &[StripeCopy], bench: &Bench<'_>, tally: &mut Tally) {
    let rows: BTreeSet<u64> = window.rows().collect();
    for full in rows.into_iter().filter_map(|row| window.chunk.full_stripe_of_row(row)) {
        RowJudge { window, copies, bench, full: &full }.judge(tally);
    }
}

struct RowJudge<'a> {
    window: &'a Window,
    copies: &'a [StripeCopy],
    bench: &'a Bench<'a>,
    full: &'a FullStripe,
}

/// Tells whether bytes are the right ones of a block; what it has seen may matter.
type AcceptInTurn<'a> = Box<dyn FnMut(&[u8]) -> bool + 'a>;

/// One block of the row.
#[derive(Clone, Copy)]
struct Block<'a> {
    run: &'a Run,
    logical: Logical,
    column: usize,
    /// In its column.
    offset: usize,
    len: usize,
}

/// What could be rebuilt of a row.
struct Rebuilt<'a> {
    /// Blocks that stay wrong.
    open: Vec<Block<'a>>,
    /// Where the bytes of the others come from.
    sources: BTreeMap<Logical, Source>,
    /// Sectors that nothing proved, each with what gave its bytes.
    suspects: Vec<(Suspect, Option<Source>)>,
}

/// One column as it was read, or as it has been mended.
struct ColumnBytes {
    bytes: Option<Vec<u8>>,
    /// Sectors whose bytes are not to be believed: unreadable, or part of a bad block.
    wrong: Vec<bool>,
    unreadable: Vec<bool>,
    /// Sectors that nothing proves, on a member that missed transactions.
    unproved: Vec<bool>,
}

impl<'a> RowJudge<'a> {
    fn judge(&self, tally: &mut Tally) {
        let bad: Vec<(usize, &BadPiece)> = self.bad_pieces().collect();
        let columns = || self.full.data.iter().chain([&self.full.p]).chain(self.full.q.as_ref());
        let whole = columns().all(|c| self.read(c).is_some_and(|(_, failed)| failed.is_empty()));
        if bad.is_empty() && whole && !self.bench.judges_parity {
            return;
        }
        if bad.is_empty() && whole && !self.has_stale() {
            let data: Vec<Option<&[u8]>> = self.full.data.iter().map(|c| self.read(c).map(|(b, _)| b)).collect();
            return self.judge_parity(&data, tally);
        }
        let mut columns: Vec<ColumnBytes> = self.full.data.iter().map(|c| self.load(c)).collect();
        let is_odd = |piece: &BadPiece| self.window.runs.get(piece.run).is_some_and(|run| piece.is_odd_block(run));
        for (column, piece) in bad.iter().filter(|(_, piece)| !is_odd(piece)) {
            let from = self.offset_in_column(piece.logical) / self.sectorsize();
            let sectors = piece.len_bytes as usize / self.sectorsize();
            columns
                .get_mut(*column)
                .into_iter()
                .flat_map(|c| &mut c.wrong)
                .skip(from)
                .take(sectors)
                .for_each(|w| *w = true);
        }
        let suspects = self.suspects(&mut columns);
        let Rebuilt { mut open, sources, suspects } = self.rebuild_all(&mut columns, suspects);
        self.report_blocks(&bad, &open, &columns, tally);
        self.report_suspects(&suspects, &mut columns, tally);
        open.retain(|block| self.is_open(&columns, block));
        if self.bench.mending.is_some() {
            self.mend_blocks(&bad, &columns, &sources, tally);
        }
        let known = open.is_empty() && columns.iter().all(|c| c.bytes.is_some() && !c.wrong.contains(&true));
        if known && self.bench.judges_parity {
            let data: Vec<Option<&[u8]>> = columns.iter().map(|c| c.bytes.as_deref()).collect();
            self.judge_parity(&data, tally);
        } else {
            tally.unjudged_parity += 1;
            let columns = self.full.data.iter().chain([&self.full.p]).chain(self.full.q.as_ref());
            columns.for_each(|column| tally.leave(column.place.devid, 1));
        }
        let mut stripes = std::mem::take(&mut tally.stripes);
        for builder in &mut stripes {
            tally.rebuilt.add(&self.fill_lost(&mut columns, builder));
        }
        tally.stripes = stripes;
    }

    fn sectorsize(&self) -> usize {
        self.bench.geometry.sectorsize() as usize
    }

    fn offset_in_column(&self, at: Logical) -> usize {
        ((at - self.full.logical) % STRIPE_LEN_BYTES) as usize
    }

    /// What was read of a column, and its unreadable sectors (numbers within the column).
    fn read(&self, column: &Column) -> Option<(&'a [u8], Vec<usize>)> {
        let copy = self.copies.iter().find(|copy| copy.stripe == column.stripe)?;
        let offset = (self.full.row * STRIPE_LEN_BYTES - self.window.from_bytes) as usize;
        let bytes = copy.buffer.as_ref()?.get(offset..offset + UNIT)?;
        let first = offset / self.sectorsize();
        let failed = super::verify::unreadable_in(&copy.unreadable, offset, UNIT, self.bench.geometry.sectorsize());
        Some((bytes, failed.iter().map(|(sector, _)| sector - first).collect()))
    }

    fn load(&self, column: &Column) -> ColumnBytes {
        let sectors = UNIT / self.sectorsize();
        let read = self.read(column);
        let is_lost = |sector: usize| read.as_ref().is_none_or(|(_, failed)| failed.contains(&sector));
        let unreadable: Vec<bool> = (0..sectors).map(is_lost).collect();
        let bytes = read.as_ref().map(|(bytes, _)| bytes.to_vec());
        ColumnBytes { bytes, wrong: unreadable.clone(), unreadable, unproved: vec![false; sectors] }
    }

    /// Bad blocks of the row, with their columns.
    fn bad_pieces(&self) -> impl Iterator<Item = (usize, &'a BadPiece)> + '_ {
        let end = self.full.logical + self.full.data.len() as u64 * STRIPE_LEN_BYTES;
        self.full.data.iter().enumerate().flat_map(move |(number, column)| {
            let bad = self.copies.iter().find(|c| c.stripe == column.stripe).map_or(&[][..], |c| &c.verdict.bad);
            bad.iter().filter(move |b| b.logical >= self.full.logical && b.logical < end).map(move |b| (number, b))
        })
    }

    /// All blocks of the row.
    fn blocks(&self) -> impl Iterator<Item = Block<'a>> + '_ {
        let window = self.window;
        let end = self.full.logical + self.full.data.len() as u64 * STRIPE_LEN_BYTES;
        let from = window.runs.partition_point(|run| run.end() <= self.full.logical);
        window.runs.iter().skip(from).take_while(move |run| run.logical < end).flat_map(move |run| {
            let step = match run.kind {
                RunKind::Tree(_) => run.len_bytes,
                RunKind::Summed(_) | RunKind::Unsummed => self.sectorsize() as u64,
            };
            let first = run.logical.max(self.full.logical);
            let count = (run.end().min(end) - first) / step;
            (0..count).map(move |nth| {
                let logical = first + nth * step;
                let column = ((logical - self.full.logical) / STRIPE_LEN_BYTES) as usize;
                Block { run, logical, column, offset: self.offset_in_column(logical), len: step as usize }
            })
        })
    }

    fn is_open(&self, columns: &[ColumnBytes], block: &Block<'_>) -> bool {
        let (from, len) = (block.offset / self.sectorsize(), block.len / self.sectorsize());
        columns.get(block.column).is_none_or(|c| c.wrong.iter().skip(from).take(len).any(|w| *w))
    }

    /// Puts the right bytes in place of all that is wrong and can be rebuilt. Each success may make the next possible.
    fn rebuild_all(&self, columns: &mut [ColumnBytes], suspects: Vec<Suspect>) -> Rebuilt<'a> {
        let mut sources = BTreeMap::new();
        let sectorsize = self.sectorsize();
        let mut suspects: Vec<(Suspect, Option<Source>)> =
            suspects.into_iter().map(|suspect| (suspect, None)).collect();
        let is_suspect = |columns: &[ColumnBytes], block: &Block<'_>| {
            let unproved = columns.get(block.column).map_or(&[][..], |c| &c.unproved);
            unproved.get(block.offset / sectorsize) == Some(&true)
        };
        let mut open: Vec<Block<'a>> = self.blocks().filter(|block| self.is_open(columns, block)).collect();
        loop {
            let before = open.len();
            let mut settled = 0;
            let mut settle = |columns: &mut [ColumnBytes], block: &Block<'a>, right: Option<(Vec<u8>, Source)>| {
                let Some((bytes, source)) = right else { return true };
                put(columns, block, &bytes, sectorsize);
                sources.insert(block.logical, source);
                false
            };
            open.retain(|block| is_suspect(columns, block) || settle(columns, block, self.rebuild(block, columns)));
            for (suspect, source) in suspects.iter_mut().filter(|(_, source)| source.is_none()) {
                *source = self.settle(*suspect, columns);
                settled += usize::from(source.is_some());
            }
            if open.len() == before && settled == 0 {
                open.retain(|block| settle(columns, block, self.salvage(block, columns)));
            }
            if open.len() == before && settled == 0 {
                break;
            }
        }
        // What the rest of the row says of an allocated suspect that cannot be read mends it as any other block.
        for (suspect, source) in &suspects {
            let at =
                self.full.logical + suspect.column as u64 * STRIPE_LEN_BYTES + (suspect.sector * sectorsize) as u64;
            sources.extend(source.map(|source| (at, source)));
        }
        open.retain(|block| self.is_open(columns, block));
        Rebuilt { open, sources, suspects }
    }

    /// The last attempt at a block that no combination of columns gives, where the user has asked for it: from what is
    /// there and from what the combinations give.
    fn salvage(&self, block: &Block<'a>, columns: &[ColumnBytes]) -> Option<(Vec<u8>, Source)> {
        let sectorsize = self.sectorsize();
        let stored = |column: usize| {
            let column = columns.get(column)?;
            let have = column.bytes.as_ref()?.get(block.offset..block.offset + block.len)?;
            let failed = column.unreadable.iter().skip(block.offset / sectorsize).take(block.len / sectorsize);
            let failed = failed.enumerate().filter(|(_, failed)| **failed).map(|(sector, _)| sector);
            Some(lost_copy(have, failed, sectorsize))
        };
        salvage(self.window, block.run, block.logical, self.bench.mending?, self.bench, || {
            let mut copies: Vec<LostCopy<'_>> = stored(block.column).into_iter().collect();
            self.recover(block, columns, |bytes| {
                let whole = LostCopy { bytes: bytes.to_vec().into(), unreadable: Vec::new() };
                if copies.len() < MAX_LOST_COPIES && !copies.contains(&whole) {
                    copies.push(whole);
                }
                false
            });
            copies
        })
    }

    fn rebuild(&self, block: &Block<'a>, columns: &[ColumnBytes]) -> Option<(Vec<u8>, Source)> {
        let mut judge = self.judge_bytes(block);
        let found = self.recover(block, columns, |bytes| judge(bytes))?;
        let source = found.source().map_or(Source::RebuiltInParts, Source::Rebuilt);
        Some((found.bytes, source))
    }

    /// The first combination of columns that `accept` takes.
    fn recover(
        &self,
        block: &Block<'a>,
        columns: &[ColumnBytes],
        accept: impl FnMut(&[u8]) -> bool,
    ) -> Option<Recovered> {
        let sectorsize = self.sectorsize();
        let (from, to) = (block.offset, block.offset + block.len);
        let sectors = from / sectorsize..to / sectorsize;
        let lost = |c: &ColumnBytes| sectors.clone().all(|s| c.unreadable.get(s).copied().unwrap_or(true));
        let slice = |c: &'_ ColumnBytes| {
            c.bytes.as_ref().filter(|_| !lost(c)).and_then(|b| b.get(from..to).map(<[u8]>::to_vec))
        };
        let owned: Vec<Option<Vec<u8>>> = columns.iter().map(slice).collect();
        let data: Vec<Option<&[u8]>> = owned.iter().map(Option::as_deref).collect();
        let is_proved = block.run.kind != RunKind::Unsummed;
        let parity = |c: &Column| {
            let (bytes, failed) = self.read(c).filter(|_| is_proved || self.has_vote(c))?;
            (!sectors.clone().all(|s| failed.contains(&s))).then_some(bytes)?.get(from..to)
        };
        let row = Row { data: &data, p: parity(&self.full.p), q: self.full.q.as_ref().and_then(parity) };
        let known_bad = |sector: usize, column: RowColumn| match column {
            RowColumn::Data(k) => {
                columns.get(k).and_then(|c| c.wrong.get(from / sectorsize + sector)).copied().unwrap_or(true)
            }
            RowColumn::P | RowColumn::Q => false,
        };
        recover(row, block.column, sectorsize, known_bad, accept)
    }

    /// Whether bytes are the right ones for a block. Without a checksum, only where P and Q say the same.
    fn judge_bytes(&self, block: &Block<'a>) -> AcceptInTurn<'a> {
        if let Some(accept) = accept(self.window, block.run, block.logical, self.bench.geometry) {
            return Box::new(accept);
        }
        let has_q = self.full.q.is_some();
        let mut from_p: Option<Vec<u8>> = None;
        let mut tries = 0;
        Box::new(move |bytes| {
            tries += 1;
            match (&from_p, tries) {
                (Some(p), 2) => has_q && p == bytes,
                (None, 1) => {
                    from_p = Some(bytes.to_vec());
                    false
                }
                _ => false,
            }
        })
    }

    /// Notes the right bytes of the bad blocks on present devices.
    fn mend_blocks(
        &self,
        bad: &[(usize, &BadPiece)],
        columns: &[ColumnBytes],
        sources: &BTreeMap<Logical, Source>,
        tally: &mut Tally,
    ) {
        for (number, piece) in bad {
            let (Some(source), Some(run)) = (sources.get(&piece.logical), self.window.runs.get(piece.run)) else {
                continue;
            };
            let Some(column) = self.full.data.get(*number) else { continue };
            let Some((have, failed)) = self.read(column) else { continue };
            let (from, len) = (self.offset_in_column(piece.logical), piece.len_bytes as usize);
            let right = columns.get(*number).and_then(|c| c.bytes.as_ref()?.get(from..from + len));
            let (Some(right), Some(have)) = (right, have.get(from..from + len)) else { continue };
            let first = from / self.sectorsize();
            let lost: Vec<usize> = failed.iter().filter_map(|s| s.checked_sub(first)).collect();
            let lost: Vec<usize> = lost.into_iter().filter(|s| s * self.sectorsize() < len).collect();
            let fix = Fix {
                kind: run.finding_kind(),
                problem: piece.problem,
                logical: piece.logical,
                mirror: MirrorNum::new(1),
                member: DevicePhysical { physical: column.place.physical + from as u64, ..column.place },
                place: DevicePhysical { physical: column.place.physical + from as u64, ..column.place },
                source: *source,
                right,
                before: have,
                lost: &lost,
                findings: 1,
                sectors: self.bench.sectors(piece.len_bytes),
            };
            fix.push(&mut tally.mends, self.sectorsize());
        }
    }

    /// A block without checksum on a missing device that the rest of its row gives is as good as the last copy of a
    /// RAID1: it cannot be proven, and nothing speaks against it.
    fn has_unproven_source(&self, block: &Block<'_>, columns: &[ColumnBytes]) -> bool {
        let sectors = block.offset / self.sectorsize()..(block.offset + block.len) / self.sectorsize();
        let none = |flags: &[bool]| flags.get(sectors.clone()).is_some_and(|flags| !flags.contains(&true));
        let is_whole = |c: &ColumnBytes| c.bytes.is_some() && none(&c.wrong) && none(&c.unproved);
        let mut others = columns.iter().enumerate().filter(|(number, _)| *number != block.column);
        let parity = [Some(&self.full.p), self.full.q.as_ref()].into_iter().flatten();
        let mut stands = parity
            .filter(|c| self.has_vote(c))
            .filter_map(|c| self.read(c))
            .filter(|(_, failed)| !failed.iter().any(|s| sectors.contains(s)));
        block.run.kind == RunKind::Unsummed && others.all(|(_, c)| is_whole(c)) && stands.next().is_some()
    }

    fn report_blocks(
        &self,
        bad: &[(usize, &BadPiece)],
        open: &[Block<'a>],
        columns: &[ColumnBytes],
        tally: &mut Tally,
    ) {
        let is_still_open = |at: Logical| open.iter().any(|block| block.logical == at);
        for (column, piece) in bad {
            let Some(run) = self.window.runs.get(piece.run) else { continue };
            let is_odd = piece.is_odd_block(run);
            let repair = if is_odd { RepairState::Impossible } else { prospect(run, is_still_open(piece.logical)) };
            self.tell(run, *column, piece, repair, tally);
        }
        let reported: BTreeSet<Logical> = bad.iter().map(|(_, piece)| piece.logical).collect();
        let lacks_content = |b: &Block<'_>| b.run.kind == RunKind::Unsummed && (self.bench.is_unwritten)(b.logical);
        let is_there = |b: &&Block<'_>| self.full.data.get(b.column).is_some_and(|c| self.read(c).is_some());
        let absent = open.iter().filter(|b| !is_there(b) && !reported.contains(&b.logical));
        for block in absent.filter(|b| !lacks_content(b) && !self.has_unproven_source(b, columns)) {
            let (problem, evidence) = (Problem::Missing, Evidence::None);
            let len_bytes = block.len as u64;
            let piece = BadPiece { logical: block.logical, len_bytes, run: 0, problem, evidence };
            self.tell(block.run, block.column, &piece, prospect(block.run, true), tally);
        }
    }

    fn tell(&self, run: &Run, column: usize, piece: &BadPiece, repair: RepairState, tally: &mut Tally) {
        let Some(at) = self.full.data.get(column) else { return };
        let mut place = at.place;
        place.physical = place.physical + self.offset_in_column(piece.logical) as u64;
        let copy = MirrorCopy { mirror: MirrorNum::new(1), stripe: at.stripe, place };
        let found = Found {
            window: self.window,
            run,
            at: piece.logical,
            len_bytes: piece.len_bytes,
            copy: &copy,
            problem: piece.problem,
            evidence: piece.evidence.clone(),
            repair,
        };
        found.tell(self.bench, tally);
    }
}

fn put(columns: &mut [ColumnBytes], block: &Block<'_>, bytes: &[u8], sectorsize: usize) {
    put_bytes(columns, block.column, block.offset, bytes, sectorsize);
}

fn put_bytes(columns: &mut [ColumnBytes], column: usize, offset: usize, bytes: &[u8], sectorsize: usize) {
    let Some(column) = columns.get_mut(column) else { return };
    let all = column.bytes.get_or_insert_with(|| vec![0; UNIT]);
    if let Some(to) = all.get_mut(offset..offset + bytes.len()) {
        to.copy_from_slice(bytes);
    }
    let sectors = offset / sectorsize..(offset + bytes.len()) / sectorsize;
    for flags in [&mut column.wrong, &mut column.unreadable, &mut column.unproved] {
        flags.get_mut(sectors.clone()).into_iter().flatten().for_each(|flag| *flag = false);
    }
}

/// What can be done about a block of the row that is bad.
fn prospect(run: &Run, is_open: bool) -> RepairState {
    match (is_open, run.kind) {
        (false, _) => RepairState::Possible,
        (true, RunKind::Unsummed) => RepairState::Undecidable,
        (true, _) => RepairState::Impossible,
    }
}
