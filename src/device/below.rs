//! What a device is made of where it is not one file: files, the layers between, and the copies and parities that the
//! layers keep of each byte.
//!
//! Only the words for it: the layers themselves are read by `stack`, and who is right is decided by whoever has
//! checksums.

use super::{Identity, ReadDevice};
use crate::units::Physical;
use smallvec::SmallVec;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use uuid::Uuid;

/// A file or block device at the bottom.
pub struct LowerFile {
    /// As the user named it.
    pub path: PathBuf,
    /// What the path leads to.
    pub identity: Identity,
    /// Its bytes.
    pub device: Arc<dyn ReadDevice>,
    /// By which it is known again: what its own super block says, or what can be told from it.
    pub uuid: Uuid,
    /// Whether it can be relied on.
    pub state: LowerState,
    /// From the outermost to the innermost: the layers between the file and btrfs.
    pub layers: Vec<Layer>,
}

impl fmt::Debug for LowerFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LowerFile").field("path", &self.path).field("state", &self.state).finish_non_exhaustive()
    }
}

impl LowerFile {
    /// Whether what is right may be written to it: it is below something, and in sync.
    pub fn is_written(&self) -> bool {
        !self.layers.is_empty() && matches!(self.state, LowerState::InSync | LowerState::Rebuilding)
    }
}

/// Whether a file can be relied on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum LowerState {
    /// It has all that it should have.
    #[default]
    InSync,
    /// It missed writes: its array went on without it.
    Stale,
    /// It has not got all yet: in sync up to a place.
    Rebuilding,
    /// It belongs to the array and holds nothing yet.
    Spare,
    /// The array has given it up.
    Faulty,
    /// It keeps a journal, or stands in for another member.
    Extra,
}

impl LowerState {
    /// The word in reports.
    pub const fn word(self) -> &'static str {
        match self {
            Self::InSync => "in-sync",
            Self::Stale => "stale",
            Self::Rebuilding => "rebuilding",
            Self::Spare => "spare",
            Self::Faulty => "faulty",
            Self::Extra => "extra",
        }
    }
}

/// Why something below btrfs is read and never written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadOnlyReason {
    /// An array is being given another shape.
    #[error("the md array is being reshaped")]
    MdReshape,
    /// Writes go through a journal first.
    #[error("the md array has a journal")]
    MdJournal,
    /// A partial parity log says what a crash has left half done.
    #[error("the md array has a partial parity log (PPL)")]
    MdPpl,
    /// Several hosts use it.
    #[error("the md array is clustered")]
    MdClustered,
    /// It was not stopped cleanly, or has never been brought in sync.
    #[error("the md array is not clean: it has to be resynchronised first")]
    MdUnclean,
    /// A replacement is being filled.
    #[error("a member of the md array is being replaced")]
    MdReplacement,
}

/// One layer between a file and btrfs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Layer {
    /// A partition.
    Partition {
        /// True for GPT, false for MBR.
        is_gpt: bool,
        /// From 1.
        number: u32,
    },
    /// An md array.
    Md(Arc<MdLayer>, Option<u32>),
    /// A logical volume.
    Lvm {
        /// The volume group.
        vg: String,
        /// The logical volume.
        lv: String,
    },
}

impl Layer {
    /// The word in reports.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Partition { is_gpt: true, .. } => "gpt",
            Self::Partition { is_gpt: false, .. } => "mbr",
            Self::Md(..) => "md",
            Self::Lvm { .. } => "lvm",
        }
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Partition { number, .. } => write!(f, "{} partition {number}", self.kind()),
            Self::Md(array, _) => array.fmt(f),
            Self::Lvm { vg, lv } => write!(f, "lvm {vg}/{lv}"),
        }
    }
}

