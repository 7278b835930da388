//! Columns on members that missed transactions. What a checksum proves there is right; all else of the column is taken as
//! lost, and given by the rest of its row, where all of that is on current members or verified.
//!
//! Sectors beside allocated ones count, allocated or not: parity has been computed over what should be there. The others
//! of the row are brought along without a finding of their own, so that the whole row adds up.

use super::{Block, ColumnBytes, RowJudge, UNIT, put_bytes};
use crate::scrub::finding::{Evidence, Problem, RepairState};
use crate::scrub::judge::run_at;
use crate::scrub::mend::{Fix, Source};
use crate::scrub::sink::Tally;
use crate::scrub::verify::BadPiece;
use crate::scrub::window::{Run, RunKind};
use crate::units::{DevicePhysical, Logical, MirrorNum};
use crate::volume::raid56::{RecoverySource, Row, recover};
use crate::volume::{Column, STRIPE_LEN_BYTES, Standing};

/// One sector of a data column on a member that missed transactions, that no checksum proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Suspect {
    pub(super) column: usize,
    pub(super) sector: usize,
    /// Is something allocated in this sector of the row?
    pub(super) counts: bool,
}

impl<'a> RowJudge<'a> {
    pub(super) fn has_vote(&self, column: &Column) -> bool {
        self.bench.has_vote(column.place.devid)
    }

    /// Is some column of the row on a member that missed transactions?
    pub(super) fn has_stale(&self) -> bool {
        let columns = self.full.data.iter().chain([&self.full.p]).chain(self.full.q.as_ref());
        columns.filter(|column| self.bench.is_present(column.place.devid)).any(|column| !self.has_vote(column))
    }

    /// The sectors that nothing proves. Their bytes are not believed from here on.
    pub(super) fn suspects(&self, columns: &mut [ColumnBytes]) -> Vec<Suspect> {
        if !self.has_stale() {
            return Vec::new();
        }
        let sectorsize = self.sectorsize();
        let mut is_allocated = vec![false; UNIT / sectorsize];
        let mut is_proved = vec![vec![false; UNIT / sectorsize]; columns.len()];
        for block in self.blocks() {
            for sector in block.offset / sectorsize..(block.offset + block.len) / sectorsize {
                mark(&mut is_allocated, sector, true);
                if let Some(column) = is_proved.get_mut(block.column).filter(|_| block.run.kind != RunKind::Unsummed) {
                    mark(column, sector, true);
                }
            }
        }
        let mut suspects = Vec::new();
        for (number, (column, proved)) in self.full.data.iter().zip(&is_proved).enumerate() {
            let Some(bytes) = columns.get_mut(number).filter(|c| c.bytes.is_some() && !self.has_vote(column)) else {
                continue;
            };
            for sector in (0..UNIT / sectorsize).filter(|s| proved.get(*s) == Some(&false)) {
                mark(&mut bytes.unproved, sector, true);
                mark(&mut bytes.wrong, sector, true);
                let counts = is_allocated.get(sector) == Some(&true);
                suspects.push(Suspect { column: number, sector, counts });
            }
        }
        suspects
    }

    /// Gives one suspect what the rest of its row says; false where the rest does not say it.
    pub(super) fn settle(&self, suspect: Suspect, columns: &mut [ColumnBytes]) -> Option<Source> {
        let (bytes, source) = self.by_the_rest(suspect, columns)?;
        put_bytes(columns, suspect.column, suspect.sector * self.sectorsize(), &bytes, self.sectorsize());
        Some(Source::Rebuilt(source))
    }

    fn by_the_rest(&self, suspect: Suspect, columns: &[ColumnBytes]) -> Option<(Vec<u8>, RecoverySource)> {
        let Suspect { column: target, sector, .. } = suspect;
        let range = sector * self.sectorsize()..(sector + 1) * self.sectorsize();
        let is_sound = |c: &ColumnBytes| c.wrong.get(sector) == Some(&false) && c.unproved.get(sector) == Some(&false);
        let column = |(number, c): (usize, &'_ ColumnBytes)| {
            (number != target && is_sound(c))
                .then(|| c.bytes.as_ref()?.get(range.clone()).map(<[u8]>::to_vec))
                .flatten()
        };
        let owned: Vec<Option<Vec<u8>>> = columns.iter().enumerate().map(column).collect();
        let data: Vec<Option<&[u8]>> = owned.iter().map(Option::as_deref).collect();
        let parity = |c: &Column| {
            let (bytes, failed) = self.read(c).filter(|_| self.has_vote(c))?;
            (!failed.contains(&sector)).then_some(bytes)?.get(range.clone())
        };
        let row = Row { data: &data, p: parity(&self.full.p), q: self.full.q.as_ref().and_then(parity) };
        let lost = data.iter().filter(|column| column.is_none()).count();
        let sources = match (lost, row.p.is_some(), row.q.is_some()) {
            (1, true, true) => 2,
            (1, _, _) | (2, true, true) => 1,
            _ => return None,
        };
        let mut said: Vec<Vec<u8>> = Vec::new();
        recover(
            row,
            target,
            self.sectorsize(),
            |_, _| false,
            |bytes| {
                said.push(bytes.to_vec());
                said.len() >= sources
            },
        );
        let all_agree = said.windows(2).all(|pair| matches!(pair, [one, other] if one == other));
        let source = match (lost, row.p.is_some()) {
            (1, true) => RecoverySource::P,
            (1, false) => RecoverySource::Q,
            _ => RecoverySource::PQ { with: data.iter().enumerate().position(|(n, c)| n != target && c.is_none())? },
        };
        (said.len() == sources && all_agree).then(|| said.swap_remove(0)).map(|bytes| (bytes, source))
    }

