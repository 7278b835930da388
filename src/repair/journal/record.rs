//! Header and records of a log, to bytes and back.

use super::super::fingerprint::{ATOM_BYTES, Fingerprint, atoms};
use crate::scrub::mend::Excerpt;
use crate::units::{DeviceId, DevicePhysical, Generation, Physical};
use std::borrow::Cow;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};
use uuid::Uuid;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

const HEADER_MAGIC: [u8; 8] = *b"MTUNDO02";
/// Of logs without marks.
pub(super) const EARLIER_MAGIC: [u8; 8] = *b"MTUNDO01";
const RECORD_MAGIC: [u8; 8] = *b"MTUNDREC";
const MARK_MAGIC: [u8; 8] = *b"MTUNDEND";
/// What records and the header are padded to.
pub(super) const ALIGN_BYTES: usize = ATOM_BYTES;
/// Of the header: room for the most members that a chunk tree may name, and their paths.
const MAX_HEADER_BYTES: usize = 16 << 20;
/// Of the old bytes of one record: twice the longest step.
const MAX_RECORD_BYTES: usize = 2 << 20;
/// Unreadable old bytes are told in units of this size.
pub(in crate::repair) const LOST_UNIT_BYTES: usize = 4096;

/// What both start with.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawPrefix {
    magic: [u8; 8],
    /// Of all that follows, padding included.
    checksum: [u8; 16],
    /// From the magic to the end of the padding.
    length: U32,
}

const PREFIX_BYTES: usize = size_of::<RawPrefix>();
const CHECKED_FROM: usize = 24;

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawHeader {
    fsid: [u8; 16],
    generation: U64,
    created: U64,
    members: U32,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawMember {
    devid: U64,
    uuid: [u8; 16],
    len_bytes: U64,
    generation: U64,
    path_bytes: U32,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawRecord {
    batch: U64,
    devid: U64,
    physical: U64,
    len_bytes: U32,
    lost_units: U32,
    /// 1: all old bytes are `fill`, and none follow.
    is_filled: u8,
    fill: u8,
}

/// Which file system a log belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogHeader {
    /// The file system.
    pub fsid: Uuid,
    /// Its last transaction when the repair began.
    pub generation: Generation,
    /// When that was.
    pub created: SystemTime,
    /// All members that were there.
    pub members: Vec<LogMember>,
}

/// One member as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogMember {
    /// Its number.
    pub devid: DeviceId,
    /// The uuid of the device.
    pub uuid: Uuid,
    /// Its size in bytes.
    pub len_bytes: u64,
    /// Its last transaction.
    pub generation: Generation,
    /// As the user named it.
    pub path: PathBuf,
}

/// What stood in one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OldBytes {
    /// One byte so many times: a wiped device.
    Filled {
        /// The byte.
        byte: u8,
        /// How often.
        len_bytes: usize,
    },
    /// Different ones.
    Bytes(Excerpt),
}

impl OldBytes {
    /// Of these bytes.
    pub(in crate::repair) fn of(mut bytes: Excerpt) -> Self {
        // All bytes are equal where each equals the one before it.
        let is_filled = bytes.get(1..) == bytes.get(..bytes.len().saturating_sub(1));
        match bytes.first() {
            Some(byte) if is_filled => Self::Filled { byte: *byte, len_bytes: bytes.len() },
            _ => {
                bytes.hold();
                Self::Bytes(bytes)
            }
        }
    }

    /// How many.
    pub(in crate::repair) fn len_bytes(&self) -> usize {
        match self {
            Self::Filled { len_bytes, .. } => *len_bytes,
            Self::Bytes(bytes) => bytes.len(),
        }
    }

    /// The bytes themselves.
    pub(in crate::repair) fn to_bytes(&self) -> Cow<'_, [u8]> {
        match self {
            Self::Filled { byte, len_bytes } => vec![*byte; *len_bytes].into(),
            Self::Bytes(bytes) => Cow::Borrowed(bytes),
        }
    }
}

/// One write that may have been made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Where.
    pub place: DevicePhysical,
    /// What was there; zeros where it could not be read.
    pub old: OldBytes,
    /// The numbers of the units of 4096 bytes that could not be read, ascending.
    pub lost: Vec<u32>,
    /// Tells the new bytes, per started 512.
    pub new_atoms: Vec<u64>,
}

