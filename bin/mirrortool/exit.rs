//! The exit codes, which are part of the interface: one function from outcome to code.

use mirrortool::scrub::outcome::{Status, Verdict};
use std::process::ExitCode;

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
/// Ended early, nothing uncorrectable so far.
pub(crate) const INTERRUPTED: Code = Code(5);

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

#[cfg(test)]
mod tests {
    use super::*;

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
