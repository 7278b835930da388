//! Claims about single policies and the filter; what they make of whole workloads is tested over device models in
//! `bench`.

use super::backoff::{Admission, Backoff};
use super::round_robin::RoundRobin;
use super::*;

const MS: u64 = 1_000_000;

fn devids(count: u64) -> Vec<DeviceId> {
    (1..=count).map(DeviceId::new).collect()
}

fn request(logical: u64, stream: u64) -> Request {
    Request { logical: Logical::new(logical), len_bytes: 4096, stream }
}

fn selector(kind: &str, devices: u64) -> MirrorSelector {
    MirrorSelector::new(kind.parse().unwrap(), &devids(devices), 4096)
}

fn ended(latency_ns: u64, ok: bool, now_ns: u64) -> Completion {
    Completion { latency_ns, bytes: 4096, ok, now_ns }
}

#[test]
fn round_robin_shares_are_even_for_two_three_and_four_copies_across_the_wrap_of_its_counter() {
    for start in [(1 << 32) - 5 * 4096, u64::MAX - 5 * 4096] {
        for copies in 2..=4_usize {
            let policy = RoundRobin::starting_at(4096, start);
            let candidates = devids(copies as u64);
            let mut reads = [0_u64; 4];
            for stream in 0..300_000 {
                reads[policy.choose(&candidates, &request(0, stream), 0).0] += 1;
            }
            let even = 300_000 / copies as u64;
            for &count in &reads[..copies] {
                assert!(count.abs_diff(even) <= 1, "{copies} copies from {start}: {reads:?}");
            }
        }
    }
}

