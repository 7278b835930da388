//! Holes of image files: they read as zeros at no cost, so a raw figure that counts them is none.

use anyhow::Result;
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

/// The holes in the first `end` bytes of a file, ascending.
fn holes(file: &File, end: u64) -> Result<Vec<Range<u64>>> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < end {
        let start = seek(file, SeekFrom::Hole(at))?;
        if start >= end {
            break;
        }
        at = match seek(file, SeekFrom::Data(start)) {
            Ok(data) => data.min(end),
            Err(Errno::NXIO) => end,
            Err(error) => return Err(error.into()),
        };
        found.push(start..at);
    }
    Ok(found)
}

/// Bytes of holes in the first `end` bytes of an image.
pub(crate) fn hole_bytes(image: &Path, end: u64) -> Result<u64> {
    Ok(holes(&File::open(image)?, end)?.iter().map(|hole| hole.end - hole.start).sum())
}

/// Writes zeros into every hole of an image.
pub(crate) fn fill_holes(image: &Path) -> Result<()> {
    let file = File::options().read(true).write(true).open(image)?;
    let zeros = vec![0; 1 << 20];
    for hole in holes(&file, file.metadata()?.len())? {
        for at in hole.clone().step_by(zeros.len()) {
            let len = (hole.end - at).min(zeros.len() as u64) as usize;
            file.write_all_at(&zeros[..len], at)?;
        }
    }
    Ok(file.sync_all()?)
}
