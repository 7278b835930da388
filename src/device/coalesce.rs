//! Which pieces of a device are fetched with one request: neighbours are joined, and so are pieces with a small gap
//! between them, because reading the gap is cheaper than another request. Decides; reads nothing.

use crate::units::Physical;
use std::iter::Peekable;
use std::ops::Range;

/// How far [`Coalesce`] may go, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest gap that is read along.
    pub gap_bytes: u64,
    /// The largest request; 0 counts as 1.
    pub request_bytes: u64,
}

impl Default for Limits {
    /// Measured on disks of all speeds: gaps up to 128 KiB, requests of 1 MiB.
    fn default() -> Self {
        Self { gap_bytes: 128 << 10, request_bytes: 1 << 20 }
    }
}

/// One read to issue.
pub type Request = Range<Physical>;

/// Turns pieces in ascending order into requests. Every byte of every piece is in exactly one request; pieces may touch
/// or overlap; one that is too long is cut; empty ones vanish. A request starts and ends with bytes that were asked for.
pub struct Coalesce<I: Iterator> {
    pieces: Peekable<I>,
    limits: Limits,
    /// What a cut left of the piece last taken.
    rest: Option<Request>,
    /// Where the last request ended: what lies before has been fetched.
    done: Physical,
}

impl<I: Iterator<Item = Range<Physical>>> Coalesce<I> {
    /// Joins `pieces`, which come in ascending order of their starts.
    pub fn new(pieces: impl IntoIterator<IntoIter = I>, limits: Limits) -> Self {
        let limits = Limits { request_bytes: limits.request_bytes.max(1), ..limits };
        Self { pieces: pieces.into_iter().peekable(), limits, rest: None, done: Physical::new(0) }
    }

    /// The next piece with something left to fetch.
    fn next_piece(&mut self) -> Option<Request> {
        let done = self.done;
        let rest = self.rest.take();
        rest.into_iter()
            .chain(self.pieces.by_ref())
            .map(|piece| piece.start.max(done)..piece.end)
            .find(|piece| piece.start < piece.end)
    }
}

impl<I: Iterator<Item = Range<Physical>>> Iterator for Coalesce<I> {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        let mut request = self.next_piece()?;
        let limit = request.start + self.limits.request_bytes;
        while request.end <= limit {
            let reach = (request.end + self.limits.gap_bytes).min(limit);
            // At the limit itself nothing of the next piece would fit.
            let joins = |next: &Request| next.start <= reach && (next.start < limit || next.end <= request.end);
            let Some(piece) = self.pieces.next_if(joins) else { break };
            if piece.start < piece.end {
                request.end = request.end.max(piece.end);
            }
        }
        if request.end > limit {
            self.rest = Some(limit..request.end);
            request.end = limit;
        }
        self.done = request.end;
        Some(request)
    }
}

#[cfg(test)]
mod tests {
    use super::{Coalesce, Limits};
    use crate::units::Physical;
    use proptest::prelude::*;

    const LIMITS: Limits = Limits { gap_bytes: 10, request_bytes: 100 };

    fn requests(pieces: &[(u64, u64)]) -> Vec<(u64, u64)> {
        let pieces = pieces.iter().map(|(start, end)| Physical::new(*start)..Physical::new(*end));
        Coalesce::new(pieces, LIMITS).map(|request| (request.start.raw(), request.end.raw())).collect()
    }

    #[test]
    fn neighbours_and_small_gaps_are_joined_and_wide_ones_are_not() {
        assert_eq!(requests(&[]), []);
        assert_eq!(requests(&[(5, 9)]), [(5, 9)]);
        assert_eq!(requests(&[(0, 20), (20, 40)]), [(0, 40)]);
        assert_eq!(requests(&[(0, 20), (30, 40)]), [(0, 40)]);
        assert_eq!(requests(&[(0, 20), (31, 40)]), [(0, 20), (31, 40)]);
    }

    #[test]
    fn a_long_piece_is_cut_and_its_end_is_joined_with_what_follows() {
        assert_eq!(requests(&[(0, 250), (255, 260)]), [(0, 100), (100, 200), (200, 260)]);
        assert_eq!(requests(&[(0, 60), (65, 150)]), [(0, 100), (100, 150)]);
        assert_eq!(requests(&[(0, 100), (100, 101)]), [(0, 100), (100, 101)]);
    }

    #[test]
    fn a_request_never_ends_in_a_gap() {
        assert_eq!(requests(&[(0, 95), (102, 110)]), [(0, 95), (102, 110)]);
        assert_eq!(requests(&[(0, 95), (100, 110)]), [(0, 95), (100, 110)]);
        assert_eq!(requests(&[(0, 95), (99, 110)]), [(0, 100), (100, 110)]);
    }

    #[test]
    fn overlaps_are_fetched_once_and_empty_pieces_vanish() {
        assert_eq!(requests(&[(0, 50), (10, 20), (40, 60)]), [(0, 60)]);
        assert_eq!(requests(&[(0, 250), (10, 20), (120, 130), (240, 270)]), [(0, 100), (100, 200), (200, 270)]);
        assert_eq!(requests(&[(7, 7), (20, 30), (35, 35), (60, 60)]), [(20, 30)]);
        assert_eq!(requests(&[(u64::MAX - 5, u64::MAX)]), [(u64::MAX - 5, u64::MAX)]);
    }

    proptest! {
        #[test]
        fn every_byte_asked_for_is_in_exactly_one_request(
            mut pieces in prop::collection::vec((0_u64..600, 0_u64..150), 0..30),
        ) {
            for (start, end) in &mut pieces {
                *end += *start;
            }
            pieces.sort_by_key(|(start, _)| *start);
            let requests = requests(&pieces);
            for pair in requests.windows(2) {
                prop_assert!(pair[0].1 <= pair[1].0);
            }
            let wanted = |byte: u64| pieces.iter().any(|(start, end)| (*start..*end).contains(&byte));
            for byte in 0..800 {
                let fetched = requests.iter().filter(|(start, end)| (*start..*end).contains(&byte)).count();
                prop_assert!(!wanted(byte) || fetched == 1);
            }
            for (start, end) in requests {
                prop_assert!(start < end && end - start <= LIMITS.request_bytes);
                prop_assert!(wanted(start) && wanted(end - 1));
            }
        }
    }
}
