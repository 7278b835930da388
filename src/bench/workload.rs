//! What readers ask for: a list of jobs, each a sequence of requests with so many of them in flight.
//!
//! A workload knows addresses and nothing else: the same jobs run over models and over real file systems. The work is
//! fixed in bytes, not in time: a run ends when the slowest job has done its share, as with `fio --size` or `dd`.

use std::fmt;
use std::str::FromStr;

use super::model::Direction;
use super::random::Random;
use crate::units::{Logical, LogicalRange, range_len};

/// The shapes of work, by the names that the command line takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Shape {
    /// Each job reads its part from start to end in pieces of 256 KiB.
    Sequential,
    /// 4 KiB anywhere.
    Random4k,
    /// 64 KiB anywhere.
    Random64k,
    /// 4 KiB anywhere, one at a time.
    Latency4k,
    /// One process, file by file, extent by extent: extents of 128 KiB anywhere, 16 to a file, and no file is begun
    /// before the last one is done.
    Defrag,
    /// Every block once, in runs of 1 MiB requests, each job its own block groups.
    ScrubOne,
    /// 4 KiB anywhere, every other one a write.
    Mixed4k,
    /// 64 KiB anywhere, every other one a write.
    Mixed64k,
}

/// All of them.
pub const SHAPES: [Shape; 8] = [
    Shape::Sequential,
    Shape::Random4k,
    Shape::Random64k,
    Shape::Latency4k,
    Shape::Defrag,
    Shape::ScrubOne,
    Shape::Mixed4k,
    Shape::Mixed64k,
];

/// Extents in a file of [`Shape::Defrag`].
const EXTENTS_PER_FILE: u64 = 16;
/// What [`Shape::ScrubOne`] hands to one job at a time: a block group.
const BLOCK_GROUP_BYTES: u64 = 1 << 30;

/// Text that names no workload.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown workload {given:?}, expect one of {}", SHAPES.map(|shape| shape.to_string()).join(", "))]
pub struct UnknownWorkload {
    /// What was given.
    pub given: String,
}

impl Shape {
    /// Name, request size, jobs, requests in flight per job; the last two are defaults.
    ///
    /// 16 requests of 256 KiB are the 4 MiB that btrfs reads ahead; 4 jobs with 256 and 64 in flight are those of the
    /// experiments on linux-btrfs.
    fn row(self) -> (&'static str, u64, u32, u32) {
        match self {
            Self::Sequential => ("sequential", 256 << 10, 1, 16),
            Self::Random4k => ("random-4k", 4 << 10, 4, 256),
            Self::Random64k => ("random-64k", 64 << 10, 4, 64),
            Self::Latency4k => ("latency-4k", 4 << 10, 4, 1),
            Self::Defrag => ("defrag", 128 << 10, 1, 8),
            Self::ScrubOne => ("scrub-one", 1 << 20, 4, 4),
            Self::Mixed4k => ("mixed-4k", 4 << 10, 4, 256),
            Self::Mixed64k => ("mixed-64k", 64 << 10, 4, 64),
        }
    }

    /// The size of its requests.
    pub fn request_bytes(self) -> u64 {
        self.row().1
    }

    fn is_random(self) -> bool {
        !matches!(self, Self::Sequential | Self::ScrubOne)
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.row().0)
    }
}

impl FromStr for Shape {
    type Err = UnknownWorkload;

    fn from_str(text: &str) -> Result<Self, UnknownWorkload> {
        let found = SHAPES.into_iter().find(|shape| shape.row().0 == text);
        found.ok_or_else(|| UnknownWorkload { given: text.to_owned() })
    }
}

/// A shape with its measures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    /// What kind of requests.
    pub shape: Shape,
    /// How many jobs run side by side.
    pub jobs: u32,
    /// How many requests each keeps in flight.
    pub iodepth: u32,
    /// How much all jobs transfer together.
    pub size_bytes: u64,
    /// Where: extents in the order of a reader who goes through them.
    pub extents: Vec<LogicalRange>,
    /// The id of the first job; the others follow. `pid` goes by it.
    pub first_stream: u64,
    /// By how much ids differ from job to job.
    pub stream_step: u64,
}

impl Workload {
    /// A shape with its default jobs and depth.
    pub fn new(shape: Shape, size_bytes: u64, extents: Vec<LogicalRange>) -> Self {
        let (_, _, jobs, iodepth) = shape.row();
        Self { shape, jobs, iodepth, size_bytes, extents, first_stream: 0, stream_step: 1 }
    }

    /// The jobs of one round; `seed` decides where random requests go.
    pub fn start(&self, seed: u64) -> Vec<Job> {
        let pieces = Pieces::new(&self.extents, self.shape.request_bytes());
        let jobs = u64::from(self.jobs.max(1));
        let requests = self.size_bytes / self.shape.request_bytes() / jobs;
        (0..jobs)
            .map(|number| Job {
                stream: self.first_stream + number * self.stream_step,
                shape: self.shape,
                number,
                jobs,
                done: 0,
                requests,
                pieces: pieces.clone(),
                random: Random::new(seed ^ (number + 1).wrapping_mul(0x5851_f42d_4c95_7f2d)),
            })
            .collect()
    }
}

/// The extents cut into requests, with the number of requests before each.
#[derive(Clone, Debug)]
struct Pieces {
    extents: Vec<(u64, LogicalRange)>,
    total: u64,
    request_bytes: u64,
}

