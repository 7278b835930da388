//! One thin file per command: its arguments, and the calls into the library that carry them out.

mod bench_options;
pub(crate) mod completions;
pub(crate) mod extract;
pub(crate) mod layout_bench;
pub(crate) mod man;
pub(crate) mod policy_bench;
pub(crate) mod readahead_bench;
pub(crate) mod rebuild;
pub(crate) mod repair;
pub(crate) mod run;
pub(crate) mod scrub;
pub(crate) mod show;
