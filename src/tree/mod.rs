//! Verified tree blocks, cursors and walks over commit roots. Reads through [`BlockSource`] only.

pub mod block;
pub mod cursor;
pub mod source;
pub mod walk;

pub use block::{BadBlock, ParentCheck, TreeBlock, TreeGeometry};
pub use cursor::{Cursor, LostSubtree};
pub use source::{BlockSource, LostBlock, TreeRoot};
pub use walk::{Visit, Visitor, walk};
