//! The decompress test: every compressed extent that verifies is unpacked, as far as some file needs it. One that does not
//! unpack was packed wrongly, or in bad memory: its checksums are right in all copies, and nothing can mend it.
//!
//! The extent tree does not know what is compressed, so the subvolumes are walked for it, each tree block once. Extents
//! are gathered in ascending order, [`MAX_GATHERED`] at a time; where there are more, the trees are walked once more for
//! the next ones. Kernel: `btrfs_decompress_bio` in fs/btrfs/compression.c.

use super::finding::{Evidence, Finding, FindingKind, Problem, RepairState};
use super::progress::Progress;
use super::selection::Selection;
use super::sink::Tally;
use super::window::Window;
use super::{ScrubOptions, hash_threads};
use crate::compression::{MAX_EXTENT_BYTES, UnpackError, unpack_extent, unpack_inline};
use crate::content::DataReader;
use crate::filesystem::Filesystem;
use crate::format::items::{Compression, FileExtent, FileExtentItem};
use crate::format::types::key_type;
use crate::tree::{BlockSource as _, LostBlock, ParentCheck, SeenBlocks, TreeBlock, Visit, Visitor, walk};
use crate::units::{Logical, range_len};
use crate::volume::Chunk;
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Extents that are remembered at once: 262,144 of about 64 bytes each, 16 MiB for 32 GiB of unpacked data.
const MAX_GATHERED: usize = 1 << 18;
/// Extents between two looks at whether the run is to end.
const BATCH: usize = 1024;

/// Where an extent starts, and how it is packed: only a broken tree says two things of one extent.
type ExtentKey = (Logical, Codec);

/// [`Compression`] with an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Codec {
    Zlib,
    Lzo,
    Zstd,
}

/// What the references say of one extent.
#[derive(Clone, Copy, Debug)]
enum Packed {
    /// In its own place.
    Extent {
        /// Of its bytes on disk.
        disk_bytes: u64,
        /// The most that any file needs of what it unpacks to.
        need_bytes: u64,
    },
    /// In a leaf; the key's address is that of its first byte there.
    Inline { leaf: Logical, slot: usize },
}

/// Unpacks what the selection covers and adds a finding for each extent that fails.
pub(super) fn test(fs: &Filesystem, options: &ScrubOptions, progress: &Progress, tally: &mut Tally) {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(hash_threads()).build();
    let Ok(pool) = pool else {
        tally.notes.push("no threads for the decompress test: it was not done".to_owned());
        progress.cancel();
        return;
    };
    let mut from = None;
    while !progress.is_cancelled() {
        let mut gathered = Gather::new(fs, &options.selection, from);
        gathered.all(progress);
        from = gathered.last.take();
        let extents: Vec<(ExtentKey, Packed)> = gathered.extents.into_iter().collect();
        for batch in extents.chunks(BATCH) {
            if progress.is_cancelled() {
                return;
            }
            let findings: Vec<Finding> = pool.install(|| {
                let failed = batch.par_iter().filter_map(|(key, packed)| Test { fs, progress }.run(*key, *packed));
                failed.collect()
            });
            for finding in findings {
                let sectors = u64::from(finding.length).div_ceil(u64::from(fs.geometry().sectorsize()));
                tally.find(finding, sectors);
            }
        }
        if from.is_none() {
            return;
        }
    }
}

/// The first compressed extents behind an address.
struct Gather<'a> {
    fs: &'a Filesystem,
    selection: &'a Selection,
    /// Only what lies behind.
    from: Option<ExtentKey>,
    extents: BTreeMap<ExtentKey, Packed>,
    /// Where the next walk goes on, if there is more than could be remembered.
    last: Option<ExtentKey>,
    seen: SeenBlocks,
    is_cancelled: bool,
}

impl<'a> Gather<'a> {
    fn new(fs: &'a Filesystem, selection: &'a Selection, from: Option<ExtentKey>) -> Self {
        let (extents, seen) = (BTreeMap::new(), SeenBlocks::default());
        Self { fs, selection, from, extents, last: None, seen, is_cancelled: false }
    }

    fn all(&mut self, progress: &Progress) {
        for subvolume in self.fs.live_subvolumes() {
            self.is_cancelled = progress.is_cancelled();
            walk(self.fs, &subvolume.root, self);
        }
    }

    fn item(&mut self, block: &TreeBlock, slot: usize, bytes: &[u8]) {
        let Ok(item) = FileExtentItem::parse(bytes) else { return };
        let codec = match item.compression {
            Compression::None => return,
            Compression::Zlib => Codec::Zlib,
            Compression::Lzo => Codec::Lzo,
            Compression::Zstd => Codec::Zstd,
        };
        let (at, packed) = match item.extent {
            FileExtent::Regular(pointer) if !pointer.is_hole() => {
                let (disk_bytes, need_bytes) =
                    (pointer.disk_num_bytes, pointer.offset.saturating_add(pointer.num_bytes));
                (pointer.disk_bytenr, Packed::Extent { disk_bytes, need_bytes })
            }
            FileExtent::Inline(data) => {
                let leaf = block.header().bytenr;
                let offset = data.as_ptr().addr().saturating_sub(block.bytes().as_ptr().addr());
                (leaf + offset as u64, Packed::Inline { leaf, slot })
            }
            _ => return,
        };
        if self.wants(at) && self.selection.since.is_none_or(|since| item.generation >= since) {
            self.remember((at, codec), packed);
        }
    }

