//! How this process's allocator keeps what was freed.
#![allow(unsafe_code, reason = "std has no say over the C library's allocator")]

/// Lets all threads share one heap. Called once, before there are threads.
///
/// glibc gives threads heaps of their own and keeps in each what was freed there: with some forty threads that pass
/// blocks to each other a scrub came to hold 1.4 times the memory for ten times the extents, 1.15 times with one heap.
/// The large buffers are mapped by themselves and the rest is small, so that the threads hardly meet.
pub fn share_one_heap() {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: sets a number inside the allocator; glibc takes its own lock for it.
        let _ = unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) };
    }
}
