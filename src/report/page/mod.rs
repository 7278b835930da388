//! The report as one page of HTML that needs nothing else: no network, no fonts, no other file. The sum, a map of each
//! device, the findings by place, by file or by device, the counters, the notes.
//!
//! The page is written whole with its tables of figures and its maps; the findings are data inside it that the page's own
//! script lists, filters and sorts, so that a hundred thousand of them open at once. Decides nothing about the run.

mod data;
#[cfg(test)]
mod tests;

use super::device_map::{CELLS, Cell, Contents, DeviceMap, Worst};
use super::document::WriteError;
use super::{Report, human, selected, text};
use crate::owners::printable;
use crate::scrub::outcome::{ScrubOutcome, Status, Verdict};
use crate::scrub::tally::Counters;
use data::Findings;
use std::fmt::{self, Write as _};
use std::io::Write;
use time::UtcOffset;

/// What a page shows beside the report itself.
#[derive(Clone, Copy, Debug)]
pub struct PageOptions<'a> {
    /// What lies where, of the devices that are there.
    pub maps: &'a [DeviceMap],
    /// What the reader should do next, a sentence each.
    pub advice: &'a [String],
    /// The time zone that dates are shown in.
    pub utc_offset: UtcOffset,
}

/// Writes the report as a page.
pub fn write_page(report: Report<'_>, options: &PageOptions<'_>, out: &mut dyn Write) -> Result<(), WriteError> {
    let outcome = report.outcome;
    let title = format!("{} of {}", report.command, name(outcome));
    write!(out, "{HEAD_BEFORE_TITLE}{}{HEAD_AFTER_TITLE}<style>{STYLE}</style>\n</head>\n<body>\n", Text(&title))?;
    write!(out, "{}", Body { report, options })?;
    out.write_all(b"<script type=\"application/json\" id=\"findings-data\">")?;
    data::write_json(&Findings::new(outcome), out)?;
    Ok(write!(out, "</script>\n<script>{SCRIPT}</script>\n</body>\n</html>\n")?)
}

const HEAD_BEFORE_TITLE: &str = "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n\
<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">\n<title>";
const HEAD_AFTER_TITLE: &str = "</title>\n";
const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

/// What people call the file system.
fn name(outcome: &ScrubOutcome) -> String {
    let info = &outcome.filesystem;
    if info.label.is_empty() { info.fsid.to_string() } else { printable(info.label.as_bytes()) }
}

/// Text between tags or in a quoted attribute.
struct Text<'a>(&'a str);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|c| match c {
            '&' => f.write_str("&amp;"),
            '<' => f.write_str("&lt;"),
            '>' => f.write_str("&gt;"),
            '"' => f.write_str("&quot;"),
            c => f.write_char(c),
        })
    }
}

struct Body<'a> {
    report: Report<'a>,
    options: &'a PageOptions<'a>,
}

impl fmt::Display for Body<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.summary(f)?;
        self.maps(f)?;
        self.findings(f)?;
        self.devices(f)?;
        self.counters(f)?;
        self.notes(f)
    }
}

