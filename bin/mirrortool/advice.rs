//! The way out of an error: what an administrator can do about it, one line per kind. The library says what is wrong;
//! options and commands are named only here.

use crate::layer_advice;
use crate::repairing::NoConsent;
use crate::sittings::StateInUse;
use mirrortool::device::DeviceError;
use mirrortool::filesystem::OpenError;
use mirrortool::format::{Conversion, UnsupportedFeature};
use mirrortool::lease::LeaseError;
use mirrortool::rebuild::{RebuildError, RebuildRefusal, TargetRefusal};
use mirrortool::repair::undo::UndoError;
use mirrortool::repair::{Refusal, RepairError};
use mirrortool::report::ReadError;
use mirrortool::scrub::finding::{Problem, RepairState};
use mirrortool::scrub::outcome::{ScrubOutcome, Status, Verdict};
use mirrortool::volume::{NotBtrfs, SetError};
use std::error::Error;
use std::io;

/// The advice for the first cause of the chain that has one.
pub(crate) fn for_error(error: &anyhow::Error) -> Option<&'static str> {
    error.chain().find_map(for_cause)
}

/// What to do after a run, a sentence each.
pub(crate) fn for_outcome(command: &str, outcome: &ScrubOutcome) -> Vec<String> {
    let mut advice = Vec::new();
    let mut say = |applies: bool, what: &str| {
        if applies {
            advice.push(what.to_owned());
        }
    };
    let totals = &outcome.totals;
    let is_lost = totals.uncorrectable_errors > 0;
    say(is_lost, "Take the files that are named below from a backup, or delete them: their bytes are lost here.");
    say(is_lost, "Where trees are hit, do not write to the file system before what can be read is copied away.");
    let differs = totals.nodatasum_mismatch > 0;
    say(
        differs,
        "Data without checksum differs between its copies: \"mirrortool repair --prefer-devid N\" takes one side.",
    );
    let is_scrub = command == "scrub" && matches!(outcome.verdict, Verdict::Correctable | Verdict::Uncorrectable);
    let correctable = is_scrub && outcome.findings.iter().any(|f| f.repair == RepairState::Possible);
    say(
        correctable,
        "\"mirrortool repair\" corrects what is correctable, and \"mirrortool repair undo\" takes it back.",
    );
    let contradicts = outcome.findings.iter().any(|finding| finding.problem == Problem::Contradiction);
    say(
        contradicts,
        "Structures contradict each other though all checksums are right: copy the files away before anything is written, \
         and see what \"btrfs check --readonly\" says.",
    );
    let missing = !outcome.filesystem.missing_devids.is_empty();
    say(missing, "Give the missing devices, or replace them: without them nothing more may be lost.");
    say(totals.read_errors > 0, "Look at the health of the devices with read errors: smartctl -a.");
    say(
        outcome.status == Status::Interrupted,
        "The run did not get to its end: \"--resume\" goes on where it stopped.",
    );
    advice
}

