//! The super block copies of every member: each must parse, fit its device and be of the newest generation.
//!
//! Kernel: `scrub_supers`, which compares the generation with that of the last commit.

use super::finding::{Evidence, Finding, FindingKind, Problem, RepairState};
use super::mend::{Mend, ProvenBytes, Source};
use super::selection::Selection;
use super::sink::Tally;
use crate::filesystem::Filesystem;
use crate::format::items::DevItem;
use crate::format::types::{key_type, object};
use crate::format::{Key, SUPERBLOCK_BYTES, Superblock, SuperblockError};
use crate::tree::Cursor;
use crate::units::{DevicePhysical, Logical, MirrorNum, Physical};
use crate::volume::{Member, Profile, SuperblockCopy, SuperblockDefect};

/// Adds what is wrong with any super block copy, and the right bytes where they are wanted.
pub(super) fn scrub_supers(fs: &Filesystem, selection: &Selection, wants_mends: bool, tally: &mut Tally) {
    for member in fs.members().filter(|m| selection.wants_finding(FindingKind::Superblock, m.devid())) {
        for (nth, copy) in member.superblock_copies().iter().enumerate() {
            let Some(finding) = judge(fs, member, nth, copy, tally) else { continue };
            if wants_mends {
                tally.mends.extend(mend(fs, member, &finding));
            }
            tally.find(finding, 0);
        }
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
    let bytes = best.with_place(finding.physical, &item?);
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
        place: DevicePhysical { devid: finding.devid, physical: finding.physical },
        source: Source::SuperblockOf(best.dev_item().devid),
        bytes: ProvenBytes::new(bytes.to_vec()),
        before: read.is_ok().then_some(before),
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
    let newest = fs.superblock().generation();
    let (problem, evidence) = match &copy.state {
        Ok(superblock) if superblock.fsid() != member.fsid() => {
            (Problem::Fsid, Evidence::Uuid { have: superblock.fsid(), expect: member.fsid() })
        }
        Ok(superblock) if superblock.generation() == newest || member.is_seed() => return None,
        Ok(superblock) => {
            let have = superblock.generation().raw();
            (Problem::Generation, Evidence::Number { have, expect: newest.raw() })
        }
        Err(why) => classify(why),
    };
    let counters = tally.device(member.devid());
    counters.super_errors += 1;
    // A super block can always be made from a good copy: this one's, or another member's with its own device item.
    Some(Finding {
        kind: FindingKind::Superblock,
        problem,
        logical: Logical::new(copy.at.raw()),
        length: SUPERBLOCK_BYTES as u32,
        mirror: MirrorNum::new(nth as u8 + 1),
        devid: member.devid(),
        physical: Physical::new(copy.at.raw()),
        profile: Profile::Single,
        evidence,
        repair: RepairState::Possible,
        owner: None,
    })
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