impl Body<'_> {
    fn summary(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let outcome = self.report.outcome;
        let (class, sentence) = verdict(outcome);
        writeln!(f, "<header class=\"{class}\">\n<h1>{}</h1>", Text(&sentence))?;
        if let Some(result) = text::result_phrases(outcome) {
            writeln!(f, "<p id=\"result\">{}</p>", Text(&result))?;
        }
        if !self.options.advice.is_empty() {
            writeln!(f, "<h2>What to do next</h2>\n<ul id=\"advice\">")?;
            self.options.advice.iter().try_for_each(|line| writeln!(f, "<li>{}</li>", Text(line)))?;
            writeln!(f, "</ul>")?;
        }
        writeln!(f, "</header>\n<dl id=\"summary\">")?;
        let info = &outcome.filesystem;
        let rate = human::per_second(human::rate(outcome.bytes_scrubbed, outcome.duration));
        let missing: Vec<_> = info.missing_devids.iter().map(ToString::to_string).collect();
        let status = if outcome.status == Status::Finished { "finished" } else { "interrupted" };
        for (label, value) in [
            ("File system", info.fsid.to_string()),
            ("Label", printable(info.label.as_bytes())),
            ("Command", self.report.command.to_owned()),
            ("Status", status.to_owned()),
            ("Selected", selected::phrase(&outcome.selected).unwrap_or_default()),
            ("Selected", selected::phrase(&outcome.selected).unwrap_or_default()),
            ("Started", human::date(outcome.started, self.options.utc_offset)),
            ("Duration", human::clock(outcome.duration)),
            ("Read", format!("{} of {}", human::size(outcome.bytes_scrubbed), human::size(outcome.bytes_total))),
            ("Rate", rate),
            ("Checksum", info.csum_type.to_string()),
            ("Generation", info.generation.to_string()),
            ("Missing devices", missing.join(", ")),
        ] {
            if !value.is_empty() {
                writeln!(f, "<div><dt>{label}</dt><dd>{}</dd></div>", Text(&value))?;
            }
        }
        writeln!(f, "</dl>")
    }

    fn maps(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.options.maps.is_empty() {
            return Ok(());
        }
        writeln!(f, "<section id=\"maps\">\n<h2>Devices from start to end</h2>\n<p class=\"legend\">")?;
        for (class, label) in [
            ("data", "data"),
            ("metadata", "metadata"),
            ("system", "system"),
            ("unread", "allocated, not read to its end in this run"),
            ("free", "not allocated"),
            ("lost", "uncorrectable or undecidable"),
            ("correctable", "correctable"),
            ("corrected", "corrected"),
        ] {
            writeln!(f, "<span><i class=\"{class}\"></i>{label}</span>")?;
        }
        writeln!(f, "</p>")?;
        self.options.maps.iter().try_for_each(|map| self.map(map, f))?;
        writeln!(f, "</section>")
    }

    fn map(&self, map: &DeviceMap, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let outcome = self.report.outcome;
        let device = outcome.devices.iter().find(|device| device.devid == map.devid);
        let path = device.map(|device| device.path.display().to_string()).unwrap_or_default();
        let cells = map.cells(CELLS, outcome.findings.iter());
        let label = format!("devid {} {path}, {}", map.devid, human::size(map.len_bytes));
        writeln!(f, "<figure><figcaption>{}</figcaption>", Text(&label))?;
        write!(f, "<svg viewBox=\"0 0 {CELLS} 24\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"")?;
        writeln!(f, "{}\">", Text(&format!("{label}: {}", spoken(&cells))))?;
        for (from, to, cell) in runs(&cells, |cell| (cell.contents, cell.is_read)) {
            writeln!(
                f,
                "<rect class=\"{}\" x=\"{from}\" y=\"6\" width=\"{}\" height=\"18\"/>",
                area(*cell),
                to - from
            )?;
        }
        for (from, to, cell) in runs(&cells, |cell| cell.worst) {
            if let Some(worst) = cell.worst {
                let class = worst_class(worst);
                writeln!(f, "<rect class=\"{class}\" x=\"{from}\" y=\"0\" width=\"{}\" height=\"24\"/>", to - from)?;
            }
        }
        writeln!(f, "</svg></figure>")
    }

    fn findings(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let outcome = self.report.outcome;
        if outcome.findings.is_empty() {
            return Ok(());
        }
        let listed = human::count(outcome.findings.len() as u64, "finding");
        writeln!(f, "<section id=\"findings\">\n<h2>Findings <span id=\"shown\">{listed}</span></h2>")?;
        if outcome.findings_omitted > 0 {
            let more = human::count(outcome.findings_omitted, "more finding");
            writeln!(f, "<p id=\"omitted\">and {more}, counted and not listed</p>")?;
        }
        writeln!(f, "{FINDINGS_TABLE}</section>")
    }

    fn devices(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "<section id=\"devices\">\n<h2>Devices</h2>\n<div class=\"scroll\"><table><thead><tr><th>devid</th>"
        )?;
        writeln!(f, "<th>path</th><th>allocated</th><th>read</th><th>bad</th><th>correctable</th><th>corrected</th>")?;
        writeln!(f, "<th>uncorrectable</th></tr></thead><tbody>")?;
        for device in &self.report.outcome.devices {
            let c = &device.counters;
            let bad = c.read_errors + c.csum_errors + c.verify_errors + c.super_errors + c.parity_errors;
            let path = device.path.display().to_string();
            let path = if path.is_empty() { "missing" } else { &path };
            if !device.tells_something() {
                let cells = "<td></td>".repeat(5);
                write!(f, "<tr><td>{}</td><td class=\"path\">{}</td>", device.devid, Text(path))?;
                writeln!(f, "<td>not read</td>{cells}</tr>")?;
                continue;
            }
            let read = c.data_bytes_scrubbed.saturating_add(c.tree_bytes_scrubbed);
            write!(f, "<tr><td>{}</td><td class=\"path\">{}</td>", device.devid, Text(path))?;
            write!(f, "<td>{}</td><td>{}</td><td>{bad}</td>", human::size(device.bytes_total), human::size(read))?;
            write!(f, "<td>{}</td><td>{}</td>", c.correctable_errors, c.corrected_errors)?;
            writeln!(f, "<td>{}</td></tr>", c.uncorrectable_errors)?;
        }
        writeln!(f, "</tbody></table></div>\n</section>")
    }

    fn counters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "<details id=\"counters\"><summary>Counters</summary><table><tbody>")?;
        for (name, value) in Counters::NAMES.into_iter().zip(self.report.outcome.totals.values()) {
            writeln!(f, "<tr><td>{name}</td><td>{value}</td></tr>")?;
        }
        writeln!(f, "</tbody></table></details>")
    }

    fn notes(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let notes = &self.report.outcome.notes;
        if !notes.is_empty() {
            writeln!(f, "<section id=\"notes\">\n<h2>Notes</h2>\n<ul>")?;
            notes.iter().try_for_each(|note| writeln!(f, "<li>{}</li>", Text(note)))?;
            writeln!(f, "</ul>\n</section>")?;
        }
        let (name, version) = (env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"));
        writeln!(f, "<footer>{name} {version}</footer>")
    }
}

