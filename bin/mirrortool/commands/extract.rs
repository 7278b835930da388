//! `mirrortool extract`: opens the set and the folder, takes out while watched, prints the sum.

use crate::manifest::Manifest;
use crate::options::{Format, InputOptions, ReadPolicyOption};
use crate::priority::PriorityOptions;
use crate::{exit, output, watch};
use anyhow::Context as _;
use mirrortool::extract::{ExtractOptions, Folder, PathPatterns, extract};
use mirrortool::report::{Encoding, write_extract_document, write_extract_text};
use mirrortool::scrub::Progress;
use mirrortool::scrub::outcome::Status;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;
use time::UtcOffset;

/// The manifest's name in the folder.
const MANIFEST: &str = "mirrortool-manifest.jsonl";

/// Take files out of a set that is damaged or has lost members, each proved by its checksums
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    input: InputOptions,

    /// Put everything into FOLDER; nothing that is there is overwritten
    #[arg(long, value_name = "FOLDER", help_heading = "Extract")]
    to: PathBuf,

    /// Start from this subvolume, by its path from the top of the file system
    #[arg(long, value_name = "PATH", help_heading = "Extract")]
    subvolume: Option<PathBuf>,

    /// Only paths that match, and what lies below them: * stays within a folder, ** does not; may be given again
    #[arg(long, value_name = "GLOB", help_heading = "Extract")]
    path: Vec<String>,

    /// Write files that are not whole too, as NAME.damaged
    #[arg(long, help_heading = "Extract")]
    with_damaged: bool,

    /// Leave subvolumes that are snapshots of another one as empty folders
    #[arg(long, help_heading = "Extract")]
    no_snapshots: bool,

    /// List every path with its state in FILE, in place of FOLDER/mirrortool-manifest.jsonl
    #[arg(long, value_name = "FILE", help_heading = "Report")]
    manifest: Option<PathBuf>,

    #[command(flatten)]
    priority: PriorityOptions,

    /// The form of the summary on stdout
    #[arg(long, value_enum, default_value_t, help_heading = "Report")]
    format: Format,

    /// Print nothing where everything is whole, and no progress
    #[arg(short, long, help_heading = "Report")]
    quiet: bool,

    /// Show no progress on the terminal
    #[arg(long, help_heading = "Report")]
    no_progress: bool,
}

pub(crate) fn run(args: &Args, utc_offset: UtcOffset) -> anyhow::Result<exit::Code> {
    let patterns = PathPatterns::new(&args.path)?;
    args.priority.apply()?;
    args.input.warn_of_users();
    let filesystem = args.input.open(ReadPolicyOption::default())?;
    let folder = Folder::open(&args.to).with_context(|| format!("cannot use folder {}", args.to.display()))?;
    let manifest = args.manifest.clone().unwrap_or_else(|| args.to.join(MANIFEST));
    let (manifest, known) = Manifest::open(&manifest)?;
    let options = ExtractOptions {
        subvolume: args.subvolume.clone().map(|path| path.into_os_string().into_vec()),
        patterns,
        with_damaged: args.with_damaged,
        skip_snapshots: args.no_snapshots,
        known,
    };
    let progress = Progress::default();
    watch::end_on_signals(&progress.cancel).context("cannot handle signals")?;
    let job = || extract(&filesystem, &folder, &options, &progress, &manifest);
    let outcome = watch::with_bar(&progress, !args.quiet && !args.no_progress, job)?;
    let code = exit::of_extraction(outcome.status, outcome.is_all_there());
    if args.quiet && outcome.is_all_there() && outcome.status == Status::Finished {
        return Ok(code);
    }
    let mut out = Vec::new();
    match args.format {
        Format::Text => write_extract_text(&outcome, utc_offset, &mut out)?,
        Format::Json => write_extract_document(&outcome, Encoding::Json, &mut out)?,
        Format::Yaml => write_extract_document(&outcome, Encoding::Yaml, &mut out)?,
    }
    output::print(&out)?;
    Ok(code)
}
