//! `mirrortool policy-bench`: read policies against each other, over modelled devices or the members of a file system.

use super::bench_options::{BenchFormat, read_models, write_picture};
use crate::layers::LayerOptions;
use crate::options::{InputOptions, ReadPolicyOption, parse_size};
use crate::{exit, output};
use anyhow::ensure;
use mirrortool::bench::emulate::emulated;
use mirrortool::bench::model::DeviceModel;
use mirrortool::bench::policy::{Comparison, Event, Layout, PolicyRow, Setup, compare, data_extents, matrix, measure};
use mirrortool::bench::workload::{Shape, Workload};
use mirrortool::filesystem::Filesystem;
use mirrortool::report::{
    PolicyBench, plot_policies, write_matrix_csv, write_matrix_document, write_matrix_text, write_policy_csv,
    write_policy_document, write_policy_text,
};
use mirrortool::units::Logical;
use mirrortool::volume::read_policy::PolicyKind;
use std::path::PathBuf;

/// What is compared unless told otherwise.
const POLICIES: &str = "pid,round-robin:4096,round-robin:192K,round-robin,devid:1,devid:2,latency,auto";
/// The models of a comparison without real devices.
const MODELS: [&str; 2] = ["nvme", "nvme"];
/// The part of a modelled file system that is used.
const MODEL_AREA_BYTES: u64 = 64 << 30;

/// The profiles that leave a choice of copies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Profile {
    /// Two copies
    #[default]
    Raid1,
    /// Three copies
    Raid1c3,
    /// Four copies
    Raid1c4,
    /// Stripes over pairs
    Raid10,
}

impl Profile {
    fn layout(self) -> Layout {
        match self {
            Self::Raid1 => Layout::Mirrored(2),
            Self::Raid1c3 => Layout::Mirrored(3),
            Self::Raid1c4 => Layout::Mirrored(4),
            Self::Raid10 => Layout::StripedPairs,
        }
    }
}

/// Compare read policies on devices, images or models
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The devices or image files of one file system; device models where there are none
    #[arg(value_name = "IMAGE", conflicts_with_all = ["matrix", "event", "profile"])]
    images: Vec<PathBuf>,

    /// How image files are read; block devices are always read directly
    #[arg(long, value_name = "ENGINE", default_value = "direct")]
    io_engine: mirrortool::device::IoEngine,

    /// A model per device, in the order of devids: hdd, hdd-2005, hdd-smr, ssd, nvme, vm, or a YAML file [default:
    /// nvme,nvme without IMAGE]
    #[arg(long, value_name = "MODEL", value_delimiter = ',')]
    model: Vec<String>,

    /// Delay the reads of the real devices as the models would
    #[arg(long, requires_all = ["images", "model"])]
    emulate: bool,

    /// How copies lie on modelled devices
    #[arg(long, value_enum, default_value_t)]
    profile: Profile,

    /// What to read: sequential, random-4k, random-64k, latency-4k, defrag, scrub-one, mixed-4k, mixed-64k
    #[arg(long, default_value = "random-4k")]
    workload: Shape,

    /// Jobs side by side
    #[arg(long, value_name = "N")]
    jobs: Option<u32>,

    /// Requests in flight per job
    #[arg(long, value_name = "N")]
    iodepth: Option<u32>,

    /// How much all jobs transfer together
    #[arg(long, default_value = "1G", value_parser = parse_size)]
    size: u64,

    /// The policies, separated by commas
    #[arg(long, value_delimiter = ',', default_value = POLICIES)]
    policies: Vec<PolicyKind>,

    /// How often each policy runs
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=1000))]
    rounds: u64,

    /// What happens to a modelled device, as "10s devid=2 latency=x20", "5s devid=1 fail", "20s devid=2 recover"
    #[arg(long, value_name = "EVENT")]
    event: Vec<Event>,

    /// Run every policy through every scenario instead
    #[arg(long, conflicts_with_all = ["model", "workload", "jobs", "iodepth", "size", "event", "profile", "plot"])]
    matrix: bool,

    /// The form of what is printed
    #[arg(long, value_enum, default_value_t)]
    format: BenchFormat,

    /// Draw the rates to FILE as SVG
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<exit::Code> {
    let mut out = Vec::new();
    if args.matrix {
        let matrix = matrix(&args.policies, args.rounds)?;
        match args.format.encoding() {
            Some(encoding) => write_matrix_document(&matrix, encoding, &mut out)?,
            None if args.format == BenchFormat::Csv => write_matrix_csv(&matrix, &mut out)?,
            None => write_matrix_text(&matrix, &mut out)?,
        }
    } else {
        let bench = if args.images.is_empty() { over_models(args)? } else { over_members(args)? };
        match args.format.encoding() {
            Some(encoding) => write_policy_document(&bench, encoding, &mut out)?,
            None if args.format == BenchFormat::Csv => write_policy_csv(&bench, &mut out)?,
            None => write_policy_text(&bench, &mut out)?,
        }
        write_picture(args.plot.as_deref(), || plot_policies(&bench))?;
    }
    output::print(&out)?;
    Ok(exit::GOOD)
}

