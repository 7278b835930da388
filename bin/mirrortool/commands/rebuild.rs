//! `mirrortool rebuild`: looks, asks, writes a lost member onto a new device, and reports.

use crate::layers::LayerOptions;
use crate::options::{InputOptions, ReadPolicyOption, ReadaheadOption, ReportOptions, parse_duration, parse_size};
use crate::rebuilding::{self, StateFile};
use crate::repairing::NoConsent;
use crate::{exit, output, watch};
use anyhow::{Context as _, bail};
use mirrortool::device::{Consent, IoEngine, identity, open_read};
use mirrortool::filesystem::Filesystem;
use mirrortool::lease::{Lease, Wanted, WriteLease};
use mirrortool::rebuild::{Forecast, Found, Rebuild, RebuildState, Rebuilt, find_lost, survey};
use mirrortool::repair::check_unused;
use mirrortool::report::{RebuildReport, Report, human_size};
use mirrortool::scrub::outcome::Status;
use mirrortool::scrub::{Progress, ScrubOptions};
use mirrortool::units::DeviceId;
use mirrortool::volume::{LostMember, SetError};
use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};
use time::UtcOffset;

/// Make a lost device again on a new one, from the others
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The devices or image files that are left, in any order
    #[arg(value_name = "SURVIVOR", required = true)]
    survivors: Vec<PathBuf>,

    /// The new device: a blank one or a file, made where there is none
    #[arg(long, value_name = "NEW", help_heading = "Rebuild")]
    onto: PathBuf,

    /// The lost device, where several are missing
    #[arg(long, value_name = "N", help_heading = "Rebuild")]
    devid: Option<u64>,

    /// Take the new device also where there is something on it, which is lost
    #[arg(long, help_heading = "Rebuild")]
    overwrite: bool,

    /// Write without asking
    #[arg(short, long, help_heading = "Rebuild")]
    yes: bool,

    /// Read everything and say what would come out, and write nothing; exits 4
    #[arg(long, help_heading = "Rebuild", conflicts_with_all = ["yes", "resume"])]
    dry_run: bool,

    /// Read from each device, and write to the new one, at most so many bytes per second, as in 50M
    #[arg(long, value_name = "BYTES", help_heading = "Window", value_parser = parse_size)]
    limit: Option<u64>,

    /// End after this time, to be gone on with: 90s, 30m, 2h, 1d
    #[arg(long, value_name = "TIME", help_heading = "Window", value_parser = parse_duration)]
    time_limit: Option<Duration>,

    /// Go on with a rebuild that was ended early; exit 2 where there is none
    #[arg(long, help_heading = "Window")]
    resume: bool,

    /// Remember in FILE how far it has come [default: /var/lib/mirrortool/FSID-rebuild-N.json for root, else under XDG_STATE_HOME]
    #[arg(long, value_name = "FILE", help_heading = "Window")]
    state: Option<PathBuf>,

    /// How image files are read; block devices are always read directly
    #[arg(long, value_name = "ENGINE", help_heading = "Input", default_value_t, value_parser = crate::options::engine_parser())]
    io_engine: IoEngine,

    #[command(flatten)]
    readahead: ReadaheadOption,

    #[command(flatten)]
    read_policy: ReadPolicyOption,

    #[command(flatten)]
    report: ReportOptions,
}

