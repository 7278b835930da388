//! What `mirrortool readahead-bench` prints: a block per mode, a document, CSV, and a picture.

use super::document::{Encoding, SpreadEntry, Tool, WriteError, encode};
use super::human;
use super::plot::{PlotError, failed};
use crate::bench::readahead::{Comparison, ModeResult};
use crate::bench::statistics::Spread;
use plotters::prelude::*;
use serde::Serialize;
use std::io::{self, Write};
use std::time::Duration;

/// What was measured, and on what.
#[derive(Clone, Debug)]
pub struct ReadaheadReport<'a> {
    /// How often each mode ran.
    pub rounds: usize,
    /// The name of the device model, where there was one.
    pub model: Option<&'a str>,
    /// The walk over the trees.
    pub walk: Option<&'a Comparison>,
    /// The whole scrub.
    pub scrub: Option<&'a Comparison>,
    /// The least time that the model allows for the walk.
    pub bound: Option<Duration>,
}

/// Writes a block of lines per mode, in the words of `btrfs scrub status`.
pub fn write_readahead_text(report: &ReadaheadReport<'_>, out: &mut dyn Write) -> io::Result<()> {
    for (title, comparison) in [("walk", report.walk), ("scrub", report.scrub)] {
        let Some(comparison) = comparison else { continue };
        for mode in &comparison.modes {
            write_mode(title, comparison, mode, out)?;
        }
    }
    if let (Some(bound), Some(walk)) = (report.bound, report.walk) {
        writeln!(out, "Model's bound:    {} (each device's blocks once, in order)", seconds(bound.as_secs_f64()))?;
        for mode in &walk.modes {
            let ratio = mode.seconds().median / bound.as_secs_f64().max(1e-9);
            writeln!(out, "  {:<16}{ratio:.2} times the bound", format!("{}:", mode.mode))?;
        }
    }
    Ok(())
}

fn write_mode(title: &str, comparison: &Comparison, mode: &ModeResult, out: &mut dyn Write) -> io::Result<()> {
    let Some(last) = mode.last() else { return Ok(()) };
    let (took, rate) = (mode.seconds(), mode.bytes_per_second());
    writeln!(out, "{:<18}{}", format!("{title}:"), mode.mode)?;
    let clock = human::clock(Duration::from_secs_f64(took.median));
    let spread = format!("median {}, min {}, max {}", seconds(took.median), seconds(took.min), seconds(took.max));
    writeln!(out, "Duration:         {clock} ({spread})")?;
    writeln!(out, "Total to scrub:   {}", human::size(last.seen.bytes))?;
    writeln!(out, "Rate:             {}", human::per_second(rate.median))?;
    writeln!(out, "Tree blocks:      {}", last.seen.tree_blocks)?;
    writeln!(out, "Reads:            {} ({})", last.traffic.reads, human::size(last.traffic.bytes))?;
    writeln!(out, "In flight:        {:.1} on average", mode.mean_in_flight())?;
    writeln!(out, "Seeks:            {}", last.traffic.seeks)?;
    writeln!(out, "Ratio to off:     {:.2}", comparison.ratio_to_off(mode))?;
    if last.seen.lost_blocks > 0 {
        writeln!(out, "Lost blocks:      {}", last.seen.lost_blocks)?;
    }
    writeln!(out)
}

fn seconds(seconds: f64) -> String {
    if seconds < 1.0 { format!("{:.1} ms", seconds * 1e3) } else { format!("{seconds:.2} s") }
}

#[derive(Serialize)]
struct Document<'a> {
    tool: Tool,
    command: &'static str,
    rounds: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<&'a str>,
    modes: Vec<Entry>,
    #[serde(skip_serializing_if = "Option::is_none")]
    scrub: Option<Vec<ScrubEntry>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bound_seconds: Option<f64>,
}

#[derive(Serialize)]
struct Entry {
    mode: String,
    duration_seconds: SpreadEntry,
    rate_bytes_per_second: SpreadEntry,
    tree_blocks: u64,
    reads: u64,
    bytes: u64,
    mean_in_flight: f64,
    seeks: u64,
    ratio_to_off: f64,
}

#[derive(Serialize)]
struct ScrubEntry {
    #[serde(flatten)]
    entry: Entry,
    bytes_total: u64,
}

/// Writes the document for programs.
pub fn write_readahead_document(
    report: &ReadaheadReport<'_>,
    encoding: Encoding,
    out: &mut dyn Write,
) -> Result<(), WriteError> {
    let scrub = |comparison: &Comparison| {
        let entry = |mode| {
            let bytes_total = ModeResult::last(mode).map_or(0, |last| last.seen.bytes);
            ScrubEntry { entry: entry(comparison, mode), bytes_total }
        };
        comparison.modes.iter().map(entry).collect()
    };
    let document = Document {
        tool: Tool::THIS,
        command: "readahead-bench",
        rounds: report.rounds,
        model: report.model,
        modes: report.walk.map(entries).unwrap_or_default(),
        scrub: report.scrub.map(scrub),
        bound_seconds: report.bound.map(|bound| bound.as_secs_f64()),
    };
    encode(&document, encoding, out)
}

