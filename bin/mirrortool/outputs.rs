//! The files that a command will write, held against each other and against what it reads: a report in the place of the
//! undo log would be the end of the way back. Two names of one place are one place: relative, through links of either
//! kind, not there yet.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Links that are followed, as many as the kernel would.
const MAX_LINKS: usize = 40;

/// A path on the command line, and what it is for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Named<'a> {
    /// As in a message: "the report".
    pub(crate) what: &'a str,
    pub(crate) path: &'a Path,
}

/// Two of the paths are one place.
#[derive(Debug, thiserror::Error)]
#[error("{what} {path} is {other} {other_path}: one of them would be lost", path = .path.display(), other_path = .other_path.display())]
pub(crate) struct SamePlace {
    what: String,
    path: PathBuf,
    other: String,
    other_path: PathBuf,
}

/// Refuses an output that is another output, or something that is read.
pub(crate) fn ensure_distinct(outputs: &[Named<'_>], inputs: &[Named<'_>]) -> Result<(), SamePlace> {
    let places: Vec<Place> = outputs.iter().chain(inputs).map(|named| Place::of(named.path)).collect();
    let all = || outputs.iter().chain(inputs).zip(&places).enumerate();
    for (number, (output, place)) in all().take(outputs.len()) {
        if let Some((_, (other, _))) = all().skip(number + 1).find(|(_, (_, other))| place.is(other)) {
            return Err(SamePlace {
                what: output.what.to_owned(),
                path: output.path.to_owned(),
                other: other.what.to_owned(),
                other_path: other.path.to_owned(),
            });
        }
    }
    Ok(())
}

/// What a path leads to: the file that is there, and the name in its folder.
struct Place {
    file: Option<(u64, u64)>,
    name: Option<(u64, u64, OsString)>,
}

impl Place {
    fn of(path: &Path) -> Self {
        let file = fs::metadata(path).ok().map(|metadata| (metadata.dev(), metadata.ino()));
        Self { file, name: name_of(path.to_owned()) }
    }

    fn is(&self, other: &Self) -> bool {
        let same_file = self.file.is_some() && self.file == other.file;
        same_file || (self.name.is_some() && self.name == other.name)
    }
}

/// The folder, by its number, and the name in it at the end of all links, whether anything is there or not.
fn name_of(mut path: PathBuf) -> Option<(u64, u64, OsString)> {
    for _ in 0..MAX_LINKS {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let Ok(target) = fs::read_link(&path) else {
            let metadata = fs::metadata(folder).ok()?;
            return Some((metadata.dev(), metadata.ino(), path.file_name()?.to_owned()));
        };
        path = folder.join(target);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{Named, ensure_distinct};
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    #[test]
    fn one_place_is_known_by_all_its_names() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("sub")).expect("made");
        symlink(at("sub"), at("linked")).expect("made");
        symlink("u.log", at("dangling")).expect("made");
        symlink("dangling", at("twice")).expect("made");
        fs::write(at("d1.img"), "image").expect("written");
        fs::hard_link(at("d1.img"), at("hard")).expect("made");
        symlink("d1.img", at("soft")).expect("made");
        let same = |one: &Path, other: &Path| {
            let named = |path| Named { what: "a file", path };
            ensure_distinct(&[named(one), named(other)], &[]).is_err()
                && ensure_distinct(&[named(other)], &[named(one)]).is_err()
        };
        for (one, other) in [
            ("u.log", "u.log"),
            ("u.log", "./sub/../u.log"),
            ("u.log", "dangling"),
            ("u.log", "twice"),
            ("sub/u.log", "linked/u.log"),
            ("d1.img", "hard"),
            ("hard", "soft"),
        ] {
            assert!(same(&at(one), &at(other)), "{one} and {other}");
        }
        for (one, other) in
            [("u.log", "U.log"), ("u.log", "sub/u.log"), ("d1.img", "u.log"), ("no/such/a", "no/such/a2")]
        {
            assert!(!same(&at(one), &at(other)), "{one} and {other}");
        }
    }

    #[test]
    fn inputs_may_be_the_same() {
        let named = |what| Named { what, path: Path::new("a") };
        assert!(ensure_distinct(&[], &[named("one"), named("two")]).is_ok());
        let error = ensure_distinct(&[named("the report")], &[named("the member")]).expect_err("the same");
        assert_eq!(error.to_string(), "the report a is the member a: one of them would be lost");
    }
}
