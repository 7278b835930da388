//! Reads a log back, from the first record to the last whole batch.
//!
//! A log may end in the middle of a batch: then none of the writes of that batch were made, if it was the repair that was
//! cut and not the log. What is broken in front of anything that was written later is damage of the log itself, and then
//! nothing is undone.

use super::record::{ALIGN_BYTES, EARLIER_MAGIC, LogHeader, Mark, Record, sealed_bytes};
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use thiserror::Error;

/// Why a file cannot be used as a log.
#[derive(Debug, Error)]
pub enum LogError {
    /// The file could not be read.
    #[error("cannot read the undo log")]
    Io(#[from] io::Error),
    /// There is nothing in it.
    #[error("the undo log is empty (0 bytes): nothing was written with it")]
    Empty,
    /// It does not start as a log does.
    #[error("not an undo log of mirrortool, or its first bytes are damaged")]
    NotALog,
    /// It has no marks, so that nobody can tell whether it is whole.
    #[error("the undo log is one of an earlier version of mirrortool, which can undo it")]
    Earlier,
    /// A record in the middle is broken.
    #[error("the undo log is damaged at byte {at}: it is broken there, and goes on at byte {next}")]
    Damaged {
        /// Where the broken part starts.
        at: u64,
        /// Where the next whole part is that was written later.
        next: u64,
    },
}

/// How a log ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogEnd {
    /// As it was ended by the repair.
    Whole,
    /// Behind a batch: the repair was killed then, or the log was cut there.
    Open,
    /// Within a batch, at this byte: the repair was killed before it wrote anything of it, or the log was cut or damaged.
    Broken {
        /// The first byte that belongs to nothing whole.
        at: u64,
    },
}

/// A log of which every record has been checked.
pub struct LogReader<F> {
    file: F,
    header: LogHeader,
    records: Vec<Entry>,
    end: LogEnd,
}

/// Where a record is.
#[derive(Clone, Copy)]
struct Entry {
    at: u64,
    len: usize,
    batch: u64,
}

/// What a log is made of behind its header.
enum Piece {
    Record(u64),
    Mark(Mark),
}

impl<F: Read + Seek> LogReader<F> {
    /// Reads the whole log once.
    pub fn open(mut file: F) -> Result<Self, LogError> {
        let end = file.seek(SeekFrom::End(0))?;
        if end == 0 {
            return Err(LogError::Empty);
        }
        file.rewind()?;
        let mut bytes = Vec::new();
        let header = read_sealed(&mut file, end, &mut bytes)?.then(|| LogHeader::decode(&bytes)).flatten();
        let Some(header) = header else {
            return Err(if bytes.starts_with(&EARLIER_MAGIC) { LogError::Earlier } else { LogError::NotALog });
        };
        let mut reading = Reading { at: bytes.len() as u64, ..Reading::default() };
        while reading.at < end && !reading.is_ended {
            let piece = if read_sealed(&mut file, end - reading.at, &mut bytes)? { piece(&bytes) } else { None };
            if !piece.is_some_and(|piece| reading.take(&piece, bytes.len())) {
                break;
            }
        }
        if reading.at < end {
            // Whatever is behind the end of a log, or was written after what is broken, makes it damage.
            let at = reading.at;
            if reading.is_ended {
                return Err(LogError::Damaged { at, next: at });
            }
            if let Some(next) = written_later(&mut file, at, end, reading.batch)? {
                return Err(LogError::Damaged { at, next });
            }
        }
        let whole_batches = reading.marked;
        let how = match (reading.is_ended, reading.at < end || reading.records.len() > whole_batches) {
            (true, _) => LogEnd::Whole,
            (false, false) => LogEnd::Open,
            (false, true) => LogEnd::Broken { at: reading.at },
        };
        reading.records.truncate(whole_batches);
        Ok(Self { file, header, records: reading.records, end: how })
    }

    /// Which file system and members it is about.
    pub fn header(&self) -> &LogHeader {
        &self.header
    }

    /// How many records it has.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// True where nothing was written.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Whether all is there that the repair logged.
    pub fn end(&self) -> LogEnd {
        self.end
    }

