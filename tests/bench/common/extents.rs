//! What is allocated, as ranges on devices: the work that every contender has at least.

use anyhow::Result;
use mirrortool::device::{BufferPool, Coalesce, Limits, PooledBuffer, ReadDevice, WriteDevice};
use mirrortool::filesystem::Filesystem;
use mirrortool::format::Key;
use mirrortool::format::items::ExtentItem;
use mirrortool::format::types::key_type;
use mirrortool::tree::Cursor;
use mirrortool::units::{DeviceId, MirrorNum, Physical};
use mirrortool::volume::{Layout, STRIPE_LEN_BYTES};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::ScopedJoinHandle;

/// Threads that read each device, and the buffers they share: as in a scrub.
const THREADS_PER_DEVICE: usize = 4;
pub(crate) const REQUEST_BYTES: usize = 1 << 20;

/// What is read of one device.
type Requests = (Arc<dyn ReadDevice>, Vec<Range<Physical>>);

/// Requests of up to 1 MiB that cover all copies of everything allocated, and the rows of parity.
pub(crate) struct Extents {
    devices: Vec<Requests>,
    bytes: u64,
    logical_bytes: u64,
}

impl Extents {
    /// Walks the extent tree.
    pub(crate) fn of(fs: &Filesystem) -> Self {
        let mut pieces: BTreeMap<DeviceId, BTreeSet<(Physical, Physical)>> = BTreeMap::new();
        let nodesize = u64::from(fs.geometry().nodesize());
        let Some(root) = fs.roots().extent else { return Self { devices: Vec::new(), bytes: 0, logical_bytes: 0 } };
        let mut cursor = Cursor::new(fs, root);
        cursor.seek(&Key::MIN);
        let mut logical_bytes = 0;
        while let Some((key, _)) = cursor.item() {
            if matches!(key.item_type, key_type::EXTENT_ITEM | key_type::METADATA_ITEM) {
                let range = ExtentItem::range(&key, nodesize as u32);
                logical_bytes += range.end - range.start;
                add_extent(fs, range, &mut pieces);
            }
            cursor.advance();
        }
        let mut bytes = 0;
        let mut requests = |pieces: BTreeSet<(Physical, Physical)>| {
            bytes += pieces.iter().map(|(from, to)| *to - *from).sum::<u64>();
            Coalesce::new(pieces.into_iter().map(|(from, to)| from..to), Limits::default()).collect()
        };
        let devices = pieces
            .into_iter()
            .filter_map(|(devid, pieces)| Some((Arc::clone(fs.device(devid)?), requests(pieces))))
            .collect();
        Self { devices, bytes, logical_bytes }
    }

    /// Bytes over all copies.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What one copy of everything is of all of them.
    pub(crate) fn share_of_one_copy(&self) -> f64 {
        self.logical_bytes as f64 / self.bytes.max(1) as f64
    }

    /// Bytes on the last device.
    pub(crate) fn bytes_of_last(&self) -> u64 {
        self.devices.last().map_or(0, |(_, requests)| requests.iter().map(|r| r.end - r.start).sum())
    }

    /// What the last device holds: a buffer per request.
    pub(crate) fn load_last(&self) -> Result<Vec<PooledBuffer>> {
        let Some((device, requests)) = self.devices.last() else { return Ok(Vec::new()) };
        let pool = BufferPool::new(requests.len(), REQUEST_BYTES)?;
        let load = |request: &Range<Physical>| -> Result<PooledBuffer> {
            let mut buffer = pool.take();
            device.read_at(request.start, &mut buffer[..(request.end - request.start) as usize])?;
            Ok(buffer)
        };
        requests.iter().map(load).collect()
    }

