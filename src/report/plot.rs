//! Pictures: rates over chunk sizes as lines, rates of policies as bars. SVG, made in memory, no font files needed.

use plotters::prelude::*;

use super::bench::{LayoutBench, PolicyBench, series_name};
use super::human::MIB;

const SIZE: (u32, u32) = (960, 540);

/// A picture could not be drawn.
#[derive(Debug, thiserror::Error)]
#[error("cannot draw the picture: {reason}")]
pub struct PlotError {
    reason: String,
}

pub(super) fn failed(error: impl std::fmt::Display) -> PlotError {
    PlotError { reason: error.to_string() }
}

/// Draws a sweep: MB/s over the chunk size, the latter on a logarithmic scale.
pub fn plot_layout(bench: &LayoutBench) -> Result<String, PlotError> {
    let all = || bench.series.iter().flat_map(|series| &series.points);
    let chunks = || all().map(|point| point.0 as f64 / 1024.0);
    let (low, high) = (chunks().fold(f64::MAX, f64::min).max(1.0), chunks().fold(2.0, f64::max));
    let top = all().map(|point| point.1 / 1e6).fold(1.0, f64::max) * 1.1;
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        root.fill(&WHITE).map_err(failed)?;
        let mut chart = ChartBuilder::on(&root)
            .caption(format!("md RAID10 over {} x {}", bench.devices, bench.model), ("sans-serif", 20))
            .margin(12)
            .x_label_area_size(44)
            .y_label_area_size(56)
            .build_cartesian_2d((low..high.max(low * 2.0)).log_scale().base(2.0), 0.0..top)
            .map_err(failed)?;
        (chart.configure_mesh().x_desc("chunk size, KiB").y_desc("MB/s"))
            .x_label_formatter(&|kib| format!("{kib:.0}"))
            .draw()
            .map_err(failed)?;
        for (index, series) in bench.series.iter().enumerate() {
            let color = Palette99::pick(index).to_rgba();
            let points = series.points.iter().map(|&(chunk_bytes, rate)| (chunk_bytes as f64 / 1024.0, rate / 1e6));
            (chart.draw_series(LineSeries::new(points, color.stroke_width(2))).map_err(failed)?)
                .label(series_name(series))
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 24, y)], color.stroke_width(2)));
        }
        (chart.configure_series_labels().position(SeriesLabelPosition::UpperLeft))
            .background_style(WHITE.mix(0.8))
            .border_style(BLACK.mix(0.3))
            .draw()
            .map_err(failed)?;
        root.present().map_err(failed)?;
    }
    Ok(svg)
}

/// Draws a comparison: a bar per policy, MiB/s.
pub fn plot_policies(bench: &PolicyBench) -> Result<String, PlotError> {
    let rows = &bench.comparison.rows;
    let top = rows.iter().map(|row| row.bytes_per_second.max / MIB).fold(1.0, f64::max) * 1.1;
    let names: Vec<String> = rows.iter().map(|row| row.policy.to_string()).collect();
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        root.fill(&WHITE).map_err(failed)?;
        let over = bench.model.as_deref().unwrap_or("real devices");
        let mut chart = ChartBuilder::on(&root)
            .caption(format!("{} over {over}", bench.workload), ("sans-serif", 20))
            .margin(12)
            .x_label_area_size(44)
            .y_label_area_size(64)
            .build_cartesian_2d((0..rows.len().max(1)).into_segmented(), 0.0..top)
            .map_err(failed)?;
        let name = |at: &SegmentValue<usize>| match at {
            SegmentValue::CenterOf(index) => names.get(*index).cloned().unwrap_or_default(),
            _ => String::new(),
        };
        (chart.configure_mesh().disable_x_mesh().y_desc("MiB/s"))
            .x_labels(rows.len())
            .x_label_formatter(&name)
            .draw()
            .map_err(failed)?;
        let bars = rows.iter().enumerate().map(|(index, row)| (index, row.bytes_per_second.median / MIB));
        (chart.draw_series(Histogram::vertical(&chart).style(BLUE.mix(0.6).filled()).margin(12).data(bars)))
            .map_err(failed)?;
        root.present().map_err(failed)?;
    }
    Ok(svg)
}
