#![doc = include_str!("ARCHITECTURE.md")]

pub mod bench;
pub mod checksum;
pub mod device;
pub mod filesystem;
pub mod format;
pub mod lease;
pub mod md;
pub mod owners;
pub mod repair;
pub mod report;
pub mod scrub;
pub mod stack;
pub mod tree;
pub mod units;
pub mod volume;