    /// Writes all of it on the last device, `at_once` requests at a time, and syncs once. `bytes` are those of a request.
    pub(crate) fn write_last<'b>(
        &self,
        device: &dyn WriteDevice,
        at_once: usize,
        bytes: impl Fn(usize) -> &'b [u8] + Sync,
    ) -> Result<()> {
        self.each_of_last(at_once, |number, request, _| {
            Ok(device.write_at(request.start, &bytes(number)[..(request.end - request.start) as usize])?)
        })?;
        Ok(device.sync()?)
    }

    /// Reads all of it from the last device, and wants these bytes.
    pub(crate) fn compare_last(&self, device: &dyn WriteDevice, at_once: usize, bytes: &[PooledBuffer]) -> Result<()> {
        self.each_of_last(at_once, |number, request, buffer| {
            let len = (request.end - request.start) as usize;
            device.read_at(request.start, &mut buffer[..len])?;
            anyhow::ensure!(
                buffer[..len] == bytes[number][..len],
                "request {number} reads otherwise than it was written"
            );
            Ok(())
        })
    }

    /// Does something with each request for the last device, and a buffer.
    fn each_of_last(
        &self,
        at_once: usize,
        each: impl Fn(usize, &Range<Physical>, &mut [u8]) -> Result<()> + Sync,
    ) -> Result<()> {
        let Some((_, requests)) = self.devices.last() else { return Ok(()) };
        let pool = BufferPool::new(at_once, REQUEST_BYTES)?;
        let next = AtomicUsize::new(0);
        let work = || -> Result<()> {
            let mut buffer = pool.take();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some(request) = requests.get(number) else { return Ok(()) };
                each(number, request, &mut buffer)?;
            }
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..at_once).map(|_| scope.spawn(work)).collect();
            let join = |thread: ScopedJoinHandle<'_, Result<()>>| {
                thread.join().unwrap_or_else(|_| anyhow::bail!("a thread died"))
            };
            threads.into_iter().try_for_each(join)
        })
    }

    /// Reads everything with the threads and buffers of a scrub; `look` sees each buffer.
    pub(crate) fn read(&self, look: &(dyn Fn(&[u8]) + Sync)) -> Result<()> {
        std::thread::scope(|scope| {
            let mut threads = Vec::new();
            for (device, requests) in &self.devices {
                let pool = BufferPool::new(2 * THREADS_PER_DEVICE, REQUEST_BYTES)?;
                let next = Arc::new(AtomicUsize::new(0));
                for _ in 0..THREADS_PER_DEVICE {
                    let (pool, next) = (pool.clone(), Arc::clone(&next));
                    threads.push(scope.spawn(move || -> Result<()> {
                        while let Some(request) = requests.get(next.fetch_add(1, Ordering::Relaxed)) {
                            let mut buffer = pool.take();
                            let len = (request.end - request.start) as usize;
                            device.read_at(request.start, &mut buffer[..len])?;
                            look(&buffer[..len]);
                        }
                        Ok(())
                    }));
                }
            }
            threads.into_iter().try_for_each(|thread| thread.join().unwrap_or_else(|_| anyhow::bail!("a reader died")))
        })
    }
}

fn add_extent(
    fs: &Filesystem,
    range: Range<mirrortool::units::Logical>,
    pieces: &mut BTreeMap<DeviceId, BTreeSet<(Physical, Physical)>>,
) {
    let Ok(chunk) = fs.chunks().lookup(range.start) else { return };
    let mut add = |devid, from: Physical, len: u64| {
        pieces.entry(devid).or_default().insert((from, from + len));
    };
    if chunk.profile().row().layout == Layout::Parity {
        let mut at = range.start;
        while let Some(full) = chunk.full_stripe(at).filter(|_| at < range.end) {
            for column in full.data.iter().chain([&full.p]).chain(full.q.as_ref()) {
                add(column.place.devid, column.place.physical, STRIPE_LEN_BYTES);
            }
            at = full.logical + full.data.len() as u64 * STRIPE_LEN_BYTES;
        }
        return;
    }
    for mirror in 1..=chunk.mirrors() {
        for piece in chunk.pieces(range.clone(), MirrorNum::new(mirror)) {
            add(piece.place.devid, piece.place.physical, piece.len_bytes);
        }
    }
}
