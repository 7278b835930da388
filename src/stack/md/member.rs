//! One member of an md array: where its data begins, up to where it is in sync, and which of its sectors md knows to be
//! bad.

use crate::device::LowerPlace;
use crate::stack::node::{Node, first_part};
use smallvec::SmallVec;
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// A member that belongs to the array.
pub(super) struct Member {
    pub(super) node: Arc<dyn Node>,
    pub(super) data_offset: u64,
    /// From the start of the data.
    pub(super) in_sync_bytes: u64,
    /// Ascending, from the start of the data.
    pub(super) bad: Vec<Range<u64>>,
}

/// The members by role; `None` where one is missing.
pub(super) struct Members(pub(super) Vec<Option<Member>>);

impl Members {
    /// The member with this role, if it has the whole range in sync.
    pub(super) fn in_sync(&self, role: u32, at: u64, len_bytes: u64) -> Option<&Member> {
        let member = self.0.get(role as usize)?.as_ref()?;
        at.checked_add(len_bytes).is_some_and(|end| end <= member.in_sync_bytes).then_some(member)
    }

    /// Reads a range of the data of a member.
    pub(super) fn read(&self, role: u32, at: u64, buf: &mut [u8]) -> io::Result<()> {
        let member = self.in_sync(role, at, buf.len() as u64).ok_or_else(unreadable)?;
        let end = at + buf.len() as u64;
        if member.bad.iter().any(|bad| bad.start < end && bad.end > at) {
            return Err(unreadable());
        }
        member.node.read(member.data_offset + at, buf)
    }

    /// Where the first bytes of a range of the data of a member are stored, and how many of them in one way.
    pub(super) fn places(&self, role: u32, at: u64, len_bytes: u64) -> Option<(u64, SmallVec<[LowerPlace; 2]>)> {
        let member = self.in_sync(role, at, len_bytes)?;
        let part = first_part(&*member.node, member.data_offset + at, len_bytes)?;
        let named = |place: LowerPlace| LowerPlace { role: place.role.or(Some(role)), ..place };
        Some((part.len_bytes, part.copies.into_iter().map(named).collect()))
    }

    /// How far from `at` all members keep being in sync, or not.
    pub(super) fn even_bytes(&self, at: u64, len_bytes: u64) -> u64 {
        let borders = self.0.iter().flatten().map(|member| member.in_sync_bytes);
        borders.filter(|border| *border > at).fold(len_bytes, |len, border| len.min(border - at))
    }
}

/// What md answers where no member can be asked.
pub(super) fn unreadable() -> io::Error {
    io::Error::from_raw_os_error(libc::EIO)
}
