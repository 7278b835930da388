//! The right bytes of what is bad, for whoever repairs: taken while all copies of a window are in memory together, and
//! only from bytes that have just been verified. Never writes.
//!
//! A scrub collects them only when it is given a [`Mending`]. [`ProvenBytes`] can be made here alone, so that nothing
//! else can become a repair.

pub use super::excerpt::Excerpt;
use super::finding::{Finding, FindingKind, Problem};
use super::window::Window;
use crate::checksum::ChecksumType;
use crate::device::PooledBuffer;
use crate::units::{DeviceId, DevicePhysical, Logical, MirrorNum};
use crate::volume::ChunkMap;
use crate::volume::raid56::RecoverySource;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::{Deref, Range};
use std::sync::Arc;

/// Mends that lie one behind the other become one, up to this size: that of a window.
pub const MAX_MEND_BYTES: usize = super::window::WINDOW_BYTES as usize;
/// How many of the last mends a new one may join: one per copy of a block.
const JOINABLE: usize = 4;

/// Bad copies of a block that are held together: as many as a profile has.
pub(super) const MAX_LOST_COPIES: usize = 4;

/// Where right bytes come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// Another copy that verifies.
    Mirror(MirrorNum),
    /// Another copy of a sector without checksum: all copies that can be read are equal, this one cannot be read.
    EqualCopies(MirrorNum),
    /// A copy without checksum on a current member, where the other is on one that missed transactions.
    CurrentCopy(MirrorNum),
    /// A combination of the row's other columns that verifies.
    Rebuilt(RecoverySource),
    /// Several of those, sector by sector.
    RebuiltInParts,
    /// Parity, computed from a row all of whose blocks verify.
    RowData,
    /// Another copy below btrfs, or what parity there gives.
    Below,
    /// The best super block, with the address and the device item of this copy.
    SuperblockOf(DeviceId),
    /// A copy of a sector without checksum that the user has chosen.
    Chosen(MirrorNum),
    /// Put together from bad copies until the checksum fitted; a guess of this strength.
    Salvage(Guess),
}

/// How far salvaged bytes can be trusted: the chance that a wrong candidate passes is `tries` in `2^check_bits`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Guess {
    /// What was done.
    pub method: GuessMethod,
    /// Candidates that were held against the checksum.
    pub tries: u64,
    /// Bits of the checksum.
    pub check_bits: u16,
}

impl Guess {
    /// A wrong candidate passes once in two to the power of this, at the most.
    pub fn strength_bits(&self) -> u32 {
        let tries_bits = u64::BITS - self.tries.saturating_sub(1).leading_zeros();
        u32::from(self.check_bits).saturating_sub(tries_bits)
    }
}

/// What a salvage did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GuessMethod {
    /// Parts of 512 bytes of different copies.
    Splice,
    /// One bit turned.
    OneBit,
    /// One bit of the stored checksum is wrong, the data is right.
    ChecksumBit,
    /// What most copies have, byte by byte or bit by bit.
    Majority,
}

/// Bytes that have been verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProvenBytes(Excerpt);

impl ProvenBytes {
    /// For judges that have just verified `bytes`.
    pub(super) fn new(bytes: Vec<u8>) -> Self {
        Self(bytes.into())
    }

    /// See [`Excerpt::hold`].
    pub fn hold(&mut self) {
        self.0.hold();
    }
}

impl Deref for ProvenBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

/// Right bytes for a contiguous place on one device that holds wrong ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mend {
    /// What is there.
    pub kind: FindingKind,
    /// What is wrong with it.
    pub problem: Problem,
    /// Its address (see [`FindingKind`]).
    pub logical: Logical,
    /// Which copy it is.
    pub mirror: MirrorNum,
    /// Where it belongs on the member.
    pub member: DevicePhysical,
    /// Where to write: there, or on a file below (see [`crate::device::lower_devid`]).
    pub place: DevicePhysical,
    /// Where the right bytes come from.
    pub source: Source,
    /// The right bytes.
    pub bytes: ProvenBytes,
    /// The bytes that are there now, `None` where they cannot be read.
    pub before: Option<Excerpt>,
    /// Findings that it answers.
    pub findings: u64,
    /// Sectors that the findings are counted as.
    pub sectors: u64,
}