fn for_cause(cause: &(dyn Error + 'static)) -> Option<&'static str> {
    let device = || cause.downcast_ref().and_then(for_device);
    let set = || cause.downcast_ref().and_then(for_open).or_else(|| cause.downcast_ref().and_then(for_set));
    let read = || cause.downcast_ref().map(for_report);
    let io = || cause.downcast_ref().and_then(for_io);
    let consent =
        || cause.downcast_ref().map(|NoConsent| "pass --yes to write, --dry-run to see what would be written");
    let in_use = || cause.downcast_ref().map(|StateInUse(_)| "wait for its end, or pass --no-state to go without");
    let refused = || cause.downcast_ref().and_then(for_repair).or_else(|| cause.downcast_ref().and_then(for_refusal));
    let undo = || cause.downcast_ref().and_then(for_undo);
    let lease = || cause.downcast_ref().and_then(for_lease);
    let rebuild = || cause.downcast_ref().and_then(for_rebuild).or_else(|| cause.downcast_ref().and_then(for_lost));
    let undo = || undo().or_else(lease).or_else(rebuild);
    let layers = || cause.downcast_ref().and_then(layer_advice::for_stack);
    device()
        .or_else(set)
        .or_else(read)
        .or_else(io)
        .or_else(consent)
        .or_else(in_use)
        .or_else(refused)
        .or_else(undo)
        .or_else(layers)
}

pub(crate) fn for_device(error: &DeviceError) -> Option<&'static str> {
    match error {
        DeviceError::NotFound { .. } => Some("look at /dev/disk/by-id for the devices that are there"),
        DeviceError::PermissionDenied { .. } => Some("run it with sudo, or as a user of the device's group"),
        DeviceError::WrongKind { .. } => {
            Some("give the block devices or image files themselves, not a mount point or a folder of images")
        }
        DeviceError::Empty { .. } => Some("was the image copied to its end? does the drive hold a medium?"),
        DeviceError::EngineRefused { .. } => Some("leave --io-engine away: auto takes one that works here"),
        DeviceError::Busy { .. } => {
            Some("unmount the file system, then: btrfs device scan --forget, losetup -d for loop devices")
        }
        DeviceError::ReadOnly { .. } => Some("make it writable (chmod, blockdev --setrw), or work on a copy"),
        DeviceError::Replaced { .. } | DeviceError::Resized { .. } => {
            Some("something else writes here; stop it and try again")
        }
        DeviceError::Io { .. } => None,
    }
}

fn for_open(error: &OpenError) -> Option<&'static str> {
    match error {
        OpenError::Set(error) => for_set(error),
        OpenError::SystemChunk(_) | OpenError::ChunkTree(_) => Some(
            "without it nothing can be found, and its own chunks hold no older one; give the members that are still \
             missing, or try on copies of the devices: btrfs rescue chunk-recover",
        ),
        OpenError::RootTree(_) => Some("give the members that are still missing, or try: btrfs restore"),
    }
}

fn for_set(error: &SetError) -> Option<&'static str> {
    match error {
        SetError::Missing { .. } => Some(
            "give all members, or pass --degraded to work with what is there; mirrortool rebuild makes a lost one again",
        ),
        SetError::NotBtrfs { why: NotBtrfs::Blank { .. }, .. } => Some(
            "leave it out; to make it a lost member again: mirrortool rebuild --onto DEVICE and the members that are left",
        ),
        SetError::NotBtrfs { why: NotBtrfs::Damaged { .. }, .. } => {
            Some("pass --degraded to work with the other members")
        }
        SetError::NotBtrfs { why: NotBtrfs::Recognised { what }, .. } => Some(layer_advice::to_open(*what)),
        SetError::NotBtrfs { .. } | SetError::Empty => Some("leave it out; blkid tells what it holds"),
        SetError::SameFile { .. } => Some("give each member once"),
        SetError::Clone { .. } => Some("decide which of the two is the one to use, and leave the other out"),
        SetError::TwoFilesystems { .. } => {
            Some("give the members of one file system; blkid tells which belong together")
        }
        SetError::Unsupported { feature, .. } => Some(for_feature(*feature)),
        _ => None,
    }
}

/// Work that was cut off is finished by whoever began it.
fn for_feature(feature: UnsupportedFeature) -> &'static str {
    let UnsupportedFeature::ConversionUnderway { conversion } = feature else {
        return "nothing was read or written; use the btrfs-progs of the kernel that wrote it";
    };
    match conversion {
        Conversion::Fsid => {
            "finish it with the same command: btrfstune -u DEVICE (or -U UUID), of the version that began it"
        }
        Conversion::MetadataUuid => {
            "finish it with the same command: btrfstune -m DEVICE (or -M UUID), with all members attached"
        }
        Conversion::BlockGroupTree => {
            "finish it with the same command: btrfstune --convert-to-block-group-tree DEVICE (or --convert-from-block-group-tree)"
        }
        Conversion::DataChecksums | Conversion::MetadataChecksums => {
            "finish it with the same command: btrfstune --csum TYPE DEVICE, of the version that began it"
        }
    }
}

fn for_report(error: &ReadError) -> &'static str {
    match error {
        ReadError::Empty | ReadError::Json(_) | ReadError::Yaml(_) | ReadError::Tool { .. } => {
            "give a file that --report wrote as json or yaml"
        }
        ReadError::Fsid { .. } | ReadError::Word { .. } => "was it edited? scrub again to have a new one",
    }
}

fn for_lease(error: &LeaseError) -> Option<&'static str> {
    match error {
        LeaseError::Device(error) => for_device(error),
        LeaseError::InUse { .. } => {
            Some("unmount the file system, then: btrfs device scan --forget, losetup -d for loop devices")
        }
        LeaseError::Superblock { .. } => Some("scrub it again when nothing uses it any more"),
        _ => None,
    }
}

