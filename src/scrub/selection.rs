//! Which part of a file system a scrub looks at. What is left out is not judged, and the report says what was.

use super::extent_sample::ExtentSample;
use super::finding::FindingKind;
use super::mend::Places;
use crate::units::{DeviceId, Generation, Logical};
use crate::volume::{Chunk, Layout};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

bitflags::bitflags! {
    /// Kinds of blocks.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Kinds: u8 {
        /// File data.
        const DATA = 1;
        /// Tree blocks.
        const METADATA = 2;
        /// Super block copies.
        const SUPERBLOCKS = 4;
        /// RAID5/6 parity.
        const PARITY = 8;
    }
}

/// Which copies of each block are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Copies {
    /// Every copy, and parity.
    #[default]
    All,
    /// One copy, picked by the read policy: what a reader would get. The others are read where it is bad.
    One,
    /// Those on one device. The others are read where one is bad.
    OnDevice(DeviceId),
}

/// What to look at.
#[derive(Clone, Debug)]
pub struct Selection {
    /// Kinds of blocks.
    pub kinds: Kinds,
    /// Copies of each block.
    pub copies: Copies,
    /// Only what was written in this transaction or later.
    pub since: Option<Generation>,
    /// Only these windows.
    pub places: Option<Places>,
    /// Only the block groups that start here.
    pub block_groups: Option<BTreeSet<Logical>>,
    /// Block groups that were looked at before, and the generation of the file system at that time: only what has been
    /// written since is looked at again.
    pub done: BTreeMap<Logical, Generation>,
    /// The same for sections of block groups that are not done as a whole.
    pub done_sections: BTreeMap<Logical, Generation>,
    /// What was seen by whoever has looked at what is passed over as old; `None` where that is not known or does not matter.
    pub seen: Option<Arc<ExtentSample>>,
}

/// What a run was asked to look at, in one sitting or several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Selected {
    /// Kinds of blocks.
    pub kinds: Kinds,
    /// Copies of each block.
    pub copies: Copies,
    /// Only what was written in this transaction or later.
    pub since: Option<Generation>,
    /// Only the surroundings of what an earlier report found.
    pub is_of_findings: bool,
    /// Only so many block groups.
    pub block_groups: Option<u64>,
}

impl Selected {
    /// Everything.
    pub const ALL: Self =
        Self { kinds: Kinds::all(), copies: Copies::All, since: None, is_of_findings: false, block_groups: None };

    /// True where nothing was left out.
    pub fn is_everything(&self) -> bool {
        *self == Self::ALL
    }

    /// Was anything on this device to be read?
    pub fn has_any_of(&self, devid: DeviceId) -> bool {
        !matches!(self.copies, Copies::OnDevice(only) if only != devid)
    }

    /// Was all of this device to be read?
    pub fn has_all_of(&self, devid: DeviceId) -> bool {
        let copies = if self.copies == Copies::OnDevice(devid) { Copies::All } else { self.copies };
        Self { copies, ..*self }.is_everything()
    }
}

impl Default for Selection {
    /// Everything.
    fn default() -> Self {
        Self {
            kinds: Kinds::all(),
            copies: Copies::All,
            since: None,
            places: None,
            block_groups: None,
            done: BTreeMap::new(),
            done_sections: BTreeMap::new(),
            seen: None,
        }
    }
}

impl Selection {
    /// What is asked for, whatever earlier sittings have seen of it.
    pub fn selected(&self) -> Selected {
        Selected {
            kinds: self.kinds,
            copies: self.copies,
            since: self.since,
            is_of_findings: self.places.is_some(),
            block_groups: self.block_groups.as_ref().map(|groups| groups.len() as u64),
        }
    }

    /// True where nothing is left out.
    pub fn is_everything(&self) -> bool {
        self.kinds == Kinds::all()
            && self.copies == Copies::All
            && self.since.is_none()
            && self.places.is_none()
            && self.block_groups.is_none()
            && self.done.is_empty()
            && self.done_sections.is_empty()
    }

    /// Is all that this block group has on this device looked at, in a file system at `now`?
    pub fn is_whole_on(&self, devid: DeviceId, chunk: &Chunk, now: Generation) -> bool {
        let no_part = self.since.is_none() && self.places.is_none() && !self.done_sections_in(chunk);
        let kinds = (!chunk.holds_data() || self.includes(Kinds::DATA, chunk))
            && (!chunk.holds_metadata() || self.includes(Kinds::METADATA, chunk))
            && (!has_parity(chunk) || self.kinds.contains(Kinds::PARITY));
        no_part && kinds && self.copies != Copies::One && self.wants_device(devid) && self.wants_chunk(chunk, now)
    }

    fn done_sections_in(&self, chunk: &Chunk) -> bool {
        self.done_sections.range(chunk.start()..chunk.end()).next().is_some()
    }

