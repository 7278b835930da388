//! The back-off filter in front of a policy: first a strict pass over the devices that work, and only when there is none
//! a tolerant one over all of them. Never answers "nowhere" while there is a copy.

use smallvec::SmallVec;

use super::backoff::{Admission, Backoff};
use super::{Completion, PolicyKind, ReadPolicy, Request, Selection};
use crate::units::DeviceId;

/// RAID1C4 has the most copies of a block.
const COPIES_MAX: usize = 4;

/// Picks the mirror for every read of one file system. Shared by all readers.
pub struct MirrorSelector {
    kind: PolicyKind,
    backoff: Backoff,
    policy: Box<dyn ReadPolicy>,
}

impl MirrorSelector {
    /// A selector for the members `devids` of a file system with this sector size (in bytes).
    pub fn new(kind: PolicyKind, devids: &[DeviceId], sectorsize_bytes: u32) -> Self {
        Self { kind, backoff: Backoff::new(devids), policy: kind.build(devids, sectorsize_bytes) }
    }

    /// The policy behind the filter.
    pub fn kind(&self) -> PolicyKind {
        self.kind
    }

    /// The copy to read, of those on `candidates` (in mirror order); `None` only where there are none.
    pub fn select(&self, candidates: &[DeviceId], request: &Request, now_ns: u64) -> Option<Selection> {
        let mut free: SmallVec<[usize; COPIES_MAX]> = SmallVec::new();
        for (index, &devid) in candidates.iter().enumerate() {
            match self.backoff.admit(devid, now_ns) {
                Admission::Free => free.push(index),
                Admission::Blocked => {}
                Admission::Trial => return self.ask(candidates, &[index], request, now_ns),
            }
        }
        if free.is_empty() {
            free.extend(0..candidates.len());
        }
        self.ask(candidates, &free, request, now_ns)
    }

    /// Lets the policy choose among the candidates at `indices`.
    fn ask(&self, candidates: &[DeviceId], indices: &[usize], request: &Request, now_ns: u64) -> Option<Selection> {
        let devids: SmallVec<[DeviceId; COPIES_MAX]> = indices.iter().map(|&index| candidates[index]).collect();
        if devids.is_empty() {
            return None;
        }
        let (chosen, ticket) = self.policy.choose(&devids, request, now_ns);
        Some(Selection { index: *indices.get(chosen)?, devid: *devids.get(chosen)?, ticket })
    }

    /// Tells the filter and the policy how the read of `selection` ended.
    pub fn report(&self, selection: Selection, done: &Completion) {
        let submitted_ns = done.now_ns.saturating_sub(done.latency_ns);
        self.backoff.observe(selection.devid, done.ok, submitted_ns, done.now_ns);
        self.policy.observe(selection.devid, selection.ticket, done);
    }
    /// Takes a selection back: the read will not happen.
    pub fn forget(&self, selection: Selection) {
        self.policy.forget(selection.devid, selection.ticket);
    }
}
