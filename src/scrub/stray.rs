//! A tree block that does not lie in one piece inside one window: its copies are read one by one. Old file systems, made
//! without alignment, have a few.

use super::finding::{Evidence, Problem, RepairState};
use super::judge::{Bench, Found};
use super::sink::Tally;
use super::verify::judge_block;
use super::window::{Run, RunKind, Window};
use crate::filesystem::Filesystem;
use crate::units::MirrorNum;
use crate::volume::CopyError;

/// Reads and judges all copies of the block in `run`.
pub(super) fn judge_stray(fs: &Filesystem, window: &Window, run: &Run, bench: &Bench<'_>, tally: &mut Tally) {
    let RunKind::Tree(check) = run.kind else { return };
    let mut bytes = vec![0; run.len_bytes as usize];
    let verdicts: Vec<Option<(Problem, Evidence)>> = (1..=window.chunk.mirrors())
        .map(|mirror| match fs.volume().read_copy(run.logical, MirrorNum::new(mirror), &mut bytes) {
            Ok(()) => judge_block(run.logical, &bytes, &check, fs.geometry()),
            Err(CopyError::Io { errno, .. }) => Some((Problem::ReadError, Evidence::Errno(errno))),
            Err(_) => Some((Problem::Missing, Evidence::None)),
        })
        .collect();
    let good = verdicts.iter().any(Option::is_none);
    let repair = if good { RepairState::Possible } else { RepairState::Impossible };
    for (copy, verdict) in window.chunk.copies(run.logical).iter().zip(verdicts) {
        let counters = tally.device(copy.place.devid);
        counters.tree_extents_scrubbed += 1;
        counters.tree_bytes_scrubbed += run.len_bytes;
        let Some((problem, evidence)) = verdict.filter(|(problem, _)| !good || *problem != Problem::Missing) else {
            continue;
        };
        let (at, len_bytes) = (run.logical, run.len_bytes);
        Found { window, run, at, len_bytes, copy, problem, evidence, repair }.tell(bench, tally);
    }
}
