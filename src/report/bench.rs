//! What `policy-bench` and `layout-bench` print: tables, JSON, YAML, CSV and pictures.

use std::io::{self, Write};

use serde::Serialize;

use super::document::{Encoding, SpreadEntry, Tool, WriteError, encode};
use super::human::MIB;
use crate::bench::layout::Series;
use crate::bench::model::Direction;
use crate::bench::policy::{Comparison, PolicyRow, Scenario};

/// A comparison of policies, and what was compared.
#[derive(Clone, Debug)]
pub struct PolicyBench {
    /// The workload by name.
    pub workload: String,
    /// The models of the devices by name; `None` for real devices.
    pub model: Option<String>,
    /// How many rounds each policy had.
    pub rounds: u64,
    /// What came of it.
    pub comparison: Comparison,
}

/// A sweep of layouts, and over what.
#[derive(Clone, Debug)]
pub struct LayoutBench {
    /// The model of the members by name.
    pub model: String,
    /// How many members.
    pub devices: u32,
    /// What came of it.
    pub series: Vec<Series>,
}

/// Every policy in every scenario.
pub type Matrix = [(&'static Scenario, Comparison)];

/// Writes a comparison as a table.
pub fn write_policy_text(bench: &PolicyBench, out: &mut dyn Write) -> io::Result<()> {
    let over = bench.model.as_deref().map_or_else(String::new, |model| format!(" over {model}"));
    writeln!(out, "Workload:         {}{over}, {} rounds", bench.workload, bench.rounds)?;
    writeln!(
        out,
        "\n{:<20} {:>9} {:>9} {:>6}  {:>9} {:>9} {:>9} {:>9} {:>9}  reads (MiB) of each devid",
        "policy", "MiB/s", "IOPS", "x pid", "min us", "mean us", "stdev us", "p50 us", "p99 us"
    )?;
    for row in &bench.comparison.rows {
        let latencies = &row.latencies;
        let ratio = bench.comparison.ratio_to_pid(row).map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}"));
        write!(
            out,
            "{:<20} {:>9.1} {:>9.0} {ratio:>6}  {:>9.1} {:>9.1} {:>9.1} {:>9.1} {:>9.1} ",
            row.policy.to_string(),
            row.bytes_per_second.median / MIB,
            row.iops.median,
            us(latencies.min_ns() as f64),
            us(latencies.mean_ns()),
            us(latencies.stdev_ns()),
            us(latencies.percentile_ns(50.0) as f64),
            us(latencies.percentile_ns(99.0) as f64),
        )?;
        for device in &row.devices {
            write!(out, " {}: {} ({:.0})", device.devid, device.reads, device.bytes as f64 / MIB)?;
            if device.errors > 0 {
                write!(out, " {} failed", device.errors)?;
            }
        }
        writeln!(out, "{}", if row.lost > 0 { format!("  {} lost", row.lost) } else { String::new() })?;
    }
    Ok(())
}

/// Writes the matrix as a table of MiB/s, with the rate of `auto` over the best of the others.
pub fn write_matrix_text(matrix: &Matrix, out: &mut dyn Write) -> io::Result<()> {
    let Some((_, first)) = matrix.first() else { return Ok(()) };
    write!(out, "{:<20}", "MiB/s")?;
    for row in &first.rows {
        write!(out, " {:>18}", row.policy.to_string())?;
    }
    writeln!(out, " {:>10}", "auto/best")?;
    for (scenario, comparison) in matrix {
        write!(out, "{:<20}", scenario.name)?;
        for row in &comparison.rows {
            write!(out, " {:>18.1}", row.bytes_per_second.median / MIB)?;
        }
        let ratio = comparison.auto_to_best().map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.3}"));
        writeln!(out, " {ratio:>10}")?;
    }
    Ok(())
}

/// Writes a sweep as a table of MB/s, a row per layout and direction as in the thread of 2008.
pub fn write_layout_text(bench: &LayoutBench, out: &mut dyn Write) -> io::Result<()> {
    let Some(first) = bench.series.first() else { return Ok(()) };
    writeln!(out, "Model:            {} x {}, MB/s over chunk KiB\n", bench.devices, bench.model)?;
    write!(out, "{:<10}", "chunk KiB")?;
    for (chunk_bytes, _) in &first.points {
        write!(out, " {:>6}", chunk_bytes >> 10)?;
    }
    writeln!(out)?;
    for series in &bench.series {
        write!(out, "{:<10}", series_name(series))?;
        for (_, rate) in &series.points {
            write!(out, " {:>6.1}", rate / 1e6)?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// Writes a comparison as comma-separated values, a row per policy and device.
pub fn write_policy_csv(bench: &PolicyBench, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "policy,bytes_per_second,iops,latency_min_us,latency_mean_us,latency_stdev_us,latency_p50_us,latency_p99_us,devid,reads,bytes,errors"
    )?;
    for row in &bench.comparison.rows {
        for device in &row.devices {
            let l = LatencyEntry::of(row);
            writeln!(
                out,
                "{},{:.0},{:.1},{:.3},{:.3},{:.3},{:.3},{:.3},{},{},{},{}",
                row.policy,
                row.bytes_per_second.median,
                row.iops.median,
                l.min,
                l.mean,
                l.stdev,
                l.p50,
                l.p99,
                device.devid,
                device.reads,
                device.bytes,
                device.errors
            )?;
        }
    }
    Ok(())
}

/// Writes the matrix as comma-separated values.
pub fn write_matrix_csv(matrix: &Matrix, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "scenario,policy,bytes_per_second")?;
    for (scenario, comparison) in matrix {
        for row in &comparison.rows {
            writeln!(out, "{},{},{:.0}", scenario.name, row.policy, row.bytes_per_second.median)?;
        }
    }
    Ok(())
}

/// Writes a sweep as comma-separated values.
pub fn write_layout_csv(bench: &LayoutBench, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "layout,op,chunk_bytes,bytes_per_second")?;
    for series in &bench.series {
        for (chunk_bytes, rate) in &series.points {
            writeln!(out, "{},{},{chunk_bytes},{rate:.0}", series.layout, op(series.direction))?;
        }
    }
    Ok(())
}