pub(crate) fn run(args: &Args, utc_offset: UtcOffset) -> anyhow::Result<exit::Code> {
    let sink = args.report.prepare(utc_offset)?;
    args.ensure_none_is_a_survivor()?;
    let layers = LayerOptions::default();
    let input = InputOptions { images: args.survivors.clone(), degraded: true, io_engine: args.io_engine, layers };
    if args.dry_run {
        input.warn_of_users();
    } else {
        let new = args.onto.exists().then_some(&args.onto);
        check_unused(args.survivors.iter().chain(new).map(PathBuf::as_path))?;
    }
    let filesystem = input.open(args.read_policy)?;
    let lost = find_lost(&filesystem, args.devid.map(DeviceId::new))?;
    let progress = Progress::default();
    watch::end_on_signals(&progress.cancel).context("cannot handle signals")?;
    let options = ScrubOptions {
        max_findings: args.report.max_findings,
        limit_bytes_per_second: args.limit,
        readahead: args.readahead.readahead,
        ..ScrubOptions::default()
    };
    let rebuild = Rebuild { fs: &filesystem, lost: &lost, options: &options, progress: &progress };
    let Some(mut rebuilt) = args.carry_out(&rebuild)? else { return Ok(args.report.nothing_to_resume()) };
    let outcome = &mut rebuilt.outcome;
    if rebuilt.is_member {
        outcome.notes.extend(rebuilding::notes_after(&filesystem, &lost));
    }
    args.report.name_owners(&filesystem, outcome);
    let (devid, path, is_dry_run) = (lost.devid(), args.onto.as_path(), args.dry_run);
    let report = Some(RebuildReport { devid, path, rebuilt: &rebuilt, is_dry_run });
    sink.write(Report { command: "rebuild", outcome: &rebuilt.outcome, repair: None, rebuilt: report });
    let to_do = args.dry_run && rebuilt.outcome.status == Status::Finished;
    Ok(if to_do { exit::CORRECTABLE } else { args.report.exit_code(&rebuilt.outcome) })
}

impl Args {
    /// `None` where there is nothing to resume.
    fn carry_out(&self, rebuild: &Rebuild<'_>) -> anyhow::Result<Option<Rebuilt>> {
        let watched = |job: &mut dyn FnMut() -> anyhow::Result<Rebuilt>| {
            let shown = || watch::with_bar(rebuild.progress, self.report.shows_progress(), job);
            watch::with_limit(rebuild.progress, self.time_limit, shown)
        };
        if self.dry_run {
            if self.onto.exists() {
                rebuild.look_at(&*open_read(&self.onto, IoEngine::Auto)?, &self.onto, self.overwrite, None)?;
            }
            return watched(&mut || Ok(survey(rebuild)?)).map(Some);
        }
        let fsid = rebuild.fs.superblock().fsid();
        let states = StateFile::open(self.state.as_deref(), fsid, rebuild.lost.devid())?;
        let earlier = if self.resume { states.read()? } else { None };
        if self.resume && earlier.is_none() {
            output::warn("no rebuild of this device was ended early: nothing to resume");
            return Ok(None);
        }
        if let Some(state) = &earlier {
            ensure_is_about(state, rebuild)?;
        }
        let found = self.look(rebuild, earlier.as_ref())?;
        if !self.yes && !self.consents(rebuild, found)? {
            bail!("nothing was written");
        }
        let state = self.state_to_go_by(rebuild, earlier, found)?;
        if !self.onto.exists() {
            rebuilding::make_file(&self.onto, rebuild.lost)?;
        }
        let lease = self.lease(rebuild)?;
        let device = lease.device(rebuild.lost.devid()).context("the new device is not open for writing")?;
        let found = rebuild.look_at(&device, &self.onto, self.overwrite, Some(&state))?;
        let rebuilt = watched(&mut || Ok(rebuild.run(&lease, found, state.clone(), &states)?));
        states.flush();
        let rebuilt = rebuilt?;
        if rebuilt.is_member {
            states.remove();
        }
        Ok(Some(rebuilt))
    }

    /// The members, so that nobody changes them meanwhile, and the new device.
    fn lease(&self, rebuild: &Rebuild<'_>) -> anyhow::Result<WriteLease> {
        let members = rebuild.fs.members().filter(|member| !member.is_seed()).map(Wanted::member);
        let new = Wanted::new_device(rebuild.lost.devid(), &self.onto);
        let lease = Lease::take(members.chain([new]))?;
        if let Some(error) = lease.read_only().get(&rebuild.lost.devid()) {
            return Err(anyhow::Error::new(Arc::clone(error)));
        }
        Ok(lease.agreed(Consent::given_by_user())?)
    }

