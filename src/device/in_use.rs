//! Who uses a member now: mounts (those of the other members of a mounted btrfs too), swap, loop devices over it, and
//! what device mapper or md have built on it. Asks `/proc` and `/sys`; opens nothing.
//!
//! What these files say is parsed by pure functions. The kernel's own protection (`O_EXCL`) is with the open for
//! writing; this is for telling the user why, and for warning before a read.

use super::open::look;
use super::{DeviceError, Identity};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// One user of a member. `node` is the kernel's name of the block device that is used: the member, a partition of it,
/// or a loop device over it (`sda`, `sda1`, `loop0`).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Use {
    /// A file system on it, or one it is part of, is mounted.
    Mounted {
        /// Of the block device.
        node: String,
        /// The mount point.
        at: PathBuf,
    },
    /// It is part of a btrfs that is mounted somewhere out of our sight (another mount namespace).
    MountedBtrfs {
        /// Of the block device.
        node: String,
        /// The file system.
        fsid: String,
    },
    /// A loop device stands on this file.
    Loop {
        /// Of the loop device.
        node: String,
    },
    /// Device mapper or md stands on it.
    Held {
        /// Of the block device.
        node: String,
        /// Of the device on top (`dm-0`, `md127`).
        by: String,
    },
    /// Swap space.
    Swap {
        /// As the kernel lists it.
        path: PathBuf,
    },
}

impl fmt::Display for Use {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mounted { node, at } => write!(f, "{node} is mounted at {}", at.display()),
            Self::MountedBtrfs { node, fsid } => write!(f, "{node} is part of the mounted btrfs {fsid}"),
            Self::Loop { node } => write!(f, "it is the backing file of {node}"),
            Self::Held { node, by } => write!(f, "{node} is held by {by}"),
            Self::Swap { path } => write!(f, "{} is swap space", path.display()),
        }
    }
}

/// All users of the member at `path`, sorted; empty where nothing uses it. What the kernel does not show (no `/sys` in
/// a container) counts as no use.
pub fn users_of(path: &Path) -> Result<Vec<Use>, DeviceError> {
    let identity = look(path)?;
    let kernel =
        Kernel { proc: Path::new("/proc"), sys: Path::new("/sys"), identify: &|path| super::identity(path).ok() };
    kernel.users_of(identity).map_err(|error| DeviceError::from_io(path, "find out who uses it", error))
}

/// Where the kernel tells about itself; tests put a tree of their own there.
struct Kernel<'a> {
    proc: &'a Path,
    sys: &'a Path,
    identify: &'a dyn Fn(&Path) -> Option<Identity>,
}

impl Kernel<'_> {
    fn users_of(&self, identity: Identity) -> io::Result<Vec<Use>> {
        let mut users = BTreeSet::new();
        let mut nodes = Vec::new();
        match identity {
            Identity::Block(number) => nodes.extend(self.nodes_of(number)?),
            Identity::File(..) => {
                for node in self.loops_over(identity)? {
                    users.insert(Use::Loop { node: node.clone() });
                    nodes.push(node);
                }
            }
        }
        for swap in parse_swaps(&read_or_nothing(&self.proc.join("swaps"))?) {
            let used = (self.identify)(&swap);
            if used == Some(identity) || nodes.iter().any(|node| used.is_some() && used == self.number_of(node)) {
                users.insert(Use::Swap { path: swap });
            }
        }
        let mounts = parse_mountinfo(&read_or_nothing(&self.proc.join("self/mountinfo"))?);
        for node in &nodes {
            self.mounts_of(node, &mounts, &mut users)?;
            let holders = self.sys.join("class/block").join(node).join("holders");
            users.extend(names_in(&holders)?.into_iter().map(|by| Use::Held { node: node.clone(), by }));
        }
        Ok(users.into_iter().collect())
    }

    /// The kernel's names of a block device and of its partitions.
    fn nodes_of(&self, number: u64) -> io::Result<Vec<String>> {
        let link =
            self.sys.join("dev/block").join(format!("{}:{}", rustix::fs::major(number), rustix::fs::minor(number)));
        let Ok(directory) = fs::canonicalize(&link) else { return Ok(Vec::new()) };
        let own = directory.file_name().map(|name| name.to_string_lossy().into_owned());
        let inside = names_in(&directory)?;
        let partitions = inside.into_iter().filter(|name| directory.join(name).join("partition").exists());
        Ok(own.into_iter().chain(partitions).collect())
    }

    fn number_of(&self, node: &str) -> Option<Identity> {
        let text = fs::read_to_string(self.sys.join("class/block").join(node).join("dev")).ok()?;
        parse_number(text.trim()).map(Identity::Block)
    }

    fn loops_over(&self, identity: Identity) -> io::Result<Vec<String>> {
        let block = self.sys.join("block");
        let mut nodes = names_in(&block)?;
        nodes.retain(|node| {
            let backing = fs::read(block.join(node).join("loop/backing_file")).unwrap_or_default();
            (self.identify)(&path_of(backing.trim_ascii_end())) == Some(identity)
        });
        Ok(nodes)
    }

    /// Mounts of the file system on `node`. A btrfs has a device number of its own, so it is known by its source, which
    /// is any one of its members.
    fn mounts_of(&self, node: &str, mounts: &[Mount], users: &mut BTreeSet<Use>) -> io::Result<()> {
        let fsid = self.mounted_btrfs_with(node)?;
        let members = match &fsid {
            Some(fsid) => names_in(&self.sys.join("fs/btrfs").join(fsid).join("devices"))?,
            None => vec![node.to_owned()],
        };
        let numbers: Vec<Identity> = members.iter().filter_map(|member| self.number_of(member)).collect();
        let mut seen = false;
        for mount in mounts {
            let of_it = numbers.contains(&Identity::Block(mount.number))
                || (self.identify)(&mount.source).is_some_and(|source| numbers.contains(&source));
            if of_it {
                seen = true;
                users.insert(Use::Mounted { node: node.to_owned(), at: mount.at.clone() });
            }
        }
        if let (Some(fsid), false) = (fsid, seen) {
            users.insert(Use::MountedBtrfs { node: node.to_owned(), fsid });
        }
        Ok(())
    }

    /// The mounted btrfs that `node` is a member of. The directory is there only while it is mounted.
    fn mounted_btrfs_with(&self, node: &str) -> io::Result<Option<String>> {
        let all = self.sys.join("fs/btrfs");
        let fsids = names_in(&all)?;
        Ok(fsids.into_iter().find(|fsid| all.join(fsid).join("devices").join(node).symlink_metadata().is_ok()))
    }
}

