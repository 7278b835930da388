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
pub use record::{LogHeader, LogMember, OldBytes, Record};
pub use store::{FileLog, LogStore};

use std::io;

/// A log that is being written.
pub struct Journal {
    store: Store,
    batch: u64,
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
        store.append(&header.encode())?;
        store.sync()?;
        Ok(Self { store: Store::Open(store), batch: 0 })
    }

    /// A log that is started with its first batch, and not at all where nothing is written.
    pub fn on_demand(header: &LogHeader, make: MakeStore) -> Self {
        Self { store: Store::Later(make, header.encode()), batch: 0 }
    }

    /// Keeps nothing: what is overwritten is gone.
    pub fn none() -> Self {
        Self { store: Store::None, batch: 0 }
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
                store.append(&header)?;
                store
            }
            Store::Open(store) => store,
        };
        for record in records {
            store.append(&record.encode(self.batch))?;
        }
        store.sync()?;
        self.store = Store::Open(store);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
