//! Where reads land: a bounded pool of buffers on huge pages, and small aligned scratch.
//!
//! A disk takes only so many segments in one request; on 4 KiB pages a request of 1 MiB is cut up and costs half the
//! speed. So all buffers of a pool are cut from one mapping that starts on a huge page. With a reserve a pool comes to
//! lend that one's buffers as well, which are cut alike.

#![expect(unsafe_code, reason = "one mapping is lent out as disjoint slices")]

use memmap2::{Advice, MmapMut};
use std::io;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

const HUGE_PAGE_BYTES: usize = 2 << 20;
/// Every buffer starts on a multiple of this: enough for direct I/O on any device.
const PAGE_BYTES: usize = 4096;

/// A fixed number of equal buffers. Whoever holds one may work; memory is the product and never more. Clones share.
#[derive(Clone)]
pub struct BufferPool {
    shared: Arc<Shared>,
}

struct Shared {
    buffer_bytes: usize,
    /// Buffers that nobody holds; the last returned (the hottest in the caches) goes out first.
    free: Mutex<Vec<Place>>,
    returned: Condvar,
    /// Has stand-ins for buffers that are kept.
    reserve: Option<BufferPool>,
}

impl Shared {
    fn free(&self) -> MutexGuard<'_, Vec<Place>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn give(&self, place: Place) {
        self.free().push(place);
        self.returned.notify_one();
    }
}

impl BufferPool {
    /// A pool of `count` buffers of `buffer_bytes` bytes each; both are raised to 1. Fails where the kernel gives no
    /// memory. Huge pages are asked for, not insisted on.
    pub fn new(count: usize, buffer_bytes: usize) -> io::Result<Self> {
        Self::over(count, buffer_bytes, None)
    }

    /// The same, with a pool of as large buffers that stand in for those that are kept ([`PooledBuffer::keep`]). Several
    /// pools may have one reserve: together they hold no more than their buffers and its.
    pub fn with_reserve(count: usize, reserve: &Self) -> io::Result<Self> {
        Self::over(count, reserve.buffer_bytes(), Some(reserve.clone()))
    }

    fn over(count: usize, buffer_bytes: usize, reserve: Option<Self>) -> io::Result<Self> {
        let (count, buffer_bytes) = (count.max(1), buffer_bytes.max(1));
        let too_big = || io::Error::from(io::ErrorKind::OutOfMemory);
        let stride_bytes = buffer_bytes.checked_next_multiple_of(PAGE_BYTES).ok_or_else(too_big)?;
        let memory = Arc::new(Memory::new(stride_bytes.checked_mul(count).ok_or_else(too_big)?)?);
        let place = |index| Place { memory: Arc::clone(&memory), start: index * stride_bytes, len: buffer_bytes };
        let free = Mutex::new((0..count).rev().map(place).collect());
        Ok(Self { shared: Arc::new(Shared { buffer_bytes, free, returned: Condvar::new(), reserve }) })
    }

    /// The length of each buffer.
    pub fn buffer_bytes(&self) -> usize {
        self.shared.buffer_bytes
    }

    /// A buffer, with whatever bytes its last user left in it; waits until one is returned.
    pub fn take(&self) -> PooledBuffer {
        let mut free = self.shared.free();
        loop {
            if let Some(place) = free.pop() {
                return self.lend(place);
            }
            free = self.shared.returned.wait(free).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// A buffer if one is free now.
    pub fn try_take(&self) -> Option<PooledBuffer> {
        let place = self.shared.free().pop()?;
        Some(self.lend(place))
    }

    fn lend(&self, place: Place) -> PooledBuffer {
        PooledBuffer { place, home: self.clone(), kept: OnceLock::new() }
    }
}

/// A buffer on loan from a [`BufferPool`]; goes back when dropped.
pub struct PooledBuffer {
    place: Place,
    home: BufferPool,
    /// Where it goes back to once it is kept: to the reserve that gave the one in its place.
    kept: OnceLock<BufferPool>,
}

impl PooledBuffer {
    /// Says that this buffer will be held for long: its pool gets another one from the reserve. `false` where there is none.
    pub fn keep(&self) -> bool {
        if self.kept.get().is_some() {
            return true;
        }
        let Some(reserve) = &self.home.shared.reserve else { return false };
        let Some(stand_in) = reserve.shared.free().pop() else { return false };
        let gains = if self.kept.set(reserve.clone()).is_ok() { &self.home } else { reserve };
        gains.shared.give(stand_in);
        true
    }
}

impl Drop for PooledBuffer {
    fn drop(&mut self) {
        let place = Place { memory: Arc::clone(&self.place.memory), ..self.place };
        self.kept.get().unwrap_or(&self.home).shared.give(place);
    }
}

impl Deref for PooledBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let Place { memory, start, len } = &self.place;
        // SAFETY: `start + len` lies within the mapping, which was sized for all places in it and lives as long as
        // `memory`. A place is in one list or in one `PooledBuffer`, so only this one refers to these bytes, and the
        // borrow of `self` keeps `deref_mut` away meanwhile.
        unsafe { std::slice::from_raw_parts(memory.start.add(*start), *len) }
    }
}

impl DerefMut for PooledBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        let Place { memory, start, len } = &self.place;
        // SAFETY: as in `deref`; `&mut self` makes the borrow exclusive.
        unsafe { std::slice::from_raw_parts_mut(memory.start.add(*start), *len) }
    }
}

