//! Measuring without luck: device models, a simulator that runs them in virtual time, workloads and statistics.
//!
//! The simulator decides nothing: it drives the same read policies and readahead state machines that threads drive over
//! real devices. A run over models gives the same figures on every machine.

// The floats here are times, rates and shares: never below zero.
#![allow(clippy::cast_sign_loss)]

mod controller;
pub mod emulate;
pub mod layout;
pub mod model;
pub mod policy;
mod random;
pub mod readahead;
pub mod simulator;
pub mod statistics;
pub mod workload;
