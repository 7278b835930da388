//! From md members to an array: whose word counts, who has which role, who missed writes.
//!
//! Decides as `super_1_validate`, `md_kick_rdev_from_array` and `analyze_sbs` in `drivers/md/md.c` do: the member with the
//! most events speaks for the array; who is behind by more than one event does not belong; the role is the one that the
//! newest super block gives. Never writes, and never starts what the kernel would refuse to start.

mod bad_blocks;
mod member;
mod mirrored;
mod parity;

use self::member::{Member, Members};
use self::mirrored::{Copies, Mirrored};
use self::parity::Parity;
use super::StackError;
use super::layered::About;
use super::node::{Linear, Node, Stretch, Striped};
use crate::device::{Layer, LowerState, MdLayer, ParityRows, ReadOnlyReason};
use crate::format::md_superblock::{MD_SUPERBLOCK_BYTES, MdSuperblock, MdVersion, role};
use crate::md::{Raid10, Raid456};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// P and Q of longer chunks are not judged: a row of them would take too much memory.
const MAX_JUDGED_CHUNK_BYTES: u64 = 16 << 20;

/// The md super block of a node, and why one that is there cannot be used.
pub(super) fn probe(node: &dyn Node) -> Option<MdSuperblock> {
    let len = node.len();
    MdVersion::ALL.into_iter().find_map(|version| {
        let at = version.place(len)?;
        let mut bytes = vec![0; MD_SUPERBLOCK_BYTES];
        node.read(at, &mut bytes).ok()?;
        MdSuperblock::parse(&bytes, version, at, len).ok()
    })
}

/// A node with an md super block.
pub(super) struct Candidate {
    pub(super) path: PathBuf,
    pub(super) node: Arc<dyn Node>,
    pub(super) layers: super::FileLayers,
    pub(super) about: About,
    pub(super) superblock: MdSuperblock,
}

/// What became of each candidate, by its number.
pub(super) struct Assembled {
    pub(super) node: Arc<dyn Node>,
    pub(super) rows: Option<Arc<dyn ParityRows>>,
    pub(super) about: About,
    pub(super) layer: Arc<MdLayer>,
    pub(super) states: Vec<(LowerState, Option<u32>)>,
}

/// Puts the members of one array together. `number` is that of the next array with parity.
pub(super) fn assemble(candidates: &[Candidate], number: usize) -> Result<Assembled, StackError> {
    let newest = candidates.iter().max_by_key(|candidate| candidate.superblock.events).ok_or(StackError::Nothing)?;
    let newest = &newest.superblock;
    refuse_twins(candidates)?;
    let mut states = Vec::with_capacity(candidates.len());
    let mut chosen: BTreeMap<u32, usize> = BTreeMap::new();
    let mut has_replacement = false;
    for (nth, candidate) in candidates.iter().enumerate() {
        let (state, slot) = state_of(&candidate.superblock, newest);
        if let Some(slot) = slot.filter(|_| matches!(state, LowerState::InSync | LowerState::Rebuilding)) {
            match chosen.get(&slot).copied() {
                None => drop(chosen.insert(slot, nth)),
                Some(other) => {
                    has_replacement = true;
                    // The one that is replaced has everything; its replacement may not.
                    let better = |nth: usize| candidates.get(nth).map(|c| !c.superblock.features.replacement);
                    if better(nth) > better(other) {
                        chosen.insert(slot, nth);
                    }
                }
            }
        }
        states.push((state, slot));
    }
    for (nth, (state, slot)) in states.iter_mut().enumerate() {
        let is_used = slot.is_some_and(|slot| chosen.get(&slot) == Some(&nth));
        if !is_used && matches!(state, LowerState::InSync | LowerState::Rebuilding) {
            *state = LowerState::Extra;
        }
    }
    let members: Vec<Option<Member>> =
        (0..newest.raid_disks).map(|slot| chosen.get(&slot).and_then(|nth| candidates.get(*nth)).map(member)).collect();
    let layer = Arc::new(describe(newest, &members));
    let shape = Shape { newest, number, name: layer.to_string() };
    let (node, rows) = shape.node(members)?;
    let used = chosen.values().filter_map(|nth| candidates.get(*nth)).map(|candidate| candidate.about.clone());
    let below = About::together(used);
    let is_whole = layer.in_sync == layer.raid_disks;
    let has_others = states.iter().any(|(state, _)| matches!(state, LowerState::Stale | LowerState::Faulty));
    let read_only = reason(newest, has_replacement);
    let mut notes = below.notes.clone();
    notes.extend(notes_of(candidates, &states, &layer, newest));
    if newest.chunk_bytes > MAX_JUDGED_CHUNK_BYTES && matches!(newest.level, 4..=6) {
        notes.push(format!("chunks of {} bytes: parity is used, and not judged", newest.chunk_bytes));
    }
    if let Some(reason) = &read_only {
        notes.push(format!("{reason}: it is read, and not written"));
    }
    let about = About {
        has_copies: below.has_copies || matches!(newest.level, 1 | 10),
        is_degraded: below.is_degraded || !is_whole || has_others,
        read_only: read_only.or(below.read_only.clone()),
        notes,
        chain: below.chain,
    };
    let about = about.on_top(&layer.to_string());
    Ok(Assembled { node, rows, about, layer, states })
}

