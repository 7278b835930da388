//! Findings as they come: one JSON object per line, added to a file while a scrub runs.

use crate::output;
use anyhow::Context as _;
use mirrortool::report::write_finding_line;
use mirrortool::scrub::earlier::{Observer, PartDone};
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Adds the findings of each part that is done to a file, and tells the next observer.
pub(crate) struct FindingFile<'a> {
    file: Option<Mutex<File>>,
    next: &'a dyn Observer,
}

impl<'a> FindingFile<'a> {
    /// Opens `path`, if there is one, for adding to its end.
    pub(crate) fn open(path: Option<&Path>, next: &'a dyn Observer) -> anyhow::Result<Self> {
        let open = |path: &Path| {
            let file = OpenOptions::new().create(true).append(true).open(path);
            file.with_context(|| format!("cannot write {}", path.display()))
        };
        Ok(Self { file: path.map(open).transpose()?.map(Mutex::new), next })
    }
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
