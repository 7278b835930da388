//! The way out of an error: what an administrator can do about it, one line per kind. The library says what is wrong;
//! options and commands are named only here.

use std::io;

/// The advice for the first cause of the chain that has one.
pub(crate) fn for_error(error: &anyhow::Error) -> Option<&'static str> {
    error.chain().find_map(|cause| cause.downcast_ref().and_then(for_io))
}

fn for_io(error: &io::Error) -> Option<&'static str> {
    match error.kind() {
        io::ErrorKind::PermissionDenied => Some("run it as a user who may read the devices, or with sudo"),
        io::ErrorKind::StorageFull => Some("free some space, or choose another place for the file"),
        _ => None,
    }
}