/// What stands behind the last record of a batch, and behind the last batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    /// The batch that ends here; the last one where the log does.
    pub(super) batch: u64,
    /// Records up to here.
    pub(super) records: u64,
    /// Bytes up to here.
    pub(super) bytes: u64,
    /// Nothing follows.
    pub(super) is_end: bool,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawMark {
    batch: U64,
    records: U64,
    bytes: U64,
    is_end: u8,
}

impl Mark {
    pub(super) fn encode(self) -> Vec<u8> {
        let raw = RawMark {
            batch: self.batch.into(),
            records: self.records.into(),
            bytes: self.bytes.into(),
            is_end: self.is_end.into(),
        };
        seal(MARK_MAGIC, &[raw.as_bytes()])
    }

    /// `None` for bytes that are no whole mark.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let (raw, _) = RawMark::read_from_prefix(unseal(MARK_MAGIC, bytes)?).ok()?;
        let (batch, records, bytes) = (raw.batch.get(), raw.records.get(), raw.bytes.get());
        Some(Self { batch, records, bytes, is_end: raw.is_end == 1 })
    }
}

impl LogHeader {
    pub(super) fn encode(&self) -> Vec<u8> {
        let created = self.created.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        let raw = RawHeader {
            fsid: self.fsid.into_bytes(),
            generation: self.generation.raw().into(),
            created: created.into(),
            members: (self.members.len() as u32).into(),
        };
        let mut body = raw.as_bytes().to_vec();
        for member in &self.members {
            let path = member.path.as_os_str().as_bytes();
            let raw = RawMember {
                devid: member.devid.raw().into(),
                uuid: member.uuid.into_bytes(),
                len_bytes: member.len_bytes.into(),
                generation: member.generation.raw().into(),
                path_bytes: (path.len() as u32).into(),
            };
            body.extend_from_slice(raw.as_bytes());
            body.extend_from_slice(path);
        }
        seal(HEADER_MAGIC, &[&body])
    }

    /// `None` for bytes that are no whole header.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let (raw, mut rest) = RawHeader::read_from_prefix(unseal(HEADER_MAGIC, bytes)?).ok()?;
        let mut members = Vec::new();
        for _ in 0..raw.members.get() {
            let (member, after) = RawMember::read_from_prefix(rest).ok()?;
            let (path, after) = after.split_at_checked(member.path_bytes.get() as usize)?;
            members.push(LogMember {
                devid: DeviceId::new(member.devid.get()),
                uuid: Uuid::from_bytes(member.uuid),
                len_bytes: member.len_bytes.get(),
                generation: Generation::new(member.generation.get()),
                path: PathBuf::from(OsStr::from_bytes(path)),
            });
            rest = after;
        }
        Some(Self {
            fsid: Uuid::from_bytes(raw.fsid),
            generation: Generation::new(raw.generation.get()),
            created: SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(raw.created.get()))?,
            members,
        })
    }
}

impl Record {
    /// For a place that is about to hold `new` and holds `old`, which is as long, or what nobody can read.
    pub(in crate::repair) fn new(place: DevicePhysical, old: Option<Excerpt>, new: &[u8]) -> Self {
        let len_bytes = new.len();
        let lost = if old.is_some() { 0 } else { len_bytes.div_ceil(LOST_UNIT_BYTES) as u32 };
        let old = old.map_or(OldBytes::Filled { byte: 0, len_bytes }, OldBytes::of);
        Self { place, old, lost: (0..lost).collect(), new_atoms: atoms(new).collect() }
    }

    pub(super) fn encode(&self, batch: u64) -> Vec<u8> {
        let (is_filled, fill, old) = match &self.old {
            OldBytes::Filled { byte, .. } => (1, *byte, &[][..]),
            OldBytes::Bytes(bytes) => (0, 0, &bytes[..]),
        };
        let raw = RawRecord {
            batch: batch.into(),
            devid: self.place.devid.raw().into(),
            physical: self.place.physical.raw().into(),
            len_bytes: (self.old.len_bytes() as u32).into(),
            lost_units: (self.lost.len() as u32).into(),
            is_filled,
            fill,
        };
        let lost: Vec<u8> = self.lost.iter().flat_map(|unit| unit.to_le_bytes()).collect();
        let atoms: Vec<u8> = self.new_atoms.iter().flat_map(|atom| atom.to_le_bytes()).collect();
        seal(RECORD_MAGIC, &[raw.as_bytes(), &lost, &atoms, old])
    }