const FINDINGS_TABLE: &str = "<form id=\"filter\" onsubmit=\"return false\">
<label>Group by <select id=\"group\"><option value=\"place\">place</option><option value=\"file\">file</option>\
<option value=\"device\">device</option></select></label>
<label>Kind <select id=\"kind\"><option value=\"\">all</option></select></label>
<label>Prospects <select id=\"repair\"><option value=\"\">all</option></select></label>
<label>Search <input id=\"search\" type=\"search\" placeholder=\"file, address, problem\"></label>
</form>
<div id=\"list\" class=\"scroll\" tabindex=\"0\"><table><thead><tr id=\"columns\"></tr></thead><tbody id=\"rows\"></tbody></table></div>
<noscript><p>The list of findings needs the script of this page; the text and JSON reports have them too.</p></noscript>
";

/// The class of the header and the verdict in one sentence.
fn verdict(outcome: &ScrubOutcome) -> (&'static str, String) {
    let is_interrupted = outcome.status == Status::Interrupted;
    let is_part = !outcome.selected.is_everything();
    let missing = !outcome.filesystem.missing_devids.is_empty();
    match outcome.verdict {
        Verdict::Clean if is_interrupted => {
            ("partial", "Stopped before the end: nothing bad in the part that was read".into())
        }
        Verdict::Clean if is_part => ("partial", "Only a part was looked at: nothing bad in it".into()),
        Verdict::Clean => ("good", "No errors found".into()),
        Verdict::Corrected if is_interrupted => {
            ("partial", "Stopped before the end: all that was found is corrected and read back".into())
        }
        Verdict::Corrected if is_part => {
            ("partial", "Only a part was looked at: all that was bad in it is corrected and read back".into())
        }
        Verdict::Corrected => ("good", "All that was bad is corrected and read back".into()),
        Verdict::Correctable if missing && outcome.findings.is_empty() => {
            ("warning", "A device is missing; what is here is good".into())
        }
        Verdict::Correctable => ("warning", "Some copies are bad, and all of them can be corrected".into()),
        Verdict::Uncorrectable => ("bad", "Some of what is stored here is lost or in doubt".into()),
    }
}

fn area(cell: Cell) -> &'static str {
    match (cell.contents, cell.is_read) {
        (None, _) => "free",
        (Some(_), false) => "unread",
        (Some(Contents::Data), true) => "data",
        (Some(Contents::Metadata), true) => "metadata",
        (Some(Contents::System), true) => "system",
    }
}

fn worst_class(worst: Worst) -> &'static str {
    match worst {
        Worst::Corrected => "corrected",
        Worst::Correctable => "correctable",
        Worst::Lost => "lost",
    }
}

/// What a map shows, for people who cannot see it.
fn spoken(cells: &[Cell]) -> String {
    let share = |wanted: fn(&Cell) -> bool| 100 * cells.iter().filter(|cell| wanted(cell)).count() / cells.len().max(1);
    let bad = runs(cells, |cell| cell.worst.is_some()).filter(|(_, _, cell)| cell.worst.is_some()).count();
    let bad = human::count(bad as u64, "place");
    format!("{}% allocated, something was found in {bad}", share(|cell| cell.contents.is_some()))
}

/// Neighbouring cells with the same key: from, to, the first of them.
fn runs<K: PartialEq>(cells: &[Cell], key: impl Fn(&Cell) -> K) -> impl Iterator<Item = (usize, usize, &Cell)> {
    let mut from = 0;
    cells.chunk_by(move |a, b| key(a) == key(b)).filter_map(move |run| {
        let first = from;
        from += run.len();
        Some((first, from, run.first()?))
    })
}
