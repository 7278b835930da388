//! What a scrub is to look at, as typed.

use crate::options::{ensure_known, parse_size};
use crate::{output, text_file};
use anyhow::Context as _;
use clap::ValueEnum;
use mirrortool::filesystem::Filesystem;
use mirrortool::report::read_report;
use mirrortool::scrub::commit::Break;
use mirrortool::scrub::finding::FindingKind;
use mirrortool::scrub::history::{History, Look};
use mirrortool::scrub::mend::Places;
use mirrortool::scrub::{Copies, Kinds, Selection};
use mirrortool::units::{DeviceId, Generation, Logical};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Kinds of blocks, as typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// File data
    Data,
    /// Tree blocks
    Metadata,
    /// Super block copies
    Super,
    /// RAID5/6 parity
    Parity,
}

/// Which copies are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Coverage {
    /// Every copy, and parity
    #[default]
    All,
    /// One copy of each block, picked by the read policy; the others where it is bad
    One,
}

/// What a run leaves to an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Base {
    /// Nothing.
    Nothing,
    /// What was there when the last finished scrub has found nothing bad.
    LastRun,
}

const NO_LAST: &str =
    "no finished scrub that found nothing bad is recorded to start from: begin with one without --since-last";

/// Which part of the file system.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Selection")]
pub(crate) struct SelectionOptions {
    /// Look only at these kinds of blocks
    #[arg(long, value_enum, value_name = "KIND", value_delimiter = ',')]
    only: Vec<Kind>,

    /// Which copies of each block to read
    #[arg(long, value_enum, default_value_t)]
    coverage: Coverage,

    /// Read only the copies on this device, the others where one is bad
    #[arg(long, value_name = "N", conflicts_with = "coverage")]
    devid: Option<u64>,

    /// Look only at what was written in generation N or later
    #[arg(long, value_name = "N")]
    since_generation: Option<u64>,

    /// Look only at what was written after the last finished scrub that found nothing bad
    #[arg(long, conflicts_with = "since_generation")]
    since_last: bool,

    /// Look only at the surroundings of what an earlier report found
    #[arg(long, value_name = "REPORT")]
    errors_from: Option<PathBuf>,

    /// Look only at so much of the used space: the block groups that were not looked at for the longest time
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent)]
    sample: Option<f64>,

    /// Read at most SIZE per second from each device: 50M, 1G
    #[arg(long, value_name = "SIZE", value_parser = parse_size, help_heading = "Window")]
    pub(crate) limit: Option<u64>,
}

impl SelectionOptions {
    /// The selection, with what the history knows.
    pub(crate) fn selection(&self, fs: &Filesystem, history: &History, base: Base) -> anyhow::Result<Selection> {
        let devid = self.devid.map(DeviceId::new);
        if let Some(devid) = devid {
            ensure_known(fs, devid)?;
        }
        let is_narrow = devid.is_some() || self.coverage == Coverage::One;
        anyhow::ensure!(
            !(is_narrow && self.only.contains(&Kind::Parity)),
            "parity is judged from whole rows: --only parity goes with neither --devid nor --coverage one"
        );
        let copies = match (devid, self.coverage) {
            (Some(devid), _) => Copies::OnDevice(devid),
            (None, Coverage::All) => Copies::All,
            (None, Coverage::One) => Copies::One,
        };
        let mut selection = Selection {
            kinds: self.kinds(),
            copies,
            since: self.since_generation.map(Generation::new),
            ..Selection::default()
        };
        (selection.done, selection.done_sections) = (history.done(), history.sections.clone());
        // Of what is older than a generation that was typed nobody has seen anything, and nobody is asked.
        let sitting = history.sitting.as_ref().filter(|_| self.since_generation.is_none());
        let has_done = !selection.done.is_empty() || !selection.done_sections.is_empty();
        let mut seen = sitting.filter(|_| has_done).map(|sitting| sitting.seen.clone());
        if let Base::LastRun = base {
            let last = history.finished.as_ref().context(NO_LAST)?;
            selection.since = Some(Generation::new(last.commit.generation.raw().saturating_add(1)));
            seen = Some(seen.unwrap_or_default().with(&last.seen));
        }
        selection.seen = seen.map(Arc::new);
        if let Some(percent) = self.sample {
            let groups = fs.block_groups();
            let wanted =
                groups.iter().filter(|g| fs.chunks().lookup(g.start).is_ok_and(|c| selection.wants_kinds_of(c)));
            let used: BTreeMap<Logical, u64> = wanted.map(|g| (g.start, g.used_bytes.unwrap_or(0))).collect();
            selection.block_groups = Some(history.oldest(&used, percent));
        }
        if let Some(path) = &self.errors_from {
            narrow_to_report(path, fs, &mut selection)?;
        }
        Ok(selection)
    }

