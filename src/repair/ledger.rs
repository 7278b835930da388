//! Which of the right bytes that come in are to be written, and what has become of them. Shared by the thread that writes
//! and the one that reads back.

use super::fingerprint::Fingerprint;
use super::folded::Folded;
use super::outcome::{Failure, StepState};
use super::plan::{RepairPlan, Step, WithheldStep, withheld};
use crate::filesystem::Filesystem;
use crate::scrub::Progress;
use crate::scrub::finding::FindingKind;
use crate::units::{DeviceId, DevicePhysical};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Steps of a repair at once that are kept to be listed, at the least.
const MIN_LISTED: usize = 4096;

/// What decides.
#[derive(Clone, Copy)]
pub(super) enum Intake<'a> {
    /// A plan: its steps as they are there, and nothing else.
    Planned(&'a RepairPlan),
    /// No plan yet: all that may be written is written at once, but for what only the end of the scrub can judge.
    AtOnce(&'a Filesystem),
}

/// A part of a step that could not be written as a whole: a step of its own from now on.
pub(super) struct Part {
    pub(super) step: usize,
    /// Of the bytes of the former step.
    pub(super) range: Range<usize>,
    /// Why it was not written.
    pub(super) failure: Option<Failure>,
}

/// Steps and their states.
pub(super) struct Ledger<'a> {
    intake: Intake<'a>,
    /// Steps that are kept; of what is settled beyond, the sum is.
    max_listed: usize,
    /// Counts what is settled, where somebody wants to see it.
    progress: Option<&'a Progress>,
    book: Mutex<Book>,
}

#[derive(Default)]
pub(super) struct Book {
    /// In the order they came.
    pub(super) steps: Vec<Step>,
    /// One per step.
    pub(super) states: Vec<StepState>,
    /// Right, and not to be written.
    pub(super) withheld: Vec<WithheldStep>,
    /// To be looked at again once the scrub is through.
    pub(super) deferred: Vec<Step>,
    /// Settled, and not among `steps`.
    pub(super) folded: Folded,
    /// Places in `steps` of such as are folded.
    vacant: Vec<usize>,
}

impl Book {
    /// The number of a new step.
    fn add(&mut self, step: Step) -> usize {
        if let Some(number) = self.vacant.pop() {
            self.steps.get_mut(number).into_iter().for_each(|slot| *slot = step.clone());
            self.states.get_mut(number).into_iter().for_each(|slot| *slot = StepState::Pending);
            return number;
        }
        self.steps.push(step);
        self.states.push(StepState::Pending);
        self.steps.len() - 1
    }

    /// Lets go of a step that is settled.
    fn fold(&mut self, number: usize, state: StepState) {
        let Some(step) = self.steps.get(number) else { return };
        self.folded.add(step, state);
        self.vacant.push(number);
        // It counts as nothing any more.
        self.states.get_mut(number).into_iter().for_each(|slot| *slot = StepState::Done);
    }

    fn remove_vacant(&mut self) {
        let vacant: BTreeSet<usize> = std::mem::take(&mut self.vacant).into_iter().collect();
        let mut number = 0;
        self.steps.retain(|_| (!vacant.contains(&number), number += 1).0);
        number = 0;
        self.states.retain(|_| (!vacant.contains(&number), number += 1).0);
    }
}

impl<'a> Ledger<'a> {
    pub(super) fn new(intake: Intake<'a>, progress: Option<&'a Progress>) -> Self {
        let mut book = Book::default();
        if let Intake::Planned(plan) = intake {
            book.steps = plan.steps().to_vec();
            book.states = vec![StepState::Pending; book.steps.len()];
        }
        Self { intake, max_listed: usize::MAX, progress, book: Mutex::new(book) }
    }

