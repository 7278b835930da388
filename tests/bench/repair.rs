//! How fast is a repair? Builds a RAID1 of two devices with the running kernel, then, in alternating rounds: writes
//! everything allocated on the second device from memory (one request at a time as `dd` does, and four), and, each time
//! over zeros there, scrubs, and repairs with and without an undo log. Once with the images in the page cache, once without.
//!
//! A repair reads both devices, logs, writes, and reads back around the page cache; the plain write only writes. What a
//! repair costs beyond the scrub that finds the damage is the difference of the two lines. Where the devices share one
//! disk, as image files do, no repair can be faster than that disk takes for three reads and a write.

// A program, not a test: it prints its table.
#![allow(clippy::print_stdout)]

mod common;

use anyhow::{Context as _, Result};
use clap::Parser;
use common::{Contender, Fill, Layout, Setup, measure};
use mirrortool::device::IoEngine;
use std::path::PathBuf;

/// Time `mirrortool repair` against a plain write of the same bytes.
#[derive(Parser)]
#[command(about, long_about = None)]
struct Args {
    /// Where to build the images
    #[arg(long, default_value = "target/bench-repair")]
    dir: PathBuf,
    /// MiB of data, which are held in memory
    #[arg(long, default_value_t = 400)]
    data_mib: u64,
    /// Checksum algorithm
    #[arg(long, default_value = "crc32c")]
    csum: String,
    /// Rounds
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Given by `cargo bench`
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let raid1 = Layout { data: "raid1", metadata: "raid1", devices: 2 };
    let setup = Setup::build(&args.dir, &raid1, &args.csum, args.data_mib, Fill::Mixed)?;
    let extents = setup.extents(IoEngine::Direct)?;
    let bytes = extents.bytes_of_last();
    println!("{:.2} MiB to repair, {} sectors", bytes as f64 / f64::from(1 << 20), bytes / 4096);
    let logs = tempfile::tempdir_in(&args.dir)?;
    std::env::set_current_dir(logs.path()).context("cannot enter the folder for undo logs")?;
    let loaded = extents.load_last()?;
    let repair = |name, words| Contender::mirrortool(name, words, &setup).on_wiped(&setup, &extents);
    let mut contenders = [
        Contender::plain_write(&setup, &extents, &loaded, 1),
        Contender::plain_write(&setup, &extents, &loaded, 4),
        Contender::verified_write(&setup, &extents, &loaded, 4),
        Contender::scrub(&setup).on_wiped(&setup, &extents),
        repair("repair --yes", &["repair", "--yes"]),
        repair("repair --yes --no-undo-log", &["repair", "--yes", "--no-undo-log"]),
    ];
    println!("\nhot (page cache):");
    measure(&setup, &mut contenders, args.rounds, bytes, false)?;
    println!("\ncold:");
    measure(&setup, &mut contenders, args.rounds, bytes, true)
}
