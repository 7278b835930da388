//! The first thing to try: a RAID6 that the kernel wrote, damaged in four ways, is scrubbed, repaired and scrubbed again.
//!
//! ```sh
//! cargo run --release --example demo
//! ```
//!
//! Needs neither root nor btrfs. Works on copies in a temporary directory and shows each command with all that it prints.

// Shared with the tests, of which the demo needs little. Nothing here is a library.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::print_stdout)]

#[path = "../common/fixture.rs"]
mod fixture;
#[path = "../common/recipe.rs"]
mod recipe;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const RECIPE: &str = "demo";

/// What is typed, and the exit status that it must have.
const STEPS: [(&str, &[&str], i32); 3] = [
    ("Something is wrong with this set; what, and can it be mended?", &["scrub"], 4),
    ("It can. Every write is journalled, read back and verified:", &["repair", "--yes"], 0),
    ("And now?", &["scrub"], 0),
];

/// The program, built like this example and lying above it.
fn program() -> PathBuf {
    let here = std::env::current_exe().unwrap();
    let target = here.parent().and_then(Path::parent).unwrap();
    if let Some(cargo) = std::env::var_os("CARGO") {
        let profile: &[&str] = if target.ends_with("release") { &["--release"] } else { &[] };
        let mut build = Command::new(cargo);
        build.args(["build", "--quiet", "--bin", "mirrortool"]).args(profile).current_dir(env!("CARGO_MANIFEST_DIR"));
        assert!(build.status().unwrap().success(), "mirrortool does not build");
    }
    target.join("mirrortool")
}

fn main() -> ExitCode {
    let program = program();
    let recipe = recipe::named(RECIPE);
    let images = fixture::unpacked_into(&recipe.base, tempfile::tempdir().unwrap());
    let pristine = images.fingerprint();
    recipe.harm(&images);
    println!("Four images of a RAID6 with RAID1C3 metadata, damaged: {}", recipe.why);

    let names: Vec<_> = images.paths.iter().map(|path| path.file_name().unwrap().to_string_lossy()).collect();
    for (what, arguments, expected) in STEPS {
        println!("\n{what}\n\n$ mirrortool {} {}", arguments.join(" "), names.join(" "));
        let mut command = Command::new(&program);
        command.args(arguments).args(names.iter().map(AsRef::as_ref)).current_dir(images.scratch());
        let status = command.status().unwrap_or_else(|e| panic!("{}: {e}", program.display()));
        println!("(exit status {})", status.code().unwrap_or(-1));
        if status.code() != Some(expected) {
            println!("\nThat should have been {expected}.");
            return ExitCode::FAILURE;
        }
    }
    if images.fingerprint() == pristine {
        println!("\nThe images are byte for byte what they were before the damage.");
        ExitCode::SUCCESS
    } else {
        println!("\nThe set is clean, and yet the images are not what they were before the damage.");
        ExitCode::FAILURE
    }
}
