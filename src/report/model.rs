//! Device models as YAML: the figures of `bench::model`, named and in units that data sheets use.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_yaml::{Mapping, Value};

use crate::bench::model::{Controller, DeviceModel, DiskModel, FlashModel, Medium, Shingles};

/// A file that holds no device model.
#[derive(Debug, thiserror::Error)]
#[error("not a device model")]
pub struct ModelError(#[from] serde_yaml::Error);

/// Reads a model from YAML.
pub fn read_model(yaml: &str) -> Result<DeviceModel, ModelError> {
    let mut figures: Mapping = serde_yaml::from_str(yaml)?;
    let name = figures.remove("name").ok_or_else(|| serde_yaml::Error::missing_field("name"))?;
    let controller = figures.remove("controller").map(ControllerEntry::deserialize).transpose()?;
    let medium = MediumEntry::deserialize(Value::Mapping(figures))?;
    Ok(DeviceModel { name: serde_yaml::from_value(name)?, medium, controller })
}

/// A model as YAML, as [`read_model`] takes it: a start for one's own.
pub fn write_model(model: &DeviceModel) -> Result<String, ModelError> {
    let mut figures = Mapping::new();
    figures.insert("name".into(), model.name.as_str().into());
    if let Value::Mapping(own) = MediumEntry::serialize(&model.medium, serde_yaml::value::Serializer)? {
        figures.extend(own);
    }
    if let Some(controller) = &model.controller {
        figures.insert("controller".into(), ControllerEntry::serialize(controller, serde_yaml::value::Serializer)?);
    }
    Ok(serde_yaml::to_string(&figures)?)
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Medium", tag = "kind", rename_all = "lowercase")]
enum MediumEntry {
    Disk(#[serde(with = "DiskEntry")] DiskModel),
    Flash(#[serde(with = "FlashEntry")] FlashModel),
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "DiskModel", deny_unknown_fields)]
struct DiskEntry {
    capacity_bytes: u64,
    rpm: u32,
    outer_bytes_per_second: u64,
    inner_bytes_per_second: u64,
    #[serde(rename = "single_track_seek_us", with = "us")]
    single_track_seek_ns: u64,
    #[serde(rename = "average_seek_us", with = "us")]
    average_seek_ns: u64,
    #[serde(rename = "write_settle_us", with = "us")]
    write_settle_ns: u64,
    #[serde(rename = "command_us", with = "us")]
    command_ns: u64,
    #[serde(rename = "hit_us", with = "us")]
    hit_ns: u64,
    queue_depth: u32,
    look_ahead_bytes: u64,
    interface_bytes_per_second: u64,
    #[serde(default, skip_serializing_if = "Option::is_none", with = "shingles")]
    shingles: Option<Shingles>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Shingles", deny_unknown_fields)]
struct ShinglesEntry {
    band_bytes: u64,
    cache_bytes: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "FlashModel", deny_unknown_fields)]
struct FlashEntry {
    channels: u32,
    read_ns: u64,
    write_ns: u64,
    write_ack_ns: u64,
    read_bytes_per_second: u64,
    write_bytes_per_second: u64,
    jitter_percent: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Controller", deny_unknown_fields)]
struct ControllerEntry {
    name: String,
    bytes_per_second: u64,
}

/// Nanoseconds as microseconds.
mod us {
    use super::{Deserialize as _, Deserializer, Serializer};

    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
    pub(super) fn serialize<S: Serializer>(ns: &u64, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(ns / 1000)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
        Ok(u64::deserialize(from)?.saturating_mul(1000))
    }
}

/// What only shingled disks have.
mod shingles {
    use super::{Deserialize, Deserializer, Serialize, Serializer, Shingles, ShinglesEntry};

    #[derive(Serialize, Deserialize)]
    struct Entry(#[serde(with = "ShinglesEntry")] Shingles);

    #[allow(clippy::ref_option, reason = "serde passes fields by reference")]
    pub(super) fn serialize<S: Serializer>(shingles: &Option<Shingles>, to: S) -> Result<S::Ok, S::Error> {
        shingles.map(Entry).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Shingles>, D::Error> {
        Ok(Option::<Entry>::deserialize(from)?.map(|Entry(shingles)| shingles))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::model::BUILT_IN;

    #[test]
    fn every_built_in_model_reads_back_from_its_yaml() {
        for name in BUILT_IN {
            let model = DeviceModel::built_in(name).unwrap();
            assert_eq!(read_model(&write_model(&model).unwrap()).unwrap(), model);
        }
    }

    #[test]
    fn a_controller_is_part_of_a_model() {
        let controller = Some(Controller { name: "hba".to_owned(), bytes_per_second: 600_000_000 });
        let model = DeviceModel { controller, ..DeviceModel::built_in("hdd").unwrap() };
        let yaml = write_model(&model).unwrap();
        assert!(yaml.ends_with("controller:\n  name: hba\n  bytes_per_second: 600000000\n"), "{yaml}");
        assert_eq!(read_model(&yaml).unwrap(), model);
    }

    #[test]
    fn a_misspelt_or_missing_figure_is_refused_and_named() {
        for (model, right, wrong) in
            [("ssd", "channels", "chanels"), ("hdd-smr", "band_bytes", "band"), ("hdd", "name", "nam")]
        {
            let yaml = write_model(&DeviceModel::built_in(model).unwrap()).unwrap();
            let error = read_model(&yaml.replacen(right, wrong, 1)).unwrap_err();
            let reason = std::error::Error::source(&error).unwrap().to_string();
            assert!(reason.contains(wrong), "{model}: {reason}");
        }
    }

    #[test]
    fn figures_have_the_units_of_data_sheets() {
        let yaml = write_model(&DeviceModel::built_in("hdd-smr").unwrap()).unwrap();
        for line in ["name: hdd-smr", "kind: disk", "average_seek_us: 12000", "shingles:", "  band_bytes: 31457280"] {
            assert!(yaml.lines().any(|found| found == line), "{line:?} is not in:\n{yaml}");
        }
    }
}
