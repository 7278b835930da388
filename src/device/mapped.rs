//! The engine that maps the file. On demand only: it is slower than the others, cold and hot.
//!
//! The bytes are copied out of the mapping by the kernel (`process_vm_readv` on this very process), never touched from
//! here: so a file that shrinks or a sector that fails under the mapping is an error of the call and not a signal.
//! That is also why no slice of the mapping is ever handed out.

use super::{ReadDevice, check_read};
use crate::units::Physical;
use memmap2::{Advice, Mmap};
use std::fs::File;
use std::io;

/// How much the kernel is asked to fetch ahead of a read (in units of the read itself: this and the next).
const AHEAD_READS: usize = 2;

pub(super) struct MappedDevice {
    file: File,
    mapping: Mmap,
    len: u64,
}

impl MappedDevice {
    /// Maps a regular file of `len` bytes. Fails where the kernel does not let a process read itself (a sandbox).
    #[expect(unsafe_code, reason = "maps a file")]
    pub(super) fn new(file: File, len: u64) -> io::Result<Self> {
        let bytes = usize::try_from(len).map_err(|_| io::ErrorKind::FileTooLarge)?;
        // SAFETY: the file may change under the mapping, so no reference to its bytes is ever made; only its address
        // is used, as an argument of a system call that reports what it cannot read.
        let mapping = unsafe { memmap2::MmapOptions::new().len(bytes).map(&file)? };
        let device = Self { file, mapping, len };
        match device.copy_out(0, &mut [0]) {
            Err(error) if matches!(error.raw_os_error(), Some(libc::EPERM | libc::ENOSYS)) => Err(error),
            _ => Ok(device),
        }
    }

    /// Has the kernel copy from the mapping at `offset`; the caller has checked the bounds.
    #[expect(unsafe_code, reason = "a system call on two raw ranges")]
    fn copy_out(&self, offset: usize, buf: &mut [u8]) -> io::Result<()> {
        let mut done = 0;
        while done < buf.len() {
            let Some(rest) = buf.get_mut(done..) else { break };
            let from = self.mapping.as_ptr().wrapping_add(offset + done);
            let local = libc::iovec { iov_base: rest.as_mut_ptr().cast(), iov_len: rest.len() };
            let remote = libc::iovec { iov_base: from.cast_mut().cast(), iov_len: rest.len() };
            // SAFETY: `local` is the live, exclusively borrowed `rest`. `remote` lies in the mapping, which lives as
            // long as `self`, and is only read; whether its pages can be had is for the kernel to find out.
            let count = unsafe { libc::process_vm_readv(libc::getpid(), &raw const local, 1, &raw const remote, 1, 0) };
            match usize::try_from(count) {
                Ok(0) => return Err(io::Error::from_raw_os_error(libc::EFAULT)),
                Ok(count) => done += count,
                Err(_) => {
                    let error = io::Error::last_os_error();
                    if error.kind() != io::ErrorKind::Interrupted {
                        return Err(error);
                    }
                }
            }
        }
        Ok(())
    }

    /// `UnexpectedEof` where the file has shrunk below `end`: the last page of a mapping reads as zeros beyond it.
    fn check_still_there(&self, end: u64) -> io::Result<()> {
        if self.file.metadata()?.len() < end { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
    }
}

impl ReadDevice for MappedDevice {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, at: Physical, buf: &mut [u8]) -> io::Result<()> {
        check_read(at, buf.len(), self.len)?;
        let offset = at.raw() as usize;
        let ahead = buf.len().saturating_mul(AHEAD_READS).min(self.mapping.len() - offset);
        // Advice: the copy faults the pages in where it is refused.
        let _ = self.mapping.advise_range(Advice::WillNeed, offset, ahead);
        let copied = self.copy_out(offset, buf);
        self.check_still_there(at.raw() + buf.len() as u64)?;
        // EFAULT is how a page that cannot be read shows itself here.
        copied.map_err(|error| match error.raw_os_error() {
            Some(libc::EFAULT) => io::Error::from_raw_os_error(libc::EIO),
            _ => error,
        })
    }
}
