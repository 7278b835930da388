//! Where a member stands in the history of its set. A fact of the member, known from the super blocks of all of them:
//! whoever judges what is on it asks here, not in a note.

use crate::units::Generation;

/// What the last transaction of a member makes of what is on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It has seen all transactions.
    Current,
    /// It missed the last ones. What a checksum proves on it is right; of all else nobody knows whether it is still what
    /// it should be.
    Stale {
        /// Its last transaction.
        have: Generation,
        /// The last one of the set.
        newest: Generation,
    },
    /// It has, or may have, written transactions that the others do not know: nothing of it may be overwritten, and
    /// nothing of it is a source.
    Apart {
        /// Its last transaction.
        have: Generation,
        /// The last one of the set.
        newest: Generation,
    },
    /// It is of a file system from which this one has grown: it never changes.
    Seed,
}

impl Standing {
    /// May a copy that nothing verifies speak for what should be there?
    pub fn has_vote(self) -> bool {
        self.behind().is_none()
    }

    /// The last transaction of a member that is not current, and that of the set.
    pub fn behind(self) -> Option<(Generation, Generation)> {
        match self {
            Self::Stale { have, newest } | Self::Apart { have, newest } => Some((have, newest)),
            Self::Current | Self::Seed => None,
        }
    }

    /// Must it stay as it is?
    pub fn is_apart(self) -> bool {
        matches!(self, Self::Apart { .. })
    }
}
