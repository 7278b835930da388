//! Tells what is wrong below a window, and turns what is to be written on a member into what is to be written on the
//! files below it.

use super::BelowPlace;
use super::resolve::{BelowBlock, WrongPlace};
use crate::device::{Below, LowerPlace, lower_devid};
use crate::filesystem::Filesystem;
use crate::scrub::finding::{Finding, FindingKind, Problem, RepairState};
use crate::scrub::judge::Bench;
use crate::scrub::mend::{Fix, Mend, Mends, ProvenBytes, Source};
use crate::scrub::sink::Tally;
use crate::scrub::stream::StripeCopy;
use crate::scrub::window::Window;
use crate::units::{DevicePhysical, ObjectId};
use crate::volume::MirrorCopy;
use std::ops::Range;

/// Unreadable stretches are written in pieces of this, so that what can be read is kept.
const PIECE_BYTES: usize = 4096;

/// Adds what is wrong below the stripes of a window.
pub(in crate::scrub) fn tell(
    fs: &Filesystem,
    window: &Window,
    copies: &[StripeCopy],
    bench: &Bench<'_>,
    tally: &mut Tally,
) {
    for copy in copies {
        let devid = window.chunk.stripes().get(copy.stripe).map(|stripe| stripe.devid);
        let Some(below) = devid.and_then(|devid| fs.device(devid)).and_then(|device| device.below()) else { continue };
        for block in &copy.below {
            let mirrors = window.chunk.copies(block.logical);
            let Some(mirror) = mirrors.iter().find(|mirror| mirror.stripe == copy.stripe) else { continue };
            let is_open = block.repair == RepairState::Undecidable;
            if is_open && (bench.is_unwritten)(block.logical) {
                continue;
            }
            let teller = Teller { window, below, block, mirror, bench };
            teller.finding(tally);
            if bench.mending.is_some() && !is_open {
                teller.mends(copy, &mut tally.mends);
            }
        }
    }
}

struct Teller<'a> {
    window: &'a Window,
    below: &'a dyn Below,
    block: &'a BelowBlock,
    mirror: &'a MirrorCopy,
    bench: &'a Bench<'a>,
}

impl Teller<'_> {
    fn kind(&self) -> FindingKind {
        self.window.runs.get(self.block.run).map_or(FindingKind::Data, crate::scrub::window::Run::finding_kind)
    }

    fn finding(&self, tally: &mut Tally) {
        let (block, kind) = (self.block, self.kind());
        if !self.bench.selection.wants_finding(kind, self.mirror.place.devid) {
            return;
        }
        let sectors = self.bench.sectors(block.bytes.len() as u64);
        let counters = tally.device(self.mirror.place.devid);
        match (block.problem, kind) {
            (Problem::ReadError, _) => counters.read_errors += sectors,
            (Problem::CopiesDiffer, _) => counters.nodatasum_mismatch += sectors,
            (_, FindingKind::Metadata) => counters.verify_errors += sectors,
            _ => counters.csum_errors += sectors,
        }
        let owner = match self.window.runs.get(block.run).map(|run| run.kind) {
            Some(crate::scrub::window::RunKind::Tree(check)) => check.owner.map(ObjectId::raw),
            _ => None,
        };
        let place = |wrong: &WrongPlace| BelowPlace::new(self.below, wrong.place, wrong.bytes.len() as u64);
        let finding = Finding {
            kind,
            problem: block.problem,
            logical: block.logical,
            length: block.bytes.len() as u32,
            mirror: self.mirror.mirror,
            devid: self.mirror.place.devid,
            physical: self.mirror.place.physical,
            profile: self.window.chunk.profile(),
            evidence: block.evidence.clone(),
            repair: block.repair,
            owner,
            below: joined(block.wrong.iter().filter_map(place).collect()),
        };
        tally.find(finding, sectors);
    }

    fn mends(&self, copy: &StripeCopy, mends: &mut Mends) {
        let (block, sectorsize) = (self.block, self.bench.geometry.sectorsize() as usize);
        for (nth, wrong) in block.wrong.iter().enumerate() {
            let Some(right) = copy.buffer.as_ref().and_then(|buffer| buffer.get(wrong.bytes.clone())) else { continue };
            let offset = (wrong.bytes.start - block.bytes.start) as u64;
            let unread = vec![0; right.len()];
            let lost: Vec<usize> =
                if wrong.before.is_some() { Vec::new() } else { (0..right.len().div_ceil(sectorsize)).collect() };
            let fix = Fix {
                kind: self.kind(),
                problem: block.problem,
                logical: block.logical + offset,
                mirror: self.mirror.mirror,
                member: DevicePhysical { physical: self.mirror.place.physical + offset, ..self.mirror.place },
                place: DevicePhysical { devid: lower_devid(wrong.place.file), physical: wrong.place.at },
                source: Source::Below,
                right,
                before: wrong.before.as_deref().unwrap_or(&unread),
                lost: &lost,
                findings: u64::from(nth == 0),
                sectors: if nth == 0 { self.bench.sectors(block.bytes.len() as u64) } else { 0 },
            };
            fix.push(mends, sectorsize);
        }
    }
}

