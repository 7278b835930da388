//! The bytes of one member: a regular file or a block device behind [`ReadDevice`].
//!
//! Nothing here knows what the bytes mean. Reads are exact: all bytes, or an error that keeps its errno. Four engines
//! (`direct`, `buffered`, `auto`, `mapped`) give the same bytes at different speeds; [`open_read`] chooses. Writing
//! needs a [`HeldDevice`] and a [`Consent`]; whoever writes has both from the lease.

mod auto;
mod below;
mod buffer;
mod buffered;
mod cache;
mod coalesce;
mod counting;
mod crash;
mod direct;
mod error;
mod fault;
mod heap;
mod in_use;
mod lock;
mod loop_status;
mod mapped;
mod memory;
mod nodes;
mod open;
mod priority;
#[cfg(test)]
mod tests;
mod tolerant;
mod writable;

pub use below::{
    Below, Layer, LowerFile, LowerPlace, LowerState, MAX_LOWER_FILES, MdLayer, ParityRows, Part, ReadOnlyReason,
    lower_devid, lower_file, search_below, sole_reading,
};
pub use buffer::{AlignedVec, BufferPool, PooledBuffer};
pub use cache::cache_drop;
pub use coalesce::{Coalesce, Limits, Request};
pub use counting::CountingDevice;
pub use crash::{CrashDevice, PowerSupply, Survivors};
pub use error::DeviceError;
pub use fault::{Fault, FaultyDevice};
pub use heap::share_one_heap;
pub(crate) use in_use::kernel_users;
pub use in_use::{Use, users_of};
pub use memory::MemoryDevice;
pub use nodes::{Behind, behind, block_nodes, is_held};
pub use open::{Identity, IoEngine, UnknownEngine, identity, open_read};
pub use priority::{IO_LEVEL_MAX, IoClass, set_io_class};
pub use tolerant::{FailedSector, read_tolerant};
pub use writable::{Consent, HeldDevice};

use crate::units::Physical;
use std::io;
use std::sync::Arc;

/// Exact, positioned, concurrent reads of one member.
pub trait ReadDevice: Send + Sync {
    /// The size in bytes (for block devices asked of the kernel, never `metadata().len()`).
    fn len(&self) -> u64;

    /// True for a device of no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The alignment in bytes that offset, length and buffer address must have for the fast path (1 where none is
    /// needed). Engines accept any request; an unaligned one costs a copy.
    fn alignment(&self) -> usize {
        1
    }

    /// Fills `buf` from `at`. A read that reaches past the end is `UnexpectedEof`; nothing is ever padded with zeros.
    /// After an error the contents of `buf` are unspecified.
    fn read_at(&self, at: Physical, buf: &mut [u8]) -> io::Result<()>;

    /// What it is made of, where it is not one file.
    fn below(&self) -> Option<&dyn Below> {
        None
    }
}

/// A member that may be written: over real members made only by [`HeldDevice`], which asks for consent.
pub trait WriteDevice: ReadDevice {
    /// Writes all of `data` at `at`. A member never grows: a write past the end is `InvalidInput`. After an error the
    /// range holds old bytes, new bytes, or some of each.
    fn write_at(&self, at: Physical, data: &[u8]) -> io::Result<()>;

    /// Returns when all that was written is on stable storage. A read after it is answered by the medium.
    fn sync(&self) -> io::Result<()>;
}

impl<D: ReadDevice + ?Sized> ReadDevice for Arc<D> {
    fn len(&self) -> u64 {
        (**self).len()
    }

    fn alignment(&self) -> usize {
        (**self).alignment()
    }

    fn read_at(&self, at: Physical, buf: &mut [u8]) -> io::Result<()> {
        (**self).read_at(at, buf)
    }

    fn below(&self) -> Option<&dyn Below> {
        (**self).below()
    }
}

impl<D: WriteDevice + ?Sized> WriteDevice for Arc<D> {
    fn write_at(&self, at: Physical, data: &[u8]) -> io::Result<()> {
        (**self).write_at(at, data)
    }

    fn sync(&self) -> io::Result<()> {
        (**self).sync()
    }
}

/// Whether `bytes` bytes from `at` lie within a member of `len` bytes.
fn in_bounds(at: Physical, bytes: usize, len: u64) -> bool {
    at.raw().checked_add(bytes as u64).is_some_and(|end| end <= len)
}

fn check_read(at: Physical, bytes: usize, len: u64) -> io::Result<()> {
    if in_bounds(at, bytes, len) { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

fn check_write(at: Physical, bytes: usize, len: u64) -> io::Result<()> {
    if in_bounds(at, bytes, len) { Ok(()) } else { Err(io::ErrorKind::InvalidInput.into()) }
}
