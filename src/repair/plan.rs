//! What a repair would do: places, reasons, sources and fingerprints, without the bytes. Reads only.
//!
//! A step is at most 1 MiB long and covers all that lies one behind the other with one reason and one source, so a wiped
//! device of 40 GiB is some 40,000 steps of about 120 bytes. The bytes are proved anew when the plan is carried out.

use super::RepairError;
use super::fingerprint::Fingerprint;
use super::preflight::{check_choice, check_may_write, check_same_history};
use crate::filesystem::Filesystem;
use crate::scrub::finding::{Finding, FindingKind, Problem};
use crate::scrub::mend::{Choice, Mend, Mending, Places, Salvage, Source};
use crate::scrub::outcome::{Behind, ScrubOutcome};
use crate::scrub::reserved::{Occupant, occupant, touches_superblock};
use crate::scrub::{Progress, ScrubOptions, scrub_and_mend};
use crate::units::{DeviceId, DevicePhysical, Logical, MirrorNum, Physical};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use thiserror::Error;

/// How to plan.
#[derive(Clone, Copy)]
pub struct PlanOptions<'a> {
    /// How to read.
    pub scrub: &'a ScrubOptions,
    /// Who wins where nothing can be verified.
    pub choice: Choice,
    /// What is tried where every copy is bad.
    pub salvage: Option<&'a dyn Salvage>,
    /// Look only at the places of these findings; `None` is everywhere.
    pub from: Option<&'a [Finding]>,
}

/// One write to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// What is there.
    pub kind: FindingKind,
    /// What is wrong with it.
    pub problem: Problem,
    /// Its address (see [`FindingKind`]).
    pub logical: Logical,
    /// Which copy it is.
    pub mirror: MirrorNum,
    /// Where it belongs on the member.
    pub member: DevicePhysical,
    /// Where: there, or on a file below.
    pub place: DevicePhysical,
    /// In bytes.
    pub len_bytes: u64,
    /// Where the right bytes come from.
    pub source: Source,
    /// Of the bytes that are there; `None` where they cannot be read.
    pub before: Option<Fingerprint>,
    /// Of the right bytes.
    pub after: Fingerprint,
    /// Findings that it answers.
    pub findings: u64,
    /// Sectors that the findings are counted as.
    pub sectors: u64,
}

impl Step {
    pub(super) fn of(mend: &Mend) -> Self {
        Self {
            kind: mend.kind,
            problem: mend.problem,
            logical: mend.logical,
            mirror: mend.mirror,
            member: mend.member,
            place: mend.place,
            len_bytes: mend.bytes.len() as u64,
            source: mend.source,
            before: mend.before.as_deref().map(Fingerprint::of),
            after: Fingerprint::of(&mend.bytes),
            findings: mend.findings,
            sectors: mend.sectors,
        }
    }

    /// The place behind the last byte.
    pub fn end(&self) -> Physical {
        self.place.physical + self.len_bytes
    }
}

/// Why a write that would be right is not in the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Withheld {
    /// The place is one of a super block, and the block does not belong there.
    #[error("it would overwrite a super block")]
    OverSuperblock,
    /// The place is one of a super block, but something else is stored there.
    #[error("the place of the super block is allocated to something else")]
    SuperblockInChunk,
    /// The device ends before it.
    #[error("it lies past the end of the device")]
    PastEnd,
    /// The device is a seed, which is never written.
    #[error("the device is a seed")]
    Seed,
    /// All that is known is of an earlier transaction.
    #[error("a backup root stands in for one that is lost: what is there may be newer")]
    OlderRoots,
    /// The places of its chunk are not certain.
    #[error("it is not certain that the chunk has this place")]
    DoubtfulChunk,
    /// Some chunk may have the place of the super block, or of its own array.
    #[error("the chunk map is not certain: neither is what the super block must say of it")]
    DoubtfulMap,
    /// The block is verified by its extent, but its parent describes another one.
    #[error("no copy is the block that its parent describes")]
    BrokenLink,
    /// A super block that would call a member current which is not.
    #[error("the device missed transactions and is not up to date: {0}")]
    NotCaughtUp(Behind),
}

/// A step that is not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WithheldStep {
    /// What would be right.
    pub step: Step,
    /// Why it is not done.
    pub why: Withheld,
}

/// All that is to be written: first the block groups, ordered by place, then super blocks, one copy of each device at a
/// time.
#[derive(Clone, Debug, Default)]
pub struct RepairPlan {
    steps: Vec<Step>,
    withheld: Vec<WithheldStep>,
}

/// A plan, and the scrub that it follows from.
#[derive(Debug)]
pub struct Planned {
    /// What is bad.
    pub outcome: ScrubOutcome,
    /// What can be done about it.
    pub plan: RepairPlan,
}

impl RepairPlan {
    /// The steps in the order of [`Step::place`], super blocks behind all others.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// What is known to be right and yet not done.
    pub fn withheld(&self) -> &[WithheldStep] {
        &self.withheld
    }

    /// True where there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Bytes to be written.
    pub fn bytes(&self) -> u64 {
        self.steps.iter().fold(0, |sum, step| sum.saturating_add(step.len_bytes))
    }

    /// The devices to be written.
    pub fn devices(&self) -> BTreeSet<DeviceId> {
        self.steps.iter().map(|step| step.place.devid).collect()
    }

    /// A plan of these steps, which are in order.
    pub(super) fn of(steps: Vec<Step>, withheld: Vec<WithheldStep>) -> Self {
        Self { steps, withheld }
    }

    /// The same plan by finer steps, in order.
    pub(super) fn replace_steps(&mut self, steps: Vec<Step>) {
        self.steps = steps;
    }

