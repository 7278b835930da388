//! A tree block that does not lie in one piece inside one window: its copies are read one by one. Old file systems, made
//! without alignment, have a few.

use super::finding::{Evidence, Problem, RepairState};
use super::judge::{Bench, Found};
use super::mend::{Fix, Source};
use super::sink::Tally;
use super::verify::judge_block;
use super::window::{Run, RunKind, Window};
use crate::filesystem::Filesystem;
use crate::units::MirrorNum;
use crate::volume::CopyError;

/// Reads and judges all copies of the block in `run`.
pub(super) fn judge_stray(fs: &Filesystem, window: &Window, run: &Run, bench: &Bench<'_>, tally: &mut Tally) {
    let RunKind::Tree(check) = run.kind else { return };
    let mut right: Option<(Vec<u8>, MirrorNum)> = None;
    let verdicts: Vec<Option<(Problem, Evidence)>> = (1..=window.chunk.mirrors())
        .map(MirrorNum::new)
        .map(|mirror| {
            let mut bytes = vec![0; run.len_bytes as usize];
            let verdict = match fs.volume().read_copy(run.logical, mirror, &mut bytes) {
                Ok(()) => judge_block(run.logical, &bytes, &check, fs.geometry()),
                Err(CopyError::Io { errno, .. }) => Some((Problem::ReadError, Evidence::Errno(errno))),
                Err(_) => Some((Problem::Missing, Evidence::None)),
            };
            if verdict.is_none() {
                right.get_or_insert((bytes, mirror));
            }
            verdict
        })
        .collect();
    let repair = if right.is_some() { RepairState::Possible } else { RepairState::Impossible };
    for (copy, verdict) in window.chunk.copies(run.logical).iter().zip(verdicts) {
        let counters = tally.device(copy.place.devid);
        counters.tree_extents_scrubbed += 1;
        counters.tree_bytes_scrubbed += run.len_bytes;
        let Some((problem, evidence)) = verdict.filter(|(p, _)| right.is_none() || *p != Problem::Missing) else {
            continue;
        };
        if let (Some((bytes, from)), true) = (&right, bench.mending.is_some()) {
            mend_copy(fs, window, run, copy.mirror, problem, (bytes, *from), tally);
        }
        let (at, len_bytes) = (run.logical, run.len_bytes);
        Found { window, run, at, len_bytes, copy, problem, evidence, repair }.tell(bench, tally);
    }
}

/// Notes the right bytes of one copy, piece by piece: it may lie on several devices.
fn mend_copy(
    fs: &Filesystem,
    window: &Window,
    run: &Run,
    mirror: MirrorNum,
    problem: Problem,
    (right, from): (&[u8], MirrorNum),
    tally: &mut Tally,
) {
    let sectorsize = fs.geometry().sectorsize() as usize;
    let sectors = run.len_bytes / sectorsize as u64;
    for (nth, piece) in window.chunk.pieces(run.logical..run.end(), mirror).enumerate() {
        let offset = (piece.logical - run.logical) as usize;
        let Some(bytes) = right.get(offset..offset + piece.len_bytes as usize) else { continue };
        let mut before = vec![0; bytes.len()];
        let read = fs.volume().read_place(piece.place, &mut before);
        if matches!(read, Err(CopyError::Missing { .. })) {
            continue;
        }
        let all: Vec<usize> = (0..bytes.len().div_ceil(sectorsize)).collect();
        let fix = Fix {
            kind: run.finding_kind(),
            problem,
            logical: piece.logical,
            mirror,
            member: piece.place,
            place: piece.place,
            source: Source::Mirror(from),
            right: bytes,
            before: &before,
            lost: if read.is_ok() { &[] } else { &all },
            findings: u64::from(nth == 0),
            sectors: if nth == 0 { sectors } else { 0 },
        };
        fix.push(&mut tally.mends, sectorsize);
    }
}
