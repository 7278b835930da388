//! The power is cut after every single write and sync of a repair, of its log and of its devices, and what was not synced
//! survives in every way a disk may choose. Then both ways out must be open: repairing again ends where the undisturbed
//! repair ends, and undo gives back every byte.

// A failed unwrap is a failed test, also in the helpers.
#![allow(clippy::unwrap_used)]

mod common;

use common::fixture::Images;
use common::overlay::{MemoryLog, Overlay, Power, Writes};
use common::{check_all, library, recipe};
use mirrortool::device::{ReadDevice, Survivors, WriteDevice};
use mirrortool::filesystem::Filesystem;
use mirrortool::lease::WriteLease;
use mirrortool::repair::journal::{Journal, LogHeader, LogMember, LogReader};
use mirrortool::repair::undo::UndoPlan;
use mirrortool::repair::{ApplyOptions, LogStore, PlanOptions, RepairSummary, apply, plan, repair_at_once};
use mirrortool::scrub::finding::Finding;
use mirrortool::scrub::mend::Choice;
use mirrortool::scrub::outcome::{ScrubOutcome, Verdict};
use mirrortool::scrub::{Progress, ScrubOptions};
use mirrortool::units::Physical;
use std::io::Cursor;
use std::sync::Arc;
use std::time::SystemTime;

/// Damaged images, and what a scrub finds in them.
struct Case {
    images: Images,
    bases: Vec<Arc<dyn ReadDevice>>,
    findings: Vec<Finding>,
}

/// Which way, with which size of a batch.
#[derive(Clone, Copy)]
enum How {
    ByPlan(usize),
    AtOnce(usize),
}

/// What the devices hold beside the images, by place in the list of images.
type State = Vec<Writes>;

impl Case {
    fn new(recipe: &str) -> Self {
        let images = recipe::named(recipe).apply();
        let bases = images.paths.iter().map(|path| library::device(path)).collect();
        let findings = library::scrubbed(&images.paths).findings;
        Self { images, bases, findings }
    }

    fn overlays(&self, state: &State, power: &Power) -> Vec<Arc<Overlay>> {
        let pairs = self.bases.iter().zip(state);
        pairs.map(|(base, w)| Arc::new(Overlay::new(Arc::clone(base), w.clone(), power.clone()))).collect()
    }

    fn untouched(&self) -> State {
        vec![Writes::new(); self.bases.len()]
    }

    fn open(&self, overlays: &[Arc<Overlay>]) -> Filesystem {
        let devices: Vec<_> = overlays.iter().map(|o| Arc::clone(o) as Arc<dyn ReadDevice>).collect();
        library::open_devices(&self.images.paths, &devices).unwrap()
    }

    /// Repairs what is on the overlays, with a batch per write or one for all.
    fn repair(&self, overlays: &[Arc<Overlay>], log: &MemoryLog, how: How) -> (ScrubOutcome, RepairSummary) {
        let fs = self.open(overlays);
        let scrub = ScrubOptions { threads_per_device: 1, ..ScrubOptions::default() };
        let options = PlanOptions { scrub: &scrub, choice: Choice::Nobody, salvage: None, from: Some(&self.findings) };
        let devices = fs.members().map(|member| {
            let number = self.images.paths.iter().position(|path| path == member.path()).unwrap();
            (Arc::clone(member), Arc::clone(&overlays[number]) as Arc<dyn WriteDevice>)
        });
        let target = WriteLease::simulated(devices).unwrap();
        let (How::ByPlan(batch_bytes) | How::AtOnce(batch_bytes)) = how;
        let apply_options = ApplyOptions { batch_bytes, ..ApplyOptions::of(&options) };
        if let How::AtOnce(_) = how {
            let store = log.clone();
            let make = move || Ok(Box::new(store) as Box<dyn LogStore>);
            let mut journal = Journal::on_demand(&header(&fs), Box::new(make));
            let (planned, summary) =
                repair_at_once(&fs, &apply_options, &target, &mut journal, &Progress::default()).unwrap();
            return (planned.outcome, summary);
        }
        let mut planned = plan(&fs, &options, &Progress::default()).unwrap();
        let Ok(mut journal) = Journal::start(Box::new(log.clone()), &header(&fs)) else {
            return (planned.outcome, RepairSummary::default());
        };
        let summary = apply(&fs, &mut planned, &apply_options, &target, &mut journal, &Progress::default());
        (planned.outcome, summary)
    }

    /// Undoes a log on what the power cut has left. A log without a whole header has nothing to undo.
    fn undo(&self, state: &State, log: Vec<u8>) -> State {
        let overlays = self.overlays(state, &Power::default());
        let Ok(log) = LogReader::open(Cursor::new(log)) else { return state.clone() };
        let fs = self.open(&overlays);
        let members: Vec<_> = fs.members().cloned().collect();
        let undo = UndoPlan::check(log, &members).unwrap_or_else(|e| panic!("{e}"));
        let devices: Vec<_> = members
            .iter()
            .map(|member| {
                let number = self.images.paths.iter().position(|path| path == member.path()).unwrap();
                (Arc::clone(member), Arc::clone(&overlays[number]) as Arc<dyn WriteDevice>)
            })
            .collect();
        let summary = undo.carry_out(&WriteLease::simulated(devices).unwrap());
        assert!(summary.error.is_none(), "{summary:?}");
        overlays.iter().map(|overlay| overlay.after_cut(&Survivors::None)).collect()
    }

