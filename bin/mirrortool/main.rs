//! The command line of mirrortool.

fn main() {}
