//! Golden reports of literal outcomes.

use super::*;
use crate::checksum::{ChecksumType, Digest};
use crate::format::Key;
use crate::owners::OwnerTable;
use crate::scrub::Selected;
use crate::scrub::finding::{Evidence, Finding, FindingKind, Problem, RepairState};
use crate::scrub::outcome::{DeviceOutcome, FilesystemInfo, Status, Verdict};
use crate::scrub::tally::Counters;
use crate::units::{DeviceId, Generation, Logical, MirrorNum, Physical};
use crate::volume::Profile;
use std::io::Write;
use std::time::{Duration, SystemTime};
use uuid::Uuid;

/// How every text of an outcome below begins.
const HEAD: &str = "\
UUID:             389b092a-5a30-4de0-86bd-c136ddfc6456
Scrub started:    Mon Nov 30 07:36:50 2026
Status:           finished
Duration:         0:00:20
Total to scrub:   7.02GiB
Rate:             359.42MiB/s
";

const FSID: Uuid = Uuid::from_u128(0x389b_092a_5a30_4de0_86bd_c136_ddfc_6456);

fn device(devid: u64, counters: Counters) -> DeviceOutcome {
    DeviceOutcome {
        devid: DeviceId::new(devid),
        path: format!("d{devid}.img").into(),
        is_read: true,
        bytes_total: 3_768_834_048,
        counters,
    }
}

fn outcome(first: Counters, second: Counters, verdict: Verdict, findings: Vec<Finding>) -> ScrubOutcome {
    let mut totals = first;
    totals.add(&second);
    ScrubOutcome {
        filesystem: FilesystemInfo {
            fsid: FSID,
            label: "demo".to_owned(),
            generation: Generation::new(9),
            csum_type: ChecksumType::Crc32c,
            sectorsize: 4096,
            nodesize: 16384,
            num_devices: 2,
            missing_devids: vec![],
            lower: Vec::new(),
        },
        selected: Selected::ALL,
        status: Status::Finished,
        verdict,
        started: SystemTime::UNIX_EPOCH + Duration::from_secs(1_796_024_210),
        duration: Duration::from_secs(20),
        bytes_total: 7_537_668_096,
        bytes_scrubbed: 7_537_668_096,
        totals,
        devices: vec![device(1, first), device(2, second)],
        findings,
        findings_omitted: 0,
        broken_links: std::collections::BTreeSet::new(),
        behind: std::collections::BTreeMap::new(),
        unknown_extents: 0,
        owners: OwnerTable::default(),
        notes: vec![],
    }
}

pub(super) fn clean() -> ScrubOutcome {
    let read = Counters { data_bytes_scrubbed: 20_983_808, tree_bytes_scrubbed: 196_608, ..Counters::default() };
    outcome(read, read, Verdict::Clean, vec![])
}

pub(super) fn bad_sector(mirror: u8, repair: RepairState) -> Finding {
    Finding {
        kind: FindingKind::Data,
        problem: Problem::Checksum,
        logical: Logical::new(298_844_160),
        length: 4096,
        mirror: MirrorNum::new(mirror),
        devid: DeviceId::new(u64::from(mirror)),
        physical: Physical::new(1_048_576),
        profile: Profile::Raid1,
        evidence: Evidence::Checksum {
            have: Digest::new(&[0x8f, 0x01, 0x02, 0x03]),
            expect: Digest::new(&[0x8e, 1, 2, 3]),
        },
        repair,
        owner: None,
        below: Vec::new(),
    }
}

fn bad_node() -> Finding {
    Finding {
        kind: FindingKind::Metadata,
        problem: Problem::FirstKey,
        logical: Logical::new(30_588_928),
        length: 16384,
        physical: Physical::new(22_429_696),
        devid: DeviceId::new(1),
        evidence: Evidence::Key { have: Key::new(1, 2, 3), expect: Key::new(1, 2, 4) },
        owner: Some(2),
        ..bad_sector(2, RepairState::Possible)
    }
}

pub(super) fn correctable() -> ScrubOutcome {
    let first = Counters { verify_errors: 4, correctable_errors: 4, ..Counters::default() };
    let second = Counters { csum_errors: 3, correctable_errors: 3, ..Counters::default() };
    outcome(first, second, Verdict::Correctable, vec![bad_node(), bad_sector(2, RepairState::Possible)])
}