/// Two that say they are the same member: a copy of one, or one disk under two names.
fn refuse_twins(candidates: &[Candidate]) -> Result<(), StackError> {
    let mut seen: BTreeMap<_, &Candidate> = BTreeMap::new();
    for candidate in candidates {
        if let Some(first) = seen.insert(candidate.superblock.device_uuid, candidate) {
            return Err(StackError::MdTwins {
                first: first.path.clone(),
                second: candidate.path.clone(),
                uuid: candidate.superblock.device_uuid,
            });
        }
    }
    Ok(())
}

/// Whether a member can be relied on, and the slot that it has.
fn state_of(own: &MdSuperblock, newest: &MdSuperblock) -> (LowerState, Option<u32>) {
    let given = newest.role_of(own.dev_number);
    let slot = (given < role::FIRST_SPECIAL && u32::from(given) < newest.raid_disks).then_some(u32::from(given));
    // The role that it once had is told of one that has none any more.
    let former = own.role_of(own.dev_number);
    let former = (former < role::FIRST_SPECIAL).then_some(u32::from(former));
    if own.events.saturating_add(1) < newest.events {
        return (LowerState::Stale, slot.or(former));
    }
    match given {
        role::FAULTY if own.events < newest.events => (LowerState::Stale, former),
        role::FAULTY => (LowerState::Faulty, former),
        role::JOURNAL => (LowerState::Extra, None),
        _ if slot.is_none() && former.is_some() => (LowerState::Stale, former),
        _ if slot.is_none() => (LowerState::Spare, None),
        _ if own.recovery_offset_bytes.is_some_and(|offset| offset < newest.member_bytes) => {
            (LowerState::Rebuilding, slot)
        }
        _ => (LowerState::InSync, slot),
    }
}

fn member(candidate: &Candidate) -> Member {
    let superblock = &candidate.superblock;
    let in_sync_bytes = superblock.recovery_offset_bytes.unwrap_or(u64::MAX).min(superblock.data_bytes);
    let bad = bad_blocks::read(&*candidate.node, superblock);
    Member { node: Arc::clone(&candidate.node), data_offset: superblock.data_offset_bytes, in_sync_bytes, bad }
}

fn reason(newest: &MdSuperblock, has_replacement: bool) -> Option<ReadOnlyReason> {
    let features = newest.features;
    let reasons = [
        (features.reshape, ReadOnlyReason::MdReshape),
        (features.journal, ReadOnlyReason::MdJournal),
        (features.ppl, ReadOnlyReason::MdPpl),
        (features.clustered, ReadOnlyReason::MdClustered),
        (features.unclean, ReadOnlyReason::MdUnclean),
        (features.replacement || has_replacement, ReadOnlyReason::MdReplacement),
    ];
    reasons.into_iter().find(|(holds, _)| *holds).map(|(_, reason)| reason)
}

fn describe(newest: &MdSuperblock, members: &[Option<Member>]) -> MdLayer {
    let in_sync = |member: &Member| member.in_sync_bytes >= newest.member_bytes;
    let layout = match newest.level {
        5 | 6 => crate::md::ParityLayout::of_md(newest.level, newest.layout).map(|layout| layout.to_string()),
        10 => geometry10(newest).map(|geometry| geometry.layout().to_string()),
        _ => None,
    };
    MdLayer {
        level: if newest.level == -1 { "linear".to_owned() } else { format!("raid{}", newest.level) },
        layout,
        chunk_bytes: Some(newest.chunk_bytes).filter(|bytes| *bytes > 0 && !matches!(newest.level, 1 | -1)),
        raid_disks: newest.raid_disks,
        in_sync: members.iter().flatten().filter(|member| in_sync(member)).count() as u32,
        missing_roles: (0..).zip(members).filter(|(_, member)| member.is_none()).map(|(slot, _)| slot).collect(),
        events: newest.events,
        metadata: newest.version.word(),
        uuid: newest.set_uuid,
    }
}

fn geometry10(newest: &MdSuperblock) -> Option<Raid10> {
    Raid10::of_md(newest.layout, newest.raid_disks, newest.chunk_bytes, newest.member_bytes).ok()
}

fn notes_of(
    candidates: &[Candidate],
    states: &[(LowerState, Option<u32>)],
    layer: &MdLayer,
    newest: &MdSuperblock,
) -> Vec<String> {
    let mut notes = Vec::new();
    for (candidate, (state, slot)) in candidates.iter().zip(states) {
        let path = candidate.path.display();
        let slot = slot.map_or_else(String::new, |slot| format!(" (role {slot})"));
        let have = candidate.superblock.events;
        match state {
            LowerState::InSync => {}
            LowerState::Stale => notes.push(format!(
                "{path}{slot}: stale md member, events {have}, the array is at {}; it is neither read nor written",
                newest.events
            )),
            LowerState::Rebuilding => notes.push(format!("{path}{slot}: md member that is not wholly in sync yet")),
            other => notes.push(format!("{path}{slot}: {} md member; it is neither read nor written", other.word())),
        }
    }
    for slot in &layer.missing_roles {
        let has_stale = states.iter().any(|(state, held)| *state != LowerState::InSync && held == &Some(*slot));
        if !has_stale {
            notes.push(format!("md {}: no member with role {slot} was given; the array is degraded", layer.level));
        }
    }
    notes
}

