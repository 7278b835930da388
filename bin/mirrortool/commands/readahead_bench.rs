//! `mirrortool readahead-bench`: runs the walk, and the scrub, in every mode in turn, over the devices or over models.

use super::bench_options::{BenchFormat, read_models, write_picture};
use crate::options::ReadPolicyOption;
use crate::{exit, output, watch};
use anyhow::Context as _;
use mirrortool::bench::emulate::emulated;
use mirrortool::bench::model::DeviceModel;
use mirrortool::bench::readahead::{
    Comparison, Meter, MeteredDevice, ModeResult, Sample, Script, Seen, Shape, Trees, bound_ns, simulate_scrub,
    simulate_walk, walk_trees,
};
use mirrortool::bench::simulator::{self, Simulator};
use mirrortool::device::{IoEngine, ReadDevice, cache_drop, identity, open_read};
use mirrortool::filesystem::Filesystem;
use mirrortool::report::{self, ReadaheadReport};
use mirrortool::scrub::{Progress, ScrubOptions, scrub};
use mirrortool::tree::ReadaheadMode;
use mirrortool::units::Physical;
use mirrortool::volume::{DeviceSet, Member, Opened, SetOptions};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Walk the trees with and without readahead and compare; writes nothing
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub(crate) struct Args {
    /// The devices or image files of one file system, in any order
    #[arg(value_name = "IMAGE", required = true)]
    images: Vec<PathBuf>,

    /// Go on without the members that were not given
    #[arg(long)]
    degraded: bool,

    /// Which trees are walked: all, extent, csum or fs
    #[arg(long, value_name = "TREES", default_value_t)]
    trees: Trees,

    /// Run the whole scrub in each mode too
    #[arg(long)]
    scrub: bool,

    /// The modes to compare: off, siblings, pipeline[:DEPTH]
    #[arg(long, value_name = "MODE,...", value_delimiter = ',', default_value = "off,siblings,pipeline")]
    modes: Vec<ReadaheadMode>,

    /// How often each mode runs, in alternating order
    #[arg(long, value_name = "N", default_value = "5")]
    rounds: NonZeroUsize,

    #[command(flatten)]
    mirror: ReadPolicyOption,

    /// Run in virtual time over device models; the devices are only read for the shape of the trees
    #[arg(long, help_heading = "Models", requires = "model")]
    simulate: bool,

    /// Delay the reads of the real devices as the models would
    #[arg(long, help_heading = "Models", requires = "model", conflicts_with = "simulate")]
    emulate: bool,

    /// The model of all devices, or one for each in the order of their devids: a name or a YAML file
    #[arg(long, value_name = "MODEL", help_heading = "Models", value_delimiter = ',')]
    model: Vec<String>,

    /// All devices are partitions of one of the model, one behind the other
    #[arg(long, help_heading = "Models", requires = "simulate")]
    one_disk: bool,

    /// The form of the result on stdout
    #[arg(long, value_enum, default_value_t, help_heading = "Report")]
    format: BenchFormat,

    /// Draw the durations into an SVG file
    #[arg(long, value_name = "FILE", help_heading = "Report")]
    plot: Option<PathBuf>,

    /// Show no progress on the terminal
    #[arg(long, help_heading = "Report")]
    no_progress: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<exit::Code> {
    anyhow::ensure!(!args.modes.is_empty(), "no mode was given");
    let models = read_models(&args.model)?;
    let progress = Progress::default();
    watch::end_on_signals(&progress.cancel).context("cannot handle signals")?;
    let measured = watch::with_bar(&progress, !args.no_progress, || {
        Bench { args, models: &models, progress: &progress }.measure()
    })?;
    if progress.is_cancelled() {
        return Ok(exit::INTERRUPTED);
    }
    let names: Vec<&str> = models.iter().map(|model| model.name.as_str()).collect();
    let model = (args.simulate || args.emulate).then(|| names.join(","));
    let report = ReadaheadReport {
        rounds: if args.simulate { 1 } else { args.rounds.get() },
        model: model.as_deref(),
        walk: Some(&measured.walk),
        scrub: measured.scrub.as_ref(),
        bound: measured.bound,
    };
    output::print(&render(&report, args.format)?)?;
    write_picture(args.plot.as_deref(), || report::plot_readahead(&report))?;
    anyhow::ensure!(
        measured.walk.agrees() && measured.scrub.as_ref().is_none_or(Comparison::agrees),
        "the modes disagree on what they saw: the devices changed meanwhile, or this is a bug"
    );
    Ok(exit::GOOD)
}

fn render(report: &ReadaheadReport<'_>, format: BenchFormat) -> anyhow::Result<Vec<u8>> {
    let mut out = Vec::new();
    match format.encoding() {
        Some(encoding) => report::write_readahead_document(report, encoding, &mut out)?,
        None if format == BenchFormat::Csv => report::write_readahead_csv(report, &mut out)?,
        None => report::write_readahead_text(report, &mut out)?,
    }
    Ok(out)
}

struct Measured {
    walk: Comparison,
    scrub: Option<Comparison>,
    bound: Option<Duration>,
}

struct Bench<'a> {
    args: &'a Args,
    models: &'a [DeviceModel],
    progress: &'a Progress,
}