impl Pieces {
    fn new(extents: &[LogicalRange], request_bytes: u64) -> Self {
        let mut total = 0;
        let mut rows = Vec::new();
        for extent in extents {
            rows.push((total, extent.clone()));
            total += range_len(extent).div_ceil(request_bytes);
        }
        Self { extents: rows, total, request_bytes }
    }

    /// The request with this number; extents' last ones may be short.
    fn piece(&self, number: u64) -> Option<(Logical, u64)> {
        let row = self.extents.partition_point(|&(before, _)| before <= number).checked_sub(1)?;
        let (before, extent) = self.extents.get(row)?;
        let start = extent.start + (number - before) * self.request_bytes;
        let len_bytes = (extent.end - start).min(self.request_bytes);
        (len_bytes > 0).then_some((start, len_bytes))
    }
}

/// What a job wants next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// One request.
    Ask {
        /// Where.
        logical: Logical,
        /// How much, in bytes.
        len_bytes: u64,
        /// Read or write.
        direction: Direction,
        /// Nothing may be in flight when this one starts.
        alone: bool,
    },
    /// Its share is done.
    Finished,
}

/// One reader.
#[derive(Clone, Debug)]
pub struct Job {
    /// Its id.
    pub stream: u64,
    shape: Shape,
    number: u64,
    jobs: u64,
    done: u64,
    requests: u64,
    pieces: Pieces,
    random: Random,
}

impl Job {
    /// The next step.
    pub fn step(&mut self) -> Step {
        if self.done >= self.requests || self.pieces.total == 0 {
            return Step::Finished;
        }
        let number = if self.shape.is_random() { self.random.below(self.pieces.total) } else { self.in_sequence() };
        let Some((logical, len_bytes)) = self.pieces.piece(number) else { return Step::Finished };
        let mixed = matches!(self.shape, Shape::Mixed4k | Shape::Mixed64k);
        let direction = if mixed && self.random.below(2) == 1 { Direction::Write } else { Direction::Read };
        let alone = self.shape == Shape::Defrag && self.done.is_multiple_of(EXTENTS_PER_FILE);
        self.done += 1;
        Step::Ask { logical, len_bytes, direction, alone }
    }

    /// The number of the piece after the last one: a share of the whole, or whole block groups in turn.
    fn in_sequence(&self) -> u64 {
        match self.shape {
            Shape::ScrubOne => {
                let group = BLOCK_GROUP_BYTES / self.pieces.request_bytes;
                ((self.done / group) * self.jobs + self.number) * group + self.done % group
            }
            _ => self.number * (self.pieces.total / self.jobs) + self.done,
        }
        .checked_rem(self.pieces.total)
        .unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn area(len_bytes: u64) -> Vec<LogicalRange> {
        vec![Logical::new(1 << 20)..Logical::new((1 << 20) + len_bytes)]
    }

    fn steps(mut job: Job) -> Vec<(u64, u64, Direction, bool)> {
        let mut all = Vec::new();
        while let Step::Ask { logical, len_bytes, direction, alone } = job.step() {
            all.push((logical.raw(), len_bytes, direction, alone));
        }
        all
    }

    #[test]
    fn shapes_read_back_from_their_names() {
        for shape in SHAPES {
            assert_eq!(shape.to_string().parse(), Ok(shape));
        }
        assert!("sequentail".parse::<Shape>().unwrap_err().to_string().contains("scrub-one"));
    }

    #[test]
    fn sequential_jobs_read_each_piece_of_the_extents_once() {
        let extents = vec![
            Logical::new(0)..Logical::new(600 << 10),
            Logical::new(1 << 30)..Logical::new((1 << 30) + (256 << 10)),
        ];
        let workload = Workload { jobs: 2, ..Workload::new(Shape::Sequential, 1 << 20, extents) };
        let all: Vec<_> = workload.start(1).into_iter().flat_map(steps).map(|step| (step.0, step.1)).collect();
        let k = 1 << 10;
        assert_eq!(all, [(0, 256 * k), (256 * k, 256 * k), (512 * k, 88 * k), (1 << 30, 256 * k)]);
    }

    #[test]
    fn random_jobs_do_their_share_inside_the_extents_and_differ() {
        let workload = Workload::new(Shape::Mixed4k, 4 << 20, area(1 << 30));
        let jobs: Vec<_> = workload.start(7).into_iter().map(steps).collect();
        assert_eq!(jobs.iter().map(Vec::len).collect::<Vec<_>>(), [256; 4]);
        assert_ne!(jobs[0], jobs[1]);
        let writes = jobs.iter().flatten().filter(|step| step.2 == Direction::Write).count();
        assert!((400..624).contains(&writes), "{writes}");
        assert!(jobs.iter().flatten().all(|step| step.0 >= 1 << 20 && step.0 + step.1 <= (1 << 20) + (1 << 30)));
    }

    #[test]
    fn defrag_waits_between_files() {
        let workload = Workload::new(Shape::Defrag, 8 << 20, area(1 << 30));
        let steps = steps(workload.start(3).remove(0));
        let alone: Vec<_> = (0..steps.len()).filter(|&at| steps[at].3).collect();
        assert_eq!(alone, [0, 16, 32, 48]);
    }

    #[test]
    fn no_extents_means_no_work() {
        assert!(steps(Workload::new(Shape::Random4k, 1 << 20, Vec::new()).start(1).remove(0)).is_empty());
    }
}
