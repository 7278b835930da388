//! Which paths are asked for: shell patterns that are held against whole paths. Where a folder matches, so does all below
//! it.

use glob::{MatchOptions, Pattern};
use thiserror::Error;

/// A star stays within one part of a path, two stars do not.
const OPTIONS: MatchOptions =
    MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: false };

/// A pattern that cannot be understood.
#[derive(Debug, Error)]
#[error("pattern {pattern}: {source}")]
pub struct PatternError {
    pattern: String,
    #[source]
    source: glob::PatternError,
}

/// Patterns; none stand for everything.
#[derive(Clone, Debug, Default)]
pub struct PathPatterns {
    patterns: Vec<Parts>,
}

#[derive(Clone, Debug)]
struct Parts {
    whole: Pattern,
    /// Up to the first part that may stand for several.
    parts: Vec<Pattern>,
    /// Whether there are more behind.
    is_open: bool,
}

/// How a path stands to the patterns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Match {
    /// It, and all below, is asked for; the number of the pattern.
    All(Option<usize>),
    /// Something below may be.
    Below,
    /// Nothing.
    No,
}

impl PathPatterns {
    /// Patterns as typed; a slash, or a dot and a slash, at the start does not count.
    pub fn new(typed: &[String]) -> Result<Self, PatternError> {
        let parse = |text: &str| Pattern::new(text).map_err(|source| PatternError { pattern: text.to_owned(), source });
        let patterns = typed.iter().map(|text| {
            let text = text.trim_start_matches("./").trim_matches('/');
            let closed = text.split('/').take_while(|part| !part.contains("**"));
            let parts = closed.map(parse).collect::<Result<Vec<_>, _>>()?;
            let is_open = parts.len() < text.split('/').count();
            Ok(Parts { whole: parse(text)?, parts, is_open })
        });
        Ok(Self { patterns: patterns.collect::<Result<_, _>>()? })
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.patterns.len()
    }

    /// How `path` stands to them; what its parents matched is not looked at.
    pub(super) fn of(&self, path: &[u8]) -> Match {
        if self.patterns.is_empty() {
            return Match::All(None);
        }
        let path = String::from_utf8_lossy(path);
        if let Some(nth) = self.patterns.iter().position(|pattern| pattern.whole.matches_with(&path, OPTIONS)) {
            return Match::All(Some(nth));
        }
        if self.patterns.iter().any(|pattern| pattern.may_match_below(&path)) { Match::Below } else { Match::No }
    }
}

impl Parts {
    fn may_match_below(&self, path: &str) -> bool {
        let depth = path.split('/').count();
        (self.is_open || depth < self.parts.len())
            && path.split('/').zip(&self.parts).all(|(name, part)| part.matches_with(name, OPTIONS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patterns(typed: &[&str]) -> PathPatterns {
        PathPatterns::new(&typed.iter().map(ToString::to_string).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn a_pattern_is_held_against_the_whole_path_and_names_the_folders_on_the_way() {
        let some = patterns(&["/home/*/doc", "etc/**/*.conf"]);
        assert_eq!(some.of(b"home"), Match::Below);
        assert_eq!(some.of(b"home/a"), Match::Below);
        assert_eq!(some.of(b"home/a/doc"), Match::All(Some(0)));
        assert_eq!(some.of(b"home/a/pictures"), Match::No);
        assert_eq!(some.of(b"var"), Match::No);
        assert_eq!(some.of(b"etc/x/y"), Match::Below);
        assert_eq!(some.of(b"etc/x/y/z.conf"), Match::All(Some(1)));
        assert_eq!(patterns(&[]).of(b"anything"), Match::All(None));
        assert!(PathPatterns::new(&["[".to_owned()]).is_err());
    }
}
