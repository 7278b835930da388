//! Holds the architecture down: reads the layer table of `src/ARCHITECTURE.md` and the sources, and fails on an arrow
//! that points up, on a forbidden name, and on a file that outgrew its header or its size.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Lines of one file, its tests not counted.
const MAX_FILE_LINES: usize = 500;

/// Modules of one layer may not use each other; these may (from, to).
const SIDEWAYS: [(&str, &str); 4] = [("extract", "scrub"), ("repair", "scrub"), ("stack", "md"), ("stack", "volume")];

/// Names that may stand only in some places: (name, where the rule holds, except there).
const FORBIDDEN: [(&str, &str, &[&str]); 9] = [
    // Whoever writes has it from the lease, which alone opens and locks, looks again, and asks for consent.
    ("WriteDevice", "", &["device/", "lease/"]),
    ("HeldDevice", "", &["device/", "lease/"]),
    ("given_by_user", "", &["device/"]),
    ("serde", "", &["report/"]),
    ("println", "", &[]),
    ("print", "", &[]),
    ("eprintln", "", &[]),
    ("eprint", "", &[]),
    ("unsafe", "", &["checksum/lanes/", "device/", "volume/raid56/"]),
];

/// A source file: its path below `src/`, and its text.
struct Source {
    path: String,
    text: String,
}

impl Source {
    /// The layer module it belongs to: the first part of its path.
    fn module(&self) -> &str {
        let first = self.path.split('/').next().unwrap_or_default();
        first.strip_suffix(".rs").unwrap_or(first)
    }

    fn is_test(&self) -> bool {
        self.path.ends_with("/tests.rs") || self.path.contains("/tests/")
    }

    /// How many `super::` lead from this file to the crate's root.
    fn depth(&self) -> usize {
        let parts = self.path.split('/').count();
        if self.path.ends_with("/mod.rs") { parts - 1 } else { parts }
    }

    /// The text without the test module at its end.
    fn without_tests(&self) -> &str {
        let end = self.text.match_indices("#[cfg(test)]").map(|(at, _)| at).find(|&at| {
            self.text[at..].lines().nth(1).is_some_and(|line| line.starts_with("mod ") && line.ends_with('{'))
        });
        end.map_or(&self.text, |end| &self.text[..end])
    }

    /// The code: no tests, no comments.
    fn code(&self) -> String {
        self.without_tests().lines().map(|line| line.split("//").next().unwrap_or_default()).fold(
            String::new(),
            |mut code, line| {
                code.push_str(line);
                code.push('\n');
                code
            },
        )
    }
}

/// The layer number of each module, from the table in the architecture page.
fn layers_of(architecture: &str) -> BTreeMap<String, u32> {
    let mut layers = BTreeMap::new();
    for line in architecture.lines() {
        let mut cells = line.split('|').map(str::trim).skip(1);
        if let (Some(Ok(layer)), Some(module)) = (cells.next().map(str::parse), cells.next()) {
            layers.insert(module.trim_matches('`').trim_end_matches('/').to_owned(), layer);
        }
    }
    layers
}

/// The modules that `code` names after each occurrence of `root`: one, or several in braces.
fn named_after(code: &str, root: &str) -> Vec<String> {
    let mut modules = Vec::new();
    for (at, _) in code.match_indices(root) {
        let before = code[..at].chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':') {
            continue;
        }
        let rest = &code[at + root.len()..];
        match rest.strip_prefix('{') {
            Some(group) => modules.extend(heads_of_group(group)),
            None => modules.push(leading_name(rest)),
        }
    }
    modules.retain(|m| !m.is_empty());
    modules
}

/// The first names of the entries of a use group: `a::{b, c}, d}` gives `a` and `d`.
fn heads_of_group(group: &str) -> Vec<String> {
    let (mut depth, mut heads, mut entry_starts) = (0_u32, Vec::new(), true);
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => entry_starts = true,
            c if entry_starts && (c.is_alphanumeric() || c == '_') => {
                heads.push(leading_name(&group[at..]));
                entry_starts = false;
            }
            _ => {}
        }
    }
    heads
}

