//! One finding as one line, in the grammar of the kernel's messages (`fs/btrfs/tree-checker.c`):
//! `corrupt <what>: <where>, <reason>[, have X expect Y]; <prospects>`. Addresses decimal, checksums hex.

use super::human;
use crate::scrub::finding::{Evidence, Finding, FindingKind, Problem, RepairState};
use crate::units::MirrorNum;
use std::fmt;

/// Displays a finding as one line without a full stop.
#[derive(Clone, Copy, Debug)]
pub struct FindingLine<'a>(
    /// The finding to display.
    pub &'a Finding,
);

impl fmt::Display for FindingLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        SpanLine { first: self.0, last: self.0, count: 1, evidence: Some(&self.0.evidence) }.fmt(f)
    }
}

/// Displays `count` findings of neighbouring blocks that differ in their addresses only, and in what was found there.
pub(super) struct SpanLine<'a> {
    pub(super) first: &'a Finding,
    pub(super) last: &'a Finding,
    pub(super) count: u64,
    /// What was found in all of them.
    pub(super) evidence: Option<&'a Evidence>,
}

impl fmt::Display for SpanLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { first, last, count, evidence: found } = *self;
        write!(f, "{} {}: ", adjective(first.problem), noun(first.kind))?;
        place(first, last, f)?;
        if count > 1 {
            let unit = if first.kind == FindingKind::Data { "sector" } else { noun(first.kind) };
            write!(f, ", {}", human::count(count, unit))?;
        }
        write!(f, ", {}", reason(first.problem))?;
        if let Some(found) = found {
            evidence(found, f)?;
        }
        write!(f, "; {}", prospects(first.repair))?;
        below(first, count, f)
    }
}

/// Where below btrfs it is: with its place where it is one block.
fn below(first: &Finding, count: u64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for (nth, place) in first.below.iter().enumerate() {
        let intro = if nth == 0 { "; below it " } else { ", " };
        write!(f, "{intro}{}", place.kind)?;
        if let Some(role) = place.role {
            write!(f, " role {role}")?;
        }
        write!(f, " ({})", place.path.display())?;
        if count == 1 {
            write!(f, " at {}", place.physical)?;
        }
    }
    Ok(())
}

fn adjective(problem: Problem) -> &'static str {
    match problem {
        Problem::ReadError => "unreadable",
        Problem::Missing => "missing",
        Problem::CopiesDiffer => "doubtful",
        Problem::Contradiction => "contradictory",
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

fn place(first: &Finding, last: &Finding, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if let (FindingKind::Metadata, Some(owner)) = (first.kind, first.owner) {
        write!(f, "root={owner} ")?;
    }
    let end_bytes = u64::from(last.length);
    let logical = Interval(first.logical.raw(), last.logical.raw(), end_bytes);
    place_of_block(first.kind, logical, first.mirror, f)?;
    let physical = Interval(first.physical.raw(), last.physical.raw(), end_bytes);
    write!(f, " devid={} physical={physical}", first.devid)
}

/// The address of one block; of several, from the first to the end of the last, which has so many bytes.
struct Interval(u64, u64, u64);

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(first, last, last_bytes) = *self;
        if first == last { write!(f, "{first}") } else { write!(f, "[{first}, {})", last.saturating_add(last_bytes)) }
    }
}

/// Where a copy of a block is in btrfs's own terms.
pub(super) fn place_of_block(
    kind: FindingKind,
    logical: impl fmt::Display,
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
        Problem::Contradiction => "contradiction",
        Problem::Decompression => "right checksums and does not decompress",
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