fn entries(comparison: &Comparison) -> Vec<Entry> {
    comparison.modes.iter().map(|mode| entry(comparison, mode)).collect()
}

fn entry(comparison: &Comparison, mode: &ModeResult) -> Entry {
    let last = mode.last().copied();
    let traffic = last.map(|last| last.traffic).unwrap_or_default();
    Entry {
        mode: mode.mode.to_string(),
        duration_seconds: mode.seconds().into(),
        rate_bytes_per_second: mode.bytes_per_second().into(),
        tree_blocks: last.map_or(0, |last| last.seen.tree_blocks),
        reads: traffic.reads,
        bytes: traffic.bytes,
        mean_in_flight: mode.mean_in_flight(),
        seeks: traffic.seeks,
        ratio_to_off: comparison.ratio_to_off(mode),
    }
}

/// Writes one line per mode, with a head line.
pub fn write_readahead_csv(report: &ReadaheadReport<'_>, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "job,mode,duration_seconds_median,duration_seconds_min,duration_seconds_max,rate_bytes_per_second_median,\
         tree_blocks,reads,bytes,mean_in_flight,seeks,ratio_to_off"
    )?;
    for (job, comparison) in [("walk", report.walk), ("scrub", report.scrub)] {
        for entry in comparison.map(entries).unwrap_or_default() {
            let Entry { mode, duration_seconds: took, rate_bytes_per_second: rate, .. } = &entry;
            let Entry { tree_blocks, reads, bytes, mean_in_flight, seeks, ratio_to_off, .. } = &entry;
            writeln!(
                out,
                "{job},{mode},{},{},{},{},{tree_blocks},{reads},{bytes},{mean_in_flight},{seeks},{ratio_to_off}",
                took.median, took.min, took.max, rate.median
            )?;
        }
    }
    Ok(())
}

/// A bar per mode: the median duration, with the extremes; an SVG.
pub fn plot_readahead(report: &ReadaheadReport<'_>) -> Result<String, PlotError> {
    let mut picture = String::new();
    let bars: Vec<(String, Spread)> = [("walk", report.walk), ("scrub", report.scrub)]
        .into_iter()
        .filter_map(|(job, comparison)| Some((job, comparison?)))
        .flat_map(|(job, c)| c.modes.iter().map(move |m| (format!("{job}, {}", m.mode), m.seconds())))
        .collect();
    draw(report, &bars, &mut picture).map_err(failed)?;
    Ok(picture)
}

fn draw(
    report: &ReadaheadReport<'_>,
    bars: &[(String, Spread)],
    picture: &mut String,
) -> Result<(), Box<dyn std::error::Error>> {
    let longest = bars.iter().map(|(_, spread)| spread.max).fold(1e-9, f64::max) * 1.15;
    let area = SVGBackend::with_string(picture, (720, 90 + 44 * bars.len() as u32)).into_drawing_area();
    area.fill(&WHITE)?;
    let on = report.model.map_or_else(|| "these devices".to_owned(), |model| format!("model {model}"));
    let mut chart = ChartBuilder::on(&area)
        .caption(format!("tree readahead on {on}: seconds, less is better"), ("sans-serif", 16))
        .margin(12)
        .x_label_area_size(30)
        .y_label_area_size(150)
        .build_cartesian_2d(0.0..longest, 0.0..bars.len() as f64)?;
    // A label in the middle of each bar's row, counted from the bottom.
    let name = |y: &f64| {
        let row = (0..bars.len()).rev().zip(bars).find(|(row, _)| (*row as f64 + 0.5 - y).abs() < 0.01);
        row.map_or_else(String::new, |(_, (name, _))| name.clone())
    };
    chart
        .configure_mesh()
        .disable_y_mesh()
        .y_labels(2 * bars.len() + 1)
        .y_label_formatter(&name)
        .x_desc("seconds")
        .draw()?;
    for (nth, (_, spread)) in bars.iter().enumerate() {
        let bottom = (bars.len() - 1 - nth) as f64;
        let color = if nth % 2 == 0 { RGBColor(70, 110, 160) } else { RGBColor(110, 150, 190) };
        chart.draw_series([
            Rectangle::new([(0.0, bottom + 0.2), (spread.median, bottom + 0.8)], color.filled()),
            Rectangle::new([(spread.min, bottom + 0.47), (spread.max, bottom + 0.53)], BLACK.filled()),
        ])?;
        let label = Text::new(seconds(spread.median), (spread.max + longest * 0.01, bottom + 0.6), ("sans-serif", 13));
        chart.draw_series([label])?;
    }
    area.present()?;
    Ok(())
}