/// What a scrub with this outcome writes.
fn written<E: std::fmt::Debug>(
    outcome: &ScrubOutcome,
    write: impl FnOnce(Report<'_>, &mut dyn Write) -> Result<(), E>,
) -> String {
    let mut out = Vec::new();
    write(Report { command: "scrub", outcome, repair: None, rebuilt: None }, &mut out).expect("a vector takes all");
    String::from_utf8(out).expect("utf-8")
}

fn text(outcome: &ScrubOutcome, options: &TextOptions<'_>) -> String {
    written(outcome, |report, out| write_text(report, options, out))
}

fn document(outcome: &ScrubOutcome, encoding: Encoding) -> String {
    written(outcome, |report, out| write_document(report, encoding, out))
}

#[test]
fn a_clean_run_reads_as_btrfs_scrub_status() {
    let expected = format!("{HEAD}Error summary:    no errors found\n");
    assert_eq!(text(&clean(), &TextOptions::default()), expected);
}

#[test]
fn errors_are_summed_and_listed() {
    let expected = "\
Error summary:    verify=4 csum=3
  Correctable:    7
  Corrected:      0
  Uncorrectable:  0
  Unverified:     0
Result:           7 sectors correctable on 2 devices
corrupt tree block: root=2 block=30588928 mirror=2 devid=1 physical=22429696, bad first key, have (1 2 3) expect (1 2 4); correctable
corrupt data: logical=298844160 mirror=2 devid=2 physical=1048576, bad checksum, have 0x8f010203 expect 0x8e010203; correctable
";
    assert_eq!(text(&correctable(), &TextOptions::default()), format!("{HEAD}{expected}"));
}

#[test]
fn each_device_has_its_own_block_with_d() {
    let mut clean = clean();
    clean.notes.push("the log tree was scrubbed too".to_owned());
    let expected = "\
UUID:             389b092a-5a30-4de0-86bd-c136ddfc6456

Scrub device d1.img (id 1) done
Scrub started:    Mon Nov 30 07:36:50 2026
Status:           finished
Duration:         0:00:20
Total to scrub:   3.51GiB
Rate:             1.01MiB/s
Error summary:    no errors found

Scrub device d2.img (id 2) done
Scrub started:    Mon Nov 30 07:36:50 2026
Status:           finished
Duration:         0:00:20
Total to scrub:   3.51GiB
Rate:             1.01MiB/s
Error summary:    no errors found
note: the log tree was scrubbed too
";
    assert_eq!(text(&clean, &TextOptions { per_device: true, ..TextOptions::default() }), expected);
}

#[test]
fn a_missing_device_has_no_path() {
    let mut degraded = clean();
    degraded.devices[1].path = "".into();
    let shown = text(&degraded, &TextOptions { per_device: true, ..TextOptions::default() });
    assert!(shown.ends_with("no errors found\n\nScrub device missing (id 2)\n"), "{shown}");
    assert!(document(&degraded, Encoding::Yaml).contains("- devid: 2\n  path: null\n"));
}

#[test]
fn raw_counters_are_the_kernels_fifteen_and_ours_where_not_zero() {
    let raw = text(&correctable(), &TextOptions { raw: true, ..TextOptions::default() });
    let names: Vec<_> = raw.lines().filter_map(|line| line.strip_prefix('\t')).collect();
    assert_eq!(names.len(), 16);
    assert_eq!(names[0], "data_extents_scrubbed: 0");
    assert_eq!(names[6], "verify_errors: 4");
    assert_eq!(names[14..], ["last_physical: 0", "correctable_errors: 7"]);
}

#[test]
fn the_number_of_sectors_is_not_the_number_of_devices() {
    let bad = Counters { csum_errors: 18, uncorrectable_errors: 18, ..Counters::default() };
    let findings = vec![bad_sector(1, RepairState::Impossible); 18];
    let outcome = outcome(bad, Counters::default(), Verdict::Uncorrectable, findings);
    assert!(
        text(&outcome, &TextOptions::default()).contains("\nResult:           18 sectors uncorrectable on 1 device\n")
    );
}

#[test]
fn an_interrupted_run_does_not_say_that_there_are_no_errors() {
    let mut stopped = ScrubOutcome { status: Status::Interrupted, bytes_scrubbed: 1 << 30, ..clean() };
    let shown = text(&stopped, &TextOptions::default());
    assert!(shown.contains("Status:           interrupted\n"));
    assert!(
        shown.ends_with("Error summary:    stopped after 1.00GiB of 7.02GiB; no errors in the part checked\n"),
        "{shown}"
    );
    stopped = ScrubOutcome { status: Status::Interrupted, bytes_scrubbed: 1 << 30, ..correctable() };
    let shown = text(&stopped, &TextOptions::default());
    assert!(shown.contains("Result:           7 sectors correctable on 2 devices; stopped after 1.00GiB of 7.02GiB\n"));
    assert!(!shown.contains("no errors found"));
}

#[test]
fn a_run_without_all_members_says_so() {
    let mut degraded = clean();
    degraded.filesystem.missing_devids = vec![DeviceId::new(2), DeviceId::new(3)];
    degraded.verdict = Verdict::Correctable;
    let shown = text(&degraded, &TextOptions::default());
    assert!(shown.contains("Error summary:    no errors found on the devices that are here\n"));
    assert!(shown.contains("Missing:          devid 2, devid 3\n"));
}

#[test]
fn findings_beyond_the_screen_are_counted() {
    let mut many = correctable();
    many.findings_omitted = 5;
    let options = TextOptions { max_findings: 1, more_advice: " (elsewhere)", ..TextOptions::default() };
    let shown = text(&many, &options);
    assert!(
        shown.ends_with("; correctable\nand 1 more finding (elsewhere)\nand 5 more findings, counted and not listed\n"),
        "{shown}"
    );
}

#[test]
fn super_blocks_that_were_corrected_are_not_said_to_be_bad_where_not_all_findings_are_listed() {
    let second = Counters { csum_errors: 3, corrected_errors: 3, super_errors: 1, ..Counters::default() };
    let mut done = outcome(Counters::default(), second, Verdict::Corrected, vec![]);
    done.findings_omitted = 4;
    let said = |outcome: &ScrubOutcome| {
        let text = text(outcome, &TextOptions::default());
        text.lines().find_map(|line| line.strip_prefix("Result:")).map(|line| line.trim().to_owned())
    };
    let corrected =
        "3 sectors corrected and read back on 1 device; 1 super block copy corrected and read back on 1 device";
    assert_eq!(said(&done).as_deref(), Some(corrected));
    done.verdict = Verdict::Uncorrectable;
    assert!(said(&done).is_some_and(|said| said.ends_with("; 1 super block copy bad on 1 device")));
}

#[test]
fn every_kind_of_finding_has_its_line() {
    let at = bad_sector(1, RepairState::Impossible);
    let lines = [
        Finding {
            kind: FindingKind::Superblock,
            problem: Problem::Generation,
            logical: Logical::new(67_108_864),
            evidence: Evidence::Number { have: 7, expect: 9 },
            repair: RepairState::Done,
            ..at.clone()
        },
        Finding {
            kind: FindingKind::Parity,
            problem: Problem::ParityMismatch,
            mirror: MirrorNum::new(2),
            evidence: Evidence::None,
            repair: RepairState::Undecidable,
            ..at.clone()
        },
        Finding { problem: Problem::ReadError, evidence: Evidence::Errno(Some(5)), ..at.clone() },
        Finding { problem: Problem::Missing, evidence: Evidence::None, repair: RepairState::Failed, ..at },
    ];
    assert_eq!(
        lines.map(|finding| FindingLine(&finding).to_string()),
        [
            "corrupt super block: copy=1 devid=1 physical=1048576, bad generation, have 7 expect 9; corrected",
            "corrupt parity: full_stripe=298844160 stripe=Q devid=1 physical=1048576, does not fit the data of its row; undecidable",
            "unreadable data: logical=298844160 mirror=1 devid=1 physical=1048576, read error, Input/output error (os error 5); uncorrectable",
            "missing data: logical=298844160 mirror=1 devid=1 physical=1048576, device is missing; correction failed",
        ]
    );
}

#[test]
fn json_keys_are_those_of_the_interface() {
    let json: serde_json::Value = serde_json::from_str(&document(&correctable(), Encoding::Json)).expect("json");
    let keys = |value: &serde_json::Value| -> Vec<String> {
        let mut keys: Vec<_> = value.as_object().expect("an object").keys().cloned().collect();
        keys.sort();
        keys
    };
    assert_eq!(
        keys(&json).join(" "),
        "bytes_scrubbed bytes_total command devices duration_seconds filesystem findings \
        findings_omitted notes rate_bytes_per_second selection started status tool totals verdict"
    );
    assert_eq!(
        keys(&json["filesystem"]).join(" "),
        "csum_type fsid generation label missing_devids nodesize num_devices sectorsize"
    );
    assert_eq!(keys(&json["totals"]).len(), 20);
    assert_eq!(keys(&json["devices"][0]).join(" "), "bytes_total counters devid path read");
    assert_eq!(
        keys(&json["findings"][1]).join(" "),
        "devid expect files have kind length logical mirror physical problem profile repair"
    );
    assert_eq!(json["started"], "2026-11-30T07:36:50Z");
    assert_eq!(json["findings"][0]["problem"], "first-key");
    assert_eq!(json["findings"][0]["owner"], 2);
    assert_eq!(json["findings"][1]["have"], "0x8f010203");
    assert_eq!(json["devices"][1]["counters"]["csum_errors"], 3);
    assert_eq!(json["rate_bytes_per_second"], 376_883_404.8);
}

#[test]
fn counts_agree_between_text_json_and_devices() {
    let outcome = correctable();
    let json: serde_json::Value = serde_json::from_str(&document(&outcome, Encoding::Json)).expect("json");
    let per_device: u64 = outcome
        .devices
        .iter()
        .map(|d| {
            json["devices"][d.devid.raw() as usize - 1]["counters"]["correctable_errors"].as_u64().expect("a number")
        })
        .sum();
    assert_eq!(json["totals"]["correctable_errors"], per_device);
    assert!(text(&outcome, &TextOptions::default()).contains(&format!("  Correctable:    {per_device}\n")));
}

#[test]
fn parity_stripes_and_super_blocks_are_counted_by_what_can_be_done_about_them() {
    let counters = Counters { parity_errors: 2, super_errors: 1, ..Counters::default() };
    let parity = Finding {
        kind: FindingKind::Parity,
        problem: Problem::ParityMismatch,
        evidence: Evidence::None,
        ..bad_sector(2, RepairState::Possible)
    };
    let undecidable = Finding { repair: RepairState::Undecidable, ..parity.clone() };
    let superblock = Finding { kind: FindingKind::Superblock, ..bad_sector(1, RepairState::Done) };
    let mut outcome =
        outcome(counters, Counters::default(), Verdict::Uncorrectable, vec![superblock, parity, undecidable]);
    let text_of = |outcome: &ScrubOutcome| text(outcome, &TextOptions::default());
    let expect = "Result:           1 super block copy corrected and read back on 1 device; \
                  1 parity stripe correctable on 1 device; 1 parity stripe undecidable on 1 device\n";
    assert!(text_of(&outcome).contains(expect), "{}", text_of(&outcome));
    outcome.findings.pop();
    outcome.findings_omitted = 1;
    let expect = "Result:           1 super block copy corrected and read back on 1 device; \
                  2 parity stripes bad on 1 device\n";
    assert!(text_of(&outcome).contains(expect), "{}", text_of(&outcome));
}

#[test]
fn a_report_can_be_read_back_from_json_and_yaml() {
    let mut outcome = correctable();
    outcome.findings_omitted = 3;
    for encoding in [Encoding::Json, Encoding::Yaml] {
        let saved = read_report(document(&outcome, encoding).as_bytes()).expect("our own report");
        let said = |finding: &Finding| match finding.evidence.strings() {
            (Some(have), expect) => Evidence::Said { have: have.into(), expect: expect.map(Into::into) },
            _ => Evidence::None,
        };
        let expected: Vec<_> = outcome.findings.iter().map(|f| Finding { evidence: said(f), ..f.clone() }).collect();
        assert_eq!(saved.findings, expected);
        assert_eq!(
            (saved.command.as_str(), saved.fsid, saved.generation.raw(), saved.findings_omitted),
            ("scrub", FSID, 9, 3)
        );
    }
}

#[test]
fn what_is_not_a_report_is_named() {
    let message = |bytes: &[u8]| read_report(bytes).expect_err("not a report").to_string();
    assert_eq!(message(b"  \n"), "the report is empty");
    assert_eq!(message(b"{ \"tool\": 1 }"), "not a report in json");
    assert_eq!(message(b"\0\x01\xff"), "not a report in yaml");
    let good = document(&correctable(), Encoding::Json);
    assert_eq!(
        message(good.replace("\"mirrortool\"", "\"other\"").as_bytes()),
        "the report was written by other, not by mirrortool"
    );
    assert_eq!(
        message(good.replace("389b092a", "zz").as_bytes()),
        "the report's fsid is \"zz-5a30-4de0-86bd-c136ddfc6456\", which is not a uuid"
    );
    assert_eq!(
        message(good.replace("\"kind\": \"data\"", "\"kind\": \"dust\"").as_bytes()),
        "finding 1: unknown kind \"dust\""
    );
}

#[test]
fn the_status_file_is_the_one_btrfs_progs_writes() {
    let mut stopped = ScrubOutcome { status: Status::Interrupted, ..correctable() };
    stopped.devices[1].counters.last_physical = 4096;
    let status = |outcome: &ScrubOutcome| written(outcome, |report, out| write_btrfs_status(report, out));
    let text = status(&stopped);
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 3);
    assert_eq!(lines[0], "scrub status:1");
    assert_eq!(
        lines[2],
        "389b092a-5a30-4de0-86bd-c136ddfc6456:2|data_extents_scrubbed:0|tree_extents_scrubbed:0|data_bytes_scrubbed:0|\
         tree_bytes_scrubbed:0|read_errors:0|csum_errors:3|verify_errors:0|no_csum:0|csum_discards:0|super_errors:0|\
         malloc_errors:0|uncorrectable_errors:0|corrected_errors:0|last_physical:0|t_start:1796024210|t_resumed:0|\
         duration:20|canceled:1|finished:0"
    );
    stopped.status = Status::Finished;
    assert!(
        status(&stopped)
            .ends_with("|last_physical:4096|t_start:1796024210|t_resumed:0|duration:20|canceled:0|finished:1\n")
    );
}