/// Writes a comparison as JSON or YAML.
pub fn write_policy_document(bench: &PolicyBench, encoding: Encoding, out: &mut dyn Write) -> Result<(), WriteError> {
    let document = PolicyDocument {
        tool: Tool::THIS,
        command: "policy-bench",
        workload: &bench.workload,
        model: bench.model.as_deref(),
        rounds: bench.rounds,
        policies: policies(&bench.comparison),
    };
    encode(&document, encoding, out)
}

/// Writes the matrix as JSON or YAML.
pub fn write_matrix_document(matrix: &Matrix, encoding: Encoding, out: &mut dyn Write) -> Result<(), WriteError> {
    let scenario = |(scenario, comparison): &(&'static Scenario, Comparison)| ScenarioEntry {
        scenario: scenario.name,
        auto_to_best: comparison.auto_to_best(),
        policies: policies(comparison),
    };
    let scenarios = matrix.iter().map(scenario).collect();
    encode(&MatrixDocument { tool: Tool::THIS, command: "policy-bench", scenarios }, encoding, out)
}

/// Writes a sweep as JSON or YAML.
pub fn write_layout_document(bench: &LayoutBench, encoding: Encoding, out: &mut dyn Write) -> Result<(), WriteError> {
    let point = |&(chunk_bytes, bytes_per_second): &(u64, f64)| Point { chunk_bytes, bytes_per_second };
    let entry = |series: &Series| SeriesEntry {
        layout: series.layout.to_string(),
        op: op(series.direction),
        points: series.points.iter().map(point).collect(),
    };
    let document = LayoutDocument {
        tool: Tool::THIS,
        command: "layout-bench",
        model: &bench.model,
        devices: bench.devices,
        series: bench.series.iter().map(entry).collect(),
    };
    encode(&document, encoding, out)
}

/// `n2 read`, as the thread of 2008 calls its lines.
pub(super) fn series_name(series: &Series) -> String {
    format!("{} {}", series.layout, op(series.direction))
}

fn op(direction: Direction) -> &'static str {
    match direction {
        Direction::Read => "read",
        Direction::Write => "write",
    }
}

fn us(ns: f64) -> f64 {
    ns / 1e3
}

fn policies(comparison: &Comparison) -> Vec<PolicyEntry> {
    let entry = |row: &PolicyRow| PolicyEntry {
        policy: row.policy.to_string(),
        bytes_per_second: row.bytes_per_second.into(),
        iops: row.iops.into(),
        latency_us: LatencyEntry::of(row),
        devices: row
            .devices
            .iter()
            .map(|d| DeviceEntry { devid: d.devid.raw(), reads: d.reads, bytes: d.bytes, errors: d.errors })
            .collect(),
        lost_reads: row.lost,
        ratio_to_pid: comparison.ratio_to_pid(row),
    };
    comparison.rows.iter().map(entry).collect()
}

#[derive(Serialize)]
struct PolicyDocument<'a> {
    tool: Tool,
    command: &'a str,
    workload: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<&'a str>,
    rounds: u64,
    policies: Vec<PolicyEntry>,
}

#[derive(Serialize)]
struct MatrixDocument {
    tool: Tool,
    command: &'static str,
    scenarios: Vec<ScenarioEntry>,
}

#[derive(Serialize)]
struct ScenarioEntry {
    scenario: &'static str,
    auto_to_best: Option<f64>,
    policies: Vec<PolicyEntry>,
}

#[derive(Serialize)]
struct PolicyEntry {
    policy: String,
    bytes_per_second: SpreadEntry,
    iops: SpreadEntry,
    latency_us: LatencyEntry,
    devices: Vec<DeviceEntry>,
    lost_reads: u64,
    ratio_to_pid: Option<f64>,
}

#[derive(Serialize)]
struct DeviceEntry {
    devid: u64,
    reads: u64,
    bytes: u64,
    errors: u64,
}

#[derive(Serialize)]
struct LatencyEntry {
    min: f64,
    mean: f64,
    stdev: f64,
    p50: f64,
    p99: f64,
}

impl LatencyEntry {
    fn of(row: &PolicyRow) -> Self {
        let latencies = &row.latencies;
        Self {
            min: us(latencies.min_ns() as f64),
            mean: us(latencies.mean_ns()),
            stdev: us(latencies.stdev_ns()),
            p50: us(latencies.percentile_ns(50.0) as f64),
            p99: us(latencies.percentile_ns(99.0) as f64),
        }
    }
}

#[derive(Serialize)]
struct LayoutDocument<'a> {
    tool: Tool,
    command: &'static str,
    model: &'a str,
    devices: u32,
    series: Vec<SeriesEntry>,
}

#[derive(Serialize)]
struct SeriesEntry {
    layout: String,
    op: &'static str,
    points: Vec<Point>,
}

#[derive(Serialize)]
struct Point {
    chunk_bytes: u64,
    bytes_per_second: f64,
}
