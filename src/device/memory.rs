//! A member in memory: for tests, and for tools that patch a copy of an image.

use super::{ReadDevice, WriteDevice, check_read, check_write};
use crate::units::Physical;
use std::io;
use std::sync::{PoisonError, RwLock};

/// An image in memory. Reads are concurrent; a write is seen by every read that starts after it.
#[derive(Default)]
pub struct MemoryDevice {
    bytes: RwLock<Vec<u8>>,
}

impl MemoryDevice {
    /// A member with these contents; its size never changes.
    pub fn new(bytes: Vec<u8>) -> Self {
        Self { bytes: RwLock::new(bytes) }
    }

    /// The contents.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// A copy of the contents.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.bytes.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl ReadDevice for MemoryDevice {
    fn len(&self) -> u64 {
        self.bytes.read().unwrap_or_else(PoisonError::into_inner).len() as u64
    }

    fn read_at(&self, at: Physical, buf: &mut [u8]) -> io::Result<()> {
        let bytes = self.bytes.read().unwrap_or_else(PoisonError::into_inner);
        check_read(at, buf.len(), bytes.len() as u64)?;
        let start = at.raw() as usize;
        buf.copy_from_slice(&bytes[start..start + buf.len()]);
        Ok(())
    }
}

impl WriteDevice for MemoryDevice {
    fn write_at(&self, at: Physical, data: &[u8]) -> io::Result<()> {
        let mut bytes = self.bytes.write().unwrap_or_else(PoisonError::into_inner);
        check_write(at, data.len(), bytes.len() as u64)?;
        let start = at.raw() as usize;
        bytes[start..start + data.len()].copy_from_slice(data);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}
