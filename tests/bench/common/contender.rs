//! One way to read a file system: what has to stand ready before the clock starts, and what is timed.

use super::holes::hole_bytes;
use super::setup::succeed;
use super::{Extents, REQUEST_BYTES, Setup};
use anyhow::Result;
use mirrortool::device::{BufferPool, PooledBuffer};
use std::any::Any;
use std::process::{Child, Command, Stdio};

/// `btrfs scrub start` runs in the idle class unless it is told otherwise.
const BEST_EFFORT: &[&str] = &["-c", "2", "-n", "4"];

type Prepared = Box<dyn Any>;
type Prepare<'a> = Box<dyn Fn() -> Result<Prepared> + 'a>;
type Run<'a> = Box<dyn Fn(&Prepared) -> Result<Option<u64>> + 'a>;

/// A named contender. The run answers its peak memory in KiB where it is a process of its own.
pub(crate) struct Contender<'a> {
    pub(crate) name: String,
    /// The share of all copies' bytes that it reads.
    pub(crate) share: f64,
    prepare: Prepare<'a>,
    run: Run<'a>,
}

impl<'a> Contender<'a> {
    fn new(name: &str, run: impl Fn() -> Result<Option<u64>> + 'a) -> Self {
        Self {
            name: name.to_owned(),
            share: 1.0,
            prepare: Box::new(|| Ok(Box::new(()))),
            run: Box::new(move |_| run()),
        }
    }

    /// The extents, read with `O_DIRECT`, nothing done with them.
    pub(crate) fn plain(extents: &'a Extents) -> Self {
        Self::new("plain O_DIRECT read", || extents.read(&|_| {}).map(|()| None))
    }

    /// The extents, read through the page cache and hashed with crc32c.
    pub(crate) fn plain_hot(extents: &'a Extents) -> Self {
        Self::new("plain read with crc32c", || {
            extents.read(&|bytes| {
                std::hint::black_box(crc32c::crc32c(bytes));
            })?;
            Ok(None)
        })
    }

    /// This program.
    pub(crate) fn scrub(setup: &'a Setup) -> Self {
        Self::mirrortool("mirrortool scrub", &["scrub", "--no-state"], setup)
    }

