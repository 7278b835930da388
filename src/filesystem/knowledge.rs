//! How far what is known of a file system may be written by. Decides nothing about single blocks: a block is written only
//! where all that led to it is current and agrees.

use super::contradiction::Contradiction;
use crate::units::Logical;
use crate::volume::Chunk;
use std::collections::BTreeSet;

/// What was learnt on the way to the trees.
#[derive(Clone, Debug, Default)]
pub struct Knowledge {
    /// What does not agree.
    contradictions: Vec<Contradiction>,
    /// Chunks that something contradicts, by where they start.
    doubtful: BTreeSet<Logical>,
    is_older: bool,
    lacks_chunks: bool,
}

impl Knowledge {
    /// All that does not agree.
    pub fn contradictions(&self) -> &[Contradiction] {
        &self.contradictions
    }

    /// True where a backup root stands in: all that the trees say may have changed since.
    pub fn is_older(&self) -> bool {
        self.is_older
    }

    /// True where every place of every device that a chunk has is known, and for one chunk only.
    pub fn knows_all_places(&self) -> bool {
        !self.is_older && !self.lacks_chunks && self.doubtful.is_empty()
    }

    /// True where it is not certain where the blocks of the chunk are.
    pub fn doubts(&self, chunk: &Chunk) -> bool {
        self.doubtful.contains(&chunk.start())
    }

    pub(super) fn tell(&mut self, contradiction: Contradiction) {
        self.contradictions.push(contradiction);
    }

    pub(super) fn doubt(&mut self, chunk: Logical) {
        self.doubtful.insert(chunk);
    }

    pub(super) fn note_older(&mut self) {
        self.is_older = true;
    }

    pub(super) fn note_lacking_chunks(&mut self) {
        self.lacks_chunks = true;
    }
}
