//! What the benches share: forms, sizes, models by name or file, pictures.

use crate::output::PendingFile;
use crate::text_file;
use anyhow::Context as _;
use clap::ValueEnum;
use mirrortool::bench::model::DeviceModel;
use mirrortool::report::{Encoding, PlotError, read_model};
use std::path::Path;

/// The form of figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum BenchFormat {
    /// A table
    #[default]
    Text,
    /// For programs
    Json,
    /// For programs and people
    Yaml,
    /// For spreadsheets
    Csv,
}

impl BenchFormat {
    /// The encoding of a document; `None` for a table or CSV.
    pub(crate) fn encoding(self) -> Option<Encoding> {
        match self {
            Self::Json => Some(Encoding::Json),
            Self::Yaml => Some(Encoding::Yaml),
            Self::Text | Self::Csv => None,
        }
    }
}

/// Each model by its name, or from the YAML file of that name.
pub(crate) fn read_models(names: &[String]) -> anyhow::Result<Vec<DeviceModel>> {
    names.iter().map(|name| read_model_named(name)).collect()
}

/// A model by its name, or from the YAML file of that name.
pub(crate) fn read_model_named(name: &str) -> anyhow::Result<DeviceModel> {
    let is_file = Path::new(name).extension().is_some_and(|ending| ending == "yaml" || ending == "yml");
    if !is_file {
        return Ok(DeviceModel::built_in(name)?);
    }
    let yaml = text_file::read_to_string(Path::new(name)).with_context(|| format!("{name}: cannot read"))?;
    read_model(&yaml).with_context(|| format!("{name}: cannot use"))
}

/// Draws to a file, where one was asked for.
pub(crate) fn write_picture(
    path: Option<&Path>,
    draw: impl FnOnce() -> Result<String, PlotError>,
) -> anyhow::Result<()> {
    let Some(path) = path else { return Ok(()) };
    let file = PendingFile::create(path)?;
    file.publish(draw()?.as_bytes())
}
