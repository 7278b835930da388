//! The content of one file: its extents in order, cut into segments; each segment proved and unpacked; hashed and handed
//! on in order.

use super::entry::Trouble;
use super::tree::{Subvolume, is_lossy};
use crate::compression::{MAX_EXTENT_BYTES, unpack_extent, unpack_inline};
use crate::content::DataReader;
use crate::filesystem::Filesystem;
use crate::format::items::{Compression, ExtentPointer, FileExtent, FileExtentItem, InodeFlags, InodeItem};
use crate::format::types::key_type;
use crate::format::{IncompatFlags, Key};
use crate::tree::Cursor;
use crate::units::{Logical, ObjectId};

/// Bytes of a file that are read at once.
pub(super) const SEGMENT_BYTES: u64 = 1 << 20;

/// Where a segment comes from.
#[derive(Clone, Debug)]
enum Source {
    /// A hole, or space that was never written.
    Zeros,
    /// From this address on.
    Sectors(Logical),
    /// Part of a compressed extent.
    Packed { disk: Logical, disk_bytes: usize, codec: Compression, skip_bytes: usize },
    /// The file extent item itself.
    Bytes(Vec<u8>),
}

/// A part of a file.
#[derive(Clone, Debug)]
pub(super) struct Segment {
    /// Where in the file.
    pub(super) at: u64,
    /// In bytes; of anything but zeros at most [`SEGMENT_BYTES`].
    pub(super) len_bytes: u64,
    source: Source,
}

/// A segment that was read.
pub(super) struct Prepared {
    pub(super) at: u64,
    pub(super) len_bytes: u64,
    /// `None` for zeros.
    pub(super) bytes: Option<Vec<u8>>,
    /// Some of it has no checksum.
    pub(super) is_unproved: bool,
    /// What is wrong with it.
    pub(super) trouble: Option<Trouble>,
}

/// The segments of a file, in order and without gaps, up to its size or the first thing that makes no sense.
pub(super) struct Segments<'f> {
    cursor: Cursor<'f, Filesystem>,
    fs: &'f Filesystem,
    inode: ObjectId,
    size: u64,
    /// Everything before has been handed out.
    at: u64,
    /// An extent that is being cut: where it goes on, and up to where in the file.
    current: Option<(Logical, u64)>,
    /// Why there are no more before the end.
    pub(super) trouble: Option<Trouble>,
}

impl<'f> Segments<'f> {
    pub(super) fn new(subvolume: &Subvolume<'f>, inode: ObjectId, size: u64) -> Self {
        let mut cursor = subvolume.cursor();
        cursor.seek(&extent_key(inode, 0));
        Self { cursor, fs: subvolume.fs, inode, size, at: 0, current: None, trouble: None }
    }

    /// Where the first extent lies, for the order of reading.
    pub(super) fn first_address(&self) -> Logical {
        let item = self.cursor.item().filter(|(key, _)| key.objectid == self.inode);
        let item = item.and_then(|(_, bytes)| FileExtentItem::parse(bytes).ok());
        item.and_then(|item| item.pointer().map(|pointer| pointer.disk_bytenr)).unwrap_or_default()
    }

    fn give_up(&mut self, why: Trouble) {
        self.trouble.get_or_insert(why);
        self.at = self.size;
    }

    /// Up to `end` of the file, or to the end of the file.
    fn segment(&mut self, end: u64, source: Source) -> Option<Segment> {
        let (at, end) = (self.at, end.min(self.size));
        self.at = end;
        (end > at).then(|| Segment { at, len_bytes: end - at, source })
    }

    /// What stands between here and the next item, or the end of the file.
    fn gap(&mut self, end: u64) -> Option<Segment> {
        // Without this feature, holes have items of their own.
        if self.fs.superblock().incompat().contains(IncompatFlags::NO_HOLES) {
            return self.segment(end, Source::Zeros);
        }
        self.give_up(Trouble::ExtentsWrong);
        None
    }

    fn next_item(&mut self) -> Option<Segment> {
        let found = self.cursor.item();
        let found = found.filter(|(key, _)| (key.objectid, key.item_type) == (self.inode, key_type::EXTENT_DATA));
        let Some((key, bytes)) = found else { return self.gap(self.size) };
        if key.offset > self.at {
            return self.gap(key.offset);
        }
        let sectorsize = self.fs.geometry().sectorsize();
        let item = FileExtentItem::parse(bytes).ok().filter(|_| key.offset == self.at);
        let Some(item) = item else {
            self.give_up(Trouble::ExtentsWrong);
            return None;
        };
        let (codec, ram_bytes) = (item.compression, item.ram_bytes);
        match item.extent {
            FileExtent::Inline(data) => {
                let plain = match codec {
                    Compression::None if data.len() as u64 == ram_bytes => Ok(data.to_vec()),
                    Compression::None => Err(Trouble::ExtentsWrong),
                    _ => unpack_inline(codec, data, sectorsize, ram_bytes).map_err(|_| Trouble::Decompression),
                };
                self.cursor.advance();
                self.inline(plain, u64::from(sectorsize))
            }
            FileExtent::Prealloc(pointer) => self.pointer(&pointer, None),
            FileExtent::Regular(pointer) if pointer.is_hole() => self.pointer(&pointer, None),
            FileExtent::Regular(pointer) => self.pointer(&pointer, Some((codec, ram_bytes))),
        }
    }

