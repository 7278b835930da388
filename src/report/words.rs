//! The words of the output formats for every closed set of values. They are part of the interface: a word never
//! changes its meaning, and what is written can be read back.

use crate::checksum::ChecksumType;
use crate::extract::{EntryKind, EntryState};
use crate::scrub::finding::{FindingKind, Problem, RepairState};
use crate::scrub::outcome::{Status, Verdict};
use crate::volume::Profile;

/// A value that has exactly one word in every output format.
pub(super) trait Word: Sized {
    /// The word.
    fn word(self) -> &'static str;
    /// The value of a word, `None` for a word that is not one of this set.
    fn from_word(word: &str) -> Option<Self>;
}

macro_rules! words {
    ($type:ty: $($variant:ident => $word:literal),+ $(,)?) => {
        impl Word for $type {
            fn word(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
            fn from_word(word: &str) -> Option<Self> {
                match word { $($word => Some(Self::$variant),)+ _ => None }
            }
        }
    };
}

words!(FindingKind: Superblock => "superblock", Metadata => "metadata", Data => "data", Parity => "parity");
words!(Problem:
    Checksum => "checksum",
    Bytenr => "bytenr",
    Fsid => "fsid",
    ChunkUuid => "chunk-uuid",
    Generation => "generation",
    Level => "level",
    Owner => "owner",
    FirstKey => "first-key",
    Structure => "structure",
    ReadError => "read-error",
    Missing => "missing",
    CopiesDiffer => "copies-differ",
    ParityMismatch => "parity-mismatch",
    Contradiction => "contradiction",
    Decompression => "decompression",
);
words!(RepairState:
    Possible => "possible",
    Done => "done",
    Failed => "failed",
    Impossible => "impossible",
    Undecidable => "undecidable",
);
words!(Status: Finished => "finished", Interrupted => "interrupted");
words!(Verdict:
    Clean => "clean",
    Corrected => "corrected",
    Correctable => "correctable",
    Uncorrectable => "uncorrectable",
);
words!(Profile:
    Single => "single",
    Dup => "dup",
    Raid0 => "raid0",
    Raid1 => "raid1",
    Raid1c3 => "raid1c3",
    Raid1c4 => "raid1c4",
    Raid10 => "raid10",
    Raid5 => "raid5",
    Raid6 => "raid6",
);
words!(ChecksumType: Crc32c => "crc32c", Xxhash64 => "xxhash64", Sha256 => "sha256", Blake2b => "blake2b");
words!(EntryKind:
    File => "file",
    Directory => "directory",
    Symlink => "symlink",
    Fifo => "fifo",
    Socket => "socket",
    CharDevice => "char-device",
    BlockDevice => "block-device",
    Unknown => "unknown",
);
words!(EntryState: Whole => "whole", Unproved => "unproved", Damaged => "damaged");
