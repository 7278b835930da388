//! Right bytes from copies that are all bad: what most of them have, parts of different copies, or one of them with a
//! bit turned back, whatever the checksum takes.
//!
//! Only guesses: a checksum of 32 bits takes one wrong candidate in 2^32, so each candidate is counted, and each method
//! has a limit. Three turned bits look to CRC-32C like one turned bit elsewhere in one of 2^16 sectors; with the longer
//! checksums that does not happen. Never reads or writes devices, and never asks more of a block than `accept` does.

mod bit;
mod majority;
mod splice;
#[cfg(test)]
mod tests;

use crate::checksum::Digest;
use crate::format::node::CSUM_FIELD_BYTES;
use crate::scrub::mend::{Guess, GuessMethod, LostCopies, LostCopy, Salvage};

/// Salvages from what was read of the block, and from nothing else. The order is that of the number of candidates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FromBadCopies;

impl Salvage for FromBadCopies {
    fn salvage(&self, lost: &LostCopies<'_>) -> Option<(Vec<u8>, Guess)> {
        let mut trial = Trial { lost, tries: 0 };
        let whole: Vec<&[u8]> = lost.copies.iter().filter(|c| c.unreadable.is_empty()).map(|c| &*c.bytes).collect();
        let damaged = trial.damaged(&whole);
        if lost.stored.is_some() && damaged.iter().any(|copy| trial.bit_off_in_checksum(copy).is_some()) {
            // The data is right. Its checksum is an item of a tree block that verifies: not to be mended here.
            return None;
        }
        let (bytes, method) = majority::search(&whole, &mut trial)
            .map(|bytes| (bytes, GuessMethod::Majority))
            .or_else(|| bit::in_checksum(&damaged, &mut trial).map(|bytes| (bytes, GuessMethod::ChecksumBit)))
            .or_else(|| splice::search(lost.copies, &mut trial).map(|bytes| (bytes, GuessMethod::Splice)))
            .or_else(|| bit::in_block(&damaged, &mut trial).map(|bytes| (bytes, GuessMethod::OneBit)))?;
        let check_bits = lost.csum_type.digest_len() as u16 * 8;
        Some((bytes, Guess { method, tries: trial.tries, check_bits }))
    }
}

/// A block on trial, and how many candidates have been held against its checksum.
struct Trial<'a> {
    lost: &'a LostCopies<'a>,
    tries: u64,
}

impl Trial<'_> {
    /// Whether the candidate is the right block.
    fn takes(&mut self, candidate: &[u8]) -> bool {
        self.tries += 1;
        self.verifies(candidate) && (self.lost.accept)(candidate)
    }

    /// Where the checked bytes of a block begin: behind the checksum of a tree block.
    fn checked_from(&self) -> usize {
        if self.lost.stored.is_some() { 0 } else { CSUM_FIELD_BYTES }
    }

    fn checked<'b>(&self, block: &'b [u8]) -> &'b [u8] {
        block.get(self.checked_from()..).unwrap_or_default()
    }

    /// The checksum that a block claims, or that its sector should have.
    fn stored<'b>(&'b self, block: &'b [u8]) -> &'b [u8] {
        self.lost.stored.unwrap_or(block).get(..self.lost.csum_type.digest_len()).unwrap_or_default()
    }

    fn digest(&self, block: &[u8]) -> Digest {
        self.lost.csum_type.digest(self.checked(block))
    }

    fn verifies(&self, block: &[u8]) -> bool {
        self.digest(block).as_bytes() == self.stored(block)
    }

    /// The digest of a block whose stored checksum differs from it in exactly one bit.
    fn bit_off_in_checksum(&self, block: &[u8]) -> Option<Digest> {
        let digest = self.digest(block);
        let differing =
            digest.as_bytes().iter().zip(self.stored(block)).map(|(have, stored)| (have ^ stored).count_ones());
        (differing.sum::<u32>() == 1).then_some(digest)
    }

    /// Each different copy once. One that verifies is another block, or the same one at another time: turning a bit of
    /// it leads nowhere.
    fn damaged<'b>(&self, whole: &[&'b [u8]]) -> Vec<&'b [u8]> {
        let mut damaged: Vec<&[u8]> = Vec::with_capacity(whole.len());
        for copy in whole {
            if !damaged.contains(copy) && !self.verifies(copy) {
                damaged.push(copy);
            }
        }
        damaged
    }
}

/// Whether the copy can be read between `from` and `to`.
fn is_readable(copy: &LostCopy<'_>, from: usize, to: usize) -> bool {
    copy.unreadable.iter().all(|lost| to <= lost.start || lost.end <= from)
}
