//! The names of the policies as an administrator types them.

use std::fmt;
use std::str::FromStr;

use super::ReadPolicy;
use super::auto::Auto;
use super::fixed::{Pid, Preferred};
use super::latency::{DEFAULT_SAMPLES, Latency};
use super::round_robin::RoundRobin;
use crate::units::DeviceId;

/// The default run of `round-robin` on one device: the kernel's `BTRFS_DEFAULT_RR_MIN_CONTIG_READ`.
const DEFAULT_MIN_CONTIGUOUS_BYTES: u64 = 256 << 10;

/// How much `round-robin` reads from one device before it turns to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MinContiguous {
    /// One sector of the file system: the next request goes to the next device.
    Sectorsize,
    /// This many bytes.
    Bytes(u64),
}

/// A read policy by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PolicyKind {
    /// `pid`: the stream's number modulo the number of copies.
    Pid,
    /// `round-robin[:MIN_CONTIG]`: the devices in turn.
    RoundRobin(MinContiguous),
    /// `devid:N`: that device wherever it holds a copy.
    Devid(DeviceId),
    /// `latency[:SAMPLES]`: the device with the lowest moving average, over so many samples.
    Latency(u32),
    /// `auto`: the device that is expected to answer first.
    #[default]
    Auto,
}

/// Text that names no policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown read policy {given:?}, expect pid, round-robin[:MIN_CONTIG], devid:N, latency[:SAMPLES] or auto")]
pub struct UnknownPolicy {
    /// What was given.
    pub given: String,
}

impl PolicyKind {
    /// `round-robin` with its default run.
    pub const ROUND_ROBIN: Self = Self::RoundRobin(MinContiguous::Bytes(DEFAULT_MIN_CONTIGUOUS_BYTES));

    /// `latency` with its default memory.
    pub const LATENCY: Self = Self::Latency(DEFAULT_SAMPLES);

    /// The policy itself, for the members `devids` of a file system with this sector size (in bytes).
    pub fn build(self, devids: &[DeviceId], sectorsize_bytes: u32) -> Box<dyn ReadPolicy> {
        match self {
            Self::Pid => Box::new(Pid),
            Self::RoundRobin(MinContiguous::Sectorsize) => Box::new(RoundRobin::new(u64::from(sectorsize_bytes))),
            Self::RoundRobin(MinContiguous::Bytes(run_bytes)) => Box::new(RoundRobin::new(run_bytes)),
            Self::Devid(devid) => Box::new(Preferred::new(devid)),
            Self::Latency(samples) => Box::new(Latency::new(devids, samples)),
            Self::Auto => Box::new(Auto::new(devids)),
        }
    }
}

impl FromStr for PolicyKind {
    type Err = UnknownPolicy;

    fn from_str(text: &str) -> Result<Self, UnknownPolicy> {
        let kind = match text.split_once(':') {
            None => match text {
                "pid" => Some(Self::Pid),
                "round-robin" => Some(Self::ROUND_ROBIN),
                "latency" => Some(Self::LATENCY),
                "auto" => Some(Self::Auto),
                _ => None,
            },
            Some(("round-robin", "sectorsize")) => Some(Self::RoundRobin(MinContiguous::Sectorsize)),
            Some(("round-robin", run)) => parse_size(run).map(|bytes| Self::RoundRobin(MinContiguous::Bytes(bytes))),
            Some(("devid", number)) => number.parse().ok().map(|devid| Self::Devid(DeviceId::new(devid))),
            Some(("latency", samples)) => samples.parse().ok().filter(|&count| count > 0).map(Self::Latency),
            Some(_) => None,
        };
        kind.ok_or_else(|| UnknownPolicy { given: text.to_owned() })
    }
}

/// `4096`, `192K`, `1M`, ...: a number of bytes above zero.
fn parse_size(text: &str) -> Option<u64> {
    let (digits, unit_bytes) = match text.as_bytes().last()? {
        b'k' | b'K' => (&text[..text.len() - 1], 1 << 10),
        b'm' | b'M' => (&text[..text.len() - 1], 1 << 20),
        b'g' | b'G' => (&text[..text.len() - 1], 1 << 30),
        _ => (text, 1),
    };
    digits.parse::<u64>().ok()?.checked_mul(unit_bytes).filter(|&bytes| bytes > 0)
}

impl fmt::Display for PolicyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Pid => f.write_str("pid"),
            Self::RoundRobin(MinContiguous::Sectorsize) => f.write_str("round-robin:sectorsize"),
            Self::ROUND_ROBIN => f.write_str("round-robin"),
            Self::RoundRobin(MinContiguous::Bytes(bytes)) => write!(f, "round-robin:{bytes}"),
            Self::Devid(devid) => write!(f, "devid:{devid}"),
            Self::Latency(DEFAULT_SAMPLES) => f.write_str("latency"),
            Self::Latency(samples) => write!(f, "latency:{samples}"),
            Self::Auto => f.write_str("auto"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_reads_back_from_its_own_name() {
        for text in [
            "pid",
            "round-robin",
            "round-robin:196608",
            "round-robin:sectorsize",
            "devid:2",
            "latency",
            "latency:256",
            "auto",
        ] {
            assert_eq!(text.parse::<PolicyKind>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn sizes_take_suffixes_and_the_default_run_is_256_kib() {
        let round_robin = |bytes| Ok(PolicyKind::RoundRobin(MinContiguous::Bytes(bytes)));
        assert_eq!("round-robin".parse(), round_robin(256 << 10));
        assert_eq!("round-robin:192K".parse(), round_robin(192 << 10));
        assert_eq!("round-robin:1m".parse(), round_robin(1 << 20));
    }

    #[test]
    fn nonsense_is_refused_and_named() {
        for text in [
            "",
            "rr",
            "round-robin:",
            "round-robin:0",
            "round-robin:K",
            "round-robin:99999999999G",
            "devid:",
            "devid:x",
            "pid:1",
        ] {
            let error = text.parse::<PolicyKind>().unwrap_err();
            assert!(error.to_string().contains(&format!("{text:?}")), "{error}");
        }
    }
}
