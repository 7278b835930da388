//! The exit codes, which are part of the interface: one function from outcome to code.

use mirrortool::filesystem::OpenError;
use mirrortool::repair::RepairError;
use mirrortool::scrub::outcome::{Status, Verdict};
use mirrortool::tree::LostBlock;
use std::fmt;
use std::process::{ExitCode, ExitStatus};

/// An exit code of the table in mirrortool(8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Code(u8);

/// All was read and is good, or all that was bad is corrected and read back.
pub(crate) const GOOD: Code = Code(0);
/// The command could not be performed.
pub(crate) const FAILED: Code = Code(1);
/// Something is bad that nothing can correct, or nothing can decide.
pub(crate) const UNCORRECTABLE: Code = Code(3);
/// Something is bad and can be corrected, and was not.
pub(crate) const CORRECTABLE: Code = Code(4);
/// There was nothing to resume.
pub(crate) const NOTHING_TO_RESUME: Code = Code(2);
/// Ended early, nothing uncorrectable so far.
pub(crate) const INTERRUPTED: Code = Code(5);

/// From best to worst: what a run of several jobs ends with is the worst of them. Something lost is worse than something
/// that was not looked at.
const BY_SEVERITY: [Code; 6] = [GOOD, NOTHING_TO_RESUME, INTERRUPTED, CORRECTABLE, FAILED, UNCORRECTABLE];

impl Code {
    /// The code of a run of this program that ended; a run that was killed has failed.
    pub(crate) fn of_process(status: ExitStatus) -> Self {
        let known = |code: &Self| status.code() == Some(i32::from(code.0));
        BY_SEVERITY.into_iter().find(known).unwrap_or(FAILED)
    }

    /// The number a shell sees.
    pub(crate) fn number(self) -> u8 {
        self.0
    }

    /// The worse of two.
    pub(crate) fn or_worse(self, other: Self) -> Self {
        BY_SEVERITY.into_iter().rev().find(|code| *code == self || *code == other).unwrap_or(FAILED)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "exit status {}", self.0)
    }
}

impl From<Code> for ExitCode {
    fn from(code: Code) -> Self {
        Self::from(code.0)
    }
}

/// The exit code of a scrub or a repair. What is lost outweighs that the run was cut short; being cut short
/// outweighs all else, so that an incomplete run is never 0.
pub(crate) fn of_outcome(status: Status, verdict: Verdict) -> Code {
    match (verdict, status) {
        (Verdict::Uncorrectable, _) => UNCORRECTABLE,
        (_, Status::Interrupted) => INTERRUPTED,
        (Verdict::Correctable, Status::Finished) => CORRECTABLE,
        (Verdict::Clean | Verdict::Corrected, Status::Finished) => GOOD,
    }
}

/// The code of a command that ended with an error: `failed` says that nothing was written, which a repair that got into
/// trouble on its way cannot say. What is lost in all copies is lost, whatever was asked for.
pub(crate) fn of_error(error: &anyhow::Error, failed: Code) -> Code {
    let has_written = error.chain().any(|cause| matches!(cause.downcast_ref(), Some(RepairError::Broken(_))));
    match (has_written, failed) {
        (false, FAILED) if has_lost_all(error) => UNCORRECTABLE,
        (false, failed) => failed,
        (true, FAILED) => INTERRUPTED,
        (true, _) => of_outcome_as_fsck(Status::Interrupted, Verdict::Correctable),
    }
}

/// Is every copy bad of a tree without which nothing can be found?
fn has_lost_all(error: &anyhow::Error) -> bool {
    let is_lost = |why: &LostBlock| matches!(why, LostBlock::Bad { .. } | LostBlock::Unreadable { .. });
    let of_open = |error: &OpenError| match error {
        OpenError::ChunkTree(why) | OpenError::RootTree(why) => is_lost(why),
        OpenError::Set(_) | OpenError::SystemChunk(_) => false,
    };
    error.chain().filter_map(|cause| cause.downcast_ref::<OpenError>()).any(of_open)
}

/// The exit code of an extraction. What is damaged outweighs that the run was cut short.
pub(crate) fn of_extraction(status: Status, is_all_there: bool) -> Code {
    match (is_all_there, status) {
        (false, _) => UNCORRECTABLE,
        (true, Status::Interrupted) => INTERRUPTED,
        (true, Status::Finished) => GOOD,
    }
}

/// The code of a command that could not be performed, in fsck's way.
pub(crate) const FAILED_AS_FSCK: Code = Code(8);
/// The code of wrong usage, in fsck's way.
pub(crate) const USAGE_AS_FSCK: Code = Code(16);

/// The exit code in fsck's way (fsck(8)): a sum of bits.
pub(crate) fn of_outcome_as_fsck(status: Status, verdict: Verdict) -> Code {
    let left = match verdict {
        Verdict::Clean => 0,
        Verdict::Corrected => 1,
        Verdict::Correctable | Verdict::Uncorrectable => 4,
    };
    let ended_early = if status == Status::Interrupted { 32 } else { 0 };
    Code(left | ended_early)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fsck_codes_are_sums_of_bits() {
        assert_eq!(of_outcome_as_fsck(Status::Finished, Verdict::Clean), Code(0));
        assert_eq!(of_outcome_as_fsck(Status::Finished, Verdict::Corrected), Code(1));
        assert_eq!(of_outcome_as_fsck(Status::Finished, Verdict::Correctable), Code(4));
        assert_eq!(of_outcome_as_fsck(Status::Interrupted, Verdict::Clean), Code(32));
        assert_eq!(of_outcome_as_fsck(Status::Interrupted, Verdict::Uncorrectable), Code(36));
    }

    #[test]
    fn several_jobs_end_with_the_worst() {
        assert_eq!(GOOD.or_worse(INTERRUPTED), INTERRUPTED);
        assert_eq!(CORRECTABLE.or_worse(INTERRUPTED), CORRECTABLE);
        assert_eq!(UNCORRECTABLE.or_worse(FAILED), UNCORRECTABLE);
        assert_eq!(GOOD.or_worse(GOOD), GOOD);
    }

    #[test]
    fn a_killed_process_has_failed() {
        use std::os::unix::process::ExitStatusExt as _;
        assert_eq!(Code::of_process(ExitStatus::from_raw(9)), FAILED);
        assert_eq!(Code::of_process(ExitStatus::from_raw(3 << 8)), UNCORRECTABLE);
    }

    #[test]
    fn every_outcome_has_the_code_of_the_manual() {
        use Status::{Finished, Interrupted};
        use Verdict::{Clean, Correctable, Corrected, Uncorrectable};
        for (status, verdict, code) in [
            (Finished, Clean, 0),
            (Finished, Corrected, 0),
            (Finished, Correctable, 4),
            (Finished, Uncorrectable, 3),
            (Interrupted, Clean, 5),
            (Interrupted, Corrected, 5),
            (Interrupted, Correctable, 5),
            (Interrupted, Uncorrectable, 3),
        ] {
            assert_eq!(of_outcome(status, verdict), Code(code), "{status:?} {verdict:?}");
        }
    }
}