/// What the geometry of an array is made from.
struct Shape<'a> {
    newest: &'a MdSuperblock,
    number: usize,
    name: String,
}

type Made = (Arc<dyn Node>, Option<Arc<dyn ParityRows>>);

impl Shape<'_> {
    fn node(&self, members: Vec<Option<Member>>) -> Result<Made, StackError> {
        let newest = self.newest;
        let bad = || StackError::MdGeometry { array: self.name.clone() };
        let present = members.iter().flatten().count();
        let need = match newest.level {
            4 | 5 => members.len().saturating_sub(1),
            6 => members.len().saturating_sub(2),
            1 | 10 => 1,
            _ => members.len(),
        };
        if present < need.max(1) {
            return Err(StackError::MdTooFew { array: self.name.clone(), have: present, need });
        }
        // Every member must have what the array uses of it.
        let is_short = |member: &Member| {
            member.data_offset.checked_add(newest.member_bytes).is_none_or(|end| end > member.node.len())
        };
        if !matches!(newest.level, -1 | 0) && members.iter().flatten().any(is_short) {
            return Err(bad());
        }
        match newest.level {
            1 => {
                let copies = Copies::Raid1 { len_bytes: newest.member_bytes };
                Ok((Arc::new(Mirrored { members: Members(members), copies }), None))
            }
            10 => {
                let copies = Copies::Raid10(geometry10(newest).ok_or_else(bad)?);
                Ok((Arc::new(Mirrored { members: Members(members), copies }), None))
            }
            4..=6 => {
                let (disks, chunk) = (newest.raid_disks, newest.chunk_bytes);
                let geometry = Raid456::new(newest.level, newest.layout, disks, chunk, newest.member_bytes);
                let geometry = geometry.ok_or_else(bad)?;
                let array = Arc::new(Parity { members: Members(members), geometry, number: self.number });
                Ok((Arc::clone(&array) as Arc<dyn Node>, Some(array)))
            }
            -1 => Ok((Arc::new(self.linear(members).ok_or_else(bad)?), None)),
            0 => Ok((Arc::new(self.striped(members)?.ok_or_else(bad)?), None)),
            level => Err(StackError::MdLevel { level }),
        }
    }

    fn linear(&self, members: Vec<Option<Member>>) -> Option<Linear> {
        let chunk = self.newest.chunk_bytes.max(1);
        let stretch = |member: Member| Stretch {
            len_bytes: member.in_sync_bytes / chunk * chunk,
            from: member.data_offset,
            node: member.node,
        };
        Linear::new(members.into_iter().flatten().map(stretch).collect())
    }

    /// Zones: as long as all members reach, then as long as those that are left reach, and so on.
    fn striped(&self, members: Vec<Option<Member>>) -> Result<Option<Linear>, StackError> {
        let chunk = self.newest.chunk_bytes;
        if chunk == 0 {
            return Ok(None);
        }
        let members: Vec<Member> = members.into_iter().flatten().collect();
        let size = |member: &Member| member.in_sync_bytes / chunk * chunk;
        let mut ends: Vec<u64> = members.iter().map(size).filter(|size| *size > 0).collect();
        ends.sort_unstable();
        ends.dedup();
        // 1 is the layout of old kernels, 2 that of newer ones; with one zone there is no difference.
        let goes_on = match (self.newest.features.raid0_layout, self.newest.layout) {
            (true, 1) => true,
            (true, 2) => false,
            _ if ends.len() < 2 => false,
            _ => return Err(StackError::MdRaid0Layout { array: self.name.clone() }),
        };
        let (mut zones, mut start, mut strips_before) = (Vec::new(), 0, 0);
        for end in ends {
            let here = || (0..).zip(&members).filter(|(_, member)| size(member) >= end);
            let columns = here().map(|(_, m)| (Arc::clone(&m.node), m.data_offset.saturating_add(start))).collect();
            let roles = here().map(|(role, _)| role).collect();
            let before = if goes_on { strips_before } else { 0 };
            let Some(zone) = Striped::new(columns, chunk, end - start, Some(roles), before) else { return Ok(None) };
            let len_bytes = zone.len();
            strips_before += len_bytes / chunk;
            zones.push(Stretch { len_bytes, node: Arc::new(zone), from: 0 });
            start = end;
        }
        Ok(Linear::new(zones))
    }
}

/// The layer of one member.
pub(super) fn layer(array: &Arc<MdLayer>, slot: Option<u32>) -> Layer {
    Layer::Md(Arc::clone(array), slot)
}
