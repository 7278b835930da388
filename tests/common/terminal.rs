//! Runs the real program with somebody at a terminal, who has typed an answer.

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::ffi::OsStringExt as _;
use std::process::{Command, Stdio};

/// The exit code, and what stood on the terminal (standard error; the answer is echoed there).
pub fn answered(answer: &str, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> (i32, String) {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let name = OsString::from_vec(ptsname(&ours, Vec::new()).unwrap().into_bytes());
    let theirs = OpenOptions::new().read(true).write(true).open(name).unwrap();
    let mut ours = File::from(ours);
    // A line that is typed before the question waits for it.
    writeln!(ours, "{answer}").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_mirrortool"));
    command.args(arguments).stdin(theirs.try_clone().unwrap()).stdout(Stdio::null()).stderr(theirs);
    let mut child = command.spawn().unwrap();
    // Holds the other end of the terminal.
    drop(command);
    let mut seen = Vec::new();
    let mut buffer = [0; 4096];
    // The last holder's end is an error here, not an end of file.
    while let Ok(count @ 1..) = ours.read(&mut buffer) {
        seen.extend_from_slice(&buffer[..count]);
    }
    (child.wait().unwrap().code().unwrap_or(-1), String::from_utf8(seen).unwrap())
}
