//! One finding as one line, in the grammar of the kernel's messages (`fs/btrfs/tree-checker.c`):
//! `corrupt <what>: <where>, <reason>[, have X expect Y]; <prospects>`. Addresses decimal, checksums hex.

use crate::scrub::finding::{Evidence, Finding, FindingKind, Problem, RepairState};
use crate::units::{Logical, MirrorNum};
use std::fmt;

/// Displays a finding as one line without a full stop.
#[derive(Clone, Copy, Debug)]
pub struct FindingLine<'a>(
    /// The finding to display.
    pub &'a Finding,
);

impl fmt::Display for FindingLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let finding = self.0;
        write!(f, "{} {}: ", adjective(finding.problem), noun(finding.kind))?;
        place(finding, f)?;
        write!(f, ", {}", reason(finding.problem))?;
        evidence(&finding.evidence, f)?;
        write!(f, "; {}", prospects(finding.repair))
    }
}

fn adjective(problem: Problem) -> &'static str {
    match problem {
        Problem::ReadError => "unreadable",
        Problem::Missing => "missing",
        Problem::CopiesDiffer => "doubtful",
        _ => "corrupt",
    }
}

pub(super) fn noun(kind: FindingKind) -> &'static str {
    match kind {
        FindingKind::Superblock => "super block",
        FindingKind::Metadata => "tree block",
        FindingKind::Data => "data",
        FindingKind::Parity => "parity",
    }
}

fn place(finding: &Finding, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if let (FindingKind::Metadata, Some(owner)) = (finding.kind, finding.owner) {
        write!(f, "root={owner} ")?;
    }
    place_of_block(finding.kind, finding.logical, finding.mirror, f)?;
    write!(f, " devid={} physical={}", finding.devid, finding.physical)
}

/// Where a copy of a block is in btrfs's own terms.
pub(super) fn place_of_block(
    kind: FindingKind,
    logical: Logical,
    mirror: MirrorNum,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    match kind {
        FindingKind::Superblock => write!(f, "copy={mirror}"),
        FindingKind::Metadata => write!(f, "block={logical} mirror={mirror}"),
        FindingKind::Data => write!(f, "logical={logical} mirror={mirror}"),
        FindingKind::Parity => {
            let which = if mirror.raw() == 2 { 'Q' } else { 'P' };
            write!(f, "full_stripe={logical} stripe={which}")
        }
    }
}

pub(super) fn reason(problem: Problem) -> &'static str {
    match problem {
        Problem::Checksum => "bad checksum",
        Problem::Bytenr => "bad bytenr",
        Problem::Fsid => "bad fsid",
        Problem::ChunkUuid => "bad chunk tree uuid",
        Problem::Generation => "bad generation",
        Problem::Level => "bad level",
        Problem::Owner => "bad owner",
        Problem::FirstKey => "bad first key",
        Problem::Structure => "bad structure",
        Problem::ReadError => "read error",
        Problem::Missing => "device is missing",
        Problem::CopiesDiffer => "copies differ and have no checksum",
        Problem::ParityMismatch => "does not fit the data of its row",
    }
}

fn evidence(evidence: &Evidence, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match evidence.strings() {
        (Some(have), Some(expect)) => write!(f, ", have {have} expect {expect}"),
        (Some(text), None) | (None, Some(text)) => write!(f, ", {text}"),
        (None, None) => Ok(()),
    }
}

fn prospects(repair: RepairState) -> &'static str {
    match repair {
        RepairState::Possible => "correctable",
        RepairState::Done => "corrected",
        RepairState::Failed => "correction failed",
        RepairState::Impossible => "uncorrectable",
        RepairState::Undecidable => "undecidable",
    }
}
