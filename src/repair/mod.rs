//! Heals what a scrub finds, in four phases, each made only from the one before: a [`RepairPlan`] (reads only), a
//! [`Journal`] of what is about to be overwritten, [`apply`], and [`undo`] from the journal.
//!
//! Nothing is written that has not just been verified, nothing outside the plan, and nothing before its old bytes are on
//! stable storage. Never chooses a winner among copies without checksum by itself.

mod apply;
mod at_once;
mod batch;
mod fingerprint;
mod folded;
pub mod journal;
mod ledger;
mod outcome;
mod pipeline;
mod plan;
mod preflight;
mod salvage;
pub mod undo;

pub use apply::{ApplyOptions, apply};
pub use at_once::repair_at_once;
pub use fingerprint::Fingerprint;
pub use folded::Folded;
pub use journal::{Journal, LogStore};
pub use outcome::{Failure, RepairSummary, StepState};
pub use plan::{PlanOptions, Planned, RepairPlan, Step, Withheld, WithheldStep, plan};
pub use preflight::{Refusal, check_choice, check_may_write, check_same_history, check_unused};
pub use salvage::FromBadCopies;

use crate::scrub::ScrubError;
use thiserror::Error;

/// Why a repair could not be done at all. What it could not heal is never an error.
#[derive(Debug, Error)]
pub enum RepairError {
    /// The file system must not be written.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Looking for what is bad failed.
    #[error(transparent)]
    Scrub(#[from] ScrubError),
    /// The same, when some of it had been written already.
    #[error("the repair was ended early, and some of it is written")]
    Broken(#[source] ScrubError),
}
