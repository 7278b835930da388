//! Findings as they come: one JSON object per line, added to a file while a scrub runs.

use crate::output;
use anyhow::Context as _;
use mirrortool::report::write_finding_line;
use mirrortool::scrub::earlier::{Observer, PartDone};
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Adds the findings of each part that is done to a file, and tells the next observer.
pub(crate) struct FindingFile<'a> {
    file: Option<Mutex<File>>,
    next: &'a dyn Observer,
}

impl<'a> FindingFile<'a> {
    /// Opens `path`, if there is one, for adding to its end. A pipe will do; what holds anything but findings will not:
    /// `--findings d1.img d2.img` is typed easily, and would write into an image.
    pub(crate) fn open(path: Option<&Path>, next: &'a dyn Observer) -> anyhow::Result<Self> {
        let open = |path: &Path| {
            let cannot = || format!("cannot write {}", path.display());
            if path.exists() {
                can_be_added_to(path).with_context(cannot)?;
            }
            OpenOptions::new().create(true).append(true).open(path).with_context(cannot)
        };
        Ok(Self { file: path.map(open).transpose()?.map(Mutex::new), next })
    }
}

fn can_be_added_to(path: &Path) -> anyhow::Result<()> {
    let kind = path.metadata()?.file_type();
    anyhow::ensure!(!kind.is_block_device(), "it is a block device");
    if kind.is_file() {
        let mut start = Vec::new();
        File::open(path)?.take(2).read_to_end(&mut start)?;
        let is_of_findings = start.is_empty() || start == b"{\"";
        anyhow::ensure!(is_of_findings, "it exists and does not hold findings, one to a line");
    }
    Ok(())
}

fn add(done: &PartDone, file: &Mutex<File>) -> anyhow::Result<()> {
    let mut lines = Vec::new();
    for finding in &done.findings {
        write_finding_line(finding, &mut lines)?;
    }
    // One write, so that a reader never sees half a line.
    file.lock().unwrap_or_else(PoisonError::into_inner).write_all(&lines).context("cannot write the findings")
}

impl Observer for FindingFile<'_> {
    fn part_done(&self, done: PartDone) {
        if let Some(Err(error)) = self.file.as_ref().map(|file| add(&done, file)) {
            output::warn(&format!("{error:#}"));
        }
        self.next.part_done(done);
    }
}
