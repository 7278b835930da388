//! Device models as YAML: the figures of `bench::model`, named and in units that data sheets use.

use serde::{Deserialize, Serialize};

use crate::bench::model::{DeviceModel, DiskModel, FlashModel, Medium, Shingles};

/// A file that holds no device model.
#[derive(Debug, thiserror::Error)]
#[error("not a device model")]
pub struct ModelError(#[from] serde_yaml::Error);

#[derive(Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
enum Entry {
    Disk {
        name: String,
        capacity_bytes: u64,
        rpm: u32,
        outer_bytes_per_second: u64,
        inner_bytes_per_second: u64,
        single_track_seek_us: u64,
        average_seek_us: u64,
        write_settle_us: u64,
        command_us: u64,
        hit_us: u64,
        queue_depth: u32,
        look_ahead_bytes: u64,
        interface_bytes_per_second: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        shingles: Option<ShinglesEntry>,
    },
    Flash {
        name: String,
        channels: u32,
        read_ns: u64,
        write_ns: u64,
        write_ack_ns: u64,
        read_bytes_per_second: u64,
        write_bytes_per_second: u64,
        jitter_percent: u32,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ShinglesEntry {
    band_bytes: u64,
    cache_bytes: u64,
}

/// Reads a model from YAML.
pub fn read_model(yaml: &str) -> Result<DeviceModel, ModelError> {
    Ok(serde_yaml::from_str::<Entry>(yaml)?.into())
}

/// A model as YAML, as [`read_model`] takes it: a start for one's own.
pub fn write_model(model: &DeviceModel) -> Result<String, ModelError> {
    Ok(serde_yaml::to_string(&Entry::from(model))?)
}

fn ns(us: u64) -> u64 {
    us.saturating_mul(1000)
}

impl From<Entry> for DeviceModel {
    fn from(entry: Entry) -> Self {
        match entry {
            Entry::Disk {
                name,
                capacity_bytes,
                rpm,
                outer_bytes_per_second,
                inner_bytes_per_second,
                single_track_seek_us,
                average_seek_us,
                write_settle_us,
                command_us,
                hit_us,
                queue_depth,
                look_ahead_bytes,
                interface_bytes_per_second,
                shingles,
            } => Self {
                name,
                medium: Medium::Disk(DiskModel {
                    capacity_bytes,
                    rpm,
                    outer_bytes_per_second,
                    inner_bytes_per_second,
                    single_track_seek_ns: ns(single_track_seek_us),
                    average_seek_ns: ns(average_seek_us),
                    write_settle_ns: ns(write_settle_us),
                    command_ns: ns(command_us),
                    hit_ns: ns(hit_us),
                    queue_depth,
                    look_ahead_bytes,
                    interface_bytes_per_second,
                    shingles: shingles
                        .map(|ShinglesEntry { band_bytes, cache_bytes }| Shingles { band_bytes, cache_bytes }),
                }),
            },
            Entry::Flash {
                name,
                channels,
                read_ns,
                write_ns,
                write_ack_ns,
                read_bytes_per_second,
                write_bytes_per_second,
                jitter_percent,
            } => Self {
                name,
                medium: Medium::Flash(FlashModel {
                    channels,
                    read_ns,
                    write_ns,
                    write_ack_ns,
                    read_bytes_per_second,
                    write_bytes_per_second,
                    jitter_percent,
                }),
            },
        }
    }
}

impl From<&DeviceModel> for Entry {
    fn from(model: &DeviceModel) -> Self {
        let name = model.name.clone();
        match &model.medium {
            Medium::Disk(disk) => Self::Disk {
                name,
                capacity_bytes: disk.capacity_bytes,
                rpm: disk.rpm,
                outer_bytes_per_second: disk.outer_bytes_per_second,
                inner_bytes_per_second: disk.inner_bytes_per_second,
                single_track_seek_us: disk.single_track_seek_ns / 1000,
                average_seek_us: disk.average_seek_ns / 1000,
                write_settle_us: disk.write_settle_ns / 1000,
                command_us: disk.command_ns / 1000,
                hit_us: disk.hit_ns / 1000,
                queue_depth: disk.queue_depth,
                look_ahead_bytes: disk.look_ahead_bytes,
                interface_bytes_per_second: disk.interface_bytes_per_second,
                shingles: disk
                    .shingles
                    .map(|Shingles { band_bytes, cache_bytes }| ShinglesEntry { band_bytes, cache_bytes }),
            },
            Medium::Flash(flash) => Self::Flash {
                name,
                channels: flash.channels,
                read_ns: flash.read_ns,
                write_ns: flash.write_ns,
                write_ack_ns: flash.write_ack_ns,
                read_bytes_per_second: flash.read_bytes_per_second,
                write_bytes_per_second: flash.write_bytes_per_second,
                jitter_percent: flash.jitter_percent,
            },
        }
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
    fn a_misspelt_figure_is_refused_and_named() {
        let yaml = write_model(&DeviceModel::built_in("ssd").unwrap()).unwrap().replace("channels", "chanels");
        let error = read_model(&yaml).unwrap_err();
        assert!(std::error::Error::source(&error).unwrap().to_string().contains("chanels"));
    }
}