    /// True where every tree block is seen in this run, in one copy at least.
    pub(super) fn sees_all_blocks(&self) -> bool {
        let has_no_past = self.done.is_empty() && self.done_sections.is_empty();
        self.is_of_all() && has_no_past && !matches!(self.copies, Copies::OnDevice(_))
    }

    /// True where nothing is left out but what an earlier sitting has seen, or more copies of the same.
    pub(super) fn is_of_all(&self) -> bool {
        self.kinds == Kinds::all() && self.since.is_none() && self.places.is_none() && self.block_groups.is_none()
    }

    /// Are copies on this device told of?
    pub(super) fn wants_device(&self, devid: DeviceId) -> bool {
        !matches!(self.copies, Copies::OnDevice(only) if only != devid)
    }

    /// Is such a finding told of?
    pub(super) fn wants_finding(&self, kind: FindingKind, devid: DeviceId) -> bool {
        let kind = match kind {
            FindingKind::Superblock => Kinds::SUPERBLOCKS,
            FindingKind::Metadata => Kinds::METADATA,
            FindingKind::Data => Kinds::DATA,
            FindingKind::Parity => Kinds::PARITY,
        };
        self.kinds.contains(kind) && self.wants_device(devid)
    }

    /// Is there anything to look at in this block group of a file system at `now`?
    pub(super) fn wants_chunk(&self, chunk: &Chunk, now: Generation) -> bool {
        let start = chunk.start();
        let listed = self.block_groups.as_ref().is_none_or(|groups| groups.contains(&start));
        let placed = self.places.as_ref().is_none_or(|places| places.has_any_of(start));
        let is_done = self.done.get(&start).is_some_and(|then| *then >= now);
        listed && placed && !is_done && self.wants_kinds_of(chunk)
    }

    /// Are there blocks in this chunk of a kind that is looked at?
    pub fn wants_kinds_of(&self, chunk: &Chunk) -> bool {
        (chunk.holds_data() && self.includes(Kinds::DATA, chunk))
            || (chunk.holds_metadata() && self.includes(Kinds::METADATA, chunk))
    }

    /// Are blocks of this kind looked at in this chunk? To judge parity, all blocks of its rows are.
    pub(super) fn includes(&self, kind: Kinds, chunk: &Chunk) -> bool {
        self.kinds.contains(kind) || (self.kinds.contains(Kinds::PARITY) && has_parity(chunk))
    }

    /// The first generation that is looked at in a chunk; `None` where age does not matter.
    pub(super) fn since_in(&self, chunk: &Chunk) -> Option<Generation> {
        self.since.max(self.done.get(&chunk.start()).copied().map(after))
    }

    /// Was this old extent seen, as far as is known?
    pub(super) fn may_have_seen(&self, start: Logical, generation: Generation) -> bool {
        self.seen.as_ref().is_none_or(|seen| seen.may_have(start, generation))
    }

    /// The same for the section of a chunk that starts here.
    pub(super) fn since_section(&self, start: Logical) -> Option<Generation> {
        self.done_sections.get(&start).copied().map(after)
    }

    /// True where only some stripes of a window of this chunk are read at first.
    pub(super) fn is_partial_in(&self, chunk: &Chunk) -> bool {
        self.copies != Copies::All || (has_parity(chunk) && !self.kinds.contains(Kinds::PARITY))
    }

    /// What was not looked at, in one lowercase line each.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.kinds != Kinds::all() {
            let left_out: Vec<String> =
                (!self.kinds & Kinds::all()).iter_names().map(|(name, _)| name.to_lowercase()).collect();
            notes.push(format!("not looked at, as asked: {}", left_out.join(", ")));
        }
        match self.copies {
            Copies::All => {}
            Copies::One => notes.push(
                "one copy of each block was read; other copies and parity were not looked at unless it was bad"
                    .to_owned(),
            ),
            Copies::OnDevice(devid) => notes.push(format!(
                "only copies on devid {devid} were read; other devices and parity were not looked at unless one was bad"
            )),
        }
        if let Some(since) = self.since {
            notes.push(format!(
                "only blocks written in generation {since} or later were looked at; damage to older ones is out of sight"
            ));
        }
        if self.places.is_some() {
            notes.push("only the surroundings of earlier findings were looked at".to_owned());
        }
        if let Some(groups) = &self.block_groups {
            let looked_at = if groups.len() == 1 { "block group was" } else { "block groups were" };
            notes.push(format!("only {} {looked_at} looked at", groups.len()));
        }
        notes
    }
}

fn after(generation: Generation) -> Generation {
    Generation::new(generation.raw().saturating_add(1))
}

/// Has this chunk P, or P and Q?
pub(super) fn has_parity(chunk: &Chunk) -> bool {
    chunk.profile().row().layout == Layout::Parity
}