impl Mend {
    fn excerpts(&mut self) -> impl Iterator<Item = &mut Excerpt> {
        [&mut self.bytes.0].into_iter().chain(&mut self.before)
    }
}

/// The mends of one window, and the buffers it was read into.
#[derive(Default)]
pub(super) struct Mends {
    buffers: Vec<Arc<PooledBuffer>>,
    list: Vec<Mend>,
}

impl Mends {
    /// Takes in the buffers, so that their bytes need not be copied.
    pub(super) fn share(&mut self, buffers: impl IntoIterator<Item = Arc<PooledBuffer>>) {
        self.buffers.extend(buffers);
    }

    /// Adds what stands by itself.
    pub(super) fn extend(&mut self, mends: impl IntoIterator<Item = Mend>) {
        self.list.extend(mends);
    }

    /// All of them. Those that need less than half of a buffer between them do not hold on to it.
    pub(super) fn into_list(mut self) -> Vec<Mend> {
        for buffer in &self.buffers {
            let parts: Vec<&mut Excerpt> =
                self.list.iter_mut().flat_map(Mend::excerpts).filter(|part| part.is_of(buffer)).collect();
            let needed: usize = parts.iter().map(|part| part.len()).sum();
            if needed < buffer.len() / 2 {
                parts.into_iter().for_each(Excerpt::release);
            }
        }
        self.list
    }
}

/// One block whose right bytes are known, on its way into a list of mends.
pub(super) struct Fix<'a> {
    pub(super) kind: FindingKind,
    pub(super) problem: Problem,
    pub(super) logical: Logical,
    pub(super) mirror: MirrorNum,
    pub(super) member: DevicePhysical,
    pub(super) place: DevicePhysical,
    pub(super) source: Source,
    /// Just verified.
    pub(super) right: &'a [u8],
    /// As read, and as long.
    pub(super) before: &'a [u8],
    /// The sectors of `before` that could not be read, by their numbers in it.
    pub(super) lost: &'a [usize],
    pub(super) findings: u64,
    pub(super) sectors: u64,
}

impl Fix<'_> {
    /// Adds the block to the list, joined to what lies before it. Where sectors of it cannot be read, each sector goes
    /// by itself, so that what can be read is kept.
    pub(super) fn push(&self, mends: &mut Mends, sectorsize: usize) {
        let step = if self.lost.is_empty() { self.right.len().max(1) } else { sectorsize };
        for (number, (right, have)) in self.right.chunks(step).zip(self.before.chunks(step)).enumerate() {
            let is_first = number == 0;
            let part = Part {
                fix: self,
                offset_bytes: (number * step) as u64,
                right,
                before: (!self.lost.contains(&number)).then_some(have),
                findings: if is_first { self.findings } else { 0 },
                sectors: if is_first { self.sectors } else { 0 },
            };
            match mends.list.iter_mut().rev().take(JOINABLE).find(|last| part.joins(last)) {
                Some(last) => part.join(last),
                None => mends.list.push(part.mend(&mends.buffers)),
            }
        }
    }
}

/// A part of a block that can be read as a whole, or not at all.
struct Part<'a> {
    fix: &'a Fix<'a>,
    offset_bytes: u64,
    right: &'a [u8],
    before: Option<&'a [u8]>,
    findings: u64,
    sectors: u64,
}

impl Part<'_> {
    fn place(&self) -> DevicePhysical {
        DevicePhysical { physical: self.fix.place.physical + self.offset_bytes, ..self.fix.place }
    }

    fn joins(&self, last: &Mend) -> bool {
        let (fix, place) = (self.fix, self.place());
        (last.kind, last.problem, last.mirror, last.source) == (fix.kind, fix.problem, fix.mirror, fix.source)
            && last.place.devid == place.devid
            && last.place.physical + last.bytes.len() as u64 == place.physical
            && last.before.is_some() == self.before.is_some()
            && last.bytes.len() + self.right.len() <= MAX_MEND_BYTES
            // A tree block is told by its address.
            && (fix.kind != FindingKind::Metadata || last.logical + last.bytes.len() as u64 == fix.logical + self.offset_bytes)
    }

    fn join(&self, last: &mut Mend) {
        last.bytes.0.append(self.right, MAX_MEND_BYTES);
        if let (Some(before), Some(more)) = (&mut last.before, self.before) {
            before.append(more, MAX_MEND_BYTES);
        }
        last.findings += self.findings;
        last.sectors += self.sectors;
    }

    fn mend(&self, buffers: &[Arc<PooledBuffer>]) -> Mend {
        Mend {
            kind: self.fix.kind,
            problem: self.fix.problem,
            logical: self.fix.logical + self.offset_bytes,
            mirror: self.fix.mirror,
            member: DevicePhysical { physical: self.fix.member.physical + self.offset_bytes, ..self.fix.member },
            place: self.place(),
            source: self.fix.source,
            bytes: ProvenBytes(Excerpt::of(self.right, buffers)),
            before: self.before.map(|bytes| Excerpt::of(bytes, buffers)),
            findings: self.findings,
            sectors: self.sectors,
        }
    }
}

