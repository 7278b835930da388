//! Who uses a member now: mounts (those of the other members of a mounted btrfs too), swap, loop devices over it or over
//! the same file, what device mapper or md have built on it, and locks on its bytes. Asks `/proc`, `/sys`, and the loop
//! devices themselves, whose backing file may have another name here, or none.
//!
//! What the files say is parsed by pure functions. The kernel's own protection (`O_EXCL`) is with the open for
//! writing; this is for telling the user why, for warning before a read, and for looking again while writing.

use super::lock::lock_on;
use super::loop_status::{LoopStatus, loop_status};
use super::open::{look, open_quietly};
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
    /// A loop device has bytes of the same file.
    SameFile {
        /// Of the member, which is a loop device.
        node: String,
        /// Of the other loop device.
        other: String,
    },
    /// Another process has locked bytes of it, as a running virtual machine does.
    Locked {
        /// The process, where the kernel tells.
        pid: Option<u32>,
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
            Self::SameFile { node, other } => write!(f, "{other} has the same backing file as {node}"),
            Self::Locked { pid: Some(pid) } => write!(f, "it is locked by process {pid}"),
            Self::Locked { pid: None } => f.write_str("it is locked by another process (a virtual machine?)"),
            Self::Swap { path } => write!(f, "{} is swap space", path.display()),
        }
    }
}

/// All users of the member at `path`, sorted; empty where nothing uses it. What the kernel does not show (no `/sys` in
/// a container) counts as no use.
pub fn users_of(path: &Path) -> Result<Vec<Use>, DeviceError> {
    let identity = look(path)?;
    let failed = |error| DeviceError::from_io(path, "find out who uses it", error);
    let mut users = kernel().users_of(identity).map_err(failed)?;
    users.extend(locks_on(path, identity));
    users.sort_unstable();
    Ok(users)
}

/// The users of several members at once, without those who only have locks: for whoever has locked them already.
pub(crate) fn kernel_users(members: &[Identity]) -> io::Result<Vec<Vec<Use>>> {
    let kernel = kernel();
    let seen = kernel.look()?;
    members.iter().map(|identity| kernel.users_among(&seen, *identity)).collect()
}

fn kernel() -> Kernel<'static> {
    let identify = &|path: &Path| super::identity(path).ok();
    Kernel { proc: Path::new("/proc"), sys: Path::new("/sys"), identify, loop_status: &loop_status }
}

/// A lock on the member, or on the file below it where it is a loop device.
fn locks_on(path: &Path, identity: Identity) -> Option<Use> {
    let lock_at = |path: &Path| lock_on(&open_quietly(path, fs::OpenOptions::new().read(true), 0).ok()?);
    let below = || {
        let Identity::Block(number) = identity else { return None };
        let file =
            format!("/sys/dev/block/{}:{}/loop/backing_file", rustix::fs::major(number), rustix::fs::minor(number));
        let file = path_of(fs::read(file).ok()?.trim_ascii_end());
        let backing = loop_status(path.canonicalize().ok()?.file_name()?.to_str()?)?.backing;
        (super::identity(&file).ok()? == backing).then(|| lock_at(&file))?
    };
    lock_at(path).or_else(below).map(|lock| Use::Locked { pid: lock.pid })
}

/// Where the kernel tells about itself; tests put a tree of their own there.
struct Kernel<'a> {
    proc: &'a Path,
    sys: &'a Path,
    identify: &'a dyn Fn(&Path) -> Option<Identity>,
    loop_status: &'a dyn Fn(&str) -> Option<LoopStatus>,
}

/// What is the same for every member.
struct Seen {
    swaps: Vec<(PathBuf, Option<Identity>)>,
    mounts: Vec<(Mount, Option<Identity>)>,
    loops: Vec<(String, LoopStatus)>,
}

