//! The file extent items behind a reference: for a keyed one by searching the subvolume, for a shared one in the leaf
//! that it names.

use super::references::{Referenced, References};
use super::trees::Trees;
use crate::filesystem::Filesystem;
use crate::format::Key;
use crate::format::items::{Compression, ExtentRef, FileExtent, FileExtentItem};
use crate::format::types::key_type;
use crate::tree::{BlockSource, ParentCheck};
use crate::units::{Logical, LogicalRange, ObjectId};

/// The most that a compressed extent unpacks to, in bytes (`BTRFS_MAX_COMPRESSED`).
const MAX_UNPACKED_BYTES: u64 = 128 << 10;

/// One file extent item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// The leaf that holds it.
    pub(super) leaf: Logical,
    /// The file, in whichever subvolumes the leaf is part of.
    pub(super) inode: ObjectId,
    /// Where in the file the piece starts, in bytes.
    pub(super) file_offset: u64,
    /// The part of the extent that it needs: all of a compressed one.
    pub(super) range: LogicalRange,
    /// Whether the bytes of the file cannot be told apart within `range`.
    pub(super) is_compressed: bool,
    /// Reserved and not written: reads as zeros, whatever is in `range`.
    pub(super) is_unwritten: bool,
}

/// Adds the pieces of the data extent at `extent` that `reference` stands for. Returns whether all of them were found.
pub(super) fn find(
    fs: &Filesystem,
    trees: &mut Trees<'_>,
    extent: &LogicalRange,
    reference: &ExtentRef,
    pieces: &mut Vec<Piece>,
) -> bool {
    let before = pieces.len();
    match *reference {
        ExtentRef::ExtentData { root, objectid, offset, count } => {
            in_subvolume(trees, extent, (root, objectid, offset), count, pieces);
        }
        ExtentRef::SharedData { parent, .. } => in_leaf(fs, extent, parent, pieces),
        ExtentRef::TreeBlock { .. } | ExtentRef::SharedBlock { .. } | ExtentRef::Owner { .. } => {}
    }
    (pieces.len() - before) as u64 >= reference.count()
}

/// `offset` is where the extent would start in the file; it wraps below 0.
fn in_subvolume(
    trees: &mut Trees<'_>,
    extent: &LogicalRange,
    (root, inode, offset): (ObjectId, ObjectId, u64),
    count: u32,
    pieces: &mut Vec<Piece>,
) {
    let Some(mut cursor) = trees.cursor(root) else { return };
    let from = if offset > i64::MAX as u64 { 0 } else { offset };
    let span = (extent.end - extent.start).max(MAX_UNPACKED_BYTES);
    let mut left = count;
    cursor.seek(&Key::new(inode.raw(), key_type::EXTENT_DATA, from));
    while let (Some((key, bytes)), Some(leaf)) = (cursor.item(), cursor.leaf_at()) {
        let inside = (key.objectid, key.item_type) == (inode, key_type::EXTENT_DATA);
        if left == 0 || !inside || key.offset.wrapping_sub(offset) >= span {
            break;
        }
        if let Some(piece) = piece(leaf, &key, bytes, extent, Some(offset)) {
            pieces.push(piece);
            left -= 1;
        }
        cursor.advance();
    }
}

/// The inline file extent whose data starts at `at`, inside of a leaf.
pub(super) fn inline(fs: &Filesystem, leaf: &Referenced, at: Logical) -> Option<Piece> {
    let leaf_at = leaf.range.start;
    let block = fs.read_block(leaf_at, &leaf.check()).ok()?;
    let bytes_start = block.bytes().as_ptr().addr();
    (0..block.len()).filter_map(|slot| block.item(slot)).find_map(|(key, bytes)| {
        let FileExtent::Inline(data) = FileExtentItem::parse(bytes).ok()?.extent else { return None };
        let start = leaf_at + data.as_ptr().addr().checked_sub(bytes_start)? as u64;
        let is_it = key.item_type == key_type::EXTENT_DATA && start == at;
        is_it.then(|| Piece {
            leaf: leaf_at,
            inode: key.objectid,
            file_offset: key.offset,
            range: start..start + data.len() as u64,
            is_compressed: true,
            is_unwritten: false,
        })
    })
}

fn in_leaf(fs: &Filesystem, extent: &LogicalRange, leaf: Logical, pieces: &mut Vec<Piece>) {
    let is_leaf = ParentCheck { level: Some(0), ..ParentCheck::default() };
    let check = References::new(fs).block(leaf).map_or(is_leaf, |found| found.check());
    let Ok(block) = fs.read_block(leaf, &check) else { return };
    let items = (0..block.len()).filter_map(|slot| block.item(slot));
    let data = items.filter(|(key, _)| key.item_type == key_type::EXTENT_DATA);
    pieces.extend(data.filter_map(|(key, bytes)| piece(leaf, &key, bytes, extent, None)));
}

/// The piece in a file extent item that points to `extent`; where `offset` is given, only if that is where the extent
/// would start in the file.
fn piece(leaf: Logical, key: &Key, bytes: &[u8], extent: &LogicalRange, offset: Option<u64>) -> Option<Piece> {
    let (piece, start, would_start) = parse(leaf, key, bytes)?;
    (start == extent.start && offset.is_none_or(|offset| offset == would_start)).then_some(piece)
}

/// The piece in a file extent item, the start of the extent that it points to, and where that would start in the file.
pub(super) fn parse(leaf: Logical, key: &Key, bytes: &[u8]) -> Option<(Piece, Logical, u64)> {
    let item = FileExtentItem::parse(bytes).ok()?;
    let pointer = item.pointer().filter(|pointer| !pointer.is_hole())?;
    let is_compressed = item.compression != Compression::None;
    let start = pointer.disk_bytenr + pointer.offset;
    let range = if is_compressed { pointer.disk_range() } else { start..start + pointer.num_bytes };
    let is_unwritten = matches!(item.extent, FileExtent::Prealloc(_));
    let (inode, file_offset) = (key.objectid, key.offset);
    let piece = Piece { leaf, inode, file_offset, range, is_compressed, is_unwritten };
    Some((piece, pointer.disk_bytenr, key.offset.wrapping_sub(pointer.offset)))
}