/// Places that go on where another ends are one.
pub(super) fn joined(mut places: Vec<BelowPlace>) -> Vec<BelowPlace> {
    places.sort_by_key(|place| (place.file, place.physical));
    let mut joined: Vec<BelowPlace> = Vec::new();
    for place in places {
        match joined.last_mut() {
            Some(last) if last.file == place.file && last.physical + u64::from(last.length) == place.physical => {
                last.length = last.length.saturating_add(place.length);
            }
            _ => joined.push(place),
        }
    }
    joined.sort_by_key(|place| (place.role, place.file, place.physical));
    joined
}

/// Where below the place of a finding is: all of it is wrong there.
pub(in crate::scrub) fn place_below(fs: &Filesystem, finding: &mut Finding) {
    let Some(below) = fs.device(finding.devid).and_then(|device| device.below()) else { return };
    if !finding.below.is_empty() {
        return;
    }
    let parts = below.parts(finding.physical, u64::from(finding.length));
    let places = parts.iter().flat_map(|part| part.copies.iter().map(|copy| (part.len_bytes, *copy)));
    finding.below = joined(places.filter_map(|(len, place)| BelowPlace::new(below, place, len)).collect());
}

/// What is to be written on files below, in place of what is to be written on members made of them. A copy that is right
/// already is not written; one that is stale or not in sync is none.
pub(in crate::scrub) fn to_lower(fs: &Filesystem, mends: Vec<Mend>) -> Vec<Mend> {
    let mut lower = Vec::with_capacity(mends.len());
    for mend in mends {
        match fs.device(mend.place.devid).and_then(|device| device.below()) {
            Some(below) => split(below, &mend, &mut lower),
            None => lower.push(mend),
        }
    }
    lower
}

fn split(below: &dyn Below, mend: &Mend, lower: &mut Vec<Mend>) {
    let mut is_first = true;
    for part in below.parts(mend.place.physical, mend.bytes.len() as u64) {
        let range = part.offset_bytes as usize..(part.offset_bytes + part.len_bytes) as usize;
        for copy in &part.copies {
            let Some(file) = below.files().get(copy.file as usize) else { continue };
            let mut have = vec![0; range.len()];
            let read = file.device.read_at(copy.at, &mut have);
            let Some(right) = mend.bytes.get(range.clone()) else { continue };
            let mut add = |piece: Range<usize>, before: Option<&[u8]>| {
                let Some(bytes) = right.get(piece.clone()).filter(|bytes| before != Some(*bytes)) else { return };
                let counts = std::mem::take(&mut is_first);
                lower.push(piece_of(mend, *copy, part.offset_bytes, &piece, bytes, before, counts));
            };
            if read.is_ok() {
                add(0..right.len(), Some(&have));
                continue;
            }
            for start in (0..right.len()).step_by(PIECE_BYTES) {
                let piece = start..right.len().min(start + PIECE_BYTES);
                let Some(room) = have.get_mut(piece.clone()) else { continue };
                let read = file.device.read_at(copy.at + start as u64, room);
                let before = read.is_ok().then(|| room.to_vec());
                add(piece, before.as_deref());
            }
        }
    }
}

fn piece_of(
    mend: &Mend,
    copy: LowerPlace,
    part: u64,
    piece: &Range<usize>,
    right: &[u8],
    before: Option<&[u8]>,
    counts: bool,
) -> Mend {
    let offset = part + piece.start as u64;
    // A super block's address is that of its place, whatever part of it is written.
    let is_superblock = mend.kind == FindingKind::Superblock;
    Mend {
        logical: if is_superblock { mend.logical } else { mend.logical + offset },
        member: DevicePhysical { physical: mend.member.physical + offset, ..mend.member },
        place: DevicePhysical { devid: lower_devid(copy.file), physical: copy.at + piece.start as u64 },
        bytes: ProvenBytes::new(right.to_vec()),
        before: before.map(|before| before.to_vec().into()),
        findings: if counts { mend.findings } else { 0 },
        sectors: if counts { mend.sectors } else { 0 },
        ..mend.clone()
    }
}