    /// Where `have` reads otherwise than `expect`.
    fn difference(&self, have: &State, expect: &State) -> Option<String> {
        let (have_devices, expect_devices) =
            (self.overlays(have, &Power::default()), self.overlays(expect, &Power::default()));
        for number in 0..self.bases.len() {
            for (at, data) in have[number].iter().chain(&expect[number]) {
                let read = |device: &Overlay| {
                    let mut bytes = vec![0; data.len()];
                    device.read_at(Physical::new(*at), &mut bytes).unwrap();
                    bytes
                };
                if read(&have_devices[number]) != read(&expect_devices[number]) {
                    return Some(format!("image {number}, byte {at}"));
                }
            }
        }
        None
    }
}

fn header(fs: &Filesystem) -> LogHeader {
    let members = fs.members().map(|member| LogMember {
        devid: member.devid(),
        uuid: member.uuid(),
        len_bytes: member.device().len(),
        generation: member.generation(),
        path: member.path().to_owned(),
    });
    LogHeader {
        fsid: fs.superblock().fsid(),
        generation: fs.superblock().generation(),
        created: SystemTime::now(),
        members: members.collect(),
    }
}

const HOWS: [How; 4] = [How::ByPlan(1), How::ByPlan(usize::MAX), How::AtOnce(1), How::AtOnce(usize::MAX)];

/// What a disk may do with `pending` writes.
fn fates(pending: usize) -> Vec<Survivors> {
    let mut fates = vec![Survivors::None, Survivors::All];
    fates.extend((1..pending).map(Survivors::First));
    fates.extend((0..pending).map(|nth| Survivors::Only(vec![nth])));
    fates.extend((0..pending).flat_map(|first| [1, 7].map(|pieces| Survivors::Torn { first, pieces })));
    fates
}

fn cut_everywhere(recipe: &str, how: How) {
    let case = Case::new(recipe);
    let power = Power::default();
    let overlays = case.overlays(&case.untouched(), &power);
    let (outcome, summary) = case.repair(&overlays, &MemoryLog::new(power.clone()), how);
    assert_eq!(outcome.verdict, Verdict::Corrected, "{summary:?}");
    let repaired: State = overlays.iter().map(|overlay| overlay.after_cut(&Survivors::None)).collect();
    assert!(case.difference(&repaired, &case.untouched()).is_some());

    let cuts: Vec<u64> = (0..power.steps()).collect();
    check_all(&cuts, |cut| {
        let power = Power::cut_after(*cut);
        let overlays = case.overlays(&case.untouched(), &power);
        let log = MemoryLog::new(power.clone());
        let (outcome, summary) = case.repair(&overlays, &log, how);
        // All is written and read back when the log is ended; that it has no end is told.
        if outcome.verdict == Verdict::Corrected && power.steps() > *cut && summary.log_error.is_none() {
            return Err(format!("cut {cut}: said to be corrected"));
        }
        let pending = overlays.iter().map(|overlay| overlay.unsynced()).max().unwrap_or(0);
        for fate in fates(pending) {
            let state: State = overlays.iter().map(|overlay| overlay.after_cut(&fate)).collect();
            let again = case.overlays(&state, &Power::default());
            let (outcome, _) = case.repair(&again, &MemoryLog::new(Power::default()), how);
            let resumed: State = again.iter().map(|overlay| overlay.after_cut(&Survivors::None)).collect();
            if let Some(place) = case.difference(&resumed, &repaired) {
                return Err(format!("cut {cut}, {fate:?}: resumed to something else at {place}"));
            }
            if !matches!(outcome.verdict, Verdict::Corrected | Verdict::Clean) {
                return Err(format!("cut {cut}, {fate:?}: resumed to {:?}", outcome.verdict));
            }
            for pieces in [0, 1, usize::MAX] {
                let undone = case.undo(&state, log.after_cut(pieces));
                if let Some(place) = case.difference(&undone, &case.untouched()) {
                    return Err(format!("cut {cut}, {fate:?}, {pieces} pieces of the log: not undone at {place}"));
                }
            }
        }
        Ok(())
    });
}

#[test]
fn a_mirror_with_a_bad_super_block_survives_a_cut_after_every_write() {
    for how in HOWS {
        cut_everywhere("superblock-first-bad", how);
    }
}

#[test]
fn a_row_with_bad_data_and_bad_parity_survives_a_cut_after_every_write() {
    for how in HOWS {
        cut_everywhere("raid6-column-and-p", how);
    }
}

#[test]
fn a_node_of_which_one_copy_is_left_survives_a_cut_after_every_write() {
    for how in HOWS {
        cut_everywhere("node-three-of-four", how);
    }
}

#[test]
fn a_member_that_is_brought_up_to_date_survives_a_cut_after_every_write() {
    for how in HOWS {
        cut_everywhere("stale-member", how);
    }
}