fn workload(args: &Args, extents: Vec<std::ops::Range<Logical>>) -> Workload {
    let usual = Workload::new(args.workload, args.size, extents);
    Workload { jobs: args.jobs.unwrap_or(usual.jobs), iodepth: args.iodepth.unwrap_or(usual.iodepth), ..usual }
}

fn over_models(args: &Args) -> anyhow::Result<PolicyBench> {
    let models = if args.model.is_empty() {
        MODELS.map(DeviceModel::built_in).into_iter().collect::<Result<_, _>>()?
    } else {
        read_models(&args.model)?
    };
    let layout = args.profile.layout();
    check_layout(layout, &models)?;
    let area = vec![Logical::new(0)..Logical::new(MODEL_AREA_BYTES)];
    let model = Some(names(&models));
    let setup = Setup { layout, workload: workload(args, area), events: args.event.clone(), models };
    Ok(bench(args, model, compare(&setup, &args.policies, args.rounds)))
}

fn names(models: &[DeviceModel]) -> String {
    models.iter().map(|model| model.name.as_str()).collect::<Vec<_>>().join("+")
}

fn check_layout(layout: Layout, models: &[DeviceModel]) -> anyhow::Result<()> {
    match layout {
        Layout::Mirrored(copies) => {
            ensure!(models.len() >= copies, "{copies} copies need as many models, have {}", models.len());
        }
        Layout::StripedPairs => {
            let pairs = models.len() >= 4 && models.len().is_multiple_of(2);
            ensure!(pairs, "RAID10 needs an even number of models from 4 on, have {}", models.len());
        }
    }
    Ok(())
}

fn over_members(args: &Args) -> anyhow::Result<PolicyBench> {
    let input = InputOptions {
        images: args.images.clone(),
        degraded: false,
        io_engine: args.io_engine,
        layers: LayerOptions::default(),
    };
    ensure!(args.model.is_empty() || args.emulate, "a model for real devices needs --emulate");
    let models = read_models(&args.model)?;
    let filesystem = ReadPolicyOption::default().open(emulated(&input.set()?, &models)?)?;
    input.warn_of_users();
    let extents = data_extents(&filesystem);
    ensure!(!extents.is_empty(), "the file system has no data to read");
    let workload = workload(args, extents);
    let model = args.emulate.then(|| names(&models));
    Ok(bench(args, model, rounds_over(&filesystem, &workload, args)))
}

/// Rounds in turns, so that what changes meanwhile on the machine changes for all policies.
fn rounds_over(filesystem: &Filesystem, workload: &Workload, args: &Args) -> Comparison {
    let mut outcomes = vec![Vec::new(); args.policies.len()];
    for seed in 1..=args.rounds {
        for (policy, outcomes) in args.policies.iter().zip(&mut outcomes) {
            outcomes.push(measure(filesystem, workload, *policy, seed));
        }
    }
    let rows = args.policies.iter().zip(&outcomes).map(|(policy, outcomes)| PolicyRow::of(*policy, outcomes));
    Comparison { rows: rows.collect() }
}

fn bench(args: &Args, model: Option<String>, comparison: Comparison) -> PolicyBench {
    PolicyBench { workload: args.workload.to_string(), model, rounds: args.rounds, comparison }
}
