//! What is said of each file: the lines of the manifest, and the sum of a run.

use crate::scrub::outcome::{FilesystemInfo, Status};
use crate::units::{Generation, ObjectId};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};
use uuid::Uuid;
use xxhash_rust::xxh3::xxh3_128;

/// What lies at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A folder, or a subvolume.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A character device.
    CharDevice,
    /// A block device.
    BlockDevice,
    /// Its inode is lost.
    Unknown,
}

/// How far it is proved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EntryState {
    /// Every byte is proved by a checksum.
    Whole,
    /// Some of it has no checksum; its copies are equal, or there is one.
    Unproved,
    /// Something of it cannot be proved, or is lost.
    Damaged,
}

/// Why something is damaged, or is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Trouble {
    /// Sectors that nothing proves.
    #[error("{0} sectors cannot be proved")]
    Sectors(u64),
    /// Its inode cannot be found.
    #[error("its inode is lost")]
    InodeLost,
    /// Part of the tree that says where its data is cannot be read.
    #[error("a part of its extents is lost")]
    ExtentsLost,
    /// Items contradict each other.
    #[error("its extents make no sense")]
    ExtentsWrong,
    /// Compressed data does not unpack.
    #[error("a compressed extent does not unpack")]
    Decompression,
    /// Part of the tree that holds its names cannot be read.
    #[error("a part of its names is lost")]
    NamesLost,
    /// Part of the tree that holds its extended attributes cannot be read.
    #[error("a part of its attributes is lost")]
    AttributesLost,
    /// The directory says that it is somewhere else.
    #[error("it and its folder contradict each other")]
    NameContradicts,
    /// No file may have this name.
    #[error("no file can have this name")]
    NameRefused,
    /// Deeper than is followed.
    #[error("it lies too deep")]
    TooDeep,
    /// Something else is there.
    #[error("something else is there already, and is left as it is")]
    InTheWay,
    /// The folder does not take it.
    #[error("it cannot be made there (errno {0})")]
    Refused(i32),
}

/// One path that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// From the top of what was asked for, without a slash at its start.
    pub path: Vec<u8>,
    /// What it is.
    pub kind: EntryKind,
    /// In bytes, as its inode says.
    pub size: u64,
    /// Of all content of a file that is not damaged.
    pub sha256: Option<[u8; 32]>,
    /// How far it is proved.
    pub state: EntryState,
    /// Where it is damaged: why.
    pub trouble: Option<Trouble>,
    /// Which version of which file.
    pub version: FileVersion,
}

/// Which version of which file of which file system: tells whether a manifest is about the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileVersion {
    /// The file system.
    pub fsid: Uuid,
    /// The tree.
    pub subvolume: ObjectId,
    /// The file.
    pub inode: ObjectId,
    /// Its last change.
    pub generation: Generation,
}

/// A hash of everything that says that an entry is the same as one of an earlier manifest.
pub type Fingerprint = u128;

impl Entry {
    /// The fingerprint of an entry.
    pub fn fingerprint(&self) -> Fingerprint {
        let FileVersion { fsid, subvolume, inode, generation } = self.version;
        let mut bytes = Vec::with_capacity(self.path.len() + 64);
        bytes.extend(fsid.as_bytes());
        for number in [subvolume.raw(), inode.raw(), generation.raw(), self.size, self.kind as u64] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(&self.path);
        xxh3_128(&bytes)
    }
}

/// What one extraction did.
#[derive(Clone, Debug)]
pub struct ExtractOutcome {
    /// The file system.
    pub filesystem: FilesystemInfo,
    /// Whether it got to the end.
    pub status: Status,
    /// Where to.
    pub folder: PathBuf,
    /// Wall clock at the start.
    pub started: SystemTime,
    /// How long it took.
    pub duration: Duration,
    /// Numbers of entries and bytes.
    pub counts: Counts,
    /// The trees are those of an older generation: what was written since is not known.
    pub is_old: bool,
    /// The first that are damaged or not there.
    pub troubled: Vec<(Vec<u8>, Trouble)>,
    /// What an administrator should know beside it, one lowercase line each.
    pub notes: Vec<String>,
}

/// Sums of one extraction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Files of which every byte is proved.
    pub whole: u64,
    /// Files with data that has no checksum.
    pub unproved: u64,
    /// Files, folders and others that are damaged.
    pub damaged: u64,
    /// What could not be put where it belongs.
    pub not_written: u64,
    /// Of the files, those that an earlier run took out.
    pub already_there: u64,
    /// Folders.
    pub directories: u64,
    /// Symbolic links.
    pub symlinks: u64,
    /// Pipes, sockets and devices.
    pub special: u64,
    /// Names of files beyond the first of each.
    pub hard_links: u64,
    /// Bytes of content written.
    pub bytes_written: u64,
    /// Owners, modes, times and extended attributes that the user may not set, or the folder not hold.
    pub attributes_refused: u64,
    /// Pipes, sockets and devices that the user may not make.
    pub special_refused: u64,
    /// Patterns that nothing matched.
    pub unmatched_patterns: u64,
}

impl ExtractOutcome {
    /// Whether all that was asked for is there and nothing of it is damaged.
    pub fn is_all_there(&self) -> bool {
        let Counts { damaged, not_written, unmatched_patterns, .. } = self.counts;
        !self.is_old && damaged == 0 && not_written == 0 && unmatched_patterns == 0
    }
}