    /// What was done in earlier sittings is tested again: they ended before the test did.
    fn wants(&self, at: Logical) -> bool {
        let Ok(chunk) = self.fs.chunks().lookup(at) else { return false };
        let (selection, start) = (self.selection, chunk.start());
        let number = Window::number_of(chunk, at);
        selection.kinds.contains(super::selection::Kinds::DATA)
            && selection.block_groups.as_ref().is_none_or(|groups| groups.contains(&start))
            && selection.places.as_ref().is_none_or(|places| places.has(start, number))
    }

    fn remember(&mut self, key: ExtentKey, packed: Packed) {
        if self.from.is_some_and(|from| key <= from) {
            return;
        }
        let known = self.extents.entry(key).or_insert(packed);
        if let (Packed::Extent { need_bytes, disk_bytes }, Packed::Extent { need_bytes: more, disk_bytes: other }) =
            (known, packed)
        {
            *need_bytes = (*need_bytes).max(more);
            *disk_bytes = (*disk_bytes).max(other);
        }
        if self.extents.len() > MAX_GATHERED {
            self.extents.pop_last();
            self.last = self.extents.last_key_value().map(|(key, _)| *key);
        }
    }
}

impl Visitor for Gather<'_> {
    fn pointer(&mut self, at: Logical, _: &ParentCheck) -> Visit {
        if self.is_cancelled {
            return Visit::Stop;
        }
        if self.seen.insert(at) { Visit::Into } else { Visit::Skip }
    }

    fn block(&mut self, block: &Arc<TreeBlock>) -> Visit {
        if block.level() == 0 {
            for slot in 0..block.len() {
                if let Some((_, bytes)) = block.item(slot).filter(|(key, _)| key.item_type == key_type::EXTENT_DATA) {
                    self.item(block, slot, bytes);
                }
            }
        }
        Visit::Into
    }

    fn lost(&mut self, _: Logical, _: &ParentCheck, _: &LostBlock) {}
}

/// The test of one extent.
#[derive(Clone, Copy)]
struct Test<'a> {
    fs: &'a Filesystem,
    progress: &'a Progress,
}

impl Test<'_> {
    /// A finding where it does not unpack. What does not verify is for the scrub to tell.
    fn run(self, (at, codec): ExtentKey, packed: Packed) -> Option<Finding> {
        if self.progress.is_cancelled() {
            return None;
        }
        let (length, result) = match packed {
            Packed::Extent { disk_bytes, need_bytes } => (disk_bytes, self.extent(at, codec, disk_bytes, need_bytes)?),
            Packed::Inline { leaf, slot } => self.inline(codec, leaf, slot)?,
        };
        let why = result.err()?;
        self.progress.advance(0, 1);
        let chunk = self.fs.chunks().lookup(at).ok()?;
        Some(finding(chunk, at, length, &why))
    }

    /// `None` where its bytes are not proved.
    fn extent(
        self,
        at: Logical,
        codec: Codec,
        disk_bytes: u64,
        need_bytes: u64,
    ) -> Option<Result<Vec<u8>, UnpackError>> {
        let sectorsize = self.fs.geometry().sectorsize();
        if disk_bytes > MAX_EXTENT_BYTES as u64 {
            return Some(Err(UnpackError::TooLong { need_bytes: disk_bytes }));
        }
        if !disk_bytes.is_multiple_of(u64::from(sectorsize)) {
            return None;
        }
        let mut bytes = vec![0; disk_bytes as usize];
        let reading = DataReader::new(self.fs).read(at, &mut bytes);
        reading.bad.is_empty().then(|| unpack_extent(codec.into(), &bytes, sectorsize, need_bytes))
    }

    fn inline(self, codec: Codec, leaf: Logical, slot: usize) -> Option<(u64, Result<Vec<u8>, UnpackError>)> {
        let any = ParentCheck { level: Some(0), ..ParentCheck::default() };
        let block = self.fs.read_block(leaf, &any).ok()?;
        let item = FileExtentItem::parse(block.item(slot)?.1).ok()?;
        let FileExtent::Inline(data) = item.extent else { return None };
        let sectorsize = self.fs.geometry().sectorsize();
        Some((data.len() as u64, unpack_inline(codec.into(), data, sectorsize, item.ram_bytes)))
    }
}

impl From<Codec> for Compression {
    fn from(codec: Codec) -> Self {
        match codec {
            Codec::Zlib => Self::Zlib,
            Codec::Lzo => Self::Lzo,
            Codec::Zstd => Self::Zstd,
        }
    }
}

/// All copies are the same; the first stands for them.
fn finding(chunk: &Chunk, at: Logical, length: u64, why: &UnpackError) -> Finding {
    let copy = chunk.copies(at).into_iter().next();
    let length = length.min(range_len(&(at..chunk.end())));
    Finding {
        kind: FindingKind::Data,
        problem: Problem::Decompression,
        logical: at,
        length: u32::try_from(length).unwrap_or(u32::MAX),
        mirror: copy.map(|copy| copy.mirror).unwrap_or_default(),
        devid: copy.map(|copy| copy.place.devid).unwrap_or_default(),
        physical: copy.map(|copy| copy.place.physical).unwrap_or_default(),
        profile: chunk.profile(),
        evidence: Evidence::Text(why.to_string().into()),
        repair: RepairState::Impossible,
        owner: None,
        below: Vec::new(),
    }
}
