//! The search for the right bytes of one data column: every combination of other columns that the profile allows, until
//! the caller's check accepts one. Nothing is ever returned that was not accepted.
//!
//! All combinations follow from how far the row fails to add up. With `S_p` and `S_q` the sums of all columns that
//! should be zero, the error of column `x` is
//!
//! * `S_p` if P and all others are right;
//! * `S_q / 2^x` if Q and all others are right;
//! * `(S_q + 2^y S_p) / (2^x + 2^y)` if P, Q and all others but `y` are right.
//!
//! So each candidate costs one pass over two columns, however many the row has (kernel: `recover_vertical` in
//! `fs/btrfs/raid56.c`, which tries failed columns one scrub at a time; `lib/raid6/recov.c`).

use super::field::{exp2, inverse, mul};
use super::{mul_into, p_parity, pq_parity, xor_into};
use smallvec::SmallVec;

/// The most ways of putting one block together from sectors of different sources; what all sources agree on costs
/// nothing.
pub const MAX_RECOVERY_TRIES: usize = 4096;

/// The same range of every column of one row. `None` stands for a column that is missing or could not be read (and for
/// the Q of RAID5).
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// The data columns in logical order.
    pub data: &'a [Option<&'a [u8]>],
    /// First parity.
    pub p: Option<&'a [u8]>,
    /// Second parity.
    pub q: Option<&'a [u8]>,
}

/// A column of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RowColumn {
    /// Data, by its number in logical order.
    Data(usize),
    /// First parity.
    P,
    /// Second parity.
    Q,
}

/// Where recovered bytes come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RecoverySource {
    /// The column itself: this sector was good.
    AsRead,
    /// P and all other data.
    P,
    /// Q and all other data.
    Q,
    /// P and Q and all data but one other column.
    PQ {
        /// The number of the data column that was left out.
        with: usize,
    },
}

/// Bytes that were accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// The range of the target column as it should be.
    pub bytes: Vec<u8>,
    /// Where each sector of it comes from.
    pub sources: SmallVec<[RecoverySource; 16]>,
}

impl Recovered {
    /// The one source of all sectors that were rebuilt; `None` where they have different ones or none was.
    pub fn source(&self) -> Option<RecoverySource> {
        let mut rebuilt = self.sources.iter().copied().filter(|source| *source != RecoverySource::AsRead);
        let first = rebuilt.next()?;
        rebuilt.all(|other| other == first).then_some(first)
    }
}

/// Looks for the bytes of data column `target` that `accept` takes: first each source alone for the whole range, then
/// other sources for each sector of `sector_bytes`, most trusted first, at most [`MAX_RECOVERY_TRIES`] ways.
/// `known_bad(sector, column)` tells of columns whose bytes are known to be wrong in a sector: sources that use them are
/// tried last. Returns `None` where nothing is accepted.
///
/// # Panics
/// Where the columns are not of one length.
pub fn recover(
    row: Row<'_>,
    target: usize,
    sector_bytes: usize,
    known_bad: impl Fn(usize, RowColumn) -> bool,
    mut accept: impl FnMut(&[u8]) -> bool,
) -> Option<Recovered> {
    let as_read = *row.data.get(target)?;
    let len = [row.p, row.q].into_iter().flatten().chain(row.data.iter().copied().flatten()).map(<[u8]>::len).next()?;
    let sector_bytes = sector_bytes.clamp(1, len.max(1));
    let sectors = len.div_ceil(sector_bytes);
    let distrust = |source, sector| row.uses(target, source).filter(|column| known_bad(sector, *column)).count();

    let mut sources = row.sources(target);
    sources.sort_by_cached_key(|source| (0..sectors).map(|sector| distrust(*source, sector)).sum::<usize>());
    let syndromes = Syndromes::of(&row, len);
    let mut candidates = Vec::with_capacity(sources.len() + 1);
    for source in sources {
        let bytes = syndromes.candidate(as_read, target, source);
        if accept(&bytes) {
            return Some(Recovered { bytes, sources: SmallVec::from_elem(source, sectors) });
        }
        candidates.push((source, bytes));
    }
    if sectors < 2 {
        return None;
    }
    candidates.extend(as_read.map(|bytes| (RecoverySource::AsRead, bytes.to_vec())));
    let choices = (0..sectors)
        .map(|sector| Choices::of(&candidates, sector, sector_bytes, |source| distrust(source, sector)))
        .collect();
    Mixer::new(choices, len).search(&mut accept)
}