    /// What this run builds on, and why it does not where it was to.
    pub(crate) fn base(&self, fs: &Filesystem, history: &History) -> anyhow::Result<(Base, Option<Break>)> {
        if !self.since_last {
            return Ok((Base::Nothing, None));
        }
        let last = history.finished.as_ref().context(NO_LAST)?;
        let broken = last.commit.leads_to(fs).err();
        Ok((if broken.is_none() { Base::LastRun } else { Base::Nothing }, broken))
    }

    /// True where everything has been looked at once this run is through: now, or in the last finished one.
    pub(crate) fn leaves_nothing_unseen(&self, selection: &Selection) -> bool {
        let since = selection.since.filter(|_| !self.since_last);
        Selection { since, ..selection.clone() }.is_everything()
    }

    /// Does this run make block groups younger? Not where it sees parts of them only, unless it is one of a row of samples,
    /// which goes round by their age.
    pub(crate) fn look(&self) -> Look {
        let is_since = self.since_last || self.since_generation.is_some();
        let is_narrow = self.coverage == Coverage::One || self.devid.is_some() || self.errors_from.is_some();
        let is_partial = !self.only.is_empty() || is_since || is_narrow;
        if is_partial && self.sample.is_none() { Look::Partial } else { Look::Whole }
    }

    /// The options as typed, in an order of their own; empty where there are none.
    pub(crate) fn typed(&self) -> String {
        let names = |kinds: &[Kind]| {
            let values = kinds.iter().filter_map(ValueEnum::to_possible_value);
            values
                .map(|value| value.get_name().to_owned())
                .collect::<BTreeSet<_>>()
                .into_iter()
                .collect::<Vec<_>>()
                .join(",")
        };
        let options = [
            (!self.only.is_empty()).then(|| format!("--only {}", names(&self.only))),
            (self.coverage == Coverage::One).then(|| "--coverage one".to_owned()),
            self.devid.map(|devid| format!("--devid {devid}")),
            self.since_generation.map(|generation| format!("--since-generation {generation}")),
            self.since_last.then(|| "--since-last".to_owned()),
            self.errors_from.as_ref().map(|report| format!("--errors-from {}", report.display())),
            self.sample.map(|percent| format!("--sample {percent}%")),
        ];
        options.into_iter().flatten().collect::<Vec<_>>().join(" ")
    }

    fn kinds(&self) -> Kinds {
        if self.only.is_empty() {
            return Kinds::all();
        }
        let kind = |kind: &Kind| match kind {
            Kind::Data => Kinds::DATA,
            Kind::Metadata => Kinds::METADATA,
            Kind::Super => Kinds::SUPERBLOCKS,
            Kind::Parity => Kinds::PARITY,
        };
        self.only.iter().map(kind).fold(Kinds::empty(), |all, one| all | one)
    }
}

fn narrow_to_report(path: &Path, fs: &Filesystem, selection: &mut Selection) -> anyhow::Result<()> {
    let cannot = || format!("cannot use report {}", path.display());
    let report = read_report(&text_file::read(path).with_context(cannot)?).with_context(cannot)?;
    let (have, expect) = (report.fsid, fs.superblock().fsid());
    anyhow::ensure!(have == expect, "{}: it is about file system {have}, these images hold {expect}", cannot());
    anyhow::ensure!(report.findings_omitted == 0, "{}: it does not list all that was found", cannot());
    if !report.is_finished {
        output::warn(&format!("{}: its run was ended early, and did not find all that there may be", path.display()));
    }
    if !report.findings.iter().any(|finding| finding.kind == FindingKind::Superblock) {
        selection.kinds -= Kinds::SUPERBLOCKS;
    }
    selection.places = Some(Places::of_findings(&report.findings, fs.chunks()));
    Ok(())
}

fn parse_percent(typed: &str) -> Result<f64, String> {
    let number: Option<f64> = typed.strip_suffix('%').unwrap_or(typed).parse().ok();
    number
        .filter(|n| *n > 0.0 && *n <= 100.0)
        .ok_or_else(|| "expected a share above 0 and up to 100, as in 8%".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_a_number_up_to_a_hundred() {
        assert_eq!(parse_percent("8%"), Ok(8.0));
        assert_eq!(parse_percent("0.5"), Ok(0.5));
        for wrong in ["", "0", "101%", "-3", "x", "NaN", "inf"] {
            assert!(parse_percent(wrong).is_err(), "{wrong}");
        }
    }
}