#[test]
fn round_robin_shares_are_even_for_many_threads() {
    let policy = RoundRobin::new(4096);
    let counts: Vec<[u64; 3]> = std::thread::scope(|scope| {
        let read = |stream| {
            let (policy, candidates) = (&policy, devids(3));
            move || {
                let mut reads = [0; 3];
                (0..100_000).for_each(|_| reads[policy.choose(&candidates, &request(0, stream), 0).0] += 1);
                reads
            }
        };
        let threads: Vec<_> = (0..4).map(|stream| scope.spawn(read(stream))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for index in 0..3 {
        let total: u64 = counts.iter().map(|reads| reads[index]).sum();
        assert!(total.abs_diff(400_000 / 3) <= 1, "{counts:?}");
    }
}

#[test]
fn round_robin_keeps_a_run_together_and_goes_by_device_not_by_stripe_order() {
    let policy = RoundRobin::new(4 * 4096);
    let (forward, backward) = (devids(2), vec![DeviceId::new(2), DeviceId::new(1)]);
    let picked: Vec<u64> = (0..12)
        .map(|read| {
            let candidates = if read % 2 == 0 { &forward } else { &backward };
            candidates[policy.choose(candidates, &request(0, 0), 0).0].raw()
        })
        .collect();
    assert_eq!(picked, [1, 1, 1, 1, 2, 2, 2, 2, 1, 1, 1, 1]);
}

#[test]
fn round_robin_splits_evenly_when_requests_do_not_divide_a_run() {
    let policy = RoundRobin::new(192 << 10);
    let mut reads = [0_u32; 2];
    for read in 0..1000 {
        let request = Request { logical: Logical::new(read << 17), len_bytes: 128 << 10, stream: 0 };
        reads[policy.choose(&devids(2), &request, 0).0] += 1;
    }
    assert_eq!(reads, [500, 500]);
}

#[test]
fn round_robin_does_not_move_in_step_with_the_stripes_of_raid10() {
    let policy = RoundRobin::new(65536);
    let pairs = [devids(2), vec![DeviceId::new(3), DeviceId::new(4)]];
    let mut reads = [0_u32; 5];
    for stripe in 0..400_u64 {
        let pair = &pairs[(stripe % 2) as usize];
        let request = Request { logical: Logical::new(stripe * 65536), len_bytes: 65536, stream: 0 };
        reads[pair[policy.choose(pair, &request, 0).0].raw() as usize] += 1;
    }
    assert_eq!(reads, [0, 100, 100, 100, 100]);
}

#[test]
fn pid_goes_by_stream_and_devid_by_device() {
    let pid = selector("pid", 2);
    let devid = selector("devid:2", 3);
    for stream in 0..6 {
        let picked = pid.select(&devids(2), &request(0, stream), 0).unwrap();
        assert_eq!(picked.index as u64, stream % 2);
        assert_eq!(devid.select(&devids(2), &request(0, stream), 0).unwrap().devid, DeviceId::new(2));
        let without = [DeviceId::new(3), DeviceId::new(1)];
        assert_eq!(devid.select(&without, &request(0, stream), 0).unwrap().index, 0);
    }
}

#[test]
fn no_copies_means_no_selection() {
    assert_eq!(selector("auto", 2).select(&[], &request(0, 0), 0), None);
}

#[test]
fn a_device_that_is_no_member_can_still_be_read() {
    for kind in ["pid", "round-robin", "devid:1", "latency", "auto"] {
        let stranger = [DeviceId::new(99)];
        let picked = selector(kind, 2).select(&stranger, &request(0, 0), 0).unwrap();
        assert_eq!(picked.devid, stranger[0], "{kind}");
    }
}

#[test]
fn every_policy_leaves_a_device_that_fails_and_tries_it_again_ever_more_rarely() {
    for kind in ["pid", "round-robin:4096", "devid:2", "latency", "auto"] {
        let selector = selector(kind, 2);
        let mut failures_at: Vec<u64> = Vec::new();
        for now_ms in 0..20_000 {
            let now_ns = now_ms * MS;
            let picked = selector.select(&devids(2), &request(now_ns, now_ms), now_ns).unwrap();
            let ok = picked.devid != DeviceId::new(2);
            if !ok {
                failures_at.push(now_ms);
            }
            selector.report(picked, &ended(MS / 10, ok, now_ns + MS / 10));
        }
        assert!((8..=13).contains(&failures_at.len()), "{kind}: {failures_at:?}");
        let gaps: Vec<u64> = failures_at.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(gaps.is_sorted(), "{kind}: {gaps:?}");
    }
}

#[test]
fn a_device_that_works_again_is_used_again() {
    for kind in ["pid", "round-robin:4096", "devid:2", "auto"] {
        let selector = selector(kind, 2);
        let mut late_reads = 0;
        for now_ms in 0..8_000 {
            let now_ns = now_ms * MS;
            let picked = selector.select(&devids(2), &request(now_ns, now_ms), now_ns).unwrap();
            let second = picked.devid == DeviceId::new(2);
            late_reads += u64::from(second && now_ms >= 6_000);
            selector.report(picked, &ended(MS / 10, !second || now_ms > 2_000, now_ns + MS / 10));
        }
        assert!(late_reads >= 900, "{kind}: {late_reads} of 2000 reads");
    }
}

#[test]
fn a_queue_that_fails_at_once_counts_as_one_failure() {
    let backoff = Backoff::new(&devids(1));
    let devid = DeviceId::new(1);
    for _ in 0..256 {
        backoff.observe(devid, false, 0, MS);
    }
    assert_eq!(backoff.admit(devid, 10 * MS), Admission::Blocked);
    assert_eq!(backoff.admit(devid, 11 * MS), Admission::Trial);
    assert_eq!(backoff.admit(devid, 11 * MS), Admission::Blocked);
}

#[test]
fn with_all_devices_failing_reads_are_still_tried() {
    let selector = selector("round-robin:4096", 2);
    let mut reads = [0; 3];
    for now_ns in 0..1000 {
        let picked = selector.select(&devids(2), &request(0, 0), now_ns).unwrap();
        reads[picked.devid.raw() as usize] += 1;
        selector.report(picked, &ended(1, false, now_ns));
    }
    assert!(reads[1] >= 400 && reads[2] >= 400, "{reads:?}");
}

#[test]
fn auto_keeps_the_run_of_a_stream_on_its_device_while_that_answers_sooner() {
    let selector = selector("auto", 2);
    let mut now_ns = 0;
    let mut switches = 0;
    let mut last = None;
    for read in 0..2_000_u64 {
        let picked = selector.select(&devids(2), &request(read * 4096, 7), now_ns).unwrap();
        let moved = last.is_some_and(|devid| devid != picked.devid);
        switches += u64::from(moved);
        // A hard disk: reading on takes 0.1 ms, going elsewhere 8 ms more.
        let latency_ns = if moved || last.is_none() { 8 * MS } else { MS / 10 };
        now_ns += latency_ns;
        last = Some(picked.devid);
        selector.report(picked, &ended(latency_ns, true, now_ns));
    }
    assert!(switches <= 4, "{switches} switches");
}

#[test]
fn auto_turns_from_a_device_that_has_fallen_silent() {
    let selector = selector("auto", 2);
    let mut now_ns = 0;
    for read in 0..100_u64 {
        let picked = selector.select(&devids(2), &request(read << 30, 0), now_ns).unwrap();
        now_ns += MS / 10;
        selector.report(picked, &ended(MS / 10, true, now_ns));
    }
    // Reads to device 2 are never answered from here on.
    let mut unanswered = 0;
    for read in 0..1_000_u64 {
        let picked = selector.select(&devids(2), &request(read << 31, 0), now_ns).unwrap();
        now_ns += MS / 10;
        if picked.devid == DeviceId::new(2) {
            unanswered += 1;
        } else {
            selector.report(picked, &ended(MS / 10, true, now_ns));
        }
    }
    assert!(unanswered <= 3, "{unanswered} reads sent into silence");
}
