//! Sets in the hands of the running kernel: loop devices and mounts that end with their value.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Runs a tool; its stdout, or what went wrong.
pub fn succeed(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|e| format!("{command:?}: {e}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(format!("{command:?}: {}: {}", output.status, String::from_utf8_lossy(&output.stderr)))
    }
}

pub fn tool(program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments);
    command
}

/// A set attached to loop devices and mounted; both end with the value.
pub struct Mounted {
    loops: Vec<String>,
    at: Option<PathBuf>,
}

impl Mounted {
    /// Attaches and mounts.
    pub fn new(images: &[PathBuf], at: &Path, read_only: bool) -> Result<Self, String> {
        Self::with(images, at, read_only, if read_only { "ro" } else { "rw,noatime" })
    }

    /// The same with these mount options.
    pub fn with(images: &[PathBuf], at: &Path, read_only: bool, options: &str) -> Result<Self, String> {
        let mut this = Self { loops: Vec::new(), at: None };
        let how: &[&str] = if read_only { &["--find", "--show", "--read-only"] } else { &["--find", "--show"] };
        for image in images {
            this.loops.push(succeed(tool("losetup", how).arg(image))?.trim().to_owned());
        }
        succeed(tool("btrfs", &["device", "scan"]).args(&this.loops))?;
        std::fs::create_dir_all(at).map_err(|e| e.to_string())?;
        succeed(tool("mount", &["-t", "btrfs", "-o", options, &this.loops[0]]).arg(at))?;
        this.at = Some(at.to_owned());
        Ok(this)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if let Some(at) = &self.at {
            let _ = succeed(tool("umount", &[]).arg(at));
        }
        for device in &self.loops {
            let _ = succeed(&mut tool("btrfs", &["device", "scan", "--forget", device]));
            detach(device);
        }
    }
}

/// Detaches a loop device, and waits: one that somebody else (udev, a scan of another test) has open for a moment goes
/// away only afterwards.
pub fn detach(device: &str) {
    let backing = format!("/sys/block/{}/loop/backing_file", device.trim_start_matches("/dev/"));
    let attached = std::fs::read_to_string(&backing).unwrap_or_default();
    let _ = succeed(&mut tool("losetup", &["--detach", device]));
    for _ in 0..200 {
        if std::fs::read_to_string(&backing).map_or(true, |file| file != attached) {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

/// Whether a test with the kernel cannot run here; says so where everybody sees it: what `println` says in a test that
/// passes is shown to nobody.
pub fn skipped(test: &str) -> bool {
    let lacking = lacking();
    if let Some(what) = lacking {
        let _ = writeln!(
            std::io::stderr(),
            "skipped: {test}: needs root, loop devices, btrfs and python3; {what} is missing"
        );
    }
    lacking.is_some()
}

/// What is missing for a test with the kernel, if anything is.
fn lacking() -> Option<&'static str> {
    let works = |program: &str, argument: &str| succeed(&mut tool(program, &[argument])).is_ok();
    let loaded = || std::fs::read_to_string("/proc/filesystems").is_ok_and(|text| text.contains("btrfs"));
    if !rustix::process::geteuid().is_root() {
        Some("root")
    } else if !works("losetup", "--find") {
        Some("loop devices")
    } else if !loaded() || !works("mkfs.btrfs", "--version") || !works("btrfs", "--version") {
        Some("btrfs")
    } else if !works("python3", "--version") {
        Some("python3")
    } else {
        None
    }
}
