//! What most of three or more copies have, byte by byte or bit by bit. Two candidates.

use super::Trial;

/// With fewer copies there is no majority.
const MIN_COPIES: usize = 3;

/// Holds both majorities against the checksum. `whole` are copies of one length, equal ones among them; where no value has
/// more votes than another, that of the first copy counts.
pub(super) fn search(whole: &[&[u8]], trial: &mut Trial<'_>) -> Option<Vec<u8>> {
    if whole.len() < MIN_COPIES {
        return None;
    }
    let by_byte = vote(whole, most_frequent);
    if trial.takes(&by_byte) {
        return Some(by_byte);
    }
    let by_bit = vote(whole, bitwise);
    (by_bit != by_byte && trial.takes(&by_bit)).then_some(by_bit)
}

fn vote(copies: &[&[u8]], of: impl Fn(&[u8]) -> u8) -> Vec<u8> {
    let len = copies.iter().map(|copy| copy.len()).min().unwrap_or(0);
    let mut votes = vec![0; copies.len()];
    (0..len)
        .map(|at| {
            for (vote, copy) in votes.iter_mut().zip(copies) {
                *vote = copy.get(at).copied().unwrap_or(0);
            }
            of(&votes)
        })
        .collect()
}

fn most_frequent(votes: &[u8]) -> u8 {
    let count = |value: &u8| votes.iter().map(|vote| usize::from(vote == value)).sum::<usize>();
    // Of equal ones the last is taken: hence backwards.
    votes.iter().rev().copied().max_by_key(count).unwrap_or(0)
}

fn bitwise(votes: &[u8]) -> u8 {
    (0..8).fold(0, |byte, bit| {
        let ones = votes.iter().filter(|vote| *vote >> bit & 1 == 1).count();
        let value = match (ones * 2).cmp(&votes.len()) {
            std::cmp::Ordering::Less => 0,
            std::cmp::Ordering::Equal => votes.first().map_or(0, |first| first >> bit & 1),
            std::cmp::Ordering::Greater => 1,
        };
        byte | value << bit
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_copy_decides_ties() {
        assert_eq!(most_frequent(&[1, 2, 3]), 1);
        assert_eq!(most_frequent(&[1, 2, 2]), 2);
        assert_eq!(most_frequent(&[4, 4, 2, 2]), 4);
        assert_eq!(bitwise(&[0b1100, 0b1010, 0b0110]), 0b1110);
        assert_eq!(bitwise(&[0b10, 0b10, 0b01, 0b01]), 0b10);
    }
}
