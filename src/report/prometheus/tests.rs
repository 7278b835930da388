//! The metrics against the text format (version 0.0.4) and the rules of `promtool check metrics`, by a reader of our own
//! that follows the grammar letter by letter.

use super::super::tests::{clean, correctable};
use super::*;
use std::collections::BTreeSet;

fn metrics(outcome: &ScrubOutcome) -> String {
    let mut out = Vec::new();
    write_metrics(Report { command: "scrub", outcome, repair: None, rebuilt: None }, &mut out)
        .expect("a vector takes all");
    String::from_utf8(out).expect("utf-8")
}

/// `[a-zA-Z_][a-zA-Z0-9_]*`; the names of metrics may have colons too, which are for recording rules and not for us.
fn is_name(name: &str) -> bool {
    let fits = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    name.bytes().all(fits) && name.bytes().next().is_some_and(|b| !b.is_ascii_digit())
}

type Labels = Vec<(String, String)>;

/// `name="value",...}` and what follows it.
fn labels(mut text: &str) -> Option<(Labels, &str)> {
    let mut labels = Vec::new();
    loop {
        if let Some(rest) = text.strip_prefix('}') {
            return Some((labels, rest));
        }
        let (name, rest) = text.split_once("=\"")?;
        let (value, rest) = quoted(rest)?;
        labels.push((name.to_owned(), value));
        text = rest.strip_prefix(',').unwrap_or(rest);
    }
}

/// The value up to the closing quote, and what follows that. A bare newline or another escape than three is a mistake.
fn quoted(text: &str) -> Option<(String, &str)> {
    let (mut value, mut letters) = (String::new(), text.chars());
    loop {
        match letters.next()? {
            '"' => return Some((value, letters.as_str())),
            '\n' => return None,
            '\\' => value.push(match letters.next()? {
                'n' => '\n',
                letter @ ('\\' | '"') => letter,
                _ => return None,
            }),
            letter => value.push(letter),
        }
    }
}

/// What is wrong with an exposition.
fn mistakes(text: &str) -> Vec<String> {
    let (mut wrong, mut families, mut series) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
    let (mut help, mut family) = ("", "");
    if !text.ends_with('\n') {
        wrong.push("no newline at the end".to_owned());
    }
    for line in text.lines() {
        let mut claim = |is_so: bool, what: &str| {
            if !is_so {
                wrong.push(format!("{what}: {line}"));
            }
        };
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, words) = rest.split_once(' ').unwrap_or((rest, ""));
            claim(!words.trim().is_empty(), "no help text");
            help = name;
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap_or((rest, ""));
            family = name;
            claim(["counter", "gauge"].contains(&kind), "type");
            claim(family == help, "type without help");
            claim(families.insert(family), "a family twice");
            name_mistakes(family, kind, &mut claim);
        } else {
            let name = line.split('{').next().unwrap_or_default();
            claim(name == family, "a sample outside of its family");
            let Some((labels, value)) = line.strip_prefix(name).and_then(|l| l.strip_prefix('{')).and_then(labels)
            else {
                claim(false, "labels");
                continue;
            };
            let names: BTreeSet<_> = labels.iter().map(|(name, _)| name.as_str()).collect();
            claim(names.len() == labels.len(), "a label twice");
            let fits = |name: &&str| is_name(name) && !name.starts_with("__") && !["le", "quantile"].contains(name);
            claim(names.iter().all(fits), "name of a label");
            let number = value.strip_prefix(' ').and_then(|value| value.parse::<f64>().ok());
            claim(number.is_some_and(f64::is_finite), "value");
            let mut labels = labels;
            labels.sort();
            claim(series.insert((name.to_owned(), labels)), "a series twice");
        }
    }
    wrong
}

/// The conventions that promtool warns of.
fn name_mistakes(name: &str, kind: &str, claim: &mut impl FnMut(bool, &str)) {
    claim(is_name(name) && name.starts_with("mirrortool_"), "name");
    claim(!name.bytes().any(|b| b.is_ascii_uppercase()), "camel case");
    claim(name.ends_with("_total") == (kind == "counter"), "counters end in _total, others do not");
    claim(!["_count", "_sum", "_bucket", "_info"].iter().any(|suffix| name.ends_with(suffix)), "reserved suffix");
    let words: Vec<_> = name.split('_').collect();
    let types = ["counter", "gauge", "histogram", "summary", "untyped"];
    claim(!types.iter().any(|kind| words.contains(kind)), "the type in the name");
    let not_base =
        ["ms", "milliseconds", "us", "ns", "minutes", "hours", "days", "kib", "mib", "gib", "kilobytes", "megabytes"];
    let short = ["s", "sec", "secs", "b", "bits", "percent"];
    claim(!not_base.iter().chain(&short).any(|unit| words.contains(unit)), "not a base unit");
}

