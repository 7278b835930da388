//! The options for what lies between the files and btrfs, and the opening of files with them.

use anyhow::anyhow;
use clap::ValueEnum;
use mirrortool::device::{IoEngine, identity, open_read};
use mirrortool::stack::{self, Choice, Source};
use mirrortool::volume::Opened;
use std::path::PathBuf;
use uuid::Uuid;

/// Whether partitions, arrays and volumes are looked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Layers {
    /// Find them by what is there
    #[default]
    Auto,
    /// Take every IMAGE as a member of a btrfs itself
    None,
}

/// What lies below btrfs, and which of several is meant.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct LayerOptions {
    /// Whether partition tables, md arrays and LVM volumes in IMAGE are read
    #[arg(long, value_enum, value_name = "WHICH", help_heading = "Input", default_value_t)]
    layers: Layers,

    /// Where there is a partition table: the btrfs in partition N
    #[arg(long, value_name = "N", help_heading = "Input")]
    partition: Option<u32>,

    /// Where there is LVM: the btrfs in this logical volume
    #[arg(long, value_name = "VG/LV", help_heading = "Input", value_parser = parse_volume)]
    lv: Option<(String, String)>,
}

fn parse_volume(typed: &str) -> Result<(String, String), String> {
    let names = typed.trim_start_matches("/dev/").split_once('/');
    let names = names.filter(|(vg, lv)| !vg.is_empty() && !lv.is_empty() && !lv.contains('/'));
    names.map(|(vg, lv)| (vg.to_owned(), lv.to_owned())).ok_or_else(|| "expected VG/LV, as in vg1/volume_1".to_owned())
}

impl LayerOptions {
    /// Opens files for reading, and what is in them.
    pub(crate) fn open(&self, images: &[PathBuf], engine: IoEngine) -> anyhow::Result<Vec<Opened>> {
        let sources = sources(images, engine)?;
        if self.layers == Layers::None {
            if self.partition.is_some() || self.lv.is_some() {
                return Err(anyhow!("--partition and --lv choose among layers, and --layers none reads none"));
            }
            let opened = |source: Source| {
                let Source { path, device, identity } = source;
                Opened { path, device, identity }
            };
            return Ok(sources.into_iter().map(opened).collect());
        }
        let choice = Choice { partition: self.partition, lv: self.lv.clone(), fsid: None };
        Ok(stack::open(sources, &choice)?)
    }
}

/// Opens the files of a file system that was open before.
pub(crate) fn open_again(images: &[PathBuf], fsid: Uuid) -> anyhow::Result<Vec<Opened>> {
    let choice = Choice { fsid: Some(fsid), ..Choice::default() };
    Ok(stack::open(sources(images, IoEngine::default())?, &choice)?)
}

fn sources(images: &[PathBuf], engine: IoEngine) -> anyhow::Result<Vec<Source>> {
    let source = |path: &PathBuf| -> anyhow::Result<Source> {
        let (device, identity) = (open_read(path, engine)?, identity(path)?);
        Ok(Source { path: path.clone(), device, identity })
    };
    images.iter().map(source).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_is_named_with_its_group() {
        let pair = Ok(("vg1".to_owned(), "volume_1".to_owned()));
        assert_eq!(parse_volume("vg1/volume_1"), pair);
        assert_eq!(parse_volume("/dev/vg1/volume_1"), pair);
        for wrong in ["vg1", "/vg1", "vg1/", "a/b/c", ""] {
            assert!(parse_volume(wrong).is_err(), "{wrong}");
        }
    }
}
