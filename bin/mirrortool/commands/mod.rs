//! One thin file per command: its arguments, and the calls into the library that carry them out.

pub(crate) mod completions;
pub(crate) mod man;
pub(crate) mod run;
pub(crate) mod scrub;
pub(crate) mod show;
