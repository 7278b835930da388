//! Opens fixtures through the library, with devices of one's own in between.

use mirrortool::device::{IoEngine, ReadDevice, identity, open_read};
use mirrortool::filesystem::{Filesystem, OpenOptions};
use mirrortool::format::Key;
use mirrortool::format::items::{FileExtent, FileExtentItem, InodeFlags, InodeItem};
use mirrortool::format::types::{key_type, object};
use mirrortool::scrub::outcome::ScrubOutcome;
use mirrortool::scrub::{Progress, ScrubOptions, scrub};
use mirrortool::tree::{BlockSource as _, Cursor, ParentCheck};
use mirrortool::units::{Logical, LogicalRange, ObjectId};
use mirrortool::volume::{DeviceSet, Opened, SetOptions};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The bytes of an image, through the page cache.
pub fn device(path: &Path) -> Arc<dyn ReadDevice> {
    open_read(path, IoEngine::Buffered).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The file system in these images.
pub fn open(images: &[PathBuf]) -> Filesystem {
    let devices: Vec<_> = images.iter().map(|path| device(path)).collect();
    open_devices(images, &devices).unwrap()
}

/// What a scrub of these images finds.
pub fn scrubbed(images: &[PathBuf]) -> ScrubOutcome {
    scrub(&open(images), &ScrubOptions::default(), &Progress::default()).unwrap()
}

/// The file system on these devices; the paths are those of the images behind them.
pub fn open_devices(paths: &[PathBuf], devices: &[Arc<dyn ReadDevice>]) -> Result<Filesystem, String> {
    let opened = paths.iter().zip(devices).map(|(path, device)| Opened {
        path: path.clone(),
        device: Arc::clone(device),
        identity: identity(path).unwrap(),
    });
    let set = DeviceSet::assemble(opened.collect(), SetOptions::default()).map_err(|e| e.to_string())?;
    Filesystem::open(set, &OpenOptions::default()).map_err(|e| e.to_string())
}

/// The file system in the images that are left of a set.
pub fn open_degraded(images: &[PathBuf]) -> Filesystem {
    let opened = images.iter().map(|path| Opened {
        path: path.clone(),
        device: device(path),
        identity: identity(path).unwrap(),
    });
    let set = DeviceSet::assemble(opened.collect(), SetOptions { degraded: true }).unwrap();
    Filesystem::open(set, &OpenOptions::default()).unwrap()
}

/// Scrubs the set that these devices make; the paths are those of the images behind them.
///
/// An error is the text of a refusal to open or to scrub.
pub fn scrub_devices(paths: &[PathBuf], devices: &[Arc<dyn ReadDevice>]) -> Result<ScrubOutcome, String> {
    let filesystem = open_devices(paths, devices)?;
    let options = ScrubOptions { threads_per_device: 1, ..ScrubOptions::default() };
    scrub(&filesystem, &options, &Progress::default()).map_err(|e| e.to_string())
}

/// A file extent without checksums.
pub struct UnsummedExtent {
    /// The leaf that holds its item.
    pub leaf: Logical,
    /// Where the item starts in the leaf, in bytes.
    pub offset: usize,
    /// The file.
    pub inode: ObjectId,
    /// The data.
    pub data: LogicalRange,
}

/// The first file extent of the first file with `nodatasum` in the top-level subvolume.
pub fn unsummed_extent(fs: &Filesystem) -> UnsummedExtent {
    let top = fs.all_roots().into_iter().find(|root| root.id == object::FS_TREE).unwrap();
    let mut cursor = Cursor::new(fs, top);
    cursor.seek(&Key::MIN);
    let mut unsummed = None;
    while let Some((key, bytes)) = cursor.item() {
        match key.item_type {
            key_type::INODE_ITEM if InodeItem::parse(bytes).unwrap().flags.contains(InodeFlags::NODATASUM) => {
                unsummed = Some(key.objectid);
            }
            key_type::EXTENT_DATA if unsummed == Some(key.objectid) => {
                let item = FileExtentItem::parse(bytes).unwrap();
                if let FileExtent::Regular(pointer) = item.extent {
                    let leaf = cursor.leaf_at().unwrap();
                    let node = fs.read_block(leaf, &ParentCheck::default()).unwrap();
                    let offset = node.bytes().windows(bytes.len()).position(|window| window == bytes).unwrap();
                    return UnsummedExtent { leaf, offset, inode: key.objectid, data: pointer.disk_range() };
                }
            }
            _ => {}
        }
        cursor.advance();
    }
    panic!("the fixture has no file without checksums");
}
