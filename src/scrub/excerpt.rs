//! Bytes that outlive the window they were read for: a part of one of its buffers, which stays out as long as the part
//! is needed, or a copy where that would hold too much.

use crate::device::PooledBuffer;
use std::fmt;
use std::ops::{Deref, Range};
use std::ptr;
use std::sync::Arc;

/// Bytes that grow sector by sector grow in big steps: each copies them all.
const GROWTH: usize = 16;

/// Bytes as they were read, or made from such.
#[derive(Clone, Default)]
pub struct Excerpt {
    part: Option<(Arc<PooledBuffer>, Range<usize>)>,
    /// Where it is no part.
    own: Vec<u8>,
}

impl Excerpt {
    /// `bytes`, without a copy where they lie in one of `buffers`.
    pub(super) fn of(bytes: &[u8], buffers: &[Arc<PooledBuffer>]) -> Self {
        let part = buffers.iter().find_map(|buffer| {
            let start = bytes.as_ptr().addr().checked_sub(buffer.as_ptr().addr())?;
            let range = start..start.checked_add(bytes.len())?;
            let is_there = buffer.get(range.clone()).is_some_and(|there| ptr::eq(there, bytes));
            is_there.then(|| (Arc::clone(buffer), range))
        });
        let own = if part.is_some() { Vec::new() } else { bytes.to_vec() };
        Self { part, own }
    }

    /// Takes in what belongs behind; the whole will be `max_bytes` long at the most.
    pub(super) fn append(&mut self, more: &[u8], max_bytes: usize) {
        if let Some((buffer, range)) = &mut self.part {
            let end = range.end + more.len();
            if buffer.get(range.end..end).is_some_and(|next| ptr::eq(next, more)) {
                range.end = end;
                return;
            }
        }
        self.release();
        if self.own.capacity() < self.own.len() + more.len() {
            let capacity = self.own.len().saturating_mul(GROWTH).min(max_bytes);
            self.own.reserve_exact(capacity.saturating_sub(self.own.len()).max(more.len()));
        }
        self.own.extend_from_slice(more);
    }

    /// Whether it is a part of `buffer`.
    pub(super) fn is_of(&self, buffer: &Arc<PooledBuffer>) -> bool {
        self.part.as_ref().is_some_and(|(own, _)| Arc::ptr_eq(own, buffer))
    }

    /// For whoever needs the bytes when their window is long done: the buffer is kept, or the bytes are copied where its
    /// pool cannot do without it.
    pub fn hold(&mut self) {
        if self.part.as_ref().is_some_and(|(buffer, _)| !buffer.keep()) {
            self.release();
        }
    }

    /// Lets go of the buffer; the bytes are copied.
    pub(super) fn release(&mut self) {
        if self.part.is_some() {
            *self = self.to_vec().into();
        }
    }
}

impl From<Vec<u8>> for Excerpt {
    fn from(own: Vec<u8>) -> Self {
        Self { part: None, own }
    }
}

impl Deref for Excerpt {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.part {
            Some((buffer, range)) => buffer.get(range.clone()).unwrap_or_default(),
            None => &self.own,
        }
    }
}

impl PartialEq for Excerpt {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Excerpt {}

impl fmt::Debug for Excerpt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::Excerpt;
    use crate::device::BufferPool;
    use std::sync::Arc;

    #[test]
    fn bytes_of_a_buffer_are_shared_and_others_are_copied() {
        let pool = BufferPool::new(1, 8192).unwrap();
        let mut buffer = pool.take();
        buffer[..4096].fill(1);
        buffer[4096..].fill(2);
        let buffers = [Arc::new(buffer)];
        let mut part = Excerpt::of(&buffers[0][..4096], &buffers);
        assert!(part.is_of(&buffers[0]));
        part.append(&buffers[0][4096..4608], 8192);
        assert!(part.is_of(&buffers[0]), "the next bytes of the same buffer");
        assert_eq!(*part, buffers[0][..4608]);
        part.append(&buffers[0][..512], 8192);
        assert!(!part.is_of(&buffers[0]));
        assert_eq!(*part, [&buffers[0][..4608], &buffers[0][..512]].concat());
        let like_it = vec![1; 4096];
        assert!(!Excerpt::of(&like_it, &buffers).is_of(&buffers[0]));
    }

    #[test]
    fn a_buffer_goes_back_where_there_is_none_to_stand_in_for_it() {
        let pool = BufferPool::new(1, 4096).unwrap();
        let buffers = [Arc::new(pool.take())];
        let mut part = Excerpt::of(&buffers[0][..512], &buffers);
        drop(buffers);
        assert!(pool.try_take().is_none());
        let bytes = part.to_vec();
        part.hold();
        assert_eq!(*part, bytes[..]);
        assert!(pool.try_take().is_some());
    }
}
