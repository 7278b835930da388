//! How fast is a run of sectors hashed? Each algorithm over a buffer in memory and one in the cache, as scrub does it, with
//! the lanes off (`MIRRORTOOL_HASH_LANES`), and block by block, in alternating rounds.
//!
//! Prints medians and ratios; judges nothing. One thread: what scrub does on one core.

// A program, not a test: it prints its table.
#![allow(clippy::print_stdout)]

use anyhow::{Context as _, Result};
use clap::Parser;
use mirrortool::checksum::ChecksumType;
use std::hint::black_box;
use std::time::Instant;

/// Sector size that is hashed, in bytes.
const SECTOR_BYTES: usize = 4096;

/// Time the checksums of many sectors.
#[derive(Parser)]
#[command(about, long_about = None)]
struct Args {
    /// Rounds
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// MiB that are hashed from memory
    #[arg(long, default_value_t = 256)]
    memory_mib: usize,
    /// KiB that are hashed from the cache, again and again
    #[arg(long, default_value_t = 512)]
    cache_kib: usize,
    /// Prints one round's rates in bytes per second and ends: what the program starts itself for
    #[arg(long, hide = true)]
    once: bool,
    /// Given by `cargo bench`
    #[arg(long, hide = true)]
    bench: bool,
}

/// The rates of one algorithm in bytes per second.
struct Rates {
    from_memory: f64,
    from_cache: f64,
    block_by_block: f64,
}

fn main() -> Result<()> {
    let args = Args::parse();
    if args.once {
        for sum in ChecksumType::ALL {
            let rates = rates_of(sum, &args);
            println!("{} {} {}", rates.from_memory, rates.from_cache, rates.block_by_block);
        }
        return Ok(());
    }
    let mut samples: [[Vec<Rates>; 2]; 4] = Default::default();
    for _ in 0..args.rounds.max(1) {
        for way in 0..2 {
            for (rates, samples) in one_round(&args, way == 1)?.into_iter().zip(&mut samples) {
                samples[way].push(rates);
            }
        }
    }
    println!("GB/s of one core, medians of {} rounds; ratio: lanes to no lanes, from memory", args.rounds.max(1));
    println!(
        "{:<10} {:>12} {:>12} {:>12} {:>12} {:>15} {:>7}",
        "", "memory", "cache", "off: memory", "off: cache", "block by block", "ratio"
    );
    for (sum, [lanes, off]) in ChecksumType::ALL.into_iter().zip(&samples) {
        let [now, before] = [median(lanes, |r| r.from_memory), median(off, |r| r.from_memory)];
        println!(
            "{:<10} {:>12.2} {:>12.2} {:>12.2} {:>12.2} {:>15.2} {:>7.2}",
            sum.name(),
            now / 1e9,
            median(lanes, |r| r.from_cache) / 1e9,
            before / 1e9,
            median(off, |r| r.from_cache) / 1e9,
            median(off, |r| r.block_by_block) / 1e9,
            now / before
        );
    }
    Ok(())
}

/// Runs the program once more, with the lanes on or off: they are chosen once in the life of a process.
fn one_round(args: &Args, off: bool) -> Result<Vec<Rates>> {
    let mut command = std::process::Command::new(std::env::current_exe()?);
    command.args(["--once", "--memory-mib", &args.memory_mib.to_string()]);
    command.args(["--cache-kib", &args.cache_kib.to_string()]);
    command.env("MIRRORTOOL_HASH_LANES", if off { "off" } else { "on" });
    let output = String::from_utf8(command.output()?.stdout)?;
    let line = |line: &str| -> Result<Rates> {
        let numbers: Vec<f64> = line.split(' ').map(str::parse).collect::<Result<_, _>>()?;
        let [from_memory, from_cache, block_by_block] = *numbers else { anyhow::bail!("a line of {line:?}") };
        Ok(Rates { from_memory, from_cache, block_by_block })
    };
    output.lines().map(line).collect::<Result<_>>().context("the rates of one round")
}

fn rates_of(sum: ChecksumType, args: &Args) -> Rates {
    let memory: Vec<u8> = (0..args.memory_mib << 20).map(|i| (i ^ (i >> 9)) as u8).collect();
    let cached = memory.get(..args.cache_kib << 10).unwrap_or(&memory);
    let mut digests = Vec::with_capacity(memory.len() / SECTOR_BYTES * sum.digest_len());
    let mut hash = |data: &[u8]| {
        digests.clear();
        sum.digest_sectors(data, SECTOR_BYTES, &mut digests);
        black_box(&digests);
    };
    let turns = (memory.len() / cached.len().max(1)).max(1);
    Rates {
        from_memory: rate(memory.len(), || hash(&memory)),
        from_cache: rate(cached.len() * turns, || (0..turns).for_each(|_| hash(black_box(cached)))),
        block_by_block: rate(memory.len(), || {
            memory.chunks(SECTOR_BYTES).for_each(|sector| {
                black_box(sum.digest(sector));
            });
        }),
    }
}

fn rate(bytes: usize, work: impl FnOnce()) -> f64 {
    let started = Instant::now();
    work();
    bytes as f64 / started.elapsed().as_secs_f64()
}

fn median(samples: &[Rates], pick: fn(&Rates) -> f64) -> f64 {
    let mut values: Vec<f64> = samples.iter().map(pick).collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
