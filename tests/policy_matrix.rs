//! The matrix of scenarios and policies is the same on every machine, and `auto` holds its ground in all of it.

// A failed unwrap is a failed test, also in the helpers.
#![allow(clippy::unwrap_used)]

use mirrortool::bench::policy::matrix;
use mirrortool::report::write_matrix_text;
use mirrortool::volume::read_policy::PolicyKind;

const GOLDEN: &str = include_str!("golden/policy_matrix.txt");

fn policies() -> Vec<PolicyKind> {
    ["pid", "round-robin:4096", "round-robin:192K", "round-robin", "devid:1", "devid:2", "latency", "auto"]
        .map(|name| name.parse().unwrap())
        .to_vec()
}

/// With `UPDATE=1` in the environment the golden file is rewritten instead.
#[test]
fn the_matrix_is_as_recorded_and_auto_is_near_the_best_in_every_row_and_far_ahead_in_one() {
    let matrix = matrix(&policies(), 1).unwrap();
    let mut printed = Vec::new();
    write_matrix_text(&matrix, &mut printed).unwrap();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write("tests/golden/policy_matrix.txt", &printed).unwrap();
    }
    let mut most: f64 = 0.0;
    for (scenario, comparison) in &matrix {
        let ratio = comparison.auto_to_best().unwrap();
        assert!(ratio >= 0.97, "{}: auto has {ratio:.3} of the best", scenario.name);
        most = most.max(ratio);
    }
    assert!(most >= 1.3, "auto is {most:.3} of all others at best");
    assert_eq!(String::from_utf8(printed).unwrap(), GOLDEN, "UPDATE=1 cargo test --test policy_matrix");
}
