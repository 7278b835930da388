//! What `mirrortool run` says about a job that ended: one line that can be read in the morning, and whether what the
//! job printed is shown below it. Decides only; the job's own text report is where the numbers come from.

use crate::exit;
use std::time::Duration;

/// A job that ended.
#[derive(Debug)]
pub(crate) struct JobOutcome {
    pub(crate) code: exit::Code,
    /// It ended as it may.
    pub(crate) is_well: bool,
    /// Its report.
    pub(crate) stdout: Vec<u8>,
    /// Its warnings and errors.
    pub(crate) stderr: Vec<u8>,
    pub(crate) duration: Duration,
}

impl JobOutcome {
    /// Of a job that may end with any of the exit statuses in `accept`, as long as it has found nothing.
    pub(crate) fn of(code: exit::Code, accept: &[u8], stdout: Vec<u8>, stderr: Vec<u8>, duration: Duration) -> Self {
        let ended = Self { code, is_well: code == exit::GOOD, stdout, stderr, duration };
        let is_well = ended.is_well || (accept.contains(&code.number()) && ended.tells_of_nothing());
        Self { is_well, ..ended }
    }

    /// Whether an exit status that a job may end with is no more than it says: a scrub that ended early and has found
    /// something has found something.
    fn tells_of_nothing(&self) -> bool {
        self.stdout.is_empty() || self.field("Error summary").is_some_and(|summary| summary.contains("no errors "))
    }

    /// All that the job printed.
    pub(crate) fn printed(&self) -> Vec<u8> {
        [self.stdout.as_slice(), &self.stderr].concat()
    }

    /// What to print, with the line of the job `called` first: all where it did not end well, the warnings where it did.
    pub(crate) fn message(&self, called: &str) -> Vec<u8> {
        let line = format!("{called} {}\n", self.sentence());
        let below = if self.is_well { self.stderr.clone() } else { self.printed() };
        [line.into_bytes(), below].concat()
    }

    /// Is there nothing that anybody has to know? A job that had to correct something, or that warned, is not one.
    pub(crate) fn is_all_well(&self) -> bool {
        self.is_well && self.stderr.is_empty() && self.field("Result").is_none()
    }

    fn sentence(&self) -> String {
        let ended = match (self.code == exit::GOOD, self.is_well) {
            (true, _) => "went well".to_owned(),
            (false, true) => format!("ended with {}, as it may,", self.code),
            (false, false) => format!("ended with {}", self.code),
        };
        let found = self.field("Result").or_else(|| self.field("Error summary"));
        let told: Vec<_> = self.field("Total to scrub").into_iter().chain(found).collect();
        let colon = if told.is_empty() { "" } else { ": " };
        format!("{ended} after {}{colon}{}", clock(self.duration), told.join(", "))
    }

    /// The value of a line of the text report; none where the job was told to print something else.
    fn field(&self, label: &str) -> Option<String> {
        let text = String::from_utf8_lossy(&self.stdout);
        let value = |line: &str| Some(line.strip_prefix(label)?.strip_prefix(':')?.trim().to_owned());
        text.lines().find_map(value)
    }
}

fn clock(duration: Duration) -> String {
    let seconds = duration.as_secs();
    format!("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::ExitStatus;

    fn ended_where(accept: &[u8], code: i32, stdout: &str, stderr: &str) -> JobOutcome {
        let code = exit::Code::of_process(ExitStatus::from_raw(code << 8));
        JobOutcome::of(code, accept, stdout.into(), stderr.into(), Duration::from_secs(7384))
    }

    fn ended(code: i32, stdout: &str, stderr: &str) -> JobOutcome {
        ended_where(&[], code, stdout, stderr)
    }

    fn message(outcome: &JobOutcome) -> String {
        String::from_utf8_lossy(&outcome.message("pool: scrub")).into_owned()
    }

    const CLEAN: &str = "UUID:             0\nTotal to scrub:   7.02GiB\nError summary:    no errors found\nnote: a\n";
    const CORRECTED: &str =
        "Total to scrub:   7.02GiB\nError summary:    csum=1\nResult:           1 sector corrected\n";

    #[test]
    fn what_went_well_is_one_line_that_says_how_much_was_read() {
        let outcome = ended(0, CLEAN, "");
        assert_eq!(message(&outcome), "pool: scrub went well after 2:03:04: 7.02GiB, no errors found\n");
        assert!(outcome.is_all_well());
        assert_eq!(message(&ended(0, "{}", "")), "pool: scrub went well after 2:03:04\n");
    }

    #[test]
    fn a_warning_or_a_correction_is_never_swallowed() {
        let warned = ended(0, CLEAN, "mirrortool: warning: mounted\n");
        assert!(!warned.is_all_well() && message(&warned).ends_with("no errors found\nmirrortool: warning: mounted\n"));
        let corrected = ended(0, CORRECTED, "");
        assert!(!corrected.is_all_well());
        assert_eq!(message(&corrected), "pool: scrub went well after 2:03:04: 7.02GiB, 1 sector corrected\n");
    }

    #[test]
    fn what_may_end_early_is_one_line_too_unless_it_has_found_something() {
        let early = "Error summary:    stopped after 1.00GiB of 7.02GiB; no errors in the part checked\n";
        assert!(ended(5, early, "").tells_of_nothing() && ended(2, "", "nothing to resume").tells_of_nothing());
        assert!(!ended(5, CORRECTED, "").tells_of_nothing() && !ended(5, "{}", "").tells_of_nothing());
        assert!(!ended_where(&[5], 5, CORRECTED, "").is_well && !ended_where(&[5], 2, "", "").is_well);
        let outcome = ended_where(&[5], 5, CLEAN, "");
        let line = "pool: scrub ended with exit status 5, as it may, after 2:03:04: 7.02GiB, no errors found\n";
        assert_eq!(message(&outcome), line);
        assert!(outcome.is_all_well());
    }

    #[test]
    fn what_did_not_go_well_is_shown_whole() {
        let failed = ended(1, "", "mirrortool: missing devid 3\n");
        assert_eq!(
            message(&failed),
            "pool: scrub ended with exit status 1 after 2:03:04\nmirrortool: missing devid 3\n"
        );
        let bad = message(&ended(4, CORRECTED, ""));
        let line = "pool: scrub ended with exit status 4 after 2:03:04: 7.02GiB, 1 sector corrected\n";
        assert_eq!(bad, format!("{line}{CORRECTED}"));
    }
}