/// An md array, as its newest super block tells of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MdLayer {
    /// `raid5`, as md names it.
    pub level: String,
    /// `left-symmetric`, where the level has layouts.
    pub layout: Option<String>,
    /// Where the level has chunks.
    pub chunk_bytes: Option<u64>,
    /// Members that there should be.
    pub raid_disks: u32,
    /// Members that there are and that are in sync.
    pub in_sync: u32,
    /// Roles that no given member has.
    pub missing_roles: Vec<u32>,
    /// Of the newest super block.
    pub events: u64,
    /// `1.2`, as md names it.
    pub metadata: &'static str,
    /// Its uuid.
    pub uuid: Uuid,
}

impl fmt::Display for MdLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "md {}", self.level)?;
        if let Some(layout) = &self.layout {
            write!(f, " {layout}")?;
        }
        if let Some(chunk_bytes) = self.chunk_bytes {
            write!(f, " {}", Size(chunk_bytes))?;
        }
        write!(f, ", {} of {}, events {}", self.in_sync, self.raid_disks, self.events)
    }
}

/// A size without a space, as md prints its chunks.
struct Size(u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            bytes if bytes >= 1 << 20 && bytes.is_multiple_of(1 << 20) => write!(f, "{}MiB", bytes >> 20),
            bytes if bytes >= 1 << 10 && bytes.is_multiple_of(1 << 10) => write!(f, "{}KiB", bytes >> 10),
            bytes => write!(f, "{bytes}B"),
        }
    }
}

/// A place in a file at the bottom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LowerPlace {
    /// Its number in [`Below::files`].
    pub file: u32,
    /// Where in it.
    pub at: Physical,
    /// md's number of the slot, where an array keeps it.
    pub role: Option<u32>,
}

/// A stretch of a device all of which lies in one way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// From the start of what was asked for.
    pub offset_bytes: u64,
    /// How long.
    pub len_bytes: u64,
    /// Where it is stored, each copy in sync, the one that is read first in front. None where it has to be computed.
    pub copies: SmallVec<[LowerPlace; 2]>,
    /// Where it lies in an array with parity: the number of the array in [`Below::parities`], and the offset in it.
    pub row: Option<(usize, u64)>,
}

/// A device that is put together from others.
pub trait Below: Send + Sync {
    /// All files of all devices of the set; the numbers of [`LowerPlace`] lead here.
    fn files(&self) -> &[LowerFile];

    /// Cuts a range into parts, in order.
    fn parts(&self, at: Physical, len_bytes: u64) -> Vec<Part>;

    /// What the range, which must lie within one part, reads as when it is computed from parity instead of being read.
    fn rebuilt(&self, at: Physical, len_bytes: usize) -> Vec<Vec<u8>>;

    /// The arrays with parity below it.
    fn parities(&self) -> &[Arc<dyn ParityRows>];

    /// Does a layer keep several copies of anything?
    fn has_copies(&self) -> bool;

    /// Is a member of an array missing, stale or not in sync yet?
    fn is_degraded(&self) -> bool;

    /// Why it must not be written.
    fn read_only(&self) -> Option<&ReadOnlyReason>;

    /// From the outermost to the innermost, as a text.
    fn chain(&self) -> String;

    /// What should be known of it.
    fn notes(&self) -> &[String];
}

/// The rows of an array with parity.
pub trait ParityRows: Send + Sync {
    /// How much of each member a row takes.
    fn chunk_bytes(&self) -> u64;

    /// Data columns of a row.
    fn data_columns(&self) -> u64;

    /// What the array holds.
    fn len_bytes(&self) -> u64;

    /// 2 with Q.
    fn parities(&self) -> usize;

    /// Where P (0) or Q (1) of a row is, `offset` into the chunk; `None` where that member is not in sync.
    fn place(&self, row: u64, parity: usize, offset: u64) -> Option<LowerPlace>;

    /// Reads P (0) or Q (1) of a row, `offset` into the chunk.
    fn read(&self, row: u64, parity: usize, offset: u64, buf: &mut [u8]) -> std::io::Result<()>;

    /// Adds bytes of a data column (in the order of the array's addresses) to the sums that are P and Q.
    fn add_column(&self, row: u64, column: u64, bytes: &[u8], p: &mut [u8], q: &mut [u8]);

