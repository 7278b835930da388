//! Every damage recipe: the scrub finds exactly what was harmed, says what can be done, and writes nothing.

// A failed unwrap is a failed test, also in the helpers.
#![allow(clippy::unwrap_used)]

mod common;

use common::program::{self, difference};
use common::recipe::{self, Recipe};
use common::{check_all, fixture};

fn check(recipe: &Recipe) -> Result<(), String> {
    let images = recipe.apply();
    let before = images.fingerprint();
    let given: Vec<_> = recipe.devices.iter().map(|&devid| images.device(devid)).collect();
    let run = program::scrub(&recipe.options, &given);
    let complain = |what: String| Err(format!("{} ({}): {what}", recipe.name, recipe.why));

    if images.fingerprint() != before {
        return complain("an image was written to".to_owned());
    }
    let outcome = run.report().and_then(|report| Ok((report.verdict().to_owned(), report.findings()?)));
    let (verdict, findings) = match outcome {
        Ok(outcome) => outcome,
        Err(why) => return complain(why),
    };
    let wrong = difference(&findings, &recipe.findings());
    if !wrong.is_empty() {
        return complain(format!("\n{wrong}"));
    }
    if (run.exit, verdict.as_str()) != (recipe.expect.exit, recipe.expect.verdict.as_str()) {
        return complain(format!("exit {} and {verdict}, expected {:?}", run.exit, recipe.expect));
    }
    Ok(())
}

#[test]
fn every_recipe_gives_exactly_its_findings() {
    check_all(&recipe::all(), check);
}

#[test]
fn every_recipe_has_a_base_and_a_line_in_the_readme() {
    let readme = std::fs::read_to_string(fixture::directory().join("README.md")).unwrap();
    for recipe in recipe::all() {
        assert!(fixture::names().contains(&recipe.base), "{} has no base {}", recipe.name, recipe.base);
        assert!(readme.contains(&format!("`{}`", recipe.name)), "fixtures/README.md does not name {}", recipe.name);
    }
    for name in fixture::names() {
        assert!(readme.contains(&format!("`{name}`")), "fixtures/README.md does not name {name}");
    }
}

/// The list, the totals and the device table are three views of the same findings.
#[test]
fn list_totals_and_device_table_add_up() {
    let recipe = recipe::named("data-raid1");
    let images = recipe.apply();
    let run = program::scrub(&[""; 0], &images.paths);
    let report = run.report().unwrap();
    assert_eq!(report.findings().unwrap().len(), 8);
    assert_eq!(report.total("csum_errors"), Some(8));
    assert_eq!(report.total("correctable_errors"), Some(8));
    assert_eq!(report.total("corrected_errors"), Some(0), "nothing was written");
    assert_eq!((report.counter(1, "csum_errors"), report.counter(2, "csum_errors")), (Some(5), Some(3)));
}
