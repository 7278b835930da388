//! Reads a log back, from the first record to the last whole one.
//!
//! A log may end in the middle of a batch: then none of the writes of that batch were made. A record that is broken in
//! front of whole ones of a later batch is damage of the log itself, and then nothing is undone.

use super::record::{ALIGN_BYTES, LogHeader, Record, sealed_bytes};
use std::io::{self, Read, Seek, SeekFrom};
use thiserror::Error;

/// Why a file cannot be used as a log.
#[derive(Debug, Error)]
pub enum LogError {
    /// The file could not be read.
    #[error("cannot read the undo log")]
    Io(#[from] io::Error),
    /// It does not start as a log does.
    #[error("not an undo log of mirrortool, or its first bytes are damaged")]
    NotALog,
    /// A record in the middle is broken.
    #[error("the undo log is damaged at byte {at}: a record is broken, and whole ones follow at byte {next}")]
    Damaged {
        /// Where the broken record starts.
        at: u64,
        /// Where the next whole one of a later batch starts.
        next: u64,
    },
}

/// A log of which every record has been checked.
pub struct LogReader<F> {
    file: F,
    header: LogHeader,
    /// Offset and length in bytes of each record.
    records: Vec<(u64, usize)>,
    is_cut: bool,
}

impl<F: Read + Seek> LogReader<F> {
    /// Reads the whole log once.
    pub fn open(mut file: F) -> Result<Self, LogError> {
        let end = file.seek(SeekFrom::End(0))?;
        let header = read_sealed(&mut file, 0, end)?.ok_or(LogError::NotALog)?;
        let mut at = header.len() as u64;
        let header = LogHeader::decode(&header).ok_or(LogError::NotALog)?;
        let (mut records, mut last_batch) = (Vec::new(), 0);
        while at < end {
            let bytes = read_sealed(&mut file, at, end)?;
            let Some((_, batch)) = bytes.as_deref().and_then(Record::decode) else {
                return match later_record(&mut file, at, end, last_batch)? {
                    Some(next) => Err(LogError::Damaged { at, next }),
                    None => Ok(Self { file, header, records, is_cut: true }),
                };
            };
            let len = bytes.map_or(0, |bytes| bytes.len());
            records.push((at, len));
            last_batch = batch;
            at += len as u64;
        }
        Ok(Self { file, header, records, is_cut: false })
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

    /// True where the last batch is not whole; it was never carried out.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// One record and its batch.
    pub fn record(&mut self, number: usize) -> Result<(Record, u64), LogError> {
        let (at, len) = *self.records.get(number).ok_or(LogError::NotALog)?;
        let mut bytes = vec![0; len];
        self.file.seek(SeekFrom::Start(at))?;
        self.file.read_exact(&mut bytes)?;
        Record::decode(&bytes).ok_or(LogError::Damaged { at, next: at })
    }
}

/// The bytes of what starts at `at`, `None` where its prefix is nonsense or it reaches past the end.
fn read_sealed(file: &mut (impl Read + Seek), at: u64, end: u64) -> io::Result<Option<Vec<u8>>> {
    let mut prefix = [0; ALIGN_BYTES];
    let here = (end - at).min(ALIGN_BYTES as u64) as usize;
    file.seek(SeekFrom::Start(at))?;
    let Some(room) = prefix.get_mut(..here) else { return Ok(None) };
    file.read_exact(room)?;
    let Some(len) = sealed_bytes(&prefix).filter(|len| at + *len as u64 <= end) else { return Ok(None) };
    let mut bytes = vec![0; len];
    file.seek(SeekFrom::Start(at))?;
    file.read_exact(&mut bytes)?;
    Ok(Some(bytes))
}

/// The first whole record behind `at` of a batch that could only have begun when the one at `at` was on stable storage.
fn later_record(file: &mut (impl Read + Seek), at: u64, end: u64, last_batch: u64) -> io::Result<Option<u64>> {
    let mut next = at + ALIGN_BYTES as u64;
    while next < end {
        let bytes = read_sealed(file, next, end)?;
        match bytes.as_deref().and_then(Record::decode) {
            // The broken one is of the last batch or of the one after it.
            Some((_, batch)) if batch > last_batch + 1 => return Ok(Some(next)),
            _ => next += ALIGN_BYTES as u64,
        }
    }
    Ok(None)
}
