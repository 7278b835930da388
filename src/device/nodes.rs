//! The block devices that there are, which of them another device is made of, and which are two ways to the same bytes: a
//! second loop device over a file, a second path to a disk.
//!
//! Reads sysfs and opens nothing. Two ways are told by the file behind a loop device, and by the world wide name of a disk;
//! a disk without one is only itself.

use super::{Identity, identity};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Bytes of the unit that sysfs counts in.
const SYSFS_SECTOR_BYTES: u64 = 512;

/// What lies behind a path. Two paths to the same bytes are equal; two that are not may lead to the same bytes all the same.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Behind {
    /// A file, from an offset in it.
    File {
        /// The device that it is on.
        dev: u64,
        /// Its inode.
        inode: u64,
        /// In bytes.
        offset: u64,
    },
    /// A disk, from an offset on it.
    Disk {
        /// Its world wide name.
        name: String,
        /// In bytes.
        offset: u64,
    },
    /// A block device of which no more is known.
    Node {
        /// Its number.
        number: u64,
        /// In bytes.
        offset: u64,
    },
}

/// The nodes in `/dev` of all block devices that the kernel knows, by name.
pub fn block_nodes() -> io::Result<Vec<PathBuf>> {
    let mut nodes: Vec<_> = names_in(Path::new("/sys/class/block"))?
        .map(|name| Path::new("/dev").join(name))
        .filter(|n| n.exists())
        .collect();
    nodes.sort();
    Ok(nodes)
}

/// Is another block device made of this one (md, device mapper, bcache, multipath)? That one stands for it.
pub fn is_held(path: &Path) -> bool {
    let Ok(Identity::Block(number)) = identity(path) else { return false };
    SYSTEM.is_held(number)
}

/// What lies behind a path; `None` where that is neither a file nor a block device.
pub fn behind(path: &Path) -> Option<Behind> {
    match identity(path).ok()? {
        Identity::File(dev, inode) => Some(Behind::File { dev, inode, offset: 0 }),
        Identity::Block(number) => Some(SYSTEM.behind(number)),
        Identity::Layered(_) => None,
    }
}

const SYSTEM: Sysfs<'static> = Sysfs { root: "/sys", identify: &|path| identity(path).ok() };

struct Sysfs<'a> {
    root: &'a str,
    identify: &'a dyn Fn(&Path) -> Option<Identity>,
}

impl Sysfs<'_> {
    fn folder(&self, number: u64) -> PathBuf {
        let name = format!("{}:{}", rustix::fs::major(number), rustix::fs::minor(number));
        let link = Path::new(self.root).join("dev/block").join(name);
        fs::canonicalize(&link).unwrap_or(link)
    }

    fn is_held(&self, number: u64) -> bool {
        names_in(&self.folder(number).join("holders")).is_ok_and(|mut names| names.next().is_some())
    }

    fn behind(&self, number: u64) -> Behind {
        let mut folder = self.folder(number);
        let mut offset = 0;
        if folder.join("partition").exists() {
            offset = value(&folder.join("start")).unwrap_or(0).saturating_mul(SYSFS_SECTOR_BYTES);
            folder.pop();
        }
        if let Some(backing) = text(&folder.join("loop/backing_file")) {
            // The name of a file that was deleted is that of another file, or of none.
            if let Some(Identity::File(dev, inode)) = (self.identify)(Path::new(&backing)) {
                let of_loop = value(&folder.join("loop/offset")).unwrap_or(0);
                return Behind::File { dev, inode, offset: offset.saturating_add(of_loop) };
            }
        }
        let name = [folder.join("wwid"), folder.join("device/wwid")].iter().find_map(|file| text(file));
        name.map_or(Behind::Node { number, offset: 0 }, |name| Behind::Disk { name, offset })
    }
}

fn names_in(folder: &Path) -> io::Result<impl Iterator<Item = std::ffi::OsString> + use<>> {
    Ok(fs::read_dir(folder)?.filter_map(|entry| Some(entry.ok()?.file_name())))
}

/// A line of sysfs that is not empty.
fn text(file: &Path) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    Some(text.trim_end_matches('\n').to_owned()).filter(|text| !text.trim().is_empty())
}

fn value(file: &Path) -> Option<u64> {
    text(file)?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::makedev;

    struct Fake {
        folder: tempfile::TempDir,
    }

    impl Fake {
        fn new() -> Self {
            Self { folder: tempfile::tempdir().unwrap() }
        }

        fn file(&self, node: &str, name: &str, content: &str) -> &Self {
            let path = self.folder.path().join("dev/block").join(node).join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
            self
        }

        fn link(&self, node: &str, to: &str) {
            let folder = self.folder.path().join("dev/block");
            std::os::unix::fs::symlink(folder.join(to), folder.join(node)).unwrap();
        }

        fn behind(&self, major: u32, minor: u32) -> Behind {
            let identify = |path: &Path| (path == Path::new("/images/d1.img")).then_some(Identity::File(7, 9));
            let sysfs = Sysfs { root: self.folder.path().to_str().unwrap(), identify: &identify };
            sysfs.behind(makedev(major, minor))
        }
    }

    #[test]
    fn two_loop_devices_over_one_place_of_a_file_are_one() {
        let fake = Fake::new();
        for (node, offset) in [("7:0", "0\n"), ("7:1", "0\n"), ("7:2", "1048576\n")] {
            fake.file(node, "loop/backing_file", "/images/d1.img\n").file(node, "loop/offset", offset);
        }
        assert_eq!(fake.behind(7, 0), Behind::File { dev: 7, inode: 9, offset: 0 });
        assert_eq!(fake.behind(7, 0), fake.behind(7, 1));
        assert_ne!(fake.behind(7, 0), fake.behind(7, 2));
        fake.file("7:3", "loop/backing_file", "/images/d1.img (deleted)\n");
        assert_eq!(fake.behind(7, 3), Behind::Node { number: makedev(7, 3), offset: 0 });
    }

    #[test]
    fn two_paths_to_one_partition_are_one_and_to_another_are_not() {
        let fake = Fake::new();
        for disk in ["8:0", "8:16"] {
            fake.file(disk, "device/wwid", "naa.5000c500a1b2c3d4\n");
            for (number, start) in [("1", "2048\n"), ("2", "4096\n")] {
                fake.file(disk, &format!("p{number}/partition"), number).file(disk, &format!("p{number}/start"), start);
            }
        }
        for (node, to) in [("8:1", "8:0/p1"), ("8:17", "8:16/p1"), ("8:18", "8:16/p2")] {
            fake.link(node, to);
        }
        assert_eq!(fake.behind(8, 1), fake.behind(8, 17));
        assert_ne!(fake.behind(8, 1), fake.behind(8, 18));
        assert_ne!(fake.behind(8, 0), fake.behind(8, 1));
        assert_eq!(fake.behind(8, 0), fake.behind(8, 16));
    }

    #[test]
    fn a_disk_without_a_name_is_only_itself() {
        let fake = Fake::new();
        fake.file("8:0", "device/wwid", "\n").file("8:16", "size", "1\n");
        assert_ne!(fake.behind(8, 0), fake.behind(8, 16));
    }

    #[test]
    fn a_device_that_another_is_made_of_is_held() {
        let fake = Fake::new();
        fake.file("8:0", "holders/md0", "").file("8:16", "size", "1\n");
        let sysfs = Sysfs { root: fake.folder.path().to_str().unwrap(), identify: &|_| None };
        assert!(sysfs.is_held(makedev(8, 0)) && !sysfs.is_held(makedev(8, 16)));
    }
}
