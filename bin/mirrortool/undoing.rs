//! `mirrortool repair undo`: holds a log against the members, then gives them their old bytes back.

use crate::{advice, exit, layers, output};
use anyhow::Context as _;
use mirrortool::device::Consent;
use mirrortool::lease::{Lease, LeaseError, Wanted};
use mirrortool::repair::check_unused;
use mirrortool::repair::journal::{LogEnd, LogReader};
use mirrortool::repair::undo::{UndoPlan, UndoSummary, lower_files};
use mirrortool::volume::{Member, Opened};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;
use std::sync::Arc;

/// Of the log, at once.
const READ_BYTES: usize = 1 << 20;

/// Give the members back every byte that a repair has overwritten
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The undo log
    #[arg(value_name = "LOG")]
    log: PathBuf,

    /// The members, where they are not where the repair found them
    #[arg(value_name = "IMAGE")]
    images: Vec<PathBuf>,

    /// Check only, and write nothing
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,

    /// Accepted for symmetry: the name of the command is consent enough
    #[arg(short, long, hide = true)]
    yes: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<exit::Code> {
    let cannot = || format!("cannot use the undo log {}", args.log.display());
    let file = File::open(&args.log).with_context(cannot)?;
    let log = LogReader::open(BufReader::with_capacity(READ_BYTES, file)).with_context(cannot)?;
    let images: Vec<PathBuf> = match &args.images[..] {
        [] => each_once(log.header().members.iter().map(|member| member.path.clone())),
        given => given.to_vec(),
    };
    check_unused(images.iter().map(PathBuf::as_path))?;
    let opened = layers::open_again(&images, log.header().fsid)?;
    let members: Vec<Arc<Member>> = opened.into_iter().map(member).collect::<anyhow::Result<_>>()?;
    let then: BTreeMap<_, _> = log.header().members.iter().map(|member| (member.uuid, member.devid)).collect();
    let bare = members.iter().filter(|member| member.device().below().is_none());
    let wanted = bare.filter_map(|member| {
        let devid = then.get(&member.uuid())?;
        Some(Wanted::member(member).as_devid(*devid))
    });
    let lower = lower_files(&members).filter_map(|file| Some(Wanted::new_device(*then.get(&file.uuid)?, &file.path)));
    let wanted = wanted.chain(lower);
    let lease = if args.dry_run { None } else { Some(Lease::take(wanted)?) };
    let is_empty = log.is_empty();
    let undo = UndoPlan::check(log, &members)?;
    let end = undo.log_end();
    let Some(lease) = lease else {
        output::print_or_warn(b"every place holds the old or the repaired bytes; nothing was written\n");
        return Ok(code(end));
    };
    if let Some((_, error)) = lease.read_only().iter().find(|(devid, _)| undo.devices().contains(devid)) {
        return Err(LeaseError::Device(Arc::clone(error)).into());
    }
    let summary = undo.carry_out(&lease.agreed(Consent::given_by_user())?);
    match summary.error {
        Some(error) if summary.written_bytes == 0 => return Err(error.into()),
        Some(error) => {
            let error = anyhow::Error::new(error).context("the undo was ended early");
            output::complain(&error, advice::for_error(&error).or(Some("run the same undo again when that is mended")));
            return Ok(exit::INTERRUPTED);
        }
        None => {}
    }
    output::print_or_warn(text(&summary, is_empty).as_bytes());
    Ok(code(end))
}

/// The exit code of an undo of a log that ends so, and a word of what is doubtful about it.
fn code(end: LogEnd) -> exit::Code {
    match end {
        LogEnd::Whole => return exit::GOOD,
        LogEnd::Open => output::warn(
            "the log has no end: the repair was killed, or the log was cut; what was written after its last batch is not in it",
        ),
        LogEnd::Broken { at } => output::warn(&format!(
            "the log is broken from byte {at} on: the repair was killed before it wrote that batch, or the log was cut or \
             damaged; that batch is not undone"
        )),
    }
    exit::INTERRUPTED
}

/// A device that is put together from files has the name of the first of them.
fn each_once(paths: impl Iterator<Item = PathBuf>) -> Vec<PathBuf> {
    let mut seen = BTreeSet::new();
    paths.filter(|path| seen.insert(path.clone())).collect()
}

fn member(opened: Opened) -> anyhow::Result<Arc<Member>> {
    let member = Member::probe(opened).map_err(|(path, why)| anyhow::anyhow!("{}: {why}", path.display()))?;
    Ok(Arc::new(member))
}

fn text(summary: &UndoSummary, is_empty: bool) -> String {
    if is_empty {
        return "the log is empty: nothing had been written\n".to_owned();
    }
    let mut lines = vec![format!("{} bytes have their old values, read back", summary.restored_bytes)];
    if summary.written_bytes < summary.restored_bytes {
        let bytes = summary.restored_bytes - summary.written_bytes;
        lines.push(format!("{bytes} of them had them already and were not written"));
    }
    if summary.lost_bytes > 0 {
        let bytes = summary.lost_bytes;
        lines.push(format!("{bytes} bytes could not be read before the repair and stay as it wrote them"));
    }
    lines.join("\n") + "\n"
}
