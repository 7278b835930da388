//! Extents without checksums that files say are compressed: an old kernel bug made them, and a bad copy cannot be told
//! from a good one before it is unpacked. Only named here; nothing is ever unpacked.

use super::pieces;
use super::references::References;
use super::trees::Trees;
use crate::filesystem::Filesystem;
use crate::format::items::ExtentRef;
use crate::units::{Logical, ObjectId};

/// A compressed extent and one file that it is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackedExtent {
    /// Where the extent starts.
    pub start: Logical,
    /// The tree of the file; `None` where a shared leaf refers to the extent.
    pub tree: Option<ObjectId>,
    /// The file.
    pub inode: ObjectId,
}

/// Those of the data extents at `addresses` (ascending) that some file says are compressed.
pub fn packed_among(fs: &Filesystem, addresses: &[Logical]) -> Vec<PackedExtent> {
    let (mut references, mut trees) = (References::new(fs), Trees::new(fs));
    let packed = |at: &Logical| {
        let extent = references.data(*at)?;
        extent.refs.iter().find_map(|reference| {
            let mut found = Vec::new();
            pieces::find(fs, &mut trees, &extent.range, reference, &mut found);
            let piece = found.into_iter().find(|piece| piece.is_compressed)?;
            let tree = match reference {
                ExtentRef::ExtentData { root, .. } => Some(*root),
                _ => None,
            };
            Some(PackedExtent { start: extent.range.start, tree, inode: piece.inode })
        })
    };
    addresses.iter().filter_map(packed).collect()
}