fn for_refusal(error: &Refusal) -> Option<&'static str> {
    match error {
        Refusal::InUse { .. } => {
            Some("unmount the file system, then: btrfs device scan --forget, losetup -d for loop devices")
        }
        Refusal::Device(error) => for_device(error),
        Refusal::Unsupported(feature) => Some(for_feature(*feature)),
        Refusal::StalePreferred { .. } => {
            Some("prefer a current member, or add --even-stale if the old bytes are wanted")
        }
        Refusal::Metadump => Some("nothing was written; repair the file system that the dump was made of"),
        Refusal::ZoneDump(_) => {
            Some("nothing was written; mount the device and scrub it: the kernel moves the block groups that are hit")
        }
        Refusal::SplitBrain(_) => Some(
            "decide which one is wanted and give that one alone with --degraded; add the other as a new device later",
        ),
        _ => None,
    }
}

fn for_repair(error: &RepairError) -> Option<&'static str> {
    match error {
        RepairError::Refused(error) => for_refusal(error),
        RepairError::Scrub(_) => None,
        RepairError::Broken(_) => Some("repair again: what is right already is not written again"),
    }
}

fn for_rebuild(error: &RebuildError) -> Option<&'static str> {
    match error {
        RebuildError::Refused(error) => for_lost(error),
        RebuildError::Target(TargetRefusal::TooSmall { .. }) => Some("give a device that is at least as long"),
        RebuildError::Target(TargetRefusal::Holds { .. }) => {
            Some("give another device, or pass --overwrite where what is on it may be lost")
        }
        RebuildError::Device(_) => Some("give another device; what was read is not lost, nothing else was written"),
        RebuildError::Moved => Some("unmount the file system, and begin anew"),
        _ => None,
    }
}

fn for_lost(error: &RebuildRefusal) -> Option<&'static str> {
    match error {
        RebuildRefusal::FileSystem(error) => for_refusal(error),
        RebuildRefusal::NotSurvivor(_) => Some("leave it out; the new device is the one behind --onto"),
        RebuildRefusal::NothingMissing => Some("all members were given; leave out the one that is to be made again"),
        RebuildRefusal::NotMissing { .. } => Some("leave it out of the members that are left"),
        RebuildRefusal::Several(_) => Some("choose one with --devid, and make the others afterwards"),
        RebuildRefusal::DevidZero | RebuildRefusal::ReplaceUnderWay { .. } => {
            Some("mount it and let it end, or: btrfs replace cancel")
        }
        _ => None,
    }
}

fn for_undo(error: &UndoError) -> Option<&'static str> {
    match error {
        UndoError::MemberMissing { .. } => Some("give all members that were repaired, behind the log"),
        UndoError::Foreign(_) => {
            Some("something else has written there; was there a later repair? then undo that one first")
        }
        UndoError::Lease(error) => for_lease(error),
        _ => None,
    }
}

fn for_io(error: &io::Error) -> Option<&'static str> {
    match error.kind() {
        io::ErrorKind::PermissionDenied => Some("run it as a user who may do that, or with sudo"),
        io::ErrorKind::StorageFull => Some("free some space, or choose another place for the file"),
        io::ErrorKind::InvalidData => {
            Some("reports, state, jobs and models are text; devices and images are named by themselves")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_is_found_below_the_context_of_an_error() {
        let error = anyhow::Error::new(DeviceError::Empty { path: "d1.img".into() }).context("cannot open the set");
        assert!(for_error(&error).is_some_and(|advice| advice.contains("medium")));
        assert_eq!(for_error(&anyhow::anyhow!("else")), None);
    }

    #[test]
    fn each_conversion_has_the_command_that_finishes_it() {
        let command = |conversion| {
            let feature = UnsupportedFeature::ConversionUnderway { conversion };
            let at = mirrortool::format::SUPERBLOCK_OFFSETS[0];
            let error = SetError::Unsupported { path: "d1.img".into(), at, feature };
            for_error(&anyhow::Error::new(error)).unwrap_or_default().to_owned()
        };
        let options = ["-u DEVICE", "-m DEVICE", "--convert-to-block-group-tree DEVICE", "--csum TYPE", "--csum TYPE"];
        for (conversion, option) in Conversion::ALL.into_iter().zip(options) {
            assert!(command(conversion).contains(&format!("btrfstune {option}")), "{conversion}");
        }
    }
}
