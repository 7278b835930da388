//! Claims about the comparison.

use super::*;

fn sample(seconds: u64, digest: u64) -> Sample {
    let seen = Seen { tree_blocks: 10, bytes: 1000, digest, ..Seen::default() };
    let traffic = Traffic { reads: 10, bytes: 1000, busy_ns: seconds * 3_000_000_000, seeks: 1 };
    Sample { duration: Duration::from_secs(seconds), seen, traffic }
}

fn comparison(pipeline: [u64; 2]) -> Comparison {
    let off = ModeResult { mode: ReadaheadMode::Off, samples: vec![sample(8, 1), sample(12, 1), sample(9, 1)] };
    let ahead =
        ModeResult { mode: ReadaheadMode::default(), samples: pipeline.map(|digest| sample(3, digest)).to_vec() };
    Comparison { modes: vec![off, ahead] }
}

#[test]
fn ratios_are_those_of_medians() {
    let comparison = comparison([1, 1]);
    assert!((comparison.ratio_to_off(&comparison.modes[1]) - 3.0).abs() < 1e-9);
    assert!((comparison.modes[1].mean_in_flight() - 3.0).abs() < 1e-9);
    assert!((comparison.modes[0].bytes_per_second().median - 1000.0 / 9.0).abs() < 1e-9);
}

#[test]
fn one_round_that_saw_something_else_is_a_disagreement() {
    assert!(comparison([1, 1]).agrees());
    assert!(!comparison([1, 2]).agrees());
}