/// The bytes of one buffer in a mapping. There is one for each, and no two overlap.
struct Place {
    memory: Arc<Memory>,
    start: usize,
    len: usize,
}

/// One anonymous mapping, used from its first huge page boundary on, and only through `start`.
struct Memory {
    start: *mut u8,
    _mapping: MmapMut,
}

// SAFETY: `start` is plain memory of the process, valid on every thread while the mapping lives; `PooledBuffer` sees to
// it that no two references to one byte exist.
unsafe impl Send for Memory {}
// SAFETY: as above; `Memory` itself offers nothing that reads or writes.
unsafe impl Sync for Memory {}

impl Memory {
    fn new(bytes: usize) -> io::Result<Self> {
        // Whole huge pages, and one more to find an aligned start in: the last page is huge only if all of it is ours.
        let whole = bytes.checked_next_multiple_of(HUGE_PAGE_BYTES);
        let total = whole.and_then(|whole| whole.checked_add(HUGE_PAGE_BYTES)).ok_or(io::ErrorKind::OutOfMemory)?;
        let mut mapping = MmapMut::map_anon(total)?;
        let start = mapping.as_mut_ptr();
        let skip = start.align_offset(HUGE_PAGE_BYTES).min(HUGE_PAGE_BYTES);
        // A kernel without huge pages serves small ones: slower, not wrong.
        let _ = mapping.advise(Advice::HugePage);
        // Within the mapping: it is longer than `bytes` by a huge page at least, and `skip` is at most that.
        Ok(Self { start: start.wrapping_add(skip), _mapping: mapping })
    }
}

/// Small zeroed scratch whose address is a multiple of a power of two.
pub struct AlignedVec {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl AlignedVec {
    /// `len` zeros at a multiple of `alignment` (raised to a power of two).
    pub fn new(len: usize, alignment: usize) -> Self {
        let alignment = alignment.next_power_of_two();
        let bytes = vec![0; len + alignment];
        let start = bytes.as_ptr().align_offset(alignment).min(alignment);
        Self { bytes, start, len }
    }
}

impl Deref for AlignedVec {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.len]
    }
}

impl DerefMut for AlignedVec {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::{AlignedVec, BufferPool};
    use std::collections::HashSet;
    use std::thread;

    #[test]
    fn a_pool_lends_as_many_buffers_as_it_has_and_no_two_overlap() {
        let pool = BufferPool::new(3, 5000).unwrap();
        let mut held: Vec<_> = (0..3).map(|_| pool.take()).collect();
        assert!(pool.try_take().is_none());
        for (value, buffer) in (1..).zip(&mut held) {
            assert_eq!(buffer.len(), 5000);
            assert_eq!(buffer.as_ptr() as usize % 4096, 0);
            buffer.fill(value);
        }
        for (value, buffer) in (1..).zip(&held) {
            assert!(buffer.iter().all(|byte| *byte == value));
        }
        let addresses: HashSet<_> = held.iter().map(|buffer| buffer.as_ptr() as usize).collect();
        assert_eq!(addresses.len(), 3);
        held.pop();
        assert!(pool.try_take().is_some());
    }

    #[test]
    fn the_first_buffer_starts_on_a_huge_page() {
        let pool = BufferPool::new(2, 1 << 20).unwrap();
        assert_eq!(pool.take().as_ptr() as usize % (2 << 20), 0);
    }

    #[test]
    fn a_waiting_thread_gets_the_buffer_that_another_returns() {
        let pool = BufferPool::new(1, 64).unwrap();
        let mut held = pool.take();
        held[0] = 77;
        let waiting = pool.clone();
        let taker = thread::spawn(move || waiting.take()[0]);
        drop(held);
        assert_eq!(taker.join().unwrap(), 77);
    }

    #[test]
    fn a_buffer_that_is_kept_is_replaced_while_the_reserve_has_one() {
        let reserve = BufferPool::new(1, 64).unwrap();
        let (pool, other) =
            (BufferPool::with_reserve(1, &reserve).unwrap(), BufferPool::with_reserve(1, &reserve).unwrap());
        let first = pool.take();
        assert!(pool.try_take().is_none());
        assert!(first.keep() && first.keep());
        let second = pool.take();
        assert!(!second.keep() && !other.take().keep(), "the reserve is of both");
        drop(first);
        assert!(pool.try_take().is_none(), "what was kept goes to the reserve");
        let third = other.take();
        assert!(third.keep() && other.try_take().is_some() && !second.keep());
        assert_eq!(second.as_ptr() as usize % 4096, 0);
    }

    #[test]
    fn a_pool_beyond_the_address_space_is_refused() {
        assert!(BufferPool::new(usize::MAX, 4096).is_err());
        assert!(BufferPool::new(1, usize::MAX).is_err());
        assert!(BufferPool::new(1, usize::MAX - 8191).is_err());
    }

    #[test]
    fn scratch_is_aligned_and_zeroed() {
        for alignment in [1, 512, 4096, 3000] {
            let mut scratch = AlignedVec::new(700, alignment);
            assert_eq!(scratch.as_ptr() as usize % alignment.next_power_of_two(), 0);
            assert_eq!(scratch.len(), 700);
            assert!(scratch.iter().all(|byte| *byte == 0));
            scratch[699] = 1;
        }
    }
}
