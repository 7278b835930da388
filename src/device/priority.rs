//! How much this process's reads count beside those of others: the I/O class of its threads.
//!
//! Kernel: `ioprio_set(2)`, include/uapi/linux/ioprio.h. Threads that are started later inherit it.
#![allow(unsafe_code, reason = "neither std nor rustix has ioprio_set")]

use std::io;

/// The classes of the kernel's I/O schedulers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoClass {
    /// Before all others; only for root.
    Realtime,
    /// The usual one.
    BestEffort,
    /// Only when nobody else wants the disk.
    Idle,
}

/// The lowest priority within a class; the highest is 0.
pub const IO_LEVEL_MAX: u8 = 7;

const IOPRIO_WHO_PROCESS: libc::c_int = 1;
const IOPRIO_CLASS_SHIFT: u32 = 13;

/// Puts the calling thread into a class, at a level from 0 to [`IO_LEVEL_MAX`] (of no meaning when idle).
pub fn set_io_class(class: IoClass, level: u8) -> io::Result<()> {
    let number: libc::c_int = match class {
        IoClass::Realtime => 1,
        IoClass::BestEffort => 2,
        IoClass::Idle => 3,
    };
    let priority = (number << IOPRIO_CLASS_SHIFT) | libc::c_int::from(level.min(IO_LEVEL_MAX));
    // SAFETY: the call takes three integers and touches no memory of ours; 0 is the calling thread.
    let answer = unsafe { libc::syscall(libc::SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, priority) };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_can_be_made_idle_and_hands_that_on() {
        std::thread::spawn(|| {
            set_io_class(IoClass::Idle, 0).unwrap();
            let inherited = std::thread::spawn(|| {
                // SAFETY: as above; 0 is the calling thread.
                unsafe { libc::syscall(libc::SYS_ioprio_get, IOPRIO_WHO_PROCESS, 0) }
            });
            assert_eq!(inherited.join().unwrap() >> IOPRIO_CLASS_SHIFT, 3);
        })
        .join()
        .unwrap();
    }
}
