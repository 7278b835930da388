//! Images of a file system that the running kernel wrote, and their loop devices.

use super::Extents;
use super::holes::fill_holes;
use anyhow::{Context as _, Result, bail};
use mirrortool::device::{Consent, HeldDevice, IoEngine, WriteDevice, cache_drop, identity, open_read};
use mirrortool::filesystem::{Filesystem, OpenOptions};
use mirrortool::volume::{DeviceSet, Opened, SetOptions};
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

/// Profiles and number of devices.
pub(crate) struct Layout<'a> {
    pub(crate) data: &'a str,
    pub(crate) metadata: &'a str,
    pub(crate) devices: usize,
}

impl Layout<'_> {
    /// Room that a byte of data takes over all devices, rounded up.
    fn copies(&self) -> u64 {
        match self.data {
            "single" | "raid0" => 1,
            "raid1c3" => 3,
            "raid1c4" => 4,
            "raid6" if self.devices < 4 => 3,
            _ => 2,
        }
    }
}

/// Which files to write.
#[derive(Clone, Copy)]
pub(crate) enum Fill {
    /// From 200 bytes to 17 MiB.
    Mixed,
    /// From 1 to 70 KiB: many extents.
    Small,
}

/// The images of one file system.
pub(crate) struct Setup {
    pub(crate) images: Vec<PathBuf>,
}

impl Setup {
    /// Takes images that are there already.
    pub(crate) fn of_images(images: &[PathBuf]) -> Result<Self> {
        let images = images.iter().map(|image| image.canonicalize().context("no such image")).collect::<Result<_>>()?;
        Ok(Self { images })
    }

    /// Makes a file system, mounts it, fills it and unmounts it. What was built before with the same parameters is used
    /// again.
    pub(crate) fn build(dir: &Path, layout: &Layout<'_>, csum: &str, data_mib: u64, fill: Fill) -> Result<Self> {
        if !super::is_root() {
            bail!("only root can mount; give images that are there already instead");
        }
        let kind = match fill {
            Fill::Mixed => "mixed",
            Fill::Small => "small",
        };
        let name = format!("{}-{}-{}-{csum}-{data_mib}-{kind}", layout.data, layout.metadata, layout.devices);
        let dir = dir.join(name);
        let images: Vec<PathBuf> = (1..=layout.devices).map(|nth| dir.join(format!("d{nth}.img"))).collect();
        if !dir.join("done").exists() {
            fs::create_dir_all(&dir)?;
            let share_mib = data_mib * layout.copies() / layout.devices as u64;
            for image in &images {
                File::create(image)?.set_len((share_mib + share_mib / 8 + 1024) << 20)?;
            }
            let mut mkfs = Command::new("mkfs.btrfs");
            mkfs.args(["-q", "-f", "-d", layout.data, "-m", layout.metadata, "--csum", csum]).args(&images);
            succeed(&mut mkfs)?;
            let mounted = Self { images: images.clone() }.mount(false, false)?;
            write_files(mounted.point(), data_mib << 20, fill)?;
            drop(mounted);
            images.iter().try_for_each(|image| fill_holes(image))?;
            File::create(dir.join("done"))?;
        }
        Self::of_images(&images)
    }

    /// Opens the file system.
    pub(crate) fn open(&self, engine: IoEngine) -> Result<Filesystem> {
        let open = |path: &PathBuf| -> Result<Opened> {
            let device = open_read(path, engine)?;
            Ok(Opened { path: path.clone(), device, identity: identity(path)? })
        };
        let opened = self.images.iter().map(open).collect::<Result<_>>()?;
        let set = DeviceSet::assemble(opened, SetOptions::default())?;
        Ok(Filesystem::open(set, &OpenOptions::default())?)
    }

    /// The last device, to be written.
    pub(crate) fn open_last(&self) -> Result<Arc<dyn WriteDevice>> {
        Ok(HeldDevice::open(self.images.last().context("no images")?)?.writer(&Consent::given_by_user()))
    }

