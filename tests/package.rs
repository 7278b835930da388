//! What `cargo deb` packs, as far as that can be known without it: every asset is there, and nothing is missing that a
//! user of the package expects.

// A failed unwrap is a failed test, also in the helpers.
#![allow(clippy::unwrap_used)]

mod common;

use common::program::commands;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// `package.metadata.deb` of the manifest, as cargo reads it.
fn deb() -> Value {
    let mut cargo = Command::new(env!("CARGO"));
    let output =
        cargo.args(["metadata", "--no-deps", "--offline", "--format-version", "1"]).current_dir(root()).output();
    let metadata: Value = serde_json::from_slice(&output.unwrap().stdout).unwrap();
    metadata["packages"][0]["metadata"]["deb"].clone()
}

/// Source and target of each file that is packed, the program itself left out.
fn files() -> Vec<(PathBuf, String)> {
    let mut files = Vec::new();
    for asset in deb()["assets"].as_array().unwrap() {
        let [pattern, target, mode] = [0, 1, 2].map(|part| asset[part].as_str().unwrap().to_owned());
        assert!(["644", "755"].contains(&mode.as_str()), "{asset}");
        if pattern == "target/release/mirrortool" {
            continue;
        }
        let found: Vec<_> =
            glob::glob(&root().join(&pattern).display().to_string()).unwrap().map(Result::unwrap).collect();
        assert!(!found.is_empty(), "{pattern} names no file");
        for path in found {
            let name = path.file_name().unwrap().to_str().unwrap();
            let target = if target.ends_with('/') { format!("{target}{name}") } else { target.clone() };
            files.push((path.clone(), target));
        }
    }
    files
}

#[test]
fn every_asset_exists_and_what_a_package_needs_is_in_it() {
    let targets: BTreeSet<_> = files().into_iter().map(|(_, target)| target).collect();
    for needed in [
        "usr/share/bash-completion/completions/mirrortool",
        "usr/share/zsh/vendor-completions/_mirrortool",
        "usr/share/fish/vendor_completions.d/mirrortool.fish",
        "usr/lib/systemd/system/mirrortool.service",
        "usr/lib/systemd/system/mirrortool.timer",
        "usr/share/doc/mirrortool/examples/jobs.yaml",
        "usr/share/doc/mirrortool/examples/crontab",
        "usr/share/doc/mirrortool/README.md",
        "usr/share/doc/mirrortool/LICENSE-APACHE",
        "usr/share/doc/mirrortool/LICENSE-MIT",
        "usr/share/man/man8/mirrortool.8",
    ] {
        assert!(targets.contains(needed), "{needed} is not packed: {targets:?}");
    }
    for command in commands() {
        assert!(targets.contains(&format!("usr/share/man/man8/mirrortool-{command}.8")), "{command}");
    }
    let licence = deb()["license-file"][0].as_str().unwrap().to_owned();
    assert!(root().join(&licence).exists(), "{licence}");
}

#[test]
fn every_command_that_works_on_something_has_a_link_to_the_program() {
    let links: BTreeSet<_> = files().into_iter().filter(|(_, target)| target.starts_with("usr/bin/")).collect();
    for (source, target) in &links {
        assert_eq!(fs::read_link(source).unwrap(), Path::new("mirrortool"), "{target}");
    }
    let links: BTreeSet<_> = links.into_iter().map(|(_, target)| target).collect();
    let expected: BTreeSet<_> = commands().into_iter().filter(|command| command != "completions").collect();
    assert_eq!(links, expected.iter().map(|command| format!("usr/bin/mirrortool-{command}")).collect());
    assert_eq!(deb()["preserve-symlinks"], true);
}
