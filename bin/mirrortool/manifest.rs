//! The manifest of an extraction: read before it, added to while it goes on.

use anyhow::Context as _;
use mirrortool::extract::{Entry, Fingerprint, Observer};
use mirrortool::report::{read_manifest, write_manifest_lines};
use rustix::fs::OFlags;
use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// How a manifest starts: what does not is none, and is not added to.
const START: &[u8] = br#"{"path":"#;

/// A manifest that is open.
pub(crate) struct Manifest {
    file: File,
}

impl Manifest {
    /// Opens `path`, and makes it where it is not there; with what it calls whole. A symbolic link is not followed.
    pub(crate) fn open(path: &Path) -> anyhow::Result<(Self, HashSet<Fingerprint>)> {
        Self::open_there(path).with_context(|| format!("cannot use manifest {}", path.display()))
    }

    fn open_there(path: &Path) -> anyhow::Result<(Self, HashSet<Fingerprint>)> {
        let mut options = OpenOptions::new();
        options.read(true).append(true).create(true).custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
        let mut file = options.open(path)?;
        anyhow::ensure!(file.metadata()?.is_file(), "it is not a regular file");
        let mut start = Vec::new();
        (&file).take(START.len() as u64).read_to_end(&mut start)?;
        anyhow::ensure!(start.is_empty() || start == START, "it exists and does not hold a manifest");
        file.rewind()?;
        let known = read_manifest(BufReader::new(&file))?;
        // A run that was killed may have left half a line.
        if file.seek(SeekFrom::End(0))? > 0 {
            file.seek(SeekFrom::End(-1))?;
            let mut last = [0];
            file.read_exact(&mut last)?;
            if last != *b"\n" {
                file.write_all(b"\n")?;
            }
        }
        Ok((Self { file }, known))
    }
}

impl Observer for Manifest {
    fn entries_done(&self, entries: &[Entry]) -> io::Result<()> {
        let mut lines = Vec::new();
        write_manifest_lines(entries, &mut lines).map_err(io::Error::other)?;
        (&self.file).write_all(&lines)?;
        self.file.sync_data()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn only_a_manifest_is_added_to() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("m.jsonl");
        assert!(Manifest::open(&path).is_ok(), "made where it is not there");
        assert!(Manifest::open(&path).is_ok(), "an empty one is one");
        fs::write(&path, "my notes").expect("writable");
        assert!(Manifest::open(&path).is_err());
        assert_eq!(fs::read(&path).expect("there"), b"my notes");
        fs::write(&path, r#"{"path":"a"#).expect("writable");
        assert!(Manifest::open(&path).is_ok());
        assert_eq!(fs::read(&path).expect("there"), b"{\"path\":\"a\n", "the next line is one of its own");
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(folder.path().join("elsewhere"), &link).expect("a link");
        assert!(Manifest::open(&link).is_err());
        assert!(!folder.path().join("elsewhere").exists());
    }
}
