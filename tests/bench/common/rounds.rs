//! Alternating rounds, and the table of their medians. The ratio is that of bytes per second.

use super::{Contender, Setup};
use anyhow::Result;
use std::time::{Duration, Instant};

/// One timed run.
struct Sample {
    wall_s: f64,
    cpu_s: f64,
    peak_kib: Option<u64>,
}

/// Runs every contender once per round, in turn, and prints medians and ratios to the first one.
pub(crate) fn measure(
    setup: &Setup,
    contenders: &mut [Contender<'_>],
    rounds: usize,
    bytes: u64,
    cold: bool,
) -> Result<()> {
    let idle = idle_load()?;
    let mut samples: Vec<Vec<Sample>> = contenders.iter().map(|_| Vec::new()).collect();
    for _ in 0..rounds.max(1) {
        for (contender, samples) in contenders.iter().zip(&mut samples) {
            let prepared = contender.prepare()?;
            if cold {
                setup.drop_caches()?;
            } else {
                setup.warm_caches()?;
            }
            let (busy, clock) = (busy_seconds()?, Instant::now());
            let peak_kib = contender.run(&prepared)?;
            let wall_s = clock.elapsed().as_secs_f64();
            let cpu_s = (busy_seconds()? - busy - idle * wall_s).max(0.0);
            samples.push(Sample { wall_s, cpu_s, peak_kib });
        }
    }
    print_table(contenders, &samples, bytes);
    Ok(())
}

fn print_table(contenders: &[Contender<'_>], samples: &[Vec<Sample>], bytes: u64) {
    let mib = bytes as f64 / f64::from(1 << 20);
    let median_of = |samples: &[Sample], pick: fn(&Sample) -> f64| {
        let mut values: Vec<f64> = samples.iter().map(pick).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
    };
    let base = samples.first().map_or(f64::NAN, |s| median_of(s, |s| s.wall_s));
    println!(
        "{:<40} {:>9} {:>17} {:>8} {:>7} {:>7} {:>9}",
        "", "median s", "min - max s", "MiB/s", "ratio", "CPU s", "peak MiB"
    );
    for (contender, samples) in contenders.iter().zip(samples) {
        let wall = median_of(samples, |s| s.wall_s);
        let min = samples.iter().map(|s| s.wall_s).fold(f64::INFINITY, f64::min);
        let max = samples.iter().map(|s| s.wall_s).fold(0.0, f64::max);
        let peak = samples.iter().filter_map(|s| s.peak_kib).max();
        println!(
            "{:<40} {wall:>9.3} {:>17} {:>8.0} {:>7.2} {:>7.2} {:>9}",
            contender.name,
            format!("{min:.3} - {max:.3}"),
            mib * contender.share / wall,
            base * contender.share / wall,
            median_of(samples, |s| s.cpu_s),
            peak.map_or_else(String::new, |kib| format!("{:.1}", kib as f64 / 1024.0)),
        );
    }
}

/// Seconds of CPU that the machine has spent on anything.
fn busy_seconds() -> Result<f64> {
    let stat = std::fs::read_to_string("/proc/stat")?;
    let ticks: Vec<f64> =
        stat.lines().next().unwrap_or_default().split_whitespace().skip(1).flat_map(str::parse).collect();
    let idle_columns = [3, 4];
    let busy: f64 = ticks.iter().take(8).enumerate().filter(|(n, _)| !idle_columns.contains(n)).map(|(_, t)| t).sum();
    Ok(busy / 100.0)
}

/// The share of a second that the machine is busy with other things.
fn idle_load() -> Result<f64> {
    let busy = busy_seconds()?;
    std::thread::sleep(Duration::from_secs(1));
    Ok(busy_seconds()? - busy)
}