    /// This program, with a command and options that leave the set as it should be, or say that it is not.
    pub(crate) fn mirrortool(name: &str, words: &'static [&'static str], setup: &'a Setup) -> Self {
        Self::new(name, move || {
            let mut command = Command::new(env!("CARGO_BIN_EXE_mirrortool"));
            command.args(words).args(["--quiet", "--no-paths"]).args(&setup.images);
            watch(command.stdout(Stdio::null()).spawn()?).map(Some)
        })
    }

    /// A plain write, from memory, of everything allocated on the last device: `bytes` as they were loaded.
    pub(crate) fn plain_write(
        setup: &'a Setup,
        extents: &'a Extents,
        bytes: &'a [PooledBuffer],
        at_once: usize,
    ) -> Self {
        Self::new(&format!("plain O_DIRECT write, {at_once} at a time"), move || {
            extents.write_last(&*setup.open_last()?, at_once, |number| &bytes[number]).map(|()| None)
        })
    }

    /// The same, and all of it read back: less no write can take that is not believed blindly.
    pub(crate) fn verified_write(
        setup: &'a Setup,
        extents: &'a Extents,
        bytes: &'a [PooledBuffer],
        at_once: usize,
    ) -> Self {
        Self::new(&format!("the same, {at_once} at a time, and read back"), move || {
            let device = setup.open_last()?;
            extents.write_last(&*device, at_once, |number| &bytes[number])?;
            extents.compare_last(&*device, at_once, bytes).map(|()| None)
        })
    }

    /// The same over a last device that holds zeros where anything is allocated, but for its super blocks.
    pub(crate) fn on_wiped(self, setup: &'a Setup, extents: &'a Extents) -> Self {
        let wipe = || -> Result<Prepared> {
            let mut zeros = BufferPool::new(1, REQUEST_BYTES)?.take();
            zeros.fill(0);
            extents.write_last(&*setup.open_last()?, 2, |_| &zeros)?;
            Ok(Box::new(()))
        };
        Self { prepare: Box::new(wipe), ..self }
    }

    /// fio, where it is installed: the same number of bytes, each image in one sequence, all at once. The name says so
    /// where it meets holes.
    pub(crate) fn fio(setup: &'a Setup, bytes: u64) -> Option<Self> {
        succeed(Command::new("fio").arg("--version")).ok()?;
        let each = bytes / setup.images.len() as u64 / (1 << 20);
        let holes: u64 = setup.images.iter().flat_map(|image| hole_bytes(image, each << 20)).sum();
        let name = match holes * 100 / bytes.max(1) {
            0 => "fio, as many bytes in sequence".to_owned(),
            percent => format!("fio, as many bytes ({percent} % of them holes)"),
        };
        Some(Self::new(&name, move || {
            // Without reserved huge pages fio's mmaphuge reads nothing.
            let memory = if super::is_root() {
                std::fs::write("/proc/sys/vm/nr_hugepages", "64")?;
                "--iomem=mmaphuge"
            } else {
                "--iomem=malloc"
            };
            let mut fio = Command::new("fio");
            fio.args(["--rw=read", "--bs=1M", "--direct=1", "--ioengine=io_uring", "--iodepth=4", memory]);
            fio.arg(format!("--size={each}M"));
            for image in &setup.images {
                fio.arg("--name=image").arg(format!("--filename={}", image.display()));
            }
            succeed(&mut fio).map(|_| None)
        }))
    }

    /// The kernel's scrub in four settings, and btrfs check.
    pub(crate) fn rivals(setup: &'a Setup, extents: &Extents) -> Vec<Self> {
        let mut rivals = Vec::new();
        for direct in [true, false] {
            for (class, options) in [("best-effort", BEST_EFFORT), ("idle", &[][..])] {
                let loops = if direct { "direct" } else { "buffered" };
                rivals.push(Self {
                    name: format!("kernel scrub, loop {loops}, {class}"),
                    share: 1.0,
                    prepare: Box::new(move || Ok(Box::new(setup.mount(direct, true)?))),
                    run: Box::new(move |prepared| {
                        let Some(mounted) = prepared.downcast_ref::<super::setup::Mounted>() else { return Ok(None) };
                        let mut scrub = Command::new("btrfs");
                        scrub.args(["scrub", "start", "-B", "-r"]).args(options).arg(mounted.point());
                        succeed(&mut scrub).map(|_| None)
                    }),
                });
            }
        }
        rivals.push(Self {
            name: "btrfs check --check-data-csum".to_owned(),
            // It is content with the first good copy.
            share: extents.share_of_one_copy(),
            prepare: Box::new(|| Ok(Box::new(setup.attach(true)?))),
            run: Box::new(|prepared| {
                let Some(loops) = prepared.downcast_ref::<super::setup::Loops>() else { return Ok(None) };
                let mut check = Command::new("btrfs");
                check.args(["check", "--readonly", "--check-data-csum"]).args(loops.0.first());
                succeed(&mut check).map(|_| None)
            }),
        });
        rivals
    }

    /// Makes ready what the run needs.
    pub(crate) fn prepare(&self) -> Result<Prepared> {
        (self.prepare)()
    }

    /// The timed part.
    pub(crate) fn run(&self, prepared: &Prepared) -> Result<Option<u64>> {
        (self.run)(prepared)
    }
}

/// Waits for a child and answers the most memory it ever held, in KiB.
fn watch(mut child: Child) -> Result<u64> {
    let status_file = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    loop {
        let status = std::fs::read_to_string(&status_file).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|rest| rest.trim().trim_end_matches(" kB").parse().ok());
        peak = peak.max(kib.unwrap_or(0));
        if let Some(status) = child.try_wait()? {
            // 4: there is damage, and all of it has a good source.
            anyhow::ensure!(matches!(status.code(), Some(0 | 4)), "mirrortool: {status}");
            return Ok(peak);
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}