#[test]
fn metrics_keep_the_rules_of_the_format() {
    let mut hostile = correctable();
    hostile.filesystem.label = "a\"b\\c\nd}, \u{e9}".to_owned();
    let text = metrics(&hostile);
    assert_eq!(mistakes(&text), [""; 0]);
    let samples: Vec<_> = text.lines().filter(|line| !line.starts_with('#')).collect();
    assert!(samples.len() > 30);
    for line in samples {
        let (labels, _) = line.split_once('{').and_then(|(_, rest)| labels(rest)).expect("labels");
        let label = ("label".to_owned(), hostile.filesystem.label.clone());
        assert!(labels.contains(&label), "what was escaped reads as it was: {line}");
    }
}

#[test]
fn the_reader_knows_a_mistake_when_it_sees_one() {
    let head = "# HELP mirrortool_a b\n# TYPE mirrortool_a gauge\n";
    assert_eq!(mistakes(&format!("{head}mirrortool_a{{x=\"1\"}} 2\n")), [""; 0]);
    for (wrong, part) in [
        ("mirrortool_a{x=\"1\"} 2", "no newline"),
        ("mirrortool_a{x=\"1\"} 2\nmirrortool_a{x=\"1\"} 3\n", "a series twice"),
        ("mirrortool_a{x=\"1\",x=\"2\"} 2\n", "a label twice"),
        ("mirrortool_a{1x=\"1\"} 2\n", "name of a label"),
        ("mirrortool_a{x=\"\\t\"} 2\n", "labels"),
        ("mirrortool_a{x=\"1\"} NaN\n", "value"),
        ("mirrortool_b{x=\"1\"} 2\n", "outside of its family"),
        ("# TYPE mirrortool_a gauge\n", "a family twice"),
        ("# HELP mirrortool_b_total c\n# TYPE mirrortool_b_total gauge\n", "_total"),
        ("# HELP mirrortool_b c\n# TYPE mirrortool_b counter\n", "_total"),
        ("# HELP mirrortool_b_ms c\n# TYPE mirrortool_b_ms gauge\n", "base unit"),
        ("# HELP mirrortool_b\n", "no help text"),
        ("# TYPE mirrortool_b gauge\n", "type without help"),
    ] {
        let found = mistakes(&format!("{head}{wrong}"));
        assert!(found.iter().any(|mistake| mistake.contains(part)), "{wrong}: {found:?}");
    }
}

#[test]
fn what_was_not_read_is_not_called_clean() {
    let mut early = clean();
    assert!(
        metrics(&early).contains("verdict=\"clean\"} 1\n") && metrics(&early).contains("verdict=\"unfinished\"} 0\n")
    );
    early.status = Status::Interrupted;
    assert!(
        metrics(&early).contains("verdict=\"clean\"} 0\n") && metrics(&early).contains("verdict=\"unfinished\"} 1\n")
    );
}

#[test]
fn metrics_say_what_the_report_says() {
    let text = metrics(&correctable());
    let labels = r#"command="scrub",fsid="389b092a-5a30-4de0-86bd-c136ddfc6456",label="demo""#;
    for expected in [
        format!("mirrortool_last_run_timestamp_seconds{{{labels}}} 1796024230\n"),
        format!("mirrortool_errors{{{labels},devid=\"1\",kind=\"verify\"}} 4\n"),
        format!("mirrortool_errors{{{labels},devid=\"2\",kind=\"correctable\"}} 3\n"),
        format!("mirrortool_verdict{{{labels},verdict=\"correctable\"}} 1\n"),
        format!("mirrortool_verdict{{{labels},verdict=\"clean\"}} 0\n"),
        format!("mirrortool_findings{{{labels}}} 2\n"),
    ] {
        assert!(text.contains(&expected), "{expected}\n{text}");
    }
}