    /// The windows that hold the steps.
    pub(super) fn places(&self, fs: &Filesystem) -> Places {
        let blocks = self.steps.iter().filter(|step| step.kind != FindingKind::Superblock);
        Places::of_addresses(blocks.map(|step| step.logical), fs.chunks())
    }

    /// The number of the step for exactly this place.
    pub(super) fn position(&self, place: DevicePhysical, is_superblock: bool) -> Option<usize> {
        let first = self.steps.partition_point(|step| in_order(step) < (is_superblock, place));
        self.steps.get(first).filter(|step| in_order(step) == (is_superblock, place)).map(|_| first)
    }
}

/// The order of a plan. Super blocks come last: while one of a device is being written, another that is whole must be on
/// it, hence copy by copy.
pub(super) fn in_order(step: &Step) -> (bool, DevicePhysical) {
    (step.kind == FindingKind::Superblock, step.place)
}

/// Scrubs and plans. A run that was cancelled has an incomplete plan, and its outcome says so.
pub fn plan(fs: &Filesystem, options: &PlanOptions<'_>, progress: &Progress) -> Result<Planned, RepairError> {
    check_may_write(fs)?;
    check_choice(fs, options.choice)?;
    check_same_history(fs)?;
    let places = options.from.map(|findings| Places::of_findings(findings, fs.chunks()));
    let steps: Mutex<Vec<Step>> = Mutex::default();
    let sink = |mends: Vec<Mend>| {
        let new: Vec<Step> = mends.iter().map(Step::of).collect();
        steps.lock().unwrap_or_else(PoisonError::into_inner).extend(new);
    };
    let mending = Mending { places: places.as_ref(), choice: options.choice, salvage: options.salvage, sink: &sink };
    let outcome = scrub_and_mend(fs, options.scrub, progress, &mending)?;
    let mut steps = steps.into_inner().unwrap_or_else(PoisonError::into_inner);
    steps.sort_by_key(in_order);
    let mut plan = RepairPlan::default();
    for step in steps {
        match withheld(fs, &step, &outcome.broken_links) {
            Some(why) => plan.withheld.push(WithheldStep { step, why }),
            None => plan.steps.push(step),
        }
    }
    withhold_superblocks(&mut plan, &outcome.behind, fs);
    Ok(Planned { outcome, plan })
}

/// The plan for steps that had to wait for the end of the scrub. `behind` has the devices that are not up to date when all
/// of it is done.
pub(super) fn settle_deferred(
    fs: &Filesystem,
    mut deferred: Vec<Step>,
    mut withheld: Vec<WithheldStep>,
    broken: &BTreeSet<Logical>,
    behind: &BTreeMap<DeviceId, Behind>,
) -> RepairPlan {
    deferred.sort_by_key(in_order);
    let (bad, good): (Vec<Step>, Vec<Step>) = deferred.into_iter().partition(|step| is_broken(step, broken));
    withheld.extend(bad.into_iter().map(|step| WithheldStep { step, why: Withheld::BrokenLink }));
    let mut plan = RepairPlan::of(good, withheld);
    withhold_superblocks(&mut plan, behind, fs);
    plan
}

/// Takes the super blocks out of the plan that would call a member current which is not.
fn withhold_superblocks(plan: &mut RepairPlan, behind: &BTreeMap<DeviceId, Behind>, fs: &Filesystem) {
    let is_stale = |devid| fs.standing(devid).is_some_and(|standing| !standing.has_vote());
    let left: BTreeSet<DeviceId> = plan.withheld.iter().map(|withheld| withheld.step.place.devid).collect();
    let why = |step: &Step| {
        let devid = step.place.devid;
        let left = left.contains(&devid).then_some(Behind::NotWritten);
        let why = behind.get(&devid).copied().or(left);
        why.filter(|_| step.kind == FindingKind::Superblock && is_stale(devid))
    };
    for step in std::mem::take(&mut plan.steps) {
        match why(&step) {
            Some(behind) => plan.withheld.push(WithheldStep { step, why: Withheld::NotCaughtUp(behind) }),
            None => plan.steps.push(step),
        }
    }
}

/// Does the step hold a tree block that verifies in itself while its parent describes another?
fn is_broken(step: &Step, broken: &BTreeSet<Logical>) -> bool {
    let end = step.logical + step.len_bytes;
    step.kind == FindingKind::Metadata && broken.range(step.logical..end).next().is_some()
}

pub(super) fn withheld(fs: &Filesystem, step: &Step, broken: &BTreeSet<Logical>) -> Option<Withheld> {
    let place = step.member;
    let member = fs.volume().member(place.devid)?;
    if member.is_seed() {
        return Some(Withheld::Seed);
    }
    let end = place.physical + step.len_bytes;
    // What an array below keeps beside its data has no place on the member.
    if step.kind == FindingKind::Parity && step.member != step.place {
        return None;
    }
    if end.raw() > member.device().len() {
        return Some(Withheld::PastEnd);
    }
    let knowledge = fs.knowledge();
    if knowledge.is_older() {
        return Some(Withheld::OlderRoots);
    }
    if step.kind == FindingKind::Superblock {
        if !knowledge.knows_all_places() {
            return Some(Withheld::DoubtfulMap);
        }
        return (occupant(fs, place) != Occupant::None).then_some(Withheld::SuperblockInChunk);
    }
    if fs.chunks().lookup(step.logical).is_ok_and(|chunk| knowledge.doubts(chunk)) {
        return Some(Withheld::DoubtfulChunk);
    }
    if touches_superblock(member, place.physical, end) {
        return Some(Withheld::OverSuperblock);
    }
    is_broken(step, broken).then_some(Withheld::BrokenLink)
}
