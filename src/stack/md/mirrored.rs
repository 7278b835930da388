//! RAID1 and RAID10: several copies of everything.

use super::member::{Members, unreadable};
use crate::device::LowerPlace;
use crate::md::Raid10;
use crate::stack::node::{Node, Parts};
use smallvec::SmallVec;
use std::io;

/// Where the copies are.
pub(super) enum Copies {
    /// On every member, in the same place.
    Raid1 {
        /// Of each member.
        len_bytes: u64,
    },
    /// By the layout.
    Raid10(Raid10),
}

pub(super) struct Mirrored {
    pub(super) members: Members,
    pub(super) copies: Copies,
}

type Places = SmallVec<[(u32, u64); 4]>;

impl Mirrored {
    /// The copies of the byte at `at` as roles and places, and how many bytes lie so.
    fn find(&self, at: u64) -> (Places, u64) {
        match &self.copies {
            Copies::Raid1 { len_bytes } => {
                ((0..self.members.0.len() as u32).map(|role| (role, at)).collect(), len_bytes.saturating_sub(at))
            }
            Copies::Raid10(geometry) => {
                let copies = geometry.copies(at).into_iter().map(|copy| (copy.device, copy.at.raw())).collect();
                (copies, geometry.left_in_chunk(at))
            }
        }
    }
}

impl Node for Mirrored {
    fn len(&self) -> u64 {
        match &self.copies {
            Copies::Raid1 { len_bytes } => *len_bytes,
            Copies::Raid10(geometry) => geometry.len_bytes(),
        }
    }

    fn read(&self, mut at: u64, mut buf: &mut [u8]) -> io::Result<()> {
        while !buf.is_empty() {
            let (copies, left) = self.find(at);
            let first = copies.first().map_or(0, |(_, place)| *place);
            let len = self.members.even_bytes(first, left.min(buf.len() as u64)).max(1);
            let (now, later) = buf.split_at_mut(len as usize);
            let mut result = Err(unreadable());
            for (role, place) in copies {
                result = self.members.read(role, place, now);
                if result.is_ok() {
                    break;
                }
            }
            result?;
            at += len;
            buf = later;
        }
        Ok(())
    }

    fn cut(&self, mut at: u64, mut len_bytes: u64, parts: &mut Parts) {
        while len_bytes > 0 {
            let (copies, left) = self.find(at);
            let mut now = left.min(len_bytes);
            for (_, place) in &copies {
                now = self.members.even_bytes(*place, now);
            }
            let places = |len: u64| copies.iter().filter_map(move |(role, at)| self.members.places(*role, *at, len));
            now = places(now).fold(now, |now, (len, _)| now.min(len)).max(1);
            let all: SmallVec<[LowerPlace; 2]> = places(now).flat_map(|(_, places)| places).collect();
            parts.push(now, all, None);
            (at, len_bytes) = (at + now, len_bytes - now);
        }
    }
}
