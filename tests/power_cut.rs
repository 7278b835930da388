//! The power is cut after every single write and sync of a repair, of its log and of its devices, and what was not synced
//! survives in every way a disk may choose. Then both ways out must be open: repairing again ends where the undisturbed
//! repair ends, and undo gives back every byte. A rebuild that lost power leaves a device that is no member of the set, and
//! goes on to the same bytes.

// A failed unwrap is a failed test, also in the helpers.
#![allow(clippy::unwrap_used)]

mod common;

use common::fixture::{self, Images};
use common::overlay::{MemoryLog, Overlay, Power, Writes};
use common::{check_all, library, recipe};
use mirrortool::device::{ReadDevice, Survivors, WriteDevice};
use mirrortool::filesystem::Filesystem;
use mirrortool::lease::WriteLease;
use mirrortool::rebuild::{Rebuild, RebuildState, StateStore, find_lost};
use mirrortool::repair::journal::{Journal, LogHeader, LogMember, LogReader};
use mirrortool::repair::undo::UndoPlan;
use mirrortool::repair::{ApplyOptions, LogStore, PlanOptions, RepairSummary, apply, plan, repair_at_once};
use mirrortool::scrub::finding::{Finding, FindingKind, Problem};
use mirrortool::scrub::mend::Choice;
use mirrortool::scrub::outcome::{ScrubOutcome, Verdict};
use mirrortool::scrub::{Progress, ScrubOptions};
use mirrortool::units::{DeviceId, Physical};
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;
use uuid::Uuid;

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

    /// Where to look. A member is brought up to date by a run that looks everywhere, or not at all.
    fn places(&self) -> Option<&[Finding]> {
        let is_stale = self.findings.iter().any(|finding| finding.problem == Problem::Generation);
        (!is_stale).then_some(&self.findings)
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
        let options = PlanOptions { scrub: &scrub, choice: Choice::Nobody, salvage: None, from: self.places() };
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

/// A set without one member, which is made again on a blank device.
struct Lost {
    images: Images,
    survivors: Vec<PathBuf>,
    devid: DeviceId,
    blank: Arc<dyn ReadDevice>,
}

/// What the last checkpoint said.
#[derive(Default)]
struct Kept(Mutex<Option<RebuildState>>);

impl StateStore for Kept {
    fn keep(&self, state: &RebuildState) {
        *self.0.lock().unwrap() = Some(state.clone());
    }
}

impl Lost {
    fn new(fixture: &str, devid: u64) -> Self {
        let images = fixture::copy(fixture);
        let survivors: Vec<_> = images.paths.iter().filter(|path| *path != images.device(devid)).cloned().collect();
        let blank = images.scratch().join("blank.img");
        let len = std::fs::metadata(images.device(devid)).unwrap().len();
        std::fs::File::create(&blank).unwrap().set_len(len).unwrap();
        Self { survivors, devid: DeviceId::new(devid), blank: library::device(&blank), images }
    }

    fn overlay(&self, writes: &Writes, power: &Power) -> Arc<Overlay> {
        Arc::new(Overlay::new(Arc::clone(&self.blank), writes.clone(), power.clone()))
    }

    /// Makes it again on the overlay, going on from `state`.
    fn rebuild(&self, new: &Arc<Overlay>, state: Option<RebuildState>, kept: &Kept) -> Result<bool, String> {
        let fs = library::open_degraded(&self.survivors);
        let lost = find_lost(&fs, Some(self.devid)).map_err(|e| e.to_string())?;
        let options = ScrubOptions { threads_per_device: 1, ..ScrubOptions::default() };
        let progress = Progress::default();
        let rebuild = Rebuild { fs: &fs, lost: &lost, options: &options, progress: &progress };
        let lease = WriteLease::simulated_new(self.devid, Arc::clone(new) as Arc<dyn WriteDevice>);
        let device = lease.device(self.devid).unwrap();
        let found = rebuild.look_at(&device, Path::new("new"), false, state.as_ref()).map_err(|e| e.to_string())?;
        let state = state.unwrap_or_else(|| RebuildState::new(&fs, &lost, Uuid::from_u128(7), SystemTime::now()));
        rebuild.run(&lease, found, state, kept).map(|rebuilt| rebuilt.is_member).map_err(|e| e.to_string())
    }

    /// The set with what is there of the new member, as a whole one.
    fn with(&self, new: &Arc<Overlay>) -> Result<ScrubOutcome, String> {
        let devices = self.images.paths.iter().map(|path| {
            let is_new = path == self.images.device(self.devid.raw());
            if is_new { Arc::clone(new) as Arc<dyn ReadDevice> } else { library::device(path) }
        });
        library::scrub_devices(&self.images.paths, &devices.collect::<Vec<_>>())
    }

    fn is_same(&self, have: &Writes, expect: &Writes) -> bool {
        let (one, other) = (self.overlay(have, &Power::default()), self.overlay(expect, &Power::default()));
        have.iter().chain(expect).all(|(at, data)| {
            let read = |device: &Overlay| {
                let mut bytes = vec![0; data.len()];
                device.read_at(Physical::new(*at), &mut bytes).unwrap();
                bytes
            };
            read(&one) == read(&other)
        })
    }

    fn check_cut(&self, cut: u64, expect: &Writes) -> Result<(), String> {
        let power = Power::cut_after(cut);
        let (new, kept) = (self.overlay(&Writes::new(), &power), Kept::default());
        if self.rebuild(&new, None, &kept) == Ok(true) && power.steps() > cut {
            return Err(format!("cut {cut}: said to be a member"));
        }
        let state = kept.0.into_inner().unwrap();
        let pending = new.unsynced();
        let torn = |pieces| Survivors::Torn { first: pending.saturating_sub(1), pieces };
        for fate in [Survivors::None, Survivors::All, Survivors::First(pending / 2), torn(1), torn(3)] {
            let left = new.after_cut(&fate);
            if let Ok(outcome) = self.with(&self.overlay(&left, &Power::default())) {
                let only_supers = outcome.findings.iter().all(|f| f.kind == FindingKind::Superblock);
                if !only_supers || outcome.findings_omitted > 0 {
                    return Err(format!("cut {cut}, {fate:?}: taken for a member before it was whole"));
                }
            }
            let again = self.overlay(&left, &Power::default());
            let resumed = self.rebuild(&again, state.clone(), &Kept::default());
            if resumed != Ok(true) {
                return Err(format!("cut {cut}, {fate:?}: resumed to {resumed:?}"));
            }
            if !self.is_same(&again.after_cut(&Survivors::None), expect) {
                return Err(format!("cut {cut}, {fate:?}: resumed to other bytes"));
            }
        }
        Ok(())
    }
}

fn lose_power_while_rebuilding(fixture: &str, devid: u64) {
    let case = Lost::new(fixture, devid);
    let power = Power::default();
    let new = case.overlay(&Writes::new(), &power);
    assert_eq!(case.rebuild(&new, None, &Kept::default()), Ok(true));
    let expect = new.after_cut(&Survivors::None);
    let steps = power.steps();
    // The order of the data does not matter: a few cuts in it stand for all. Before and behind it every step counts.
    let cuts: Vec<u64> = (0..steps).filter(|cut| *cut < 8 || steps - cut < 16 || cut % 16 == 0).collect();
    check_all(&cuts, |cut| case.check_cut(*cut, &expect));
}

#[test]
fn a_rebuilt_mirror_is_no_member_before_it_is_whole_whenever_the_power_is_cut() {
    lose_power_while_rebuilding("raid1-crc32c", 2);
}

#[test]
fn a_rebuilt_column_is_no_member_before_it_is_whole_whenever_the_power_is_cut() {
    lose_power_while_rebuilding("raid5-3dev-crc32c", 3);
}
