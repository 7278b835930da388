//! The super block copies of every member: each must parse, fit its device, be of the newest generation, count the
//! devices that there are, and have its place for itself.
//!
//! Kernel: `scrub_supers`, which compares the generation with that of the last commit; `btrfs_read_chunk_tree`, which
//! puts a wrong number of devices right with the next commit; `exclude_super_stripes`, which keeps the places free.

use super::below::wrong_copies;
use super::finding::{Evidence, Finding, FindingKind, Problem, RepairState};
use super::mend::{Mend, ProvenBytes, Source};
use super::reserved::{Occupant, occupant};
use super::selection::Selection;
use super::sink::Tally;
use crate::filesystem::Filesystem;
use crate::format::items::DevItem;
use crate::format::types::{key_type, object};
use crate::format::{Key, SUPERBLOCK_BYTES, Superblock, SuperblockError, SysChunk};
use crate::tree::Cursor;
use crate::units::{DevicePhysical, Logical, MirrorNum};
use crate::volume::{Chunk, Member, Profile, SuperblockCopy, SuperblockDefect};

/// The copy that is written with every log commit.
const FIRST: MirrorNum = MirrorNum::new(1);

/// Adds what is wrong with any super block copy, and the right bytes where they are wanted.
pub(super) fn scrub_supers(fs: &Filesystem, selection: &Selection, wants_mends: bool, tally: &mut Tally) {
    let mut absent = 0_u32;
    for member in fs.members().filter(|m| selection.wants_finding(FindingKind::Superblock, m.devid())) {
        for (nth, copy) in member.superblock_copies().iter().enumerate() {
            if nth > 0 && fs.superblock().is_metadump() && is_absent(member, copy) {
                absent += 1;
                continue;
            }
            let finding = judge(fs, member, nth, copy, tally).or_else(|| judge_below(fs, member, nth, copy, tally));
            let Some(finding) = finding else { continue };
            if wants_mends && finding.repair == RepairState::Possible {
                tally.mends.extend(mend(fs, member, &finding));
            }
            tally.find(finding, 0);
        }
    }
    if absent > 0 {
        tally.notes.push(format!("a dump is restored with the first super block alone: {absent} copies are not there"));
    }
}

/// Whether nobody has written a copy of this file system there.
fn is_absent(member: &Member, copy: &SuperblockCopy) -> bool {
    match &copy.state {
        Ok(superblock) => superblock.fsid() != member.fsid(),
        Err(SuperblockDefect::PastEnd) => true,
        Err(SuperblockDefect::Invalid(why)) => matches!(why, SuperblockError::Zeros | SuperblockError::Magic { .. }),
        Err(SuperblockDefect::Unreadable { .. }) => false,
    }
}

/// The best super block of the device, or of the set where the device missed transactions: for this place, and with the
/// device's item as the chunk tree has it.
fn mend(fs: &Filesystem, member: &Member, finding: &Finding) -> Option<Mend> {
    let newest = fs.superblock();
    let own = member.superblock();
    let is_current = own.generation() == newest.generation();
    let item = if is_current { Some(*own.dev_item()) } else { device_item(fs, member) };
    let best = if is_current { own } else { newest };
    let num_devices = fs.device_items().unwrap_or_else(|| best.num_devices());
    // A log commit writes first copies only; a commit writes all, and leaves no log.
    let log = if finding.mirror == FIRST { fs.log().known()? } else { None };
    let bytes = best.with_log_root(log).with_place(finding.physical, &item?, num_devices);
    let proved = Superblock::parse(&bytes, finding.physical).ok()?;
    if proved.generation() != newest.generation() || proved.dev_item().uuid != member.uuid() {
        return None;
    }
    let mut before = vec![0; SUPERBLOCK_BYTES];
    let read = member.device().read_at(finding.physical, &mut before);
    Some(Mend {
        kind: finding.kind,
        problem: finding.problem,
        logical: finding.logical,
        mirror: finding.mirror,
        member: DevicePhysical { devid: finding.devid, physical: finding.physical },
        place: DevicePhysical { devid: finding.devid, physical: finding.physical },
        source: Source::SuperblockOf(best.dev_item().devid),
        bytes: ProvenBytes::new(bytes.to_vec()),
        before: read.is_ok().then(|| before.into()),
        findings: 1,
        sectors: 0,
    })
}

