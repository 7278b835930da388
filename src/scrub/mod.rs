//! Reads every copy of everything allocated, judges the copies together, and reports. Never writes.

pub mod finding;
pub mod outcome;
pub mod progress;
pub mod tally;