impl Bench<'_> {
    fn measure(&self) -> anyhow::Result<Measured> {
        if self.args.simulate {
            return self.simulate();
        }
        self.warn_of_caches();
        let walk = self.compare(Self::walk)?;
        let scrub = if self.args.scrub { Some(self.compare(Self::scrub)?) } else { None };
        Ok(Measured { walk, scrub, bound: None })
    }

    /// Rounds of all modes, forwards and backwards in turn, so that no mode gains from its place.
    fn compare(&self, job: impl Fn(&Self, ReadaheadMode) -> anyhow::Result<Sample>) -> anyhow::Result<Comparison> {
        let modes = &self.args.modes;
        let mut results: Vec<ModeResult> =
            modes.iter().map(|mode| ModeResult { mode: *mode, samples: Vec::new() }).collect();
        let runs = self.args.rounds.get() as u64 * modes.len() as u64;
        for round in 0..self.args.rounds.get() {
            for nth in 0..results.len() {
                let nth = if round % 2 == 0 { nth } else { results.len() - 1 - nth };
                let Some(result) = results.get_mut(nth) else { continue };
                if self.progress.is_cancelled() {
                    return Ok(Comparison { modes: results });
                }
                let sample = job(self, result.mode)?;
                self.progress.bytes_total.store(sample.seen.bytes.saturating_mul(runs), Ordering::Relaxed);
                result.samples.push(sample);
            }
        }
        Ok(Comparison { modes: results })
    }

    fn walk(&self, mode: ReadaheadMode) -> anyhow::Result<Sample> {
        let (fs, meter) = self.open()?;
        let roots = self.args.trees.roots(&fs);
        meter.reset();
        let started = Instant::now();
        let seen = walk_trees(&fs, mode, &roots, &self.progress.bytes_done);
        Ok(Sample { duration: started.elapsed(), seen, traffic: meter.traffic() })
    }

    fn scrub(&self, mode: ReadaheadMode) -> anyhow::Result<Sample> {
        let (fs, meter) = self.open()?;
        meter.reset();
        let options = ScrubOptions { readahead: mode, ..ScrubOptions::default() };
        let started = Instant::now();
        let outcome = scrub(&fs, &options, self.progress)?;
        let blocks = outcome.totals.tree_bytes_scrubbed / u64::from(outcome.filesystem.nodesize.max(1));
        let seen = Seen {
            tree_blocks: blocks,
            lost_blocks: outcome.findings.len() as u64 + outcome.findings_omitted,
            bytes: outcome.bytes_scrubbed,
            digest: 0,
        };
        Ok(Sample { duration: started.elapsed(), seen, traffic: meter.traffic() })
    }

    /// Opens the file system anew, with nothing in any cache.
    fn open(&self) -> anyhow::Result<(Filesystem, Arc<Meter>)> {
        let meter = Arc::new(Meter::default());
        let mut opened = Vec::new();
        for path in &self.args.images {
            // Where it cannot be dropped a warning was given.
            let _ = cache_drop(path);
            opened.push(Opened { path: path.clone(), device: open_cold(path)?, identity: identity(path)? });
        }
        let mut set = DeviceSet::assemble(opened, SetOptions { degraded: self.args.degraded })?;
        if self.args.emulate {
            set = emulated(&set, self.models)?;
        }
        let metered = |member: &Member| -> Arc<dyn ReadDevice> {
            Arc::new(MeteredDevice::new(Arc::clone(member.device()), Arc::clone(&meter)))
        };
        let fs = self.args.mirror.open(set.behind(metered)?)?;
        Ok((fs, meter))
    }

    fn warn_of_caches(&self) {
        for path in &self.args.images {
            if let Err(error) = cache_drop(path) {
                output::warn(&format!("{error}; figures may be those of the page cache"));
            }
            if open_read(path, IoEngine::Direct).is_err() {
                output::warn(&format!("{}: no direct I/O; figures include the page cache", path.display()));
            }
        }
    }

    fn simulate(&self) -> anyhow::Result<Measured> {
        let (fs, _) = self.open()?;
        let shape = Shape::of(&fs, &self.args.trees.roots(&fs));
        let sizes: Vec<u64> = fs.members().map(|member| member.device().len()).collect();
        let simulate = |mode: &ReadaheadMode| ModeResult {
            mode: *mode,
            samples: vec![simulate_walk(&shape, self.simulator(&sizes), self.args.mirror.read_policy, *mode)],
        };
        let walk = Comparison { modes: self.args.modes.iter().map(simulate).collect() };
        let bound = Some(Duration::from_nanos(bound_ns(&shape, self.simulator(&sizes))));
        let script = self.args.scrub.then(|| Script::of(&fs));
        let simulate = |script: &Script, mode: &ReadaheadMode| ModeResult {
            mode: *mode,
            samples: vec![simulate_scrub(script, self.simulator(&sizes), self.args.mirror.read_policy, *mode)],
        };
        let scrub = script
            .map(|script| Comparison { modes: self.args.modes.iter().map(|mode| simulate(&script, mode)).collect() });
        Ok(Measured { walk, scrub, bound })
    }

    fn simulator(&self, sizes: &[u64]) -> Simulator {
        let models = self.models;
        if self.args.one_disk {
            let mut start = Physical::default();
            let mut member = |size: &u64| {
                let member = simulator::Member { medium: 0, start };
                start = start + *size;
                member
            };
            let members = sizes.iter().map(&mut member).collect();
            return Simulator::with_members(models, members, 1);
        }
        let each: Vec<DeviceModel> =
            (0..sizes.len()).filter_map(|nth| models.get(nth).or(models.last())).cloned().collect();
        Simulator::new(&each, 1)
    }
}

fn open_cold(path: &Path) -> anyhow::Result<Arc<dyn ReadDevice>> {
    Ok(open_read(path, IoEngine::Direct).or_else(|_| open_read(path, IoEngine::Buffered))?)
}