    /// The same, with so many steps kept, where they come one by one.
    pub(super) fn listing(self, max_listed: usize) -> Self {
        Self { max_listed: max_listed.max(MIN_LISTED), ..self }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number under which `step` is to be written now; `None` where it is not.
    pub(super) fn admit(&self, step: Step) -> Option<usize> {
        match self.intake {
            Intake::Planned(plan) => {
                let number = plan.position(step.place, step.kind == FindingKind::Superblock)?;
                let planned = plan.steps().get(number)?;
                let as_planned = (step.len_bytes, step.after) == (planned.len_bytes, planned.after);
                as_planned.then_some(number)
            }
            Intake::AtOnce(fs) => self.admit_at_once(fs, step),
        }
    }

    fn admit_at_once(&self, fs: &Filesystem, step: Step) -> Option<usize> {
        let mut book = self.book();
        if let Some(why) = withheld(fs, &step, &BTreeSet::new()) {
            book.withheld.push(WithheldStep { step, why });
        } else if waits_for_the_end(fs, &step) {
            book.deferred.push(step);
        } else {
            return Some(book.add(step));
        }
        None
    }

    /// Makes several steps of one, for runs of findings that were written and runs that were not, given one answer for each
    /// `unit` of its bytes. A finding of which anything was not written has failed.
    pub(super) fn split(&self, number: usize, new: &[u8], unit: usize, failures: &[Option<Failure>]) -> Vec<Part> {
        let Some(whole) = self.book().steps.get(number).cloned() else { return Vec::new() };
        let mut parts: Vec<Part> = Vec::new();
        let per_finding = bytes_per_finding(&whole);
        for start in (0..new.len()).step_by(per_finding) {
            let range = start..(start + per_finding).min(new.len());
            let units = failures.get(start / unit..range.end.div_ceil(unit)).unwrap_or_default();
            let failure = units.iter().find_map(|failure| *failure);
            match parts.last_mut() {
                Some(last) if last.failure == failure => last.range.end = range.end,
                _ => parts.push(Part { step: number, range, failure }),
            }
        }
        let mut settled = Vec::new();
        for (nth, part) in parts.iter_mut().enumerate() {
            let step = part_of(&whole, &part.range, new);
            let mut book = self.book();
            if nth == 0 {
                book.steps.get_mut(number).into_iter().for_each(|slot| *slot = step.clone());
            } else {
                part.step = book.add(step);
            }
            settled.extend(part.failure.map(|failure| (part.step, StepState::Failed(failure))));
        }
        self.note(settled);
        parts
    }

    /// Takes down what has become of steps.
    pub(super) fn note(&self, settled: Vec<(usize, StepState)>) {
        let mut book = self.book();
        for (number, state) in settled {
            let Some(step) = book.steps.get(number).map(|step| (step.findings, step.len_bytes)) else { continue };
            if let Some(slot) = book.states.get_mut(number) {
                *slot = state;
            }
            if state != StepState::Pending && book.steps.len() - book.vacant.len() > self.max_listed {
                book.fold(number, state);
            }
            let Some(progress) = self.progress else { continue };
            progress.bytes_done.fetch_add(step.1, Ordering::Relaxed);
            if matches!(state, StepState::Failed(_)) {
                progress.errors.fetch_add(step.0, Ordering::Relaxed);
            }
        }
    }

    /// Is there anything but super blocks that was to be written to the device and is not done?
    pub(super) fn is_behind(&self, devid: DeviceId) -> bool {
        let book = self.book();
        let blocks = book.steps.iter().zip(&book.states).filter(|(step, _)| step.kind != FindingKind::Superblock);
        let mut own = blocks.filter(|(step, _)| step.place.devid == devid);
        book.folded.failed().contains_key(&devid) || own.any(|(_, state)| *state != StepState::Done)
    }

    /// All of it. Steps that were not reached have not been proved, unless the run ended early.
    pub(super) fn close(self, ended_early: bool) -> Book {
        let mut book = self.book.into_inner().unwrap_or_else(PoisonError::into_inner);
        book.remove_vacant();
        if !ended_early {
            let pending = book.states.iter_mut().filter(|state| **state == StepState::Pending);
            pending.for_each(|state| *state = StepState::Failed(Failure::NotProved));
        }
        book
    }
}

/// The length of what one finding of a step is about; all of it where that cannot be told.
fn bytes_per_finding(step: &Step) -> usize {
    let even = step.len_bytes.checked_div(step.findings).filter(|bytes| step.len_bytes == bytes * step.findings);
    even.unwrap_or(step.len_bytes).max(1) as usize
}

/// What was there before is not known of a part.
fn part_of(whole: &Step, range: &Range<usize>, new: &[u8]) -> Step {
    let (start, len_bytes) = (range.start as u64, range.len() as u64);
    let share = |count: u64| (u128::from(count) * u128::from(len_bytes) / u128::from(whole.len_bytes.max(1))) as u64;
    // Addresses of data go on with the place; those of the parity of several rows are each row's own.
    let goes_on = whole.kind == FindingKind::Data;
    Step {
        logical: if goes_on { whole.logical + start } else { whole.logical },
        place: DevicePhysical { physical: whole.place.physical + start, ..whole.place },
        len_bytes,
        before: None,
        after: Fingerprint::of(new.get(range.clone()).unwrap_or_default()),
        findings: share(whole.findings),
        sectors: share(whole.sectors),
        ..whole.clone()
    }
}

/// Tree blocks are held against their parents at the end of a scrub; super blocks come last in any case.
fn waits_for_the_end(fs: &Filesystem, step: &Step) -> bool {
    let holds_data_only = |step: &Step| fs.chunks().lookup(step.logical).is_ok_and(|chunk| !chunk.holds_metadata());
    step.kind == FindingKind::Superblock || !holds_data_only(step)
}
