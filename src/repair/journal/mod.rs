//! The undo log: what stood on the members before a repair wrote there. Append-only, every record with a checksum, on
//! stable storage before the write it covers.
//!
//! A log is a header (which file system, which members) and batches of records, each at a multiple of 512 bytes. Behind
//! the records of a batch stands a mark, and behind the last batch another one: a log that was cut or damaged, however
//! little, is known as such. A record has the
//! old bytes and, for each 512 bytes, a number that tells the new ones: a power cut may leave a write torn there, and undo
//! must still know what it sees. Old bytes that are all the same (a wiped device) are kept as one. [`format`](self) is
//! little-endian and has no pointers.

mod reader;
mod record;
mod store;

pub use reader::{LogEnd, LogError, LogReader};
pub(super) use record::LOST_UNIT_BYTES;
pub use record::{LogHeader, LogMember, OldBytes, Record};
pub use store::{FileLog, LogStore};

use record::Mark;
use std::io;

/// A log that is being written.
pub struct Journal {
    store: Store,
    batch: u64,
    records: u64,
    bytes: u64,
}

/// Makes the store of a log that nobody has needed so far.
type MakeStore = Box<dyn FnOnce() -> io::Result<Box<dyn LogStore>> + Send>;

enum Store {
    /// Nothing is kept.
    None,
    /// To be made when the first batch comes.
    Later(MakeStore, Vec<u8>),
    Open(Box<dyn LogStore>),
    /// Failed: without it nothing may be written.
    Broken,
}

impl Journal {
    /// Starts a log; returns when its header is on stable storage.
    pub fn start(mut store: Box<dyn LogStore>, header: &LogHeader) -> io::Result<Self> {
        let header = header.encode();
        store.append(&header)?;
        store.sync()?;
        Ok(Self { bytes: header.len() as u64, ..Self::of(Store::Open(store)) })
    }

    /// A log that is started with its first batch, and not at all where nothing is written.
    pub fn on_demand(header: &LogHeader, make: MakeStore) -> Self {
        Self::of(Store::Later(make, header.encode()))
    }

    /// Keeps nothing: what is overwritten is gone.
    pub fn none() -> Self {
        Self::of(Store::None)
    }

    fn of(store: Store) -> Self {
        Self { store, batch: 0, records: 0, bytes: 0 }
    }

    /// Logs one batch; returns when it is on stable storage.
    pub(super) fn log(&mut self, records: &[Record]) -> io::Result<()> {
        self.batch += 1;
        // Whatever fails on the way leaves a log that takes no more.
        let mut store = match std::mem::replace(&mut self.store, Store::Broken) {
            Store::None => {
                self.store = Store::None;
                return Ok(());
            }
            Store::Broken => return Err(io::Error::other("the undo log has failed before")),
            Store::Later(make, header) => {
                let mut store = make()?;
                self.append(&mut *store, &header)?;
                store
            }
            Store::Open(store) => store,
        };
        for record in records {
            self.append(&mut *store, &record.encode(self.batch))?;
        }
        self.records += records.len() as u64;
        self.mark(&mut *store, false)?;
        self.store = Store::Open(store);
        Ok(())
    }

    /// Ends a log that was started: nothing more is to be written.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        match std::mem::replace(&mut self.store, Store::Broken) {
            Store::Open(mut store) => self.mark(&mut *store, true),
            other => {
                self.store = other;
                Ok(())
            }
        }
    }

    fn append(&mut self, store: &mut dyn LogStore, bytes: &[u8]) -> io::Result<()> {
        store.append(bytes)?;
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    fn mark(&mut self, store: &mut dyn LogStore, is_end: bool) -> io::Result<()> {
        let mark = Mark { batch: self.batch, records: self.records, bytes: self.bytes, is_end };
        self.append(store, &mark.encode())?;
        store.sync()
    }
}

#[cfg(test)]
mod tests;