impl Kernel<'_> {
    fn users_of(&self, identity: Identity) -> io::Result<Vec<Use>> {
        self.users_among(&self.look()?, identity)
    }

    fn look(&self) -> io::Result<Seen> {
        let swaps = parse_swaps(&read_or_nothing(&self.proc.join("swaps"))?);
        let mounts = parse_mountinfo(&read_or_nothing(&self.proc.join("self/mountinfo"))?);
        let source_of = |mount: &Mount| mount.source.is_absolute().then(|| (self.identify)(&mount.source))?;
        Ok(Seen {
            swaps: swaps.into_iter().map(|path| (path.clone(), (self.identify)(&path))).collect(),
            mounts: mounts.into_iter().map(|mount| (mount.clone(), source_of(&mount))).collect(),
            loops: self.loops()?,
        })
    }

    fn users_among(&self, seen: &Seen, identity: Identity) -> io::Result<Vec<Use>> {
        let mut users = BTreeSet::new();
        let mut nodes = Vec::new();
        if let Identity::Block(number) = identity {
            nodes.extend(self.nodes_of(number)?);
        }
        self.loops_over(seen, identity, &mut nodes, &mut users);
        for (swap, used) in &seen.swaps {
            if *used == Some(identity) || nodes.iter().any(|node| used.is_some() && *used == self.number_of(node)) {
                users.insert(Use::Swap { path: swap.clone() });
            }
        }
        for node in &nodes {
            self.mounts_of(node, &seen.mounts, &mut users)?;
            let holders = self.sys.join("class/block").join(node).join("holders");
            users.extend(names_in(&holders)?.into_iter().map(|by| Use::Held { node: node.clone(), by }));
        }
        Ok(users.into_iter().collect())
    }

    /// Every loop device that has something below it. One that cannot be asked is known by the name in sysfs.
    fn loops(&self) -> io::Result<Vec<(String, LoopStatus)>> {
        let block = self.sys.join("block");
        let known = names_in(&block)?.into_iter().filter_map(|node| {
            let name = fs::read(block.join(&node).join("loop/backing_file")).ok()?;
            let by_name = || {
                let backing = (self.identify)(&path_of(name.trim_ascii_end()))?;
                Some(LoopStatus { backing, offset: 0, size_limit: 0 })
            };
            let status = (self.loop_status)(&node).or_else(by_name)?;
            Some((node, status))
        });
        Ok(known.collect())
    }

    /// Loop devices over the member, and where it is one itself, those with bytes of the same file.
    fn loops_over(&self, seen: &Seen, identity: Identity, nodes: &mut Vec<String>, users: &mut BTreeSet<Use>) {
        let own = nodes.clone();
        let numbers: Vec<Identity> = own.iter().filter_map(|node| self.number_of(node)).collect();
        let own_status = own.first().and_then(|node| Some((node, seen.loops.iter().find(|(name, _)| name == node)?)));
        for (node, status) in seen.loops.iter().filter(|(node, _)| !own.contains(node)) {
            if status.backing == identity {
                users.insert(match own.first() {
                    Some(member) => Use::Held { node: member.clone(), by: node.clone() },
                    None => Use::Loop { node: node.clone() },
                });
            } else if let Some(at) = numbers.iter().position(|number| *number == status.backing) {
                users.extend(own.get(at).map(|part| Use::Held { node: part.clone(), by: node.clone() }));
            } else if let Some((member, _)) = own_status.filter(|(_, (_, own))| own.overlaps(status)) {
                users.insert(Use::SameFile { node: member.clone(), other: node.clone() });
            } else {
                continue;
            }
            nodes.push(node.clone());
        }
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

    /// Mounts of the file system on `node`. A btrfs has a device number of its own, so it is known by its source, which
    /// is any one of its members.
    fn mounts_of(&self, node: &str, mounts: &[(Mount, Option<Identity>)], users: &mut BTreeSet<Use>) -> io::Result<()> {
        let fsid = self.mounted_btrfs_with(node)?;
        let members = match &fsid {
            Some(fsid) => names_in(&self.sys.join("fs/btrfs").join(fsid).join("devices"))?,
            None => vec![node.to_owned()],
        };
        let numbers: Vec<Identity> = members.iter().filter_map(|member| self.number_of(member)).collect();
        let mut seen = false;
        for (mount, source) in mounts {
            let of_it = numbers.contains(&Identity::Block(mount.number))
                || source.as_ref().is_some_and(|source| numbers.contains(source));
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
#[derive(Clone, Debug, PartialEq, Eq)]
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
