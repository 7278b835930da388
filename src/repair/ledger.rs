//! Which of the right bytes that come in are to be written, and what has become of them. Shared by the thread that writes
//! and the one that reads back.

use super::outcome::{Failure, StepState};
use super::plan::{RepairPlan, Step, WithheldStep, withheld};
use crate::filesystem::Filesystem;
use crate::scrub::Progress;
use crate::scrub::finding::FindingKind;
use crate::units::DeviceId;
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What decides.
#[derive(Clone, Copy)]
pub(super) enum Intake<'a> {
    /// A plan: its steps as they are there, and nothing else.
    Planned(&'a RepairPlan),
    /// No plan yet: all that may be written is written at once, but for what only the end of the scrub can judge.
    AtOnce(&'a Filesystem),
}

/// Steps and their states.
pub(super) struct Ledger<'a> {
    intake: Intake<'a>,
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
}

impl<'a> Ledger<'a> {
    pub(super) fn new(intake: Intake<'a>, progress: Option<&'a Progress>) -> Self {
        let mut book = Book::default();
        if let Intake::Planned(plan) = intake {
            book.steps = plan.steps().to_vec();
            book.states = vec![StepState::Pending; book.steps.len()];
        }
        Self { intake, progress, book: Mutex::new(book) }
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
            book.steps.push(step);
            book.states.push(StepState::Pending);
            return Some(book.steps.len() - 1);
        }
        None
    }

    /// Takes down what has become of steps.
    pub(super) fn note(&self, settled: Vec<(usize, StepState)>) {
        let mut book = self.book();
        for (number, state) in settled {
            let Some(step) = book.steps.get(number).map(|step| (step.findings, step.len_bytes)) else { continue };
            if let Some(slot) = book.states.get_mut(number) {
                *slot = state;
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
        own.any(|(_, state)| *state != StepState::Done)
    }

    /// All of it. Steps that were not reached have not been proved, unless the run ended early.
    pub(super) fn close(self, ended_early: bool) -> Book {
        let mut book = self.book.into_inner().unwrap_or_else(PoisonError::into_inner);
        if !ended_early {
            let pending = book.states.iter_mut().filter(|state| **state == StepState::Pending);
            pending.for_each(|state| *state = StepState::Failed(Failure::NotProved));
        }
        book
    }
}

/// Tree blocks are held against their parents at the end of a scrub; super blocks come last in any case.
fn waits_for_the_end(fs: &Filesystem, step: &Step) -> bool {
    let holds_data_only = |step: &Step| fs.chunks().lookup(step.logical).is_ok_and(|chunk| !chunk.holds_metadata());
    step.kind == FindingKind::Superblock || !holds_data_only(step)
}