    /// The record and its batch; `None` for bytes that are no whole record.
    pub(super) fn decode(bytes: &[u8]) -> Option<(Self, u64)> {
        let (raw, rest) = RawRecord::read_from_prefix(unseal(RECORD_MAGIC, bytes)?).ok()?;
        let len_bytes = raw.len_bytes.get() as usize;
        if len_bytes > MAX_RECORD_BYTES {
            return None;
        }
        let (lost, rest) = rest.split_at_checked((raw.lost_units.get() as usize).checked_mul(4)?)?;
        let (new_atoms, rest) = rest.split_at_checked(len_bytes.div_ceil(ATOM_BYTES) * 8)?;
        let old = match raw.is_filled {
            1 => OldBytes::Filled { byte: raw.fill, len_bytes },
            _ => OldBytes::Bytes(rest.get(..len_bytes)?.to_vec().into()),
        };
        let record = Self {
            place: DevicePhysical {
                devid: DeviceId::new(raw.devid.get()),
                physical: Physical::new(raw.physical.get()),
            },
            old,
            lost: lost.chunks_exact(4).filter_map(|b| Some(u32::from_le_bytes(b.try_into().ok()?))).collect(),
            new_atoms: new_atoms.chunks_exact(8).filter_map(|b| Some(u64::from_le_bytes(b.try_into().ok()?))).collect(),
        };
        Some((record, raw.batch.get()))
    }

    /// Whether unit number `unit` could not be read.
    pub(in crate::repair) fn is_lost(&self, unit: usize) -> bool {
        u32::try_from(unit).is_ok_and(|unit| self.lost.binary_search(&unit).is_ok())
    }
}

/// How long the whole thing that starts with `prefix` says it is; `None` where nothing starts there.
pub(super) fn sealed_bytes(prefix: &[u8]) -> Option<usize> {
    let (prefix, _) = RawPrefix::read_from_prefix(prefix).ok()?;
    let most = match prefix.magic {
        HEADER_MAGIC => MAX_HEADER_BYTES,
        RECORD_MAGIC => 2 * MAX_RECORD_BYTES,
        MARK_MAGIC => ALIGN_BYTES,
        _ => return None,
    };
    let length = prefix.length.get() as usize;
    ((PREFIX_BYTES..=most).contains(&length) && length.is_multiple_of(ALIGN_BYTES)).then_some(length)
}

/// Magic, checksum and length in front of the parts of a body, padding behind them.
fn seal(magic: [u8; 8], body: &[&[u8]]) -> Vec<u8> {
    let body_bytes: usize = body.iter().map(|part| part.len()).sum();
    let length = (PREFIX_BYTES + body_bytes).next_multiple_of(ALIGN_BYTES);
    let mut bytes = Vec::with_capacity(length);
    let prefix = RawPrefix { magic, checksum: [0; 16], length: (length as u32).into() };
    bytes.extend_from_slice(prefix.as_bytes());
    for part in body {
        bytes.extend_from_slice(part);
    }
    bytes.resize(length, 0);
    let checksum = checksum(&bytes);
    for (to, from) in bytes.iter_mut().skip(magic.len()).zip(checksum) {
        *to = from;
    }
    bytes
}

fn unseal(magic: [u8; 8], bytes: &[u8]) -> Option<&[u8]> {
    let (prefix, body) = RawPrefix::read_from_prefix(bytes).ok()?;
    let is_whole =
        prefix.magic == magic && prefix.length.get() as usize == bytes.len() && prefix.checksum == checksum(bytes);
    is_whole.then_some(body)
}

fn checksum(bytes: &[u8]) -> [u8; 16] {
    Fingerprint::of(bytes.get(CHECKED_FROM..).unwrap_or_default()).to_le_bytes()
}