    /// One record.
    pub fn record(&mut self, number: usize) -> Result<Record, LogError> {
        self.records(number..number + 1)?.pop().ok_or(LogError::NotALog)
    }

    /// The first of the records before `end` that belong to one batch and lie within so many bytes of the log: at least
    /// one, unless there are none.
    pub fn start_of_chunk(&self, end: usize, max_bytes: u64) -> usize {
        let before = self.records.get(..end).unwrap_or_default();
        let Some(last) = before.last() else { return end };
        let floor = (last.at + last.len as u64).saturating_sub(max_bytes);
        let chunk = before.iter().rev().take_while(|entry| entry.batch == last.batch && entry.at >= floor);
        end - chunk.count().max(1)
    }

    /// Records that lie one behind the other.
    pub fn records(&mut self, numbers: Range<usize>) -> Result<Vec<Record>, LogError> {
        let entries = self.records.get(numbers).unwrap_or_default();
        let (Some(first), Some(last)) = (entries.first(), entries.last()) else { return Ok(Vec::new()) };
        let mut bytes = vec![0; (last.at + last.len as u64 - first.at) as usize];
        self.file.seek(SeekFrom::Start(first.at))?;
        self.file.read_exact(&mut bytes)?;
        let record = |entry: &Entry| {
            let start = (entry.at - first.at) as usize;
            let whole = bytes.get(start..start + entry.len).and_then(Record::decode);
            whole.map(|(record, _)| record).ok_or(LogError::Damaged { at: entry.at, next: entry.at })
        };
        entries.iter().map(record).collect()
    }
}

/// How far a log has been read.
#[derive(Default)]
struct Reading {
    at: u64,
    records: Vec<Entry>,
    /// The last batch that has its mark.
    batch: u64,
    /// Records up to that mark.
    marked: usize,
    is_ended: bool,
}

impl Reading {
    /// Whether the piece belongs here.
    fn take(&mut self, piece: &Piece, len: usize) -> bool {
        let fits = match piece {
            Piece::Record(batch) => {
                let fits = *batch == self.batch + 1;
                if fits {
                    self.records.push(Entry { at: self.at, len, batch: *batch });
                }
                fits
            }
            Piece::Mark(mark) => {
                let expect = if mark.is_end { self.batch } else { self.batch + 1 };
                let fits = (mark.batch, mark.records, mark.bytes) == (expect, self.records.len() as u64, self.at)
                    && (!mark.is_end || self.marked == self.records.len());
                if fits {
                    (self.batch, self.marked, self.is_ended) = (expect, self.records.len(), mark.is_end);
                }
                fits
            }
        };
        if fits {
            self.at += len as u64;
        }
        fits
    }
}

fn piece(bytes: &[u8]) -> Option<Piece> {
    let record = || Record::decode(bytes).map(|(_, batch)| Piece::Record(batch));
    record().or_else(|| Mark::decode(bytes).map(Piece::Mark))
}

/// Fills `bytes` with what starts here; false where its prefix is nonsense or it is longer than `left`.
fn read_sealed(file: &mut impl Read, left: u64, bytes: &mut Vec<u8>) -> io::Result<bool> {
    bytes.clear();
    file.take(left.min(ALIGN_BYTES as u64)).read_to_end(bytes)?;
    let Some(len) = sealed_bytes(bytes).filter(|len| *len as u64 <= left) else { return Ok(false) };
    let more = (len - bytes.len()) as u64;
    Ok(file.take(more).read_to_end(bytes)? as u64 == more)
}

/// The first whole thing behind `at` that could only be written when the batch after `last_batch` was on stable storage.
fn written_later(file: &mut (impl Read + Seek), at: u64, end: u64, last_batch: u64) -> io::Result<Option<u64>> {
    let mut bytes = Vec::new();
    let mut next = at;
    while next < end {
        file.seek(SeekFrom::Start(next))?;
        let is_later = read_sealed(file, end - next, &mut bytes)?
            && piece(&bytes).is_some_and(|piece| match piece {
                Piece::Record(batch) => batch > last_batch + 1,
                Piece::Mark(mark) => mark.is_end || mark.batch > last_batch + 1,
            });
        if is_later {
            return Ok(Some(next));
        }
        next += ALIGN_BYTES as u64;
    }
    Ok(None)
}