fn leading_name(text: &str) -> String {
    text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

/// Does `name` stand in the code as a whole word?
fn names_word(code: &str, name: &str) -> bool {
    let part_of_word = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(name).any(|(at, _)| {
        // What a dash follows is a part of a text.
        let follows = |c: char| part_of_word(c) || c == '-';
        !code[..at].chars().next_back().is_some_and(part_of_word)
            && !code[at + name.len()..].chars().next().is_some_and(follows)
    })
}

/// Every arrow of this file that points up or sideways.
fn arrows_against_the_layers(source: &Source, layers: &BTreeMap<String, u32>) -> Vec<String> {
    let (code, module) = (source.code(), source.module());
    let Some(&own) = layers.get(module) else {
        return vec![format!("{}: module {module} is not in the layer table", source.path)];
    };
    let to_root = "super::".repeat(source.depth());
    let mut named = named_after(&code, "crate::");
    named.extend(named_after(&code, &to_root));
    let allowed = |other: &str| match layers.get(other) {
        None => true,
        Some(_) if other == module => true,
        Some(&theirs) => theirs < own || SIDEWAYS.contains(&(module, other)),
    };
    let mut bad: Vec<_> = named.into_iter().filter(|other| !allowed(other)).collect();
    bad.sort();
    bad.dedup();
    bad.into_iter().map(|other| format!("{}: {module} may not use {other}", source.path)).collect()
}

fn forbidden_names(source: &Source) -> Vec<String> {
    let code = source.code();
    FORBIDDEN
        .iter()
        .filter(|(_, here, except)| source.path.starts_with(here) && !except.iter().any(|e| source.path.starts_with(e)))
        .filter(|(name, ..)| names_word(&code, name))
        .map(|(name, ..)| format!("{}: may not name {name}", source.path))
        .collect()
}

fn below(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).expect("a source folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            below(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

fn sources(folder: &str) -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut paths = Vec::new();
    below(&root, &mut paths);
    paths.sort();
    paths
        .into_iter()
        .map(|path| Source {
            text: fs::read_to_string(&path).expect("readable source"),
            path: path.strip_prefix(&root).expect("below root").display().to_string(),
        })
        .collect()
}

fn library() -> Vec<Source> {
    sources("src").into_iter().filter(|s| s.path != "lib.rs").collect()
}

fn table() -> BTreeMap<String, u32> {
    layers_of(include_str!("../src/ARCHITECTURE.md"))
}

fn assert_none(complaints: &[String]) {
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}

#[test]
fn no_arrow_points_up() {
    let layers = table();
    assert!(layers.len() >= 13, "the table of src/ARCHITECTURE.md was not understood: {layers:?}");
    let complaints: Vec<_> = library()
        .iter()
        .filter(|source| !source.is_test())
        .flat_map(|source| arrows_against_the_layers(source, &layers))
        .collect();
    assert_none(&complaints);
}

#[test]
fn names_stand_only_where_they_may() {
    let complaints: Vec<_> = library().iter().filter(|s| !s.is_test()).flat_map(forbidden_names).collect();
    assert_none(&complaints);
}

#[test]
fn the_commands_write_to_members_through_the_lease_alone() {
    let complaints: Vec<_> = sources("bin")
        .iter()
        .flat_map(|source| ["WriteDevice", "HeldDevice", "simulated"].map(|name| (source, name)))
        .filter(|(source, name)| names_word(&source.code(), name))
        .map(|(source, name)| format!("{}: may not name {name}", source.path))
        .collect();
    assert_none(&complaints);
}

#[test]
fn every_file_says_what_it_is_for() {
    let all = ["src", "bin", "tests"].into_iter().flat_map(|folder| {
        sources(folder).into_iter().filter(|s| !s.text.starts_with("//!") && !s.text.starts_with("#![doc"))
    });
    assert_none(&all.map(|s| format!("{}: no //! header", s.path)).collect::<Vec<_>>());
}

#[test]
fn no_file_outgrows_its_noun() {
    let mut complaints = Vec::new();
    for source in library().into_iter().chain(sources("bin")).filter(|s| !s.is_test()) {
        let lines = source.without_tests().lines().count();
        if lines > MAX_FILE_LINES {
            complaints.push(format!("{}: {lines} lines without tests, {MAX_FILE_LINES} at most", source.path));
        }
    }
    assert_none(&complaints);
}

fn synthetic(path: &str, text: &str) -> Source {
    Source { path: path.to_owned(), text: text.to_owned() }
}

#[test]
fn an_upward_arrow_is_seen_however_it_is_written() {
    let layers = table();
    for upward in [
        "use crate::report::Text;",
        "use crate::{units::Logical, scrub::{finding, tally}};",
        "fn f() { crate::filesystem::open() }",
        "use super::super::scrub::outcome;",
        "pub(crate) use crate::{\n    device,\n    tree as t,\n};",
    ] {
        let source = synthetic("volume/map.rs", upward);
        assert_eq!(arrows_against_the_layers(&source, &layers).len(), 1, "{upward}");
    }
}

#[test]
fn a_downward_arrow_a_comment_and_a_test_are_let_through() {
    let layers = table();
    let source = synthetic(
        "scrub/judge.rs",
        "use crate::{units, volume::{self, Profile}};\n/// See [`crate::report`].\nuse super::tally;\n\
         #[cfg(test)]\nmod tests {\n    use crate::report;\n}\n",
    );
    assert_eq!(arrows_against_the_layers(&source, &layers), Vec::<String>::new());
    assert_eq!(arrows_against_the_layers(&synthetic("repair/plan.rs", "use crate::scrub::finding;"), &layers), [""; 0]);
    assert_eq!(arrows_against_the_layers(&synthetic("scrub/plan.rs", "use crate::repair::plan;"), &layers).len(), 1);
}

#[test]
fn a_forbidden_name_is_seen_as_a_word_only() {
    for folder in ["scrub", "owners", "bench", "report", "repair", "md", "volume"] {
        let source = synthetic(&format!("{folder}/a.rs"), "fn f(d: &dyn WriteDevice) { unsafe {} }");
        assert_eq!(forbidden_names(&source).len(), 2, "{folder}");
    }
    assert_eq!(forbidden_names(&synthetic("repair/a.rs", "fn f() { HeldDevice::open(path) }")).len(), 1);
    assert_eq!(forbidden_names(&synthetic("tree/a.rs", "#![allow(unsafe_code)] fn blueprint() {}")), [""; 0]);
    assert_eq!(forbidden_names(&synthetic("report/a.rs", "const CSP: &str = \"'unsafe-inline'\";")), [""; 0]);
    assert_eq!(forbidden_names(&synthetic("tree/a.rs", "use serde::Serialize; fn f() { println!() }")).len(), 2);
    assert_eq!(forbidden_names(&synthetic("report/a.rs", "use serde::Serialize;")), [""; 0]);
}