    /// Reads the bytes at `at` of the array.
    fn read_data(&self, at: u64, buf: &mut [u8]) -> std::io::Result<()>;
}

/// Numbers from here on are those of files below, counted downwards; no btrfs has a devid near to it.
const LAST_DEVID: u64 = u64::MAX;
/// Files below at most.
pub const MAX_LOWER_FILES: u32 = 4096;

/// The number that a file below goes by where members are written: beyond all that btrfs gives.
pub const fn lower_devid(file: u32) -> crate::units::DeviceId {
    crate::units::DeviceId::new(LAST_DEVID - file as u64)
}

/// The file below that goes by this number.
pub fn lower_file(devid: crate::units::DeviceId) -> Option<u32> {
    u32::try_from(LAST_DEVID - devid.raw()).ok().filter(|file| *file < MAX_LOWER_FILES)
}

/// Ways of putting a block together from parts of different copies that are tried at most.
const MAX_TRIES: usize = 4096;
/// Copies and parities are looked at in slices of this: no device writes less at once.
const SLICE_BYTES: u64 = 4096;

/// Looks among all copies, and what parity gives, for bytes of a block that `accept` takes. `None` where the device is no
/// more than one file, or nothing is accepted.
pub fn search_below(
    device: &dyn ReadDevice,
    at: Physical,
    len_bytes: usize,
    accept: &dyn Fn(&[u8]) -> bool,
) -> Option<Vec<u8>> {
    let slices = readings(device, at, len_bytes)?;
    let mut ranks = vec![0_usize; slices.len()];
    let mut block = Vec::with_capacity(len_bytes);
    for _ in 0..MAX_TRIES {
        block.clear();
        for (slice, rank) in slices.iter().zip(&ranks) {
            block.extend_from_slice(slice.get(*rank)?);
        }
        if accept(&block) {
            return Some(block);
        }
        // The next number in a system whose digits have as many values as the slice has readings.
        let (digit, _) = ranks.iter().enumerate().zip(&slices).find(|((_, rank), slice)| **rank + 1 < slice.len())?.0;
        ranks.iter_mut().take(digit).for_each(|rank| *rank = 0);
        *ranks.get_mut(digit)? += 1;
    }
    None
}

/// What a block without checksum is where all that can be read of it is equal.
pub fn sole_reading(device: &dyn ReadDevice, at: Physical, len_bytes: usize) -> Option<Vec<u8>> {
    let slices = readings(device, at, len_bytes)?;
    let is_sole = slices.iter().all(|slice| slice.len() == 1);
    is_sole.then(|| slices.into_iter().flatten().flatten().collect())
}

/// The different contents of each slice of a block, the first copy's in front; `None` where a slice has none.
fn readings(device: &dyn ReadDevice, at: Physical, len_bytes: usize) -> Option<Vec<Vec<Vec<u8>>>> {
    let below = device.below()?;
    let mut slices = Vec::new();
    for part in below.parts(at, len_bytes as u64) {
        let mut done = 0;
        while done < part.len_bytes {
            let from = at + part.offset_bytes + done;
            let len = (SLICE_BYTES - from.raw() % SLICE_BYTES).min(part.len_bytes - done);
            let read = |place: &LowerPlace| {
                let mut bytes = vec![0; len as usize];
                let file = below.files().get(place.file as usize)?;
                file.device.read_at(place.at + done, &mut bytes).ok().map(|()| bytes)
            };
            let mut contents: Vec<Vec<u8>> = Vec::new();
            for bytes in part.copies.iter().filter_map(read).chain(below.rebuilt(from, len as usize)) {
                if !contents.contains(&bytes) {
                    contents.push(bytes);
                }
            }
            if contents.is_empty() {
                return None;
            }
            slices.push(contents);
            done += len;
        }
    }
    let whole: usize = slices.iter().filter_map(|slice| slice.first()).map(Vec::len).sum();
    (whole == len_bytes).then_some(slices)
}
