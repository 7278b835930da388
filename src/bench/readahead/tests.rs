//! Claims about the comparison.