    /// Inline data is followed by zeros up to the end of its sector.
    fn inline(&mut self, plain: Result<Vec<u8>, Trouble>, sectorsize: u64) -> Option<Segment> {
        match plain {
            Ok(mut plain) => {
                let len = plain.len().next_multiple_of(sectorsize as usize);
                plain.resize(len, 0);
                self.segment(self.at.saturating_add(len as u64), Source::Bytes(plain))
            }
            Err(why) => {
                self.give_up(why);
                None
            }
        }
    }

    /// A piece of an extent; of nothing, where there is no codec.
    fn pointer(&mut self, pointer: &ExtentPointer, stored: Option<(Compression, u64)>) -> Option<Segment> {
        self.cursor.advance();
        let end = self.at.saturating_add(pointer.num_bytes);
        if pointer.num_bytes == 0 || !self.makes_sense(pointer, stored) {
            self.give_up(Trouble::ExtentsWrong);
            return None;
        }
        match stored {
            None => self.segment(end, Source::Zeros),
            Some((Compression::None, _)) => {
                self.current = Some((pointer.disk_bytenr + pointer.offset, end.min(self.size)));
                None
            }
            Some((codec, _)) => {
                let (disk, disk_bytes) = (pointer.disk_bytenr, pointer.disk_num_bytes as usize);
                self.segment(end, Source::Packed { disk, disk_bytes, codec, skip_bytes: pointer.offset as usize })
            }
        }
    }

    /// Whether the piece lies in its extent, and the extent in one chunk.
    fn makes_sense(&self, pointer: &ExtentPointer, stored: Option<(Compression, u64)>) -> bool {
        let Some((codec, ram_bytes)) = stored else { return true };
        let sectorsize = u64::from(self.fs.geometry().sectorsize());
        let range = pointer.disk_range();
        let in_chunk = self.fs.chunks().lookup(range.start).is_ok_and(|chunk| range.end <= chunk.end());
        let inner_end = pointer.offset.checked_add(pointer.num_bytes);
        let most = if codec == Compression::None { pointer.disk_num_bytes } else { ram_bytes };
        let is_small = codec == Compression::None
            || (ram_bytes <= MAX_EXTENT_BYTES as u64 && pointer.disk_num_bytes <= MAX_EXTENT_BYTES as u64);
        let numbers = [range.start.raw(), pointer.disk_num_bytes, pointer.offset, pointer.num_bytes];
        in_chunk
            && is_small
            && inner_end.is_some_and(|end| end <= most)
            && numbers.iter().all(|number| number.is_multiple_of(sectorsize))
    }

    fn next_of_current(&mut self) -> Option<Segment> {
        let (from, end) = self.current?;
        let to = end.min(self.at.saturating_add(SEGMENT_BYTES));
        let len_bytes = to.saturating_sub(self.at);
        self.current = (to < end).then_some((from + len_bytes, end));
        self.segment(to, Source::Sectors(from))
    }
}

impl Iterator for Segments<'_> {
    type Item = Segment;

    fn next(&mut self) -> Option<Segment> {
        while self.at < self.size {
            let segment = if self.current.is_some() { self.next_of_current() } else { self.next_item() };
            if segment.is_some() {
                return segment;
            }
        }
        let (first, last) = (extent_key(self.inode, 0), extent_key(self.inode, self.size.saturating_sub(1)));
        if is_lossy(&mut self.cursor, &first, &last) {
            self.trouble = Some(Trouble::ExtentsLost);
        }
        None
    }
}

/// Reads a segment of a file.
pub(super) fn prepare(fs: &Filesystem, item: &InodeItem, segment: Segment) -> Prepared {
    let Segment { at, len_bytes, source } = segment;
    let sectorsize = fs.geometry().sectorsize();
    let mut prepared = Prepared { at, len_bytes, bytes: None, is_unproved: false, trouble: None };
    let mut bytes = match source {
        Source::Zeros => return prepared,
        Source::Bytes(bytes) => bytes,
        Source::Sectors(from) => {
            let mut bytes = vec![0; len_bytes.next_multiple_of(u64::from(sectorsize)) as usize];
            prepared.read(fs, item, from, &mut bytes);
            bytes
        }
        Source::Packed { disk, disk_bytes, codec, skip_bytes } => {
            let mut packed = vec![0; disk_bytes];
            prepared.read(fs, item, disk, &mut packed);
            let need = skip_bytes as u64 + len_bytes;
            if let Ok(mut bytes) = unpack_extent(codec, &packed, sectorsize, need) {
                bytes.split_off(skip_bytes.min(bytes.len()))
            } else {
                prepared.trouble.get_or_insert(Trouble::Decompression);
                vec![0; len_bytes as usize]
            }
        }
    };
    bytes.resize(len_bytes as usize, 0);
    prepared.bytes = Some(bytes);
    prepared
}

impl Prepared {
    fn read(&mut self, fs: &Filesystem, item: &InodeItem, from: Logical, bytes: &mut [u8]) {
        let reading = DataReader::new(fs).read(from, bytes);
        let mut bad = reading.bad.len() as u64;
        if reading.unsummed_sectors > 0 {
            if item.flags.contains(InodeFlags::NODATASUM) {
                self.is_unproved = true;
            } else {
                // A checksum is promised, and there is none.
                bad += reading.unsummed_sectors;
            }
        }
        self.trouble = (bad > 0).then_some(Trouble::Sectors(bad));
    }
}

fn extent_key(inode: ObjectId, offset: u64) -> Key {
    Key::new(inode.raw(), key_type::EXTENT_DATA, offset)
}
