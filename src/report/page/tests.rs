//! The page of literal outcomes.

use super::super::device_map::Area;
use super::super::tests::{bad_sector, clean};
use super::*;
use crate::scrub::finding::RepairState;
use crate::scrub::{Copies, Selected};
use crate::units::{DeviceId, Physical};

fn page(outcome: &ScrubOutcome, maps: &[DeviceMap]) -> String {
    let advice = ["take <the files> from a backup".to_owned()];
    let options = PageOptions { maps, advice: &advice, utc_offset: UtcOffset::UTC };
    let mut out = Vec::new();
    write_page(Report { command: "scrub", outcome, repair: None, rebuilt: None }, &options, &mut out).expect("memory");
    String::from_utf8(out).expect("text")
}

fn map(devid: u64) -> DeviceMap {
    let area = |start, is_read| Area { start, len_bytes: 1 << 20, contents: Contents::Data, is_read };
    DeviceMap {
        devid: DeviceId::new(devid),
        len_bytes: 480 << 20,
        areas: vec![area(1 << 20, true), area(9 << 20, false)],
    }
}

#[test]
fn a_page_says_the_verdict_and_needs_nothing_from_elsewhere() {
    let page = page(&clean(), &[]);
    assert!(page.contains("<header class=\"good\">\n<h1>No errors found</h1>"), "{page}");
    assert!(page.contains("<li>take &lt;the files&gt; from a backup</li>"), "{page}");
    for outside in ["http:", "https:", "src=", "@import", "url("] {
        assert!(!page.contains(outside), "{outside} is in the page");
    }
    assert!(!page.contains("id=\"findings\""), "a table of findings without findings");
}

#[test]
fn an_interrupted_run_never_says_that_there_are_no_errors() {
    let page = page(&ScrubOutcome { status: Status::Interrupted, ..clean() }, &[]);
    assert!(!page.contains("No errors found"), "{page}");
    assert!(page.contains("<h1>Stopped before the end: nothing bad in the part that was read</h1>"), "{page}");
}

#[test]
fn a_run_of_a_part_never_says_that_there_are_no_errors_at_all() {
    let selected = Selected { copies: Copies::OnDevice(DeviceId::new(2)), ..Selected::ALL };
    let part = page(&ScrubOutcome { selected, ..clean() }, &[]);
    assert!(
        part.contains("<header class=\"partial\">\n<h1>Only a part was looked at: nothing bad in it</h1>"),
        "{part}"
    );
    assert!(part.contains("<dt>Selected</dt><dd>copies on devid 2</dd>"), "{part}");
    let corrected = page(&ScrubOutcome { selected, verdict: Verdict::Corrected, ..clean() }, &[]);
    assert!(corrected.contains("<header class=\"partial\">"), "{corrected}");
    assert!(!page(&clean(), &[]).contains("<dt>Selected</dt>"));
}

#[test]
fn a_map_shows_what_is_allocated_what_was_not_read_and_where_the_bad_is() {
    let mut finding = bad_sector(2, RepairState::Impossible);
    finding.physical = Physical::new((1 << 20) + 4096);
    let outcome = ScrubOutcome { findings: vec![finding], verdict: Verdict::Uncorrectable, ..clean() };
    let page = page(&outcome, &[map(1), map(2)]);
    for (part, count) in [
        ("<rect class=\"data\" x=\"1\" y=\"6\" width=\"1\"", 2),
        ("<rect class=\"unread\" x=\"9\" y=\"6\" width=\"1\"", 2),
        ("<rect class=\"lost\" x=\"1\" y=\"0\" width=\"1\"", 1),
        ("0% allocated, something was found in 1 place\"", 1),
    ] {
        assert_eq!(page.matches(part).count(), count, "{part} in {page}");
    }
}

#[test]
fn no_name_can_end_the_data_or_add_an_element() {
    let mut outcome = ScrubOutcome { findings: vec![bad_sector(2, RepairState::Possible)], ..clean() };
    outcome.filesystem.label = "</title><script>alert(1)</script>".to_owned();
    outcome.notes.push("</section><img>".to_owned());
    outcome.findings[0].evidence = crate::scrub::finding::Evidence::Text("</script><b>".into());
    let page = page(&outcome, &[]);
    assert_eq!(page.matches("</script>").count(), 2, "{page}");
    assert_eq!(page.matches("<script").count(), 2, "{page}");
    assert!(!page.contains("<img>") && !page.contains("<b>"), "{page}");
    assert!(page.contains(r"\u003c/script>\u003cb>"), "{page}");
}

#[test]
fn a_page_of_many_findings_is_small_enough_to_open_at_once() {
    let findings = (0..100_000_u64).map(|n| {
        let mut finding = bad_sector(2, RepairState::Possible);
        finding.physical = Physical::new(n * 4096);
        finding
    });
    let page = page(&ScrubOutcome { findings: findings.collect(), ..clean() }, &[map(2)]);
    assert!(page.len() < 12_000_000, "{} bytes", page.len());
}