/// What data column `target` may be: by each source that can be computed with what is present, in the order of
/// [`recover`].
pub fn candidates(row: Row<'_>, target: usize) -> Vec<Vec<u8>> {
    let lens = [row.p, row.q].into_iter().flatten().chain(row.data.iter().copied().flatten()).map(<[u8]>::len);
    let (Some(len), Some(as_read)) = (lens.min(), row.data.get(target)) else { return Vec::new() };
    let syndromes = Syndromes::of(&row, len);
    row.sources(target).into_iter().map(|source| syndromes.candidate(*as_read, target, source)).collect()
}

impl Row<'_> {
    /// The sources that can be computed for `target` with what is present.
    fn sources(&self, target: usize) -> Vec<RecoverySource> {
        let present = |y: &usize| self.data.get(*y).is_some_and(Option::is_some);
        let mut absent = (0..self.data.len()).filter(|y| *y != target && !present(y));
        let mut sources = Vec::new();
        match (absent.next(), absent.next()) {
            (None, _) => {
                sources.extend(self.p.map(|_| RecoverySource::P));
                sources.extend(self.q.map(|_| RecoverySource::Q));
                if self.p.is_some() && self.q.is_some() {
                    let others = (0..self.data.len()).filter(|y| *y != target);
                    sources.extend(others.map(|with| RecoverySource::PQ { with }));
                }
            }
            (Some(with), None) if self.p.is_some() && self.q.is_some() => sources.push(RecoverySource::PQ { with }),
            _ => {}
        }
        sources
    }

    /// The columns whose bytes go into `target` when it is taken from `source`.
    fn uses(&self, target: usize, source: RecoverySource) -> impl Iterator<Item = RowColumn> {
        let (p, q, without) = match source {
            RecoverySource::AsRead => (false, false, None),
            RecoverySource::P => (true, false, None),
            RecoverySource::Q => (false, true, None),
            RecoverySource::PQ { with } => (true, true, Some(with)),
        };
        let data = (0..self.data.len()).filter(move |y| {
            let itself = *y == target;
            if source == RecoverySource::AsRead { itself } else { !itself && Some(*y) != without }
        });
        let parities = [p.then_some(RowColumn::P), q.then_some(RowColumn::Q)];
        data.map(RowColumn::Data).chain(parities.into_iter().flatten())
    }
}

/// By how much the row fails to add up; a parity that is absent counts as zeros, as absent data does.
struct Syndromes {
    p: Vec<u8>,
    q: Vec<u8>,
}

impl Syndromes {
    fn of(row: &Row<'_>, len: usize) -> Self {
        let (mut p, mut q) = (vec![0; len], Vec::new());
        if let Some(parity) = row.q {
            q.resize(len, 0);
            pq_parity(&mut p, &mut q, row.data);
            xor_into(&mut q, parity);
        } else {
            p_parity(&mut p, row.data);
        }
        xor_into(&mut p, row.p.unwrap_or_default());
        Self { p, q }
    }

