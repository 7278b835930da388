//! The undo log: what stood on the members before a repair wrote there. Append-only, every record with a checksum, on
//! stable storage before the write it covers.
//!
//! A log is a header (which file system, which members) and records, each at a multiple of 512 bytes. A record has the
//! old bytes and, for each 512 bytes, a number that tells the new ones: a power cut may leave a write torn there, and undo
//! must still know what it sees. Old bytes that are all the same (a wiped device) are kept as one. [`format`](self) is
//! little-endian and has no pointers.

mod reader;
mod record;
mod store;

pub use reader::{LogError, LogReader};
pub(super) use record::LOST_UNIT_BYTES;
pub use record::{LogHeader, LogMember, Record};
pub use store::{FileLog, LogStore};

use std::io;

/// A log that is being written.
pub struct Journal {
    store: Option<Box<dyn LogStore>>,
    batch: u64,
}

impl Journal {
    /// Starts a log; returns when its header is on stable storage.
    pub fn start(mut store: Box<dyn LogStore>, header: &LogHeader) -> io::Result<Self> {
        store.append(&header.encode())?;
        store.sync()?;
        Ok(Self { store: Some(store), batch: 0 })
    }

    /// Keeps nothing: what is overwritten is gone.
    pub fn none() -> Self {
        Self { store: None, batch: 0 }
    }

    /// Logs one batch; returns when it is on stable storage.
    pub(super) fn log(&mut self, records: &[Record]) -> io::Result<()> {
        self.batch += 1;
        let Some(store) = &mut self.store else { return Ok(()) };
        for record in records {
            store.append(&record.encode(self.batch))?;
        }
        store.sync()
    }
}
