//! Verified tree blocks, cursors and walks over commit roots. Reads through [`BlockSource`] only.

pub mod block;
pub mod cursor;
pub mod prefetch;
pub mod readahead;
mod seen;
pub mod source;
pub mod walk;

pub use block::{BadBlock, ParentCheck, TreeBlock, TreeGeometry};
pub use cursor::{Cursor, IsKnown, LostSubtree};
pub use prefetch::{CopySource, Prefetch, Stream, prefetch};
pub use readahead::ReadaheadMode;
pub use seen::SeenBlocks;
pub use source::{BlockSource, LostBlock, TreeRoot};
pub use walk::{Visit, Visitor, walk};
