//! Why a member cannot be opened: each variant names the path and what is there instead. No advice; that is written
//! where the command line is known.

use super::IoEngine;
use std::io;
use std::path::{Path, PathBuf};

/// A member could not be opened, or could not be asked who uses it.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// Nothing has this name.
    #[error("{path}: no such file or device")]
    NotFound {
        /// As given.
        path: PathBuf,
    },
    /// The kernel refuses access.
    #[error("{path}: permission denied")]
    PermissionDenied {
        /// As given.
        path: PathBuf,
    },
    /// There is something that has no place here: a directory, a fifo, a socket, a character device.
    #[error("{path}: is a {what}, expected a block device or an image file")]
    WrongKind {
        /// As given.
        path: PathBuf,
        /// What it is.
        what: &'static str,
    },
    /// A file of no bytes, or a drive without a medium.
    #[error("{path}: is empty (0 bytes)")]
    Empty {
        /// As given.
        path: PathBuf,
    },
    /// Something else has this name by now.
    #[error("{path}: was replaced, another file or device has this name now")]
    Replaced {
        /// As given.
        path: PathBuf,
    },
    /// Its size has changed.
    #[error("{path}: is {have_bytes} bytes long now, expected {expect_bytes}")]
    Resized {
        /// As given.
        path: PathBuf,
        /// Now.
        have_bytes: u64,
        /// When it was opened.
        expect_bytes: u64,
    },
    /// The file system cannot serve this file with the engine asked for.
    #[error("{path}: cannot be read with the {engine} engine: {source}")]
    EngineRefused {
        /// As given.
        path: PathBuf,
        /// The engine asked for.
        engine: IoEngine,
        /// What the kernel said.
        source: io::Error,
    },
    /// The kernel or another process holds the member, so it may not be written.
    #[error("{path}: is in use (exclusive open or lock failed)")]
    Busy {
        /// As given.
        path: PathBuf,
    },
    /// Writing is impossible: the file system or the device is read-only.
    #[error("{path}: is read-only")]
    ReadOnly {
        /// As given.
        path: PathBuf,
    },
    /// Anything else.
    #[error("{path}: cannot {action}: {source}")]
    Io {
        /// As given.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
}

impl DeviceError {
    /// The variant for what the kernel said when `action` was tried on `path`.
    pub(super) fn from_io(path: &Path, action: &'static str, source: io::Error) -> Self {
        let path = path.to_path_buf();
        match source.kind() {
            io::ErrorKind::NotFound => Self::NotFound { path },
            io::ErrorKind::PermissionDenied => Self::PermissionDenied { path },
            io::ErrorKind::ResourceBusy => Self::Busy { path },
            io::ErrorKind::ReadOnlyFilesystem => Self::ReadOnly { path },
            _ => Self::Io { path, action, source },
        }
    }
}
