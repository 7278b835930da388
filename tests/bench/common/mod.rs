//! What the benchmark programs share: images made by the kernel, the list of what is allocated, contenders, and rounds.
#![allow(dead_code, reason = "each benchmark uses its part")]

mod contender;
mod extents;
mod holes;
mod rounds;
mod setup;

pub(crate) use contender::Contender;
pub(crate) use extents::{Extents, REQUEST_BYTES};
pub(crate) use rounds::measure;
pub(crate) use setup::{Fill, Layout, Setup};

/// Is this process root?
pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