fn device_item(fs: &Filesystem, member: &Member) -> Option<DevItem> {
    let key = Key::new(object::DEV_ITEMS.raw(), key_type::DEV_ITEM, member.devid().raw());
    let mut cursor = Cursor::new(fs, fs.roots().chunk);
    cursor.seek(&key);
    let (found, bytes) = cursor.item()?;
    (found == key).then(|| DevItem::parse(bytes).ok()).flatten().filter(|item| item.uuid == member.uuid())
}

fn judge(fs: &Filesystem, member: &Member, nth: usize, copy: &SuperblockCopy, tally: &mut Tally) -> Option<Finding> {
    let place = DevicePhysical { devid: member.devid(), physical: copy.at };
    let occupant = occupant(fs, place);
    let split = fs.splits().iter().find(|split| split.one_devid == member.devid());
    let (problem, evidence) = match (overlap(occupant), &copy.state) {
        (Some(overlap), _) => overlap,
        (None, Ok(_)) if split.is_some() => {
            (Problem::Generation, Evidence::Text(split.map(ToString::to_string).unwrap_or_default().into()))
        }
        (None, Ok(superblock)) => odd(fs, member, superblock)
            .or_else(|| other_chunks(fs, member, superblock))
            .or_else(|| other_log(fs, member, nth, superblock))?,
        (None, Err(why)) => classify(why),
    };
    let counters = tally.device(member.devid());
    counters.super_errors += 1;
    // A super block can always be made from a good copy: this one's, or another member's with its own device item. But
    // where something else is stored, one of the two is lost.
    let is_taken = matches!(occupant, Occupant::Extent(_));
    let mirror = MirrorNum::new(nth as u8 + 1);
    let has_unknown_log = mirror == FIRST && fs.log().known().is_none();
    Some(Finding {
        kind: FindingKind::Superblock,
        problem,
        logical: Logical::new(copy.at.raw()),
        length: SUPERBLOCK_BYTES as u32,
        mirror,
        devid: member.devid(),
        physical: copy.at,
        profile: Profile::Single,
        evidence,
        repair: match (is_taken, split) {
            (true, _) => RepairState::Impossible,
            (false, Some(_)) => RepairState::Undecidable,
            (false, None) if has_unknown_log || problem == Problem::Contradiction => RepairState::Undecidable,
            (false, None) => RepairState::Possible,
        },
        owner: None,
        below: Vec::new(),
    })
}

/// A copy that is whole where it was read, and not in every place that a layer below keeps of it.
fn judge_below(
    fs: &Filesystem,
    member: &Member,
    nth: usize,
    copy: &SuperblockCopy,
    tally: &mut Tally,
) -> Option<Finding> {
    let (below, superblock) = (member.device().below()?, copy.state.as_ref().ok()?);
    let places = wrong_copies(below, copy.at, superblock.as_bytes());
    let (_, first) = places.first()?;
    let (problem, evidence) = match first {
        Ok(bytes) => match Superblock::parse(bytes, copy.at) {
            Err(why) => classify(&SuperblockDefect::Invalid(why)),
            Ok(other) => odd(fs, member, &other)
                .unwrap_or((Problem::Structure, Evidence::Text("another super block that is whole".into()))),
        },
        Err(errno) => (Problem::ReadError, Evidence::Errno(*errno)),
    };
    tally.device(member.devid()).super_errors += 1;
    let place = DevicePhysical { devid: member.devid(), physical: copy.at };
    let is_taken = matches!(occupant(fs, place), Occupant::Extent(_));
    Some(Finding {
        kind: FindingKind::Superblock,
        problem,
        logical: Logical::new(copy.at.raw()),
        length: SUPERBLOCK_BYTES as u32,
        mirror: MirrorNum::new(nth as u8 + 1),
        devid: member.devid(),
        physical: copy.at,
        profile: Profile::Single,
        evidence,
        repair: if is_taken { RepairState::Impossible } else { RepairState::Possible },
        owner: None,
        below: places.into_iter().map(|(place, _)| place).collect(),
    })
}

