//! Where each stream's last read ended and which device served it: the memory behind "this continues a run".

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::units::{DeviceId, Logical};

/// Streams remembered; more of them overwrite each other, which only loses runs.
const STREAMS: usize = 256;

#[derive(Default)]
struct Run {
    end: AtomicU64,
    devid: AtomicU64,
}

pub(super) struct Streams {
    runs: Box<[Run]>,
}

impl Streams {
    pub(super) fn new() -> Self {
        Self { runs: (0..STREAMS).map(|_| Run::default()).collect() }
    }

    fn run(&self, stream: u64) -> &Run {
        // Fibonacci hashing: neighbouring ids land far apart.
        let hash = stream.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        &self.runs[hash as usize % STREAMS]
    }

    /// The device whose run of `stream` ends exactly at `at`.
    pub(super) fn device_before(&self, stream: u64, at: Logical) -> Option<DeviceId> {
        let run = self.run(stream);
        (run.end.load(Relaxed) == at.raw()).then(|| DeviceId::new(run.devid.load(Relaxed)))
    }

    /// `stream` has been sent to `devid`, up to `end`.
    pub(super) fn record(&self, stream: u64, end: Logical, devid: DeviceId) {
        let run = self.run(stream);
        run.end.store(end.raw(), Relaxed);
        run.devid.store(devid.raw(), Relaxed);
    }
}
