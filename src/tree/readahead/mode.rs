//! The readahead modes as an administrator types them, and what each means in numbers.

use super::Limits;
use std::fmt;
use std::str::FromStr;

/// Requests in flight per device where nothing else is said: 32 threads reach what a deeper queue does, and a disk's
/// own queue holds as many.
const DEFAULT_DEPTH: usize = 32;
/// A device takes no more, and each costs a thread.
const DEPTH_MAX: usize = 64;
/// Beside the streams of a scrub: blocks come in batches of neighbours, and each thread holds a buffer.
const CURSORS_DEPTH_MAX: usize = 16;
/// Blocks of one walk in memory. With what it takes to keep account of them a walk stays below 64 MiB.
const WALK_WINDOW_BYTES: u64 = 24 << 20;
/// Blocks of one cursor of a scrub in memory: extents or checksums of gigabytes of data.
const CURSOR_WINDOW_BYTES: u64 = 2 << 20;
/// Blocks of all cursors of a scrub in memory.
const CURSORS_WINDOW_BYTES: u64 = 32 << 20;
/// The kernel's `SZ_128K` for leaves under `READA_FORWARD_ALWAYS`.
const SIBLINGS_WINDOW_BYTES: u64 = 128 << 10;

/// How tree blocks are read ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReadaheadMode {
    /// `off`: one block after the other, when the walk comes to it.
    Off,
    /// `siblings`: the next leaves under the same node, as the kernel does.
    Siblings,
    /// `pipeline[:DEPTH]`: whatever comes next in key order, in the order of each device, so many requests at a time.
    Pipeline {
        /// In flight per device.
        depth: usize,
    },
}

impl Default for ReadaheadMode {
    fn default() -> Self {
        Self::Pipeline { depth: DEFAULT_DEPTH }
    }
}

impl ReadaheadMode {
    /// For a walk that has the devices for itself; `None` where nothing is read ahead.
    pub fn for_walk(self) -> Option<Limits> {
        self.limits(WALK_WINDOW_BYTES, false)
    }

    /// For so many cursors beside streams of data.
    pub fn for_cursors(self, cursors: usize) -> Option<Limits> {
        let share_bytes = CURSORS_WINDOW_BYTES / (cursors as u64).max(1);
        let limits = self.limits(share_bytes.min(CURSOR_WINDOW_BYTES), true)?;
        Some(Limits { depth: limits.depth.min(CURSORS_DEPTH_MAX), ..limits })
    }

    fn limits(self, window_bytes: u64, in_batches: bool) -> Option<Limits> {
        match self {
            Self::Off => None,
            Self::Siblings => Some(Limits {
                depth: DEFAULT_DEPTH,
                window_bytes: SIBLINGS_WINDOW_BYTES,
                descends: false,
                in_batches: false,
            }),
            Self::Pipeline { depth } => {
                Some(Limits { depth: depth.clamp(1, DEPTH_MAX), window_bytes, descends: true, in_batches })
            }
        }
    }
}

/// Text that names no mode.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown readahead mode {given:?}, expect off, siblings or pipeline[:DEPTH] with a depth of 1 to {DEPTH_MAX}")]
pub struct UnknownMode {
    /// What was given.
    pub given: String,
}

impl FromStr for ReadaheadMode {
    type Err = UnknownMode;

    fn from_str(text: &str) -> Result<Self, UnknownMode> {
        let mode = match text.split_once(':') {
            None => match text {
                "off" => Some(Self::Off),
                "siblings" => Some(Self::Siblings),
                "pipeline" => Some(Self::default()),
                _ => None,
            },
            Some(("pipeline", depth)) => {
                let depth = depth.parse().ok().filter(|depth| (1..=DEPTH_MAX).contains(depth));
                depth.map(|depth| Self::Pipeline { depth })
            }
            Some(_) => None,
        };
        mode.ok_or_else(|| UnknownMode { given: text.to_owned() })
    }
}

impl fmt::Display for ReadaheadMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::Siblings => f.write_str("siblings"),
            Self::Pipeline { depth } => write!(f, "pipeline:{depth}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mode_reads_back_from_its_own_name() {
        for text in ["off", "siblings", "pipeline:1", "pipeline:64"] {
            assert_eq!(text.parse::<ReadaheadMode>().unwrap().to_string(), text);
        }
        assert_eq!("pipeline".parse(), Ok(ReadaheadMode::Pipeline { depth: 32 }));
    }

    #[test]
    fn nonsense_is_refused_and_named() {
        for text in ["", "on", "pipeline:", "pipeline:0", "pipeline:65", "pipeline:x", "siblings:3"] {
            let error = text.parse::<ReadaheadMode>().unwrap_err();
            assert!(error.to_string().contains(&format!("{text:?}")), "{error}");
        }
    }
}
