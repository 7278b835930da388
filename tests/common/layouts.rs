//! Sets of every layout, made by the running kernel, and what its scrub counts in them.

use super::fixture;
use super::mounted::{Mounted, succeed, tool};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

/// What is made: name, data profile, metadata profile, members, checksum, node size in bytes.
pub type Layout = (&'static str, &'static str, &'static str, usize, &'static str, &'static str);

pub const LAYOUTS: [Layout; 13] = [
    ("single", "single", "single", 1, "sha256", "16384"),
    ("dup", "dup", "dup", 1, "crc32c", "65536"),
    ("raid0", "raid0", "raid0", 3, "xxhash", "4096"),
    ("raid1", "raid1", "raid1", 2, "blake2", "16384"),
    ("raid1 of 3", "raid1", "raid1", 3, "crc32c", "4096"),
    ("raid1c3", "raid1c3", "raid1c3", 3, "crc32c", "65536"),
    ("raid1c4", "raid1c4", "raid1c4", 4, "xxhash", "16384"),
    ("raid10 of 4", "raid10", "raid10", 4, "crc32c", "16384"),
    ("raid10 of 6", "raid10", "raid10", 6, "sha256", "65536"),
    ("raid5 of 3", "raid5", "raid5", 3, "xxhash", "65536"),
    ("raid5 of 5", "raid5", "raid1c3", 5, "crc32c", "16384"),
    ("raid6 of 4", "raid6", "raid6", 4, "sha256", "4096"),
    ("raid6 of 6", "raid6", "raid1c4", 6, "crc32c", "16384"),
];

/// Makes and fills a set.
pub fn make(layout: &Layout, directory: &Path) -> Result<Vec<PathBuf>, String> {
    let &(name, data, metadata, members, checksum, nodesize) = layout;
    let size_bytes: u64 = if members == 1 { 320 << 20 } else { 160 << 20 };
    let images: Vec<_> = (1..=members).map(|n| directory.join(format!("d{n}.img"))).collect();
    for image in &images {
        File::create(image).and_then(|file| file.set_len(size_bytes)).map_err(|e| e.to_string())?;
    }
    let options = ["-q", "-f", "-d", data, "-m", metadata, "--csum", checksum, "-n", nodesize];
    succeed(tool("mkfs.btrfs", &options).args(&images))?;
    let mnt = directory.join("mnt");
    let mounted = Mounted::new(&images, &mnt, false)?;
    let mut fill = tool("python3", &[]);
    fill.arg(fixture::directory().join("make/fill.py")).arg(&mnt);
    succeed(fill.args([&name.len().to_string(), "8", "nodatasum", "prealloc", "share", "churn"]))?;
    succeed(tool("sync", &["-f"]).arg(&mnt))?;
    drop(mounted);
    Ok(images)
}

/// The counters of the kernel's scrub, by devid.
pub fn kernel_scrub(images: &[PathBuf], directory: &Path) -> Result<BTreeMap<u64, BTreeMap<String, u64>>, String> {
    let mounted = Mounted::new(images, &directory.join("mnt"), true)?;
    // exits with 3 where it finds something uncorrectable
    let output = tool("btrfs", &["scrub", "start", "-B", "-d", "-R", "-r"]).arg(directory.join("mnt")).output();
    let text = String::from_utf8_lossy(&output.map_err(|e| e.to_string())?.stdout).into_owned();
    drop(mounted);
    let mut devices = BTreeMap::new();
    let mut devid = 0;
    for line in text.lines() {
        if let Some((_, rest)) = line.split_once("(id ") {
            devid = rest.split(')').next().and_then(|id| id.parse().ok()).unwrap_or(0);
            if !line.ends_with(" done") {
                return Err(format!("the kernel did not finish: {text}"));
            }
        } else if let Some((name, value)) = line.trim().split_once(": ")
            && let Ok(value) = value.parse()
        {
            devices.entry(devid).or_insert_with(BTreeMap::new).insert(name.to_owned(), value);
        }
    }
    if devices.len() == images.len() { Ok(devices) } else { Err(format!("not all devices in: {text}")) }
}
