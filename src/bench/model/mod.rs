//! What a device costs: a few published figures and the formulas that turn them into the time of one request.
//!
//! A model is plain data; where its moving parts stand (head, channels, queues) is state of the simulator or of the
//! emulation. The built-in models say of each figure whether it is published (and where), derived from such,
//! or assumed; nothing is fitted to an outcome.

mod disk;
mod flash;

pub use disk::{DiskModel, Head, Shingles};
pub use flash::FlashModel;

/// Whether a request reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the device.
    Read,
    /// To the device.
    Write,
}

/// A device by its figures.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceModel {
    /// How it is called in reports.
    pub name: String,
    /// What it is made of.
    pub medium: Medium,
    /// What it is attached to, where that limits it; in virtual time only.
    pub controller: Option<Controller>,
}

/// What several devices are attached to, and what they get through it together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Controller {
    /// Devices whose models name the same controller share it.
    pub name: String,
    /// Its rate, both directions together.
    pub bytes_per_second: u64,
}

/// The kinds of device that differ in more than figures.
#[derive(Clone, Debug, PartialEq)]
pub enum Medium {
    /// Platters under a head: one request at a time, position is everything.
    Disk(DiskModel),
    /// Channels behind a link: many requests at a time, position is nothing.
    Flash(FlashModel),
}

/// A model name that is not built in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown device model {given:?}, expect one of {}", BUILT_IN.join(", "))]
pub struct UnknownModel {
    /// What was given.
    pub given: String,
}

/// The names of the built-in models.
pub const BUILT_IN: [&str; 6] = ["hdd", "hdd-2005", "hdd-smr", "ssd", "nvme", "vm"];

impl DeviceModel {
    /// A built-in model.
    pub fn built_in(name: &str) -> Result<Self, UnknownModel> {
        let medium = match name {
            "hdd" => Medium::Disk(DiskModel::ULTRASTAR_HC310),
            "hdd-2005" => Medium::Disk(DiskModel::DESKSTAR_7K500),
            "hdd-smr" => Medium::Disk(DiskModel::ARCHIVE_8TB),
            "ssd" => Medium::Flash(FlashModel::SATA_850_EVO),
            "nvme" => Medium::Flash(FlashModel::NVME_970_EVO),
            "vm" => Medium::Flash(FlashModel::THROTTLED_VM),
            _ => return Err(UnknownModel { given: name.to_owned() }),
        };
        Ok(Self { name: name.to_owned(), medium, controller: None })
    }
}

/// The time to move `len_bytes` at a rate; nothing moves at rate 0, which counts as 1 byte per second.
pub(crate) fn transfer_ns(len_bytes: u64, bytes_per_second: u64) -> u64 {
    (u128::from(len_bytes) * 1_000_000_000 / u128::from(bytes_per_second.max(1))) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_name_gives_a_model_of_that_name() {
        for name in BUILT_IN {
            assert_eq!(DeviceModel::built_in(name).unwrap().name, name);
        }
        assert!(DeviceModel::built_in("floppy").unwrap_err().to_string().contains("hdd-smr"));
    }
}
