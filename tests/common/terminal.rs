//! Runs the real program with somebody at a terminal, who answers its question.

use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::ffi::OsStringExt as _;
use std::process::{Command, Stdio};

/// What is done when the question comes.
#[derive(Clone, Copy)]
pub enum Answer<'a> {
    Type(&'static str),
    Interrupt,
    /// Yes, when this has been done.
    After(&'a dyn Fn()),
}

/// The exit code (-1 after a death by signal), and what stood on the terminal: standard error, and what was typed.
pub fn answered(answer: Answer<'_>, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> (i32, String) {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let name = OsString::from_vec(ptsname(&ours, Vec::new()).unwrap().into_bytes());
    let theirs = OpenOptions::new().read(true).write(true).open(name).unwrap();
    let mut ours = File::from(ours);
    let mut command = Command::new(env!("CARGO_BIN_EXE_mirrortool"));
    command.args(arguments).stdin(theirs.try_clone().unwrap()).stdout(Stdio::null()).stderr(theirs);
    let mut child = command.spawn().unwrap();
    // Holds the other end of the terminal.
    drop(command);
    let mut seen = String::new();
    let mut answer = Some(answer);
    let mut buffer = [0; 4096];
    // The last holder's end is an error here, not an end of file.
    while let Ok(count @ 1..) = ours.read(&mut buffer) {
        seen.push_str(&String::from_utf8_lossy(&buffer[..count]));
        match answer.take_if(|_| seen.contains("[y/N]")) {
            Some(Answer::Type(line)) => writeln!(ours, "{line}").unwrap(),
            Some(Answer::After(change)) => {
                change();
                writeln!(ours, "y").unwrap();
            }
            Some(Answer::Interrupt) => {
                kill_process(Pid::from_child(&child), Signal::INT).unwrap();
                // One that does not end by that is not waited for.
                writeln!(ours, "n").unwrap();
            }
            None => {}
        }
    }
    (child.wait().unwrap().code().unwrap_or(-1), seen)
}
