//! Which mirror to read from: strategies behind one trait, and the failed-I/O back-off in front of them.
//!
//! Everything here is a decision over what was observed. Nothing does I/O or reads a clock: the time comes with each
//! call, so that threads over real devices and the simulator over modelled ones drive the same code. The hot path
//! takes no lock; state is plain atomics, and a lost update costs one sample.
//!
//! The life of a read: [`MirrorSelector::select`] answers a [`Selection`], the caller reads, and hands the selection
//! back with [`MirrorSelector::report`]. Every selection must be reported once, or taken back with
//! [`MirrorSelector::forget`]: `auto` counts what is in flight.
//!
//! Names and syntax follow the kernel's `read_policy` where it has them (`btrfs_read_policy` in `fs/btrfs/sysfs.c`,
//! the choice itself in `find_live_mirror()` of `fs/btrfs/volumes.c`).

mod auto;
mod backoff;
mod curve;
mod device_table;
mod fixed;
mod kind;
mod latency;
mod round_robin;
mod selector;
mod streams;

#[cfg(test)]
mod tests;

pub use kind::{MinContiguous, PolicyKind, UnknownPolicy};
pub use selector::MirrorSelector;

use crate::units::{DeviceId, Logical};

/// What is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Where it starts.
    pub logical: Logical,
    /// How much, in bytes.
    pub len_bytes: u64,
    /// Who asks: a process, a thread, a walk. `pid` spreads streams; `auto` keeps the runs of a stream together.
    pub stream: u64,
}

/// What the policy remembers about a read until it completes. Opaque to callers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ticket(u32);

/// The mirror to read from; to be handed back with [`MirrorSelector::report`].
#[must_use = "every selection must be reported, or the device counts as busy for ever"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Selection {
    /// Index into the candidates.
    pub index: usize,
    /// The device at that index.
    pub devid: DeviceId,
    ticket: Ticket,
}

/// How a read ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// From being submitted to being done.
    pub latency_ns: u64,
    /// How much was read.
    pub bytes: u64,
    /// Whether the device delivered. A checksum mismatch is not the device's failure to answer: it reports `true`.
    pub ok: bool,
    /// When it ended.
    pub now_ns: u64,
}

/// A strategy that picks one of several copies.
pub trait ReadPolicy: Send + Sync {
    /// The index of the candidate to read from. `candidates` are the devices of the copies in mirror order and never
    /// empty; the answer is below their number.
    fn choose(&self, candidates: &[DeviceId], request: &Request, now_ns: u64) -> (usize, Ticket);

    /// Learns from a read that has ended on `devid`.
    fn observe(&self, devid: DeviceId, ticket: Ticket, done: &Completion) {
        let _ = (devid, ticket, done);
    }

    /// A read that was chosen for `devid` will not happen.
    fn forget(&self, devid: DeviceId, ticket: Ticket) {
        let _ = (devid, ticket);
    }
}