    /// Everything allocated, by device, to be read with this engine.
    pub(crate) fn extents(&self, engine: IoEngine) -> Result<Extents> {
        Ok(Extents::of(&self.open(engine)?))
    }

    /// Puts the images out of the page cache.
    pub(crate) fn drop_caches(&self) -> Result<()> {
        for image in &self.images {
            File::open(image)?.sync_all()?;
            cache_drop(image)?;
        }
        if super::is_root() {
            fs::write("/proc/sys/vm/drop_caches", "1")?;
        }
        Ok(())
    }

    /// Reads the images into the page cache.
    pub(crate) fn warm_caches(&self) -> Result<()> {
        for image in &self.images {
            std::io::copy(&mut File::open(image)?, &mut std::io::sink())?;
        }
        Ok(())
    }

    /// Loop devices over the images, gone when dropped.
    pub(crate) fn attach(&self, direct: bool) -> Result<Loops> {
        let mut loops = Loops(Vec::new());
        for image in &self.images {
            let mut losetup = Command::new("losetup");
            losetup.args(["-f", "--show", if direct { "--direct-io=on" } else { "--direct-io=off" }]).arg(image);
            loops.0.push(succeed(&mut losetup)?.trim().to_owned());
        }
        succeed(Command::new("btrfs").args(["device", "scan"]).args(&loops.0))?;
        Ok(loops)
    }

    /// Loop devices with the file system mounted, gone when dropped.
    pub(crate) fn mount(&self, direct: bool, read_only: bool) -> Result<Mounted> {
        let loops = self.attach(direct)?;
        let point = tempfile::tempdir()?;
        let options = if read_only { "ro" } else { "noatime" };
        let first = loops.0.first().context("no images")?;
        succeed(Command::new("mount").args(["-t", "btrfs", "-o", options, first]).arg(point.path()))?;
        Ok(Mounted { point, _loops: loops })
    }
}

/// Attached loop devices.
pub(crate) struct Loops(pub(crate) Vec<String>);

impl Drop for Loops {
    fn drop(&mut self) {
        for device in &self.0 {
            let _ = Command::new("losetup").args(["-d", device]).status();
        }
    }
}

/// A mounted file system.
pub(crate) struct Mounted {
    point: tempfile::TempDir,
    _loops: Loops,
}

impl Mounted {
    pub(crate) fn point(&self) -> &Path {
        self.point.path()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.point.path()).status();
    }
}

/// Runs a command; its output where it succeeds.
pub(crate) fn succeed(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
    if !output.status.success() {
        bail!("{command:?}: {}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn write_files(point: &Path, bytes: u64, fill: Fill) -> Result<()> {
    const MIXED: [u64; 7] = [200, 2000, 5000, 30_000, 200_000, 3 << 20, 17 << 20];
    const SMALL: [u64; 6] = [3000, 5000, 9000, 20_000, 40_000, 70_000];
    let sizes: &[u64] = match fill {
        Fill::Mixed => &MIXED,
        Fill::Small => &SMALL,
    };
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut left = bytes;
    let mut block = vec![0u8; 1 << 20];
    for nth in 0.. {
        if left == 0 {
            break;
        }
        random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        let size = sizes[(random >> 33) as usize % sizes.len()].min(left);
        let dir = point.join(format!("dir{:03}", nth % 500));
        fs::create_dir_all(&dir)?;
        let mut file = File::create(dir.join(format!("file{nth}")))?;
        let mut rest = size;
        while rest > 0 {
            let part = rest.min(block.len() as u64) as usize;
            for word in block[..part].chunks_mut(8) {
                random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
                word.copy_from_slice(&random.to_le_bytes()[..word.len()]);
            }
            file.write_all(&block[..part])?;
            rest -= part as u64;
        }
        left -= size;
    }
    succeed(Command::new("sync").arg("-f").arg(point)).map(drop)
}
