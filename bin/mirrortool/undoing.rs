//! `mirrortool repair undo`: holds a log against the members, then gives them their old bytes back.

use crate::{exit, output};
use anyhow::Context as _;
use mirrortool::device::{Consent, IoEngine, identity, open_read};
use mirrortool::lease::{Lease, LeaseError, Wanted};
use mirrortool::repair::check_unused;
use mirrortool::repair::journal::LogReader;
use mirrortool::repair::undo::{UndoPlan, UndoSummary};
use mirrortool::volume::{Member, Opened};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::Arc;

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
    let log = LogReader::open(BufReader::new(file)).with_context(cannot)?;
    let images: Vec<PathBuf> = match &args.images[..] {
        [] => log.header().members.iter().map(|member| member.path.clone()).collect(),
        given => given.to_vec(),
    };
    check_unused(images.iter().map(PathBuf::as_path))?;
    let members: Vec<Arc<Member>> = images.iter().map(|path| member(path)).collect::<anyhow::Result<_>>()?;
    let then: BTreeMap<_, _> = log.header().members.iter().map(|member| (member.uuid, member.devid)).collect();
    let wanted = members.iter().filter_map(|member| {
        let devid = then.get(&member.uuid())?;
        Some(Wanted::member(member).as_devid(*devid))
    });
    let lease = if args.dry_run { None } else { Some(Lease::take(wanted)?) };
    let undo = UndoPlan::check(log, &members)?;
    let Some(lease) = lease else {
        output::print(b"every place holds the old or the repaired bytes; nothing was written\n")?;
        return Ok(exit::GOOD);
    };
    if let Some((_, error)) = lease.read_only().iter().find(|(devid, _)| undo.devices().contains(devid)) {
        return Err(LeaseError::Device(Arc::clone(error)).into());
    }
    let summary = undo.carry_out(&lease.agreed(Consent::given_by_user())?)?;
    output::print(text(&summary).as_bytes())?;
    Ok(exit::GOOD)
}

fn member(path: &Path) -> anyhow::Result<Arc<Member>> {
    let device = open_read(path, IoEngine::default())?;
    let opened = Opened { path: path.to_owned(), device, identity: identity(path)? };
    let member = Member::probe(opened).map_err(|(path, why)| anyhow::anyhow!("{}: {why}", path.display()))?;
    Ok(Arc::new(member))
}

fn text(summary: &UndoSummary) -> String {
    let mut text = format!("{} bytes have their old values, read back\n", summary.restored_bytes);
    if summary.lost_bytes > 0 {
        let bytes = summary.lost_bytes;
        text += &bytes.to_string();
        text += " bytes could not be read before the repair and stay as it wrote them\n";
    }
    if summary.is_cut {
        text += "the log ends within a batch, of which nothing had been written\n";
    }
    text
}