    /// The bytes of `target` if `source` is right: what was read (or nothing) and its error.
    fn candidate(&self, as_read: Option<&[u8]>, target: usize, source: RecoverySource) -> Vec<u8> {
        let mut bytes = as_read.map_or_else(|| vec![0; self.p.len()], <[u8]>::to_vec);
        match source {
            RecoverySource::AsRead => {}
            RecoverySource::P => xor_into(&mut bytes, &self.p),
            RecoverySource::Q => mul_into(&mut bytes, &self.q, inverse(exp2(target))),
            RecoverySource::PQ { with } => {
                let share = inverse(exp2(target) ^ exp2(with));
                mul_into(&mut bytes, &self.q, share);
                mul_into(&mut bytes, &self.p, mul(share, exp2(with)));
            }
        }
        bytes
    }
}

/// The different contents that one sector may have, the most trusted first.
struct Choices<'a>(Vec<(RecoverySource, &'a [u8])>);

impl<'a> Choices<'a> {
    /// Trust goes first to sources that use no column known to be bad, then to what several sources agree on.
    fn of(
        candidates: &'a [(RecoverySource, Vec<u8>)],
        sector: usize,
        sector_bytes: usize,
        distrust: impl Fn(RecoverySource) -> usize,
    ) -> Self {
        let mut contents: Vec<(usize, usize, RecoverySource, &[u8])> = Vec::new();
        for (source, bytes) in candidates {
            let bytes = bytes.chunks(sector_bytes).nth(sector).unwrap_or_default();
            let bad_columns = distrust(*source);
            match contents.iter_mut().find(|(.., known)| *known == bytes) {
                Some((least_bad, agreeing, ..)) => {
                    *least_bad = bad_columns.min(*least_bad);
                    *agreeing += 1;
                }
                None => contents.push((bad_columns, 1, *source, bytes)),
            }
        }
        contents.sort_by_key(|(bad_columns, agreeing, ..)| (*bad_columns, std::cmp::Reverse(*agreeing)));
        Self(contents.into_iter().map(|(_, _, source, bytes)| (source, bytes)).collect())
    }

    fn last_rank(&self) -> usize {
        self.0.len().saturating_sub(1)
    }
}

/// Puts sectors together, the combinations with the least sum of ranks first.
struct Mixer<'a> {
    choices: Vec<Choices<'a>>,
    bytes: Vec<u8>,
    sources: SmallVec<[RecoverySource; 16]>,
    tries_left: usize,
}

impl<'a> Mixer<'a> {
    fn new(choices: Vec<Choices<'a>>, len: usize) -> Self {
        let (bytes, sources) = (Vec::with_capacity(len), SmallVec::new());
        Self { choices, bytes, sources, tries_left: MAX_RECOVERY_TRIES }
    }

    fn search(mut self, accept: &mut impl FnMut(&[u8]) -> bool) -> Option<Recovered> {
        let most: usize = self.choices.iter().map(Choices::last_rank).sum();
        for ranks in 0..=most {
            if self.spend(ranks, most, accept) {
                return Some(Recovered { bytes: self.bytes, sources: self.sources });
            }
            if self.tries_left == 0 {
                break;
            }
        }
        None
    }

    /// Spends exactly `ranks` on the sectors that are not chosen yet, which can take `most`. The depth is the number of
    /// sectors of a block, at most 128.
    fn spend(&mut self, ranks: usize, most: usize, accept: &mut impl FnMut(&[u8]) -> bool) -> bool {
        let Some(last_rank) = self.choices.get(self.sources.len()).map(Choices::last_rank) else {
            self.tries_left -= 1;
            return accept(&self.bytes);
        };
        let rest = most - last_rank;
        for rank in ranks.saturating_sub(rest)..=last_rank.min(ranks) {
            let kept_bytes = self.bytes.len();
            let Some(&(source, bytes)) = self.choices.get(self.sources.len()).and_then(|choices| choices.0.get(rank))
            else {
                return false;
            };
            self.bytes.extend_from_slice(bytes);
            self.sources.push(source);
            if self.spend(ranks - rank, rest, accept) {
                return true;
            }
            self.bytes.truncate(kept_bytes);
            self.sources.pop();
            if self.tries_left == 0 {
                return false;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests;