/// Which copy of a sector without checksum wins where the copies differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// None: nothing is written.
    #[default]
    Nobody,
    /// The one on this device, among current members.
    Device(DeviceId),
    /// The one on this device, though it missed transactions: also where it alone differs.
    EvenStale(DeviceId),
    /// The one that more than half of three or four copies on current members have.
    Majority,
}

/// The windows to be looked at, where it is not the whole file system.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places(BTreeSet<(Logical, u64)>);

impl Places {
    /// The windows that hold these findings. Addresses outside all chunks lead nowhere.
    pub fn of_findings<'a>(findings: impl IntoIterator<Item = &'a Finding>, chunks: &ChunkMap) -> Self {
        let addresses = findings.into_iter().filter(|f| f.kind != FindingKind::Superblock).map(|f| f.logical);
        Self::of_addresses(addresses, chunks)
    }

    /// The windows that hold these addresses.
    pub fn of_addresses(addresses: impl IntoIterator<Item = Logical>, chunks: &ChunkMap) -> Self {
        let window_of = |at: Logical| {
            let chunk = chunks.lookup(at).ok()?;
            Some((chunk.start(), Window::number_of(chunk, at)))
        };
        Self(addresses.into_iter().filter_map(window_of).collect())
    }

    /// How many windows.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True where there is nothing to look at.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn has(&self, chunk: Logical, window: u64) -> bool {
        self.0.contains(&(chunk, window))
    }

    pub(super) fn has_any_of(&self, chunk: Logical) -> bool {
        self.0.range((chunk, 0)..=(chunk, u64::MAX)).next().is_some()
    }
}

/// One block none of whose copies verifies, for a last attempt.
pub struct LostCopies<'a> {
    /// Its address.
    pub logical: Logical,
    /// A sector of data or a tree block.
    pub kind: FindingKind,
    /// What was read of it, by mirror number; what parity gives is behind that.
    pub copies: &'a [LostCopy<'a>],
    /// Whether bytes are the right ones.
    pub accept: &'a dyn Fn(&[u8]) -> bool,
    /// The checksum that `accept` compares.
    pub csum_type: ChecksumType,
    /// The checksum of a sector of data; `None` for a tree block, which has it in its header.
    pub stored: Option<&'a [u8]>,
}

/// One copy of a lost block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostCopy<'a> {
    /// As long as the block.
    pub bytes: Cow<'a, [u8]>,
    /// Where they could not be read, ascending.
    pub unreadable: Vec<Range<usize>>,
}

/// Tries to make right bytes from copies that are all bad.
pub trait Salvage: Sync {
    /// Bytes that `accept` takes, and how they were found.
    fn salvage(&self, lost: &LostCopies<'_>) -> Option<(Vec<u8>, Guess)>;
}

/// What a scrub is to do beside judging.
#[derive(Clone, Copy)]
pub struct Mending<'a> {
    /// Look here only; `None` is everywhere.
    pub places: Option<&'a Places>,
    /// Who wins where nothing can be verified.
    pub choice: Choice,
    /// The last attempt at blocks without a good copy.
    pub salvage: Option<&'a dyn Salvage>,
    /// Takes the mends of one window at a time, from several threads. Their bytes are those of the scrub's own buffers:
    /// who needs them for longer holds them ([`Excerpt::hold`]), or the scrub waits for its buffers.
    pub sink: &'a (dyn Fn(Vec<Mend>) + Sync),
}
