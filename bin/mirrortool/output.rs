//! Everything that leaves the program: stdout, stderr, and report files that appear whole or not at all.

use crate::text_file;
use anyhow::Context as _;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// Writes to stdout. A reader that went away is no error.
pub(crate) fn print(bytes: &[u8]) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error).context("cannot write to stdout"),
        _ => Ok(()),
    }
}

/// The same where something has been done that a lost text does not undo.
pub(crate) fn print_or_warn(bytes: &[u8]) {
    warn_of(print(bytes));
}

/// Tells an error that changes nothing in what has been done.
pub(crate) fn warn_of(result: anyhow::Result<()>) {
    if let Err(error) = result {
        warn(&one_line(&error));
    }
}

/// Prints an error as one line on stderr, and the way out as another. Where stderr is gone there is nobody to tell.
pub(crate) fn complain(error: &anyhow::Error, advice: Option<&str>) {
    let mut err = io::stderr().lock();
    let _ = writeln!(err, "mirrortool: {}", one_line(error));
    if let Some(advice) = advice {
        let _ = writeln!(err, "mirrortool: {advice}");
    }
}

/// Tells something that is no error on stderr.
pub(crate) fn warn(warning: &str) {
    let _ = writeln!(io::stderr().lock(), "mirrortool: warning: {warning}");
}

/// The chain of causes, without those that the text above them repeats.
fn one_line(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |line, cause| match line.as_str() {
        "" => cause,
        line if line.ends_with(&cause) => line.to_owned(),
        line => format!("{line}: {cause}"),
    })
}

/// A file that will be there when it is complete. Made before a long run starts, so that a path that cannot be written
/// is known at once.
#[derive(Debug)]
pub(crate) struct PendingFile {
    file: File,
    temporary: PathBuf,
    target: PathBuf,
}

impl PendingFile {
    pub(crate) fn create(target: &Path) -> anyhow::Result<Self> {
        let cannot = || format!("cannot write {}", target.display());
        if target.exists() {
            is_replaceable(target).with_context(cannot)?;
        }
        let name = target.file_name().with_context(cannot)?;
        let mut temporary = name.to_owned();
        temporary.push(format!(".{}.tmp", std::process::id()));
        let temporary = target.with_file_name(temporary);
        let file = File::create_new(&temporary).with_context(cannot)?;
        Ok(Self { file, temporary, target: target.to_owned() })
    }

    /// Writes the content and puts the file in its place.
    pub(crate) fn publish(mut self, content: &[u8]) -> anyhow::Result<()> {
        self.file
            .write_all(content)
            .and_then(|()| self.file.sync_all())
            .and_then(|()| fs::rename(&self.temporary, &self.target))
            .with_context(|| format!("cannot write {}", self.target.display()))
    }

    /// As `publish`, under another name in the same folder: for a name that is known only after the run.
    pub(crate) fn publish_as(mut self, file_name: &str, content: &[u8]) -> anyhow::Result<()> {
        self.target.set_file_name(file_name);
        self.publish(content)
    }
}

/// Only a text is replaced: `--report d1.img d2.img` is typed easily, and an image would be gone.
fn is_replaceable(target: &Path) -> anyhow::Result<()> {
    anyhow::ensure!(target.is_file(), "it exists and is not a file");
    let is_text = text_file::start(&mut File::open(target)?)?.is_some();
    anyhow::ensure!(is_text, "it exists and is not a text; remove it first if it is not needed");
    Ok(())
}

impl Drop for PendingFile {
    /// Leaves nothing behind where the run failed; after a rename there is nothing to remove.
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.temporary);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_that_is_in_the_message_already_is_not_said_twice() {
        let error = anyhow::anyhow!("no medium").context("d1.img: cannot read: no medium").context("cannot open");
        assert_eq!(one_line(&error), "cannot open: d1.img: cannot read: no medium");
    }

    #[test]
    fn a_published_file_replaces_the_old_one_and_nothing_else_stays() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let target = dir.path().join("report.json");
        fs::write(&target, "UUID: old").expect("writable");
        let pending = PendingFile::create(&target).expect("creatable");
        assert_eq!(fs::read(&target).expect("there"), b"UUID: old");
        pending.publish(b"new").expect("publishable");
        assert_eq!(fs::read(&target).expect("there"), b"new");
        assert_eq!(fs::read_dir(dir.path()).expect("a folder").count(), 1);
    }

    #[test]
    fn nothing_but_a_text_is_replaced() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let target = dir.path().join("d1.img");
        fs::write(&target, [0; 64]).expect("writable");
        let error = PendingFile::create(&target).expect_err("must not be replaced");
        assert!(format!("{error:#}").contains("it exists and is not a text"), "{error:#}");
        fs::write(&target, "").expect("writable");
        assert!(PendingFile::create(&target).is_ok());
        assert!(PendingFile::create(Path::new("/dev/null")).is_err());
    }

    #[test]
    fn a_file_that_is_never_published_leaves_no_trace() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        drop(PendingFile::create(&dir.path().join("report.json")).expect("creatable"));
        assert_eq!(fs::read_dir(dir.path()).expect("a folder").count(), 0);
    }

    #[test]
    fn a_place_that_cannot_be_written_is_named_before_the_run() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        for bad in [dir.path().to_owned(), dir.path().join("no/such/report.json")] {
            let error = PendingFile::create(&bad).expect_err("must not work");
            assert!(format!("{error:#}").starts_with(&format!("cannot write {}: ", bad.display())), "{error:#}");
        }
    }
}