/// One line of `/proc/self/mountinfo`, as far as it matters here.
#[derive(Debug, PartialEq, Eq)]
struct Mount {
    number: u64,
    at: PathBuf,
    source: PathBuf,
}

/// `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw`: the fields before the dash vary in number. Lines
/// that do not look like this are passed over.
fn parse_mountinfo(text: &[u8]) -> Vec<Mount> {
    text.split(|byte| *byte == b'\n').filter_map(parse_mount).collect()
}

fn parse_mount(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|byte| *byte == b' ');
    let number = parse_number(std::str::from_utf8(fields.nth(2)?).ok()?)?;
    let at = unescape(fields.nth(1)?);
    let source = fields.skip_while(|field| *field != b"-").nth(2)?;
    Some(Mount { number, at, source: unescape(source) })
}

/// The paths of `/proc/swaps`: the first field of each line but the heading.
fn parse_swaps(text: &[u8]) -> Vec<PathBuf> {
    let lines = text.split(|byte| *byte == b'\n').skip(1);
    lines
        .filter_map(|line| line.split(u8::is_ascii_whitespace).next())
        .filter(|path| !path.is_empty())
        .map(unescape)
        .collect()
}

/// `major:minor` as a device number.
fn parse_number(text: &str) -> Option<u64> {
    let (major, minor) = text.split_once(':')?;
    Some(rustix::fs::makedev(major.parse().ok()?, minor.parse().ok()?))
}

/// Undoes the kernel's `\040` (octal) for blanks, line ends and backslashes in names.
fn unescape(field: &[u8]) -> PathBuf {
    let mut plain = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, after)) = rest.split_first() {
        let code = after.get(..3).filter(|_| *first == b'\\').and_then(|digits| std::str::from_utf8(digits).ok());
        if let Some(byte) = code.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            plain.push(byte);
            rest = after.get(3..).unwrap_or_default();
        } else {
            plain.push(*first);
            rest = after;
        }
    }
    path_of(&plain)
}

fn path_of(bytes: &[u8]) -> PathBuf {
    OsString::from_vec(bytes.to_vec()).into()
}

fn read_or_nothing(path: &Path) -> io::Result<Vec<u8>> {
    absent_is_nothing(fs::read(path))
}

/// The names in a directory, sorted.
fn names_in(directory: &Path) -> io::Result<Vec<String>> {
    let names = fs::read_dir(directory).and_then(|entries| {
        entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect::<io::Result<Vec<_>>>()
    });
    let mut names = absent_is_nothing(names)?;
    names.sort_unstable();
    Ok(names)
}

fn absent_is_nothing<T: Default>(result: io::Result<T>) -> io::Result<T> {
    match result {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(T::default())
        }
        result => result,
    }
}

#[cfg(test)]
mod tests;
