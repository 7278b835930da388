//! The super block copies of every member: each must parse, fit its device and be of the newest generation.
//!
//! Kernel: `scrub_supers`, which compares the generation with that of the last commit.

use super::finding::{Evidence, Finding, FindingKind, Problem, RepairState};
use super::selection::Selection;
use super::sink::Tally;
use crate::filesystem::Filesystem;
use crate::format::{SUPERBLOCK_BYTES, SuperblockError};
use crate::units::{Logical, MirrorNum, Physical};
use crate::volume::{Member, Profile, SuperblockCopy, SuperblockDefect};

/// Adds what is wrong with any super block copy.
pub(super) fn scrub_supers(fs: &Filesystem, selection: &Selection, tally: &mut Tally) {
    for member in fs.members().filter(|m| selection.wants_finding(FindingKind::Superblock, m.devid())) {
        for (nth, copy) in member.superblock_copies().iter().enumerate() {
            judge(fs, member, nth, copy, tally);
        }
    }
}

fn judge(fs: &Filesystem, member: &Member, nth: usize, copy: &SuperblockCopy, tally: &mut Tally) {
    let newest = fs.superblock().generation();
    let (problem, evidence) = match &copy.state {
        Ok(superblock) if superblock.fsid() != member.fsid() => {
            (Problem::Fsid, Evidence::Uuid { have: superblock.fsid(), expect: member.fsid() })
        }
        Ok(superblock) if superblock.generation() == newest || member.is_seed() => return,
        Ok(superblock) => {
            let have = superblock.generation().raw();
            (Problem::Generation, Evidence::Number { have, expect: newest.raw() })
        }
        Err(why) => classify(why),
    };
    let counters = tally.device(member.devid());
    counters.super_errors += 1;
    // A super block can always be made from a good copy: this one's, or another member's with its own device item.
    let finding = Finding {
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
    };
    tally.find(finding, 0);
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