    /// Tells what came out of the suspects, and notes the right bytes of those that were wrong. A suspect that is not
    /// allocated and cannot be settled is as it is.
    pub(super) fn report_suspects(
        &self,
        suspects: &[(Suspect, Option<Source>)],
        columns: &mut [ColumnBytes],
        tally: &mut Tally,
    ) {
        for (suspect, source) in suspects {
            let Some(column) = self.full.data.get(suspect.column) else { continue };
            let Some((have, failed)) = self.read(column) else { continue };
            let (at, run) = self.owner_of(*suspect);
            let is_wrong = self.is_changed(*suspect, columns, have);
            let lacks_content = |run: &Run| run.kind == RunKind::Unsummed && (self.bench.is_unwritten)(at);
            let is_idle = match run {
                Some(run) => lacks_content(run),
                None => source.is_none() || !is_wrong || (suspect.counts && self.stands_beside_nothing(suspect.sector)),
            };
            let stays = source.is_none() && (run.is_none() || is_idle);
            if let Some(own) = columns.get_mut(suspect.column).filter(|_| stays) {
                mark(&mut own.wrong, suspect.sector, false);
            }
            // What cannot be read is told as that.
            let is_reported = run.is_some() && failed.contains(&suspect.sector);
            if is_idle || is_reported || (source.is_some() && !is_wrong) {
                continue;
            }
            let (problem, repair) = match source {
                Some(_) => (Problem::CopiesDiffer, RepairState::Possible),
                None => (Problem::Generation, RepairState::Undecidable),
            };
            if let (Some(source), true) = (source, self.bench.mending.is_some()) {
                self.mend_suspect(*suspect, at, *source, (have, &failed), columns, tally);
            }
            if !suspect.counts {
                continue;
            }
            let evidence = self.staleness(column);
            let piece = BadPiece { logical: at, len_bytes: self.sectorsize() as u64, run: 0, problem, evidence };
            let unallocated =
                Run { logical: at, len_bytes: piece.len_bytes, kind: RunKind::Unsummed, continues: false };
            self.tell(run.unwrap_or(&unallocated), suspect.column, &piece, repair, tally);
        }
    }

    fn mend_suspect(
        &self,
        suspect: Suspect,
        at: Logical,
        source: Source,
        (have, failed): (&[u8], &[usize]),
        columns: &[ColumnBytes],
        tally: &mut Tally,
    ) {
        let range = suspect.sector * self.sectorsize()..(suspect.sector + 1) * self.sectorsize();
        let right = columns.get(suspect.column).and_then(|c| c.bytes.as_ref()?.get(range.clone()));
        let column = self.full.data.get(suspect.column);
        let (Some(right), Some(have), Some(column)) = (right, have.get(range.clone()), column) else { return };
        let fix = Fix {
            kind: crate::scrub::finding::FindingKind::Data,
            problem: Problem::CopiesDiffer,
            logical: at,
            mirror: MirrorNum::new(1),
            member: DevicePhysical { physical: column.place.physical + range.start as u64, ..column.place },
            place: DevicePhysical { physical: column.place.physical + range.start as u64, ..column.place },
            source,
            right,
            before: have,
            lost: if failed.contains(&suspect.sector) { &[0] } else { &[] },
            findings: u64::from(suspect.counts),
            sectors: u64::from(suspect.counts),
        };
        fix.push(&mut tally.mends, self.sectorsize());
    }

    fn is_changed(&self, suspect: Suspect, columns: &[ColumnBytes], have: &[u8]) -> bool {
        let range = suspect.sector * self.sectorsize()..(suspect.sector + 1) * self.sectorsize();
        let now = columns.get(suspect.column).and_then(|c| c.bytes.as_ref()?.get(range.clone()));
        now != have.get(range)
    }

    /// Is all that is allocated in this sector of the row without content? Parity need not fit there.
    fn stands_beside_nothing(&self, sector: usize) -> bool {
        let holds = |block: &Block<'_>| {
            (block.offset / self.sectorsize()..(block.offset + block.len) / self.sectorsize()).contains(&sector)
        };
        let lacks_content =
            |block: Block<'_>| block.run.kind == RunKind::Unsummed && (self.bench.is_unwritten)(block.logical);
        self.blocks().filter(holds).all(lacks_content)
    }

    /// The address of a suspect, and the run that holds it where it is allocated.
    fn owner_of(&self, suspect: Suspect) -> (Logical, Option<&'a Run>) {
        let offset = suspect.column as u64 * STRIPE_LEN_BYTES + (suspect.sector * self.sectorsize()) as u64;
        let at = self.full.logical + offset;
        (at, run_at(self.window, at).and_then(|number| self.window.runs.get(number)))
    }

    /// What there is to say of a column on a member that missed transactions.
    pub(super) fn staleness(&self, column: &Column) -> Evidence {
        let behind = (self.bench.standing)(column.place.devid).and_then(Standing::behind);
        behind.map_or(Evidence::None, |(have, newest)| Evidence::Stale { have, newest })
    }
}

fn mark(flags: &mut [bool], sector: usize, value: bool) {
    if let Some(flag) = flags.get_mut(sector) {
        *flag = value;
    }
}