/// What is wrong with a copy that is whole.
fn odd(fs: &Filesystem, member: &Member, superblock: &Superblock) -> Option<(Problem, Evidence)> {
    let newest = fs.superblock().generation();
    if superblock.fsid() != member.fsid() {
        return Some((Problem::Fsid, Evidence::Uuid { have: superblock.fsid(), expect: member.fsid() }));
    }
    if member.is_seed() {
        return None;
    }
    if superblock.generation() != newest {
        let have = superblock.generation().raw();
        return Some((Problem::Generation, Evidence::Number { have, expect: newest.raw() }));
    }
    let (have, expect) =
        (superblock.num_devices(), fs.device_items().filter(|items| *items != superblock.num_devices())?);
    let text = format!("num_devices is {have}, the chunk tree has {expect} device items");
    Some((Problem::Structure, Evidence::Text(text.into())))
}

/// Where the system chunk array and the chunk tree disagree, nothing says which of the two is right.
fn other_chunks(fs: &Filesystem, member: &Member, superblock: &Superblock) -> Option<(Problem, Evidence)> {
    let as_in_tree = |system: &SysChunk| {
        let chunk =
            Chunk::new(system.logical, system.chunk.clone(), superblock.sectorsize(), superblock.incompat()).ok()?;
        fs.chunks().lookup(system.logical).ok().filter(|known| **known == chunk)
    };
    let odd =
        superblock.sys_chunks().iter().find(|system| as_in_tree(system).is_none()).filter(|_| !member.is_seed())?;
    let text = format!("the system chunk array has chunk {} otherwise than the chunk tree", odd.logical);
    Some((Problem::Contradiction, Evidence::Text(text.into())))
}

/// A first copy that has missed a log commit: who mounts by it drops what was fsynced.
fn other_log(fs: &Filesystem, member: &Member, nth: usize, superblock: &Superblock) -> Option<(Problem, Evidence)> {
    let expect = fs.log().known().filter(|_| nth == 0 && !member.is_seed())??.bytenr.raw();
    let have = superblock.log_root().map_or(0, |root| root.bytenr.raw());
    let text = format!("log_root is {have}, the last log commit of the set has {expect}");
    (have != expect).then_some((Problem::Structure, Evidence::Text(text.into())))
}

/// A place that is allocated to something else: each would be written over by the other.
fn overlap(occupant: Occupant) -> Option<(Problem, Evidence)> {
    let Occupant::Extent(at) = occupant else { return None };
    let text = format!("the extent at {at} is allocated over its place");
    Some((Problem::Structure, Evidence::Text(text.into())))
}

fn classify(why: &SuperblockDefect) -> (Problem, Evidence) {
    match why {
        SuperblockDefect::Invalid(SuperblockError::Checksum { have, expect }) => {
            (Problem::Checksum, Evidence::Checksum { have: *have, expect: *expect })
        }
        SuperblockDefect::Invalid(SuperblockError::Bytenr { have, expect }) => {
            (Problem::Bytenr, Evidence::Number { have: have.raw(), expect: expect.raw() })
        }
        SuperblockDefect::Invalid(why) => (Problem::Structure, Evidence::Text(why.to_string().into())),
        SuperblockDefect::Unreadable { errno } => (Problem::ReadError, Evidence::Errno(Some(*errno))),
        SuperblockDefect::PastEnd => (Problem::ReadError, Evidence::Errno(None)),
    }
}
