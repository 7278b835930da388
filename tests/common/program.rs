//! Runs the real program and reads its JSON.

use super::recipe::Finding;
use serde_json::Value;
use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Output};

/// One run of the program.
#[derive(Debug)]
pub struct Run {
    pub exit: i32,
    pub stdout: String,
    pub stderr: String,
}

/// Runs `mirrortool` with these arguments. A death by signal has exit -1.
pub fn mirrortool(arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Run {
    // What tests look at is nothing to remember, for the user who runs them and for the next test.
    let state = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_mirrortool"));
    let output = command.env("XDG_STATE_HOME", state.path()).args(arguments).output().unwrap();
    let Output { status, stdout, stderr } = output;
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Run { exit: status.code().unwrap_or(-1), stdout: text(stdout), stderr: text(stderr) }
}

/// The commands that `--help` lists.
pub fn commands() -> Vec<String> {
    let help = mirrortool(["--help"]).stdout;
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    // What is indented deeper goes on with the line before.
    let firsts = listed.filter_map(|line| line.strip_prefix("  ").filter(|rest| !rest.starts_with(' ')));
    let names = firsts.filter_map(|line| line.split_whitespace().next());
    names.filter(|command| *command != "help").map(ToOwned::to_owned).collect()
}

/// `mirrortool scrub --format json OPTION... IMAGE...`
pub fn scrub(options: &[impl AsRef<OsStr>], images: &[impl AsRef<Path>]) -> Run {
    let fixed = ["scrub", "--format", "json"].into_iter().map(OsStr::new);
    let options = options.iter().map(AsRef::as_ref);
    mirrortool(fixed.chain(options).chain(images.iter().map(|path| path.as_ref().as_os_str())))
}

impl Run {
    /// The report, or why there is none.
    pub fn report(&self) -> Result<Report, String> {
        let value = serde_json::from_str(&self.stdout)
            .map_err(|e| format!("exit {}, no report ({e}), stderr: {}", self.exit, self.stderr))?;
        Ok(Report(value))
    }
}

/// The JSON of a scrub.
#[derive(Debug)]
pub struct Report(pub Value);

impl Report {
    pub fn verdict(&self) -> &str {
        self.0["verdict"].as_str().unwrap_or_default()
    }

    /// The findings, in the order of `Finding`.
    pub fn findings(&self) -> Result<Vec<Finding>, String> {
        let mut findings: Vec<Finding> =
            serde_json::from_value(self.0["findings"].clone()).map_err(|e| format!("findings: {e}"))?;
        findings.sort();
        Ok(findings)
    }

    /// A counter of one device.
    pub fn counter(&self, devid: u64, name: &str) -> Option<u64> {
        let device = self.0["devices"].as_array()?.iter().find(|device| device["devid"] == devid)?;
        device["counters"][name].as_u64()
    }

    /// A counter of the whole run.
    pub fn total(&self, name: &str) -> Option<u64> {
        self.0["totals"][name].as_u64()
    }
}

/// The findings that only one side has, a line each; empty where both are the same.
pub fn difference(have: &[Finding], expect: &[Finding]) -> String {
    let line = |sign: &str, f: &Finding| {
        format!(
            "  {sign} {} {} logical={} mirror={} devid={} physical={} length={} {}\n",
            f.kind, f.problem, f.logical, f.mirror, f.devid, f.physical, f.length, f.repair
        )
    };
    let missed = expect.iter().filter(|f| !have.contains(f)).map(|f| line("missed:", f));
    let extra = have.iter().filter(|f| !expect.contains(f)).map(|f| line("extra: ", f));
    let mut text: String = missed.chain(extra).take(20).collect();
    if text.is_empty() && have.len() != expect.len() {
        text = format!("  {} findings, expected {}: some are listed twice\n", have.len(), expect.len());
    }
    text
}
