//! P and Q of one row, held against the data as it should be.

use super::{Block, RowJudge, UNIT};
use crate::scrub::finding::{Evidence, Finding, FindingKind, Problem, RepairState};
use crate::scrub::mend::{Fix, Source};
use crate::scrub::sink::Tally;
use crate::scrub::stale::ParitySector;
use crate::scrub::window::RunKind;
use crate::units::{DevicePhysical, MirrorNum};
use crate::volume::Column;
use crate::volume::raid56::{p_parity, pq_parity};
use std::collections::BTreeSet;

impl RowJudge<'_> {
    /// Holds P and Q as read against those of `data`.
    pub(super) fn judge_parity(&self, data: &[Option<&[u8]>], tally: &mut Tally) {
        let mut p = vec![0; UNIT];
        let mut q = vec![0; if self.full.q.is_some() { UNIT } else { 0 }];
        match self.full.q {
            Some(_) => pq_parity(&mut p, &mut q, data),
            None => p_parity(&mut p, data),
        }
        let (p_wrong, q_wrong) =
            (self.wrong_sectors(&self.full.p, &p), self.full.q.map(|q_at| self.wrong_sectors(&q_at, &q)));
        let other_fits = |other: Option<&ParityState>, sector: usize| matches!(other, Some(ParityState::Read { wrong, .. }) if !wrong.contains(&sector));
        let missed = self.missed_column(data, &p, &q);
        let contests = |column: Option<&Column>, state: Option<&ParityState>| {
            let misfits = matches!(state, Some(ParityState::Read { wrong, .. }) if !wrong.is_empty());
            misfits && column.is_some_and(|column| self.has_vote(column))
        };
        let is_contested = contests(self.full.q.as_ref(), q_wrong.as_ref());
        let (column, right) = (&self.full.p, &p[..]);
        let p_column = Parity { column, mirror: 1, right, state: &p_wrong, is_contested, missed: &missed };
        self.report_parity(&p_column, &|s| other_fits(q_wrong.as_ref(), s), tally);
        if let (Some(column), Some(state)) = (&self.full.q, &q_wrong) {
            let is_contested = contests(Some(&self.full.p), Some(&p_wrong));
            let q_column = Parity { column, mirror: 2, right: &q, state, is_contested, missed: &missed };
            self.report_parity(&q_column, &|s| other_fits(Some(&p_wrong), s), tally);
        }
    }

    /// For each sector of the row, what shows that parity is stale there.
    fn missed_column<'b>(
        &'b self,
        data: &'b [Option<&'b [u8]>],
        p: &'b [u8],
        q: &'b [u8],
    ) -> impl Fn(usize) -> Option<usize> + 'b {
        move |sector| {
            let range = sector * self.sectorsize()..(sector + 1) * self.sectorsize();
            let parity = |column: &Column, right: &'b [u8]| {
                let (have, failed) = self.read(column)?;
                (!failed.contains(&sector)).then_some((have.get(range.clone())?, right.get(range.clone())?))
            };
            let data: Vec<Option<&[u8]>> = data.iter().map(|column| (*column)?.get(range.clone())).collect();
            let q = self.full.q.as_ref().and_then(|column| parity(column, q));
            ParitySector { data: &data, p: parity(&self.full.p, p), q }.missed_column()
        }
    }

    fn wrong_sectors(&self, column: &Column, expect: &[u8]) -> ParityState {
        let Some((have, failed)) = self.read(column) else { return ParityState::Absent };
        if failed.is_empty() && have == expect {
            return ParityState::Read { wrong: BTreeSet::new(), unreadable: false };
        }
        let sectorsize = self.sectorsize();
        let pairs = have.chunks(sectorsize).zip(expect.chunks(sectorsize)).enumerate();
        let wrong = pairs.filter(|(s, (h, e))| h != e || failed.contains(s)).map(|(s, _)| s).collect();
        ParityState::Read { wrong, unreadable: !failed.is_empty() }
    }

    fn report_parity(&self, parity: &Parity<'_>, other_fits: &dyn Fn(usize) -> bool, tally: &mut Tally) {
        let ParityState::Read { wrong, unreadable } = parity.state else { return };
        let is_wanted = self.bench.selection.wants_finding(FindingKind::Parity, parity.column.place.devid);
        if wrong.is_empty() || !is_wanted {
            return;
        }
        let sectorsize = self.sectorsize();
        let at = |block: &Block<'_>| block.offset / sectorsize..(block.offset + block.len) / sectorsize;
        let is_unsummed = |block: &Block<'_>| block.run.kind == RunKind::Unsummed;
        let touched = |pick: &dyn Fn(&Block<'_>) -> bool| -> BTreeSet<usize> {
            self.blocks().filter(pick).flat_map(|block| at(&block)).filter(|s| wrong.contains(s)).collect()
        };
        let unsummed = touched(&|block| {
            is_unsummed(block) && at(block).any(|s| wrong.contains(&s)) && !(self.bench.is_unwritten)(block.logical)
        });
        let mut wrong_beside = touched(&|block| !is_unsummed(block));
        wrong_beside.extend(&unsummed);
        // Parity on a member that missed transactions has no say, unless the other one says the same.
        let has_no_say = !self.has_vote(parity.column) && !parity.is_contested;
        // What else lies in the row may be what parity is needed for.
        let is_accounted = || (self.bench.is_accounted)(&self.window.chunk);
        if has_no_say && self.bench.mending.is_some() && is_accounted() {
            let idle: BTreeSet<usize> = wrong.difference(&wrong_beside).copied().collect();
            self.mend_parity(parity, &self.parity_finding(parity, *unreadable), &idle, 0, tally);
        }
        if wrong_beside.is_empty() {
            return;
        }
        let decided = (has_no_say || unsummed.iter().all(|sector| other_fits(*sector))) && is_accounted();
        let place = parity.column.place;
        let counters = tally.device(place.devid);
        counters.parity_errors += 1;
        if *unreadable {
            counters.read_errors += (UNIT / sectorsize) as u64;
        }
        let finding = Finding {
            evidence: match self.staleness(parity.column) {
                Evidence::None => stale_evidence(&wrong_beside, parity.missed),
                stale => stale,
            },
            repair: self.bench.prospect_on(
                parity.column.place.devid,
                if decided { RepairState::Possible } else { RepairState::Undecidable },
            ),
            ..self.parity_finding(parity, *unreadable)
        };
        if decided && self.bench.mending.is_some() {
            self.mend_parity(parity, &finding, &wrong_beside, 1, tally);
        }
        tally.find(finding, 0);
    }

    fn parity_finding(&self, parity: &Parity<'_>, unreadable: bool) -> Finding {
        let place = parity.column.place;
        Finding {
            kind: FindingKind::Parity,
            problem: if unreadable { Problem::ReadError } else { Problem::ParityMismatch },
            logical: self.full.logical,
            length: UNIT as u32,
            mirror: MirrorNum::new(parity.mirror),
            devid: place.devid,
            physical: place.physical,
            profile: self.window.chunk.profile(),
            evidence: Evidence::None,
            repair: RepairState::Possible,
            owner: None,
            below: Vec::new(),
        }
    }

    /// Notes the right bytes of these wrong sectors, and of no others; they answer `findings` findings.
    fn mend_parity(
        &self,
        parity: &Parity<'_>,
        finding: &Finding,
        wrong: &BTreeSet<usize>,
        findings: u64,
        tally: &mut Tally,
    ) {
        let sectorsize = self.sectorsize();
        let Some((have, failed)) = self.read(parity.column) else { return };
        let first = wrong.first().copied();
        for sector in wrong {
            let range = sector * sectorsize..(sector + 1) * sectorsize;
            let (Some(right), Some(have)) = (parity.right.get(range.clone()), have.get(range.clone())) else {
                continue;
            };
            let place = parity.column.place;
            let fix = Fix {
                kind: finding.kind,
                problem: finding.problem,
                logical: finding.logical,
                mirror: finding.mirror,
                member: DevicePhysical { physical: place.physical + range.start as u64, ..place },
                place: DevicePhysical { physical: place.physical + range.start as u64, ..place },
                source: Source::RowData,
                right,
                before: have,
                lost: if failed.contains(sector) { &[0] } else { &[] },
                findings: if Some(*sector) == first { findings } else { 0 },
                sectors: 0,
            };
            fix.push(&mut tally.mends, sectorsize);
        }
    }
}

/// One parity column of the row: as it should be, and how what was read differs.
struct Parity<'a> {
    column: &'a Column,
    mirror: u8,
    right: &'a [u8],
    state: &'a ParityState,
    /// The other parity is on a current member, and does not fit either.
    is_contested: bool,
    /// Of a wrong sector: the data column whose last write parity has missed.
    missed: &'a dyn Fn(usize) -> Option<usize>,
}

/// Says so where all that is wrong is stale.
fn stale_evidence(wrong: &BTreeSet<usize>, missed: &dyn Fn(usize) -> Option<usize>) -> Evidence {
    let columns: Option<BTreeSet<usize>> = wrong.iter().map(|sector| missed(*sector)).collect();
    let Some(columns) = columns.filter(|columns| !columns.is_empty()) else { return Evidence::None };
    let columns: Vec<String> = columns.iter().map(ToString::to_string).collect();
    Evidence::Text(
        format!("stale since an unclean stop: without the last write of data column {}", columns.join(", ")).into(),
    )
}

/// How a parity column compares with what it should be.
enum ParityState {
    /// Its device is missing.
    Absent,
    /// Sectors that differ or could not be read.
    Read { wrong: BTreeSet<usize>, unreadable: bool },
}