    /// What is on the new device; a file to be made holds nothing.
    fn look(&self, rebuild: &Rebuild<'_>, state: Option<&RebuildState>) -> anyhow::Result<Found> {
        if !self.onto.exists() {
            return Ok(Found::Nothing);
        }
        let device = open_read(&self.onto, IoEngine::Auto)?;
        Ok(rebuild.look_at(&*device, &self.onto, self.overwrite, state)?)
    }

    fn state_to_go_by(
        &self,
        rebuild: &Rebuild<'_>,
        earlier: Option<RebuildState>,
        found: Found,
    ) -> anyhow::Result<RebuildState> {
        match earlier {
            Some(state) if found == Found::Half(state.marker()) => Ok(state),
            earlier => {
                if earlier.is_some() {
                    output::warn(&format!(
                        "{}: does not hold what the earlier run has written; begun anew",
                        self.onto.display()
                    ));
                }
                let run = rebuilding::run_number()?;
                Ok(RebuildState::new(rebuild.fs, rebuild.lost, run, SystemTime::now()))
            }
        }
    }

    /// By any name.
    fn ensure_none_is_a_survivor(&self) -> anyhow::Result<()> {
        if !self.onto.exists() {
            return Ok(());
        }
        let new = identity(&self.onto)?;
        for survivor in &self.survivors {
            if identity(survivor)? == new {
                return Err(SetError::SameFile { first: survivor.clone(), second: self.onto.clone() }.into());
            }
        }
        Ok(())
    }

    /// The answer of whoever sits at the terminal, having seen what is to be done.
    fn consents(&self, rebuild: &Rebuild<'_>, found: Found) -> anyhow::Result<bool> {
        if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
            bail!(NoConsent);
        }
        // Nothing is under way: a signal that comes now is as good as a second one, and ends the program.
        if rebuild.progress.cancel.swap(true, Ordering::Relaxed) {
            return Ok(false);
        }
        let mut err = io::stderr().lock();
        writeln!(err, "{}", plan(rebuild.fs, rebuild.lost, &self.onto, found, self.limit))?;
        write!(err, "Write this? [y/N] ")?;
        err.flush()?;
        let mut answer = String::new();
        io::stdin().lock().read_line(&mut answer)?;
        rebuild.progress.cancel.store(false, Ordering::Relaxed);
        Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
    }
}

fn ensure_is_about(state: &RebuildState, rebuild: &Rebuild<'_>) -> anyhow::Result<()> {
    anyhow::ensure!(
        state.is_about(rebuild.fs, rebuild.lost),
        "the rebuild that was ended early is of devid {} at generation {}, this is devid {} at generation {}: begin anew \
         without --resume",
        state.devid,
        state.generation,
        rebuild.lost.devid(),
        rebuild.fs.superblock().generation()
    );
    Ok(())
}

/// What is to be done, for whoever is asked.
#[allow(clippy::format_push_string, reason = "a few lines for a person")]
fn plan(fs: &Filesystem, lost: &LostMember, onto: &Path, found: Found, limit: Option<u64>) -> String {
    let forecast = Forecast::of(fs, lost);
    let (devid, uuid, total) = (lost.devid(), lost.item().uuid, human_size(lost.item().total_bytes));
    let mut text = format!(
        "devid {devid} ({uuid}, {total}) is made again on {}: about {} to write",
        onto.display(),
        human_size(forecast.allocated)
    );
    if let Some(limit) = limit {
        let least = Duration::from_secs(forecast.allocated.saturating_mul(2) / limit.max(1));
        text += &format!(" and to read back, at least {} s", least.as_secs());
    }
    if forecast.without_source > 0 {
        text += &format!("\nabout {} of it is lost: no other device has it", human_size(forecast.without_source));
    }
    match found {
        Found::Nothing => {}
        Found::Half(_) => text += "\na part of it is there already, from an earlier run",
        Found::ToBeOverwritten => text += &format!("\nwhat is on {} now is lost", onto.display()),
    }
    let room = (!onto.exists()).then(|| rebuilding::room_for(onto)).flatten();
    if let Some(room) = room.filter(|room| *room < forecast.allocated) {
        text += &format!("\nthere is room for {} only", human_size(room));
    }
    text
}
