//! One bit of a copy is wrong: in the block, or in the checksum that a tree block carries.

use super::Trial;
use crate::checksum::ChecksumType;

/// Where each place must be hashed, bits are looked for up to here: all of a sector and of a tree block of the usual size.
pub(super) const MAX_SEARCHED_BYTES: usize = 16 << 10;

/// The tree block with the checksum that its content has, where the two differ in one bit.
pub(super) fn in_checksum(damaged: &[&[u8]], trial: &mut Trial<'_>) -> Option<Vec<u8>> {
    if trial.lost.stored.is_some() {
        return None;
    }
    damaged.iter().find_map(|copy| {
        // All values that differ in one bit are compared at once.
        trial.tries += trial.lost.csum_type.digest_len() as u64 * 8;
        let digest = trial.bit_off_in_checksum(copy)?;
        let mut block = copy.to_vec();
        block.get_mut(..digest.as_bytes().len())?.copy_from_slice(digest.as_bytes());
        (trial.lost.accept)(&block).then_some(block)
    })
}

/// A copy with the bit turned back that makes it match.
pub(super) fn in_block(damaged: &[&[u8]], trial: &mut Trial<'_>) -> Option<Vec<u8>> {
    let csum_type = trial.lost.csum_type;
    damaged.iter().filter(|copy| !is_blank(copy)).find_map(|copy| {
        let checked = trial.checked(copy);
        let within = if csum_type == ChecksumType::Crc32c { checked.len() } else { MAX_SEARCHED_BYTES };
        trial.tries += within.min(checked.len()) as u64 * 8;
        let at = csum_type.flipped_bit(checked, trial.stored(copy), within)?;
        let mut block = copy.to_vec();
        at.turn(block.get_mut(trial.checked_from()..)?);
        (trial.lost.accept)(&block).then_some(block)
    })
}

/// A wiped place: the same byte all over. No content is one bit away from that, and wiped places are many.
fn is_blank(copy: &[u8]) -> bool {
    copy.windows(2).all(|pair| matches!(pair, [a, b] if a == b))
}
