//! How fast is a scrub? Builds a file system with the running kernel (or takes images that are there), then times, in
//! alternating rounds with cold caches: a plain direct read of the same extents, `mirrortool scrub`, fio reading as
//! many bytes in one sequence, the kernel's scrub in its four settings, and `btrfs check --check-data-csum`.
//!
//! Prints medians and ratios; judges nothing. CPU seconds are those of the whole machine, less its idle load, since the
//! kernel's scrub works in kernel threads.

// A program, not a test: it prints its table.
#![allow(clippy::print_stdout)]

mod common;

use anyhow::{Context as _, Result, bail};
use clap::Parser;
use common::{Contender, Setup, measure};
use mirrortool::device::IoEngine;
use std::path::PathBuf;

/// Time `mirrortool scrub` against the raw read limit and its rivals.
#[derive(Parser)]
#[command(about, long_about = None)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of its own on the command line")]
struct Args {
    /// Images that are there already, unmounted
    images: Vec<PathBuf>,
    /// Where to build the images
    #[arg(long, default_value = "target/bench-scrub")]
    dir: PathBuf,
    /// Data profile
    #[arg(long, default_value = "raid1")]
    data: String,
    /// Metadata profile
    #[arg(long, default_value = "raid1")]
    metadata: String,
    /// Devices
    #[arg(long, default_value_t = 2)]
    devices: usize,
    /// MiB of data
    #[arg(long, default_value_t = 4300)]
    data_mib: u64,
    /// Only files of a few KiB
    #[arg(long)]
    small_files: bool,
    /// Checksum algorithm
    #[arg(long, default_value = "crc32c")]
    csum: String,
    /// Rounds
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Leave out the kernel's scrub and btrfs check
    #[arg(long)]
    no_rivals: bool,
    /// Also time everything from the page cache
    #[arg(long)]
    hot: bool,
    /// Given by `cargo bench`
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let setup = if args.images.is_empty() {
        let kind = if args.small_files { common::Fill::Small } else { common::Fill::Mixed };
        let profile = common::Layout { data: &args.data, metadata: &args.metadata, devices: args.devices };
        Setup::build(&args.dir, &profile, &args.csum, args.data_mib, kind).context("cannot build the images")?
    } else {
        Setup::of_images(&args.images)?
    };
    let extents = setup.extents(IoEngine::Direct)?;
    println!("{} images, {:.2} GiB allocated over all copies", setup.images.len(), gib(extents.bytes()));
    let mut contenders = vec![Contender::plain(&extents), Contender::scrub(&setup)];
    contenders.extend(Contender::fio(&setup, extents.bytes()));
    if !args.no_rivals {
        if !common::is_root() {
            bail!("the kernel's scrub needs root; pass --no-rivals to go without");
        }
        contenders.extend(Contender::rivals(&setup, &extents));
    }
    println!("\ncold:");
    measure(&setup, &mut contenders, args.rounds, extents.bytes(), true)?;
    if args.hot {
        println!("\nhot (page cache):");
        let extents = setup.extents(IoEngine::Buffered)?;
        let mut hot = vec![Contender::plain_hot(&extents), Contender::scrub(&setup)];
        measure(&setup, &mut hot, args.rounds, extents.bytes(), false)?;
    }
    Ok(())
}

fn gib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 30)
}
