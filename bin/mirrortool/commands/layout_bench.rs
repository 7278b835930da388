//! `mirrortool layout-bench`: md RAID10 layouts over chunk sizes, on modelled disks.

use super::bench_options::{BenchFormat, read_model_named, write_picture};
use crate::options::parse_size;
use crate::{exit, output};
use mirrortool::bench::layout::{LayoutSetup, sweep};
use mirrortool::bench::model::Medium;
use mirrortool::md::Layout;
use mirrortool::report::{LayoutBench, plot_layout, write_layout_csv, write_layout_document, write_layout_text};
use std::path::PathBuf;

/// The size of a member where the model has none.
const FLASH_BYTES: u64 = 1 << 40;

/// Compare md RAID10 layouts over chunk sizes on models
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The model of the members: hdd, hdd-2005, hdd-smr, ssd, nvme, vm, or a YAML file
    #[arg(long, value_name = "MODEL", default_value = "hdd-2005")]
    model: String,

    /// How many members
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(2..=64))]
    devices: u32,

    /// The size of a member; as large as the model where not given
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    member_size: Option<u64>,

    /// The layouts, separated by commas: n for near, f for far, o for offset, and the number of copies
    #[arg(long, value_delimiter = ',', default_value = "n2,f2,o2")]
    layouts: Vec<Layout>,

    /// The chunk sizes, separated by commas: multiples of 4K, also such as are no power of two
    #[arg(long, value_name = "SIZES", value_delimiter = ',', value_parser = parse_size,
          default_value = "4K,8K,16K,32K,64K,128K,256K,512K,1M,2M,4M")]
    chunks: Vec<u64>,

    /// How much is read and written, from the start of the array
    #[arg(long, default_value = "1G", value_parser = parse_size)]
    size: u64,

    /// The form of what is printed
    #[arg(long, value_enum, default_value_t)]
    format: BenchFormat,

    /// Draw the rates over the chunk size to FILE as SVG
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<exit::Code> {
    let model = read_model_named(&args.model)?;
    let model_bytes = if let Medium::Disk(disk) = &model.medium { disk.capacity_bytes } else { FLASH_BYTES };
    let name = model.name.clone();
    let member_bytes = args.member_size.unwrap_or(model_bytes);
    anyhow::ensure!(
        member_bytes <= model_bytes,
        "a member of {member_bytes} bytes is larger than the model's {model_bytes}"
    );
    let setup = LayoutSetup { model, devices: args.devices, member_bytes, size_bytes: args.size };
    let bench = LayoutBench { model: name, devices: args.devices, series: sweep(&setup, &args.layouts, &args.chunks)? };
    let mut out = Vec::new();
    match args.format.encoding() {
        Some(encoding) => write_layout_document(&bench, encoding, &mut out)?,
        None if args.format == BenchFormat::Csv => write_layout_csv(&bench, &mut out)?,
        None => write_layout_text(&bench, &mut out)?,
    }
    write_picture(args.plot.as_deref(), || plot_layout(&bench))?;
    output::print(&out)?;
    Ok(exit::GOOD)
}
