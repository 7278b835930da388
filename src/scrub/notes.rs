//! What an administrator should know beside the findings, one lowercase line each.

use super::outcome::Status;
use super::sink::Tally;
use crate::filesystem::{Filesystem, LogRoot};
use crate::format::items::{BalanceItem, DevReplaceItem};
use crate::format::types::{key_type, object};
use crate::format::{Key, SuperFlags};
use crate::owners::{PackedExtent, packed_among};
use crate::tree::{Cursor, TreeRoot};
use crate::units::{DeviceId, Logical};
use crate::volume::Profile;
use std::collections::{BTreeMap, BTreeSet};

/// What the file system itself gives reason to say.
pub(super) fn of_filesystem(fs: &Filesystem, has_log: bool) -> Vec<String> {
    let mut notes: Vec<String> = fs.set().warnings().iter().map(ToString::to_string).collect();
    notes.extend(fs.superblock().unknown_features().map(|feature| feature.to_string()));
    notes.extend(layers(fs));
    if fs.superblock().is_metadump() {
        notes.push("this is a metadata dump (btrfs-image): it has no data, so no data was read".to_owned());
    }
    notes.extend(zoned(fs));
    if has_log {
        notes.push("a log tree is present: what was fsynced last is not yet in the other trees".to_owned());
    }
    notes.extend(unknown_log(fs));
    for (name, root) in [("extent", fs.roots().extent), ("checksum", fs.roots().csum)] {
        if root.is_none() {
            notes.push(format!("the root tree has no {name} tree"));
        }
    }
    let seeds =
        fs.members().filter(|member| member.is_seed() && !fs.superblock().flags().contains(SuperFlags::SEEDING));
    notes.extend(seeds.map(|seed| format!("devid {} is a seed: it is read and never repaired", seed.devid())));
    notes.extend(mixed_profiles(fs));
    notes.extend(beyond_end(fs));
    notes.extend(paused_work(fs));
    notes
}

/// Where it is not known whether there is a log: a first super block copy made without it would drop what it holds.
fn unknown_log(fs: &Filesystem) -> Option<String> {
    let (whose, roots) = match fs.log() {
        LogRoot::None | LogRoot::At(_) => return None,
        LogRoot::Lost(roots) => ("the super blocks name", roots),
        LogRoot::Unknown(roots) => ("damaged first super block copies name", roots),
    };
    let list: Vec<String> = roots.iter().map(|root| root.bytenr.to_string()).collect();
    let list = list.join(" and ");
    Some(format!("{whose} a log tree at {list}, no copy of which verifies: first super block copies are not written"))
}

/// Dumps of zoned devices: which of their super blocks was taken.
fn zoned(fs: &Filesystem) -> impl Iterator<Item = String> + '_ {
    fs.members().filter(|member| member.is_zone_dump()).filter_map(|member| {
        let newest = member.superblock_copies().first()?;
        Some(format!(
            "devid {} is the dump of a zoned device: of its log of super blocks the newest was taken (at {}, generation {}); \
             it is read and never repaired",
            member.devid(),
            newest.at,
            member.generation()
        ))
    })
}

/// What lies below the members, and what was noticed there.
pub fn layers(fs: &Filesystem) -> Vec<String> {
    let mut notes = Vec::new();
    for member in fs.members() {
        let Some(below) = member.device().below() else { continue };
        notes.push(format!("layers of devid {}: {} > btrfs", member.devid(), below.chain()));
        notes.extend(below.notes().iter().cloned());
    }
    notes
}

/// What the run gives reason to say.
pub(super) fn of_tally(tally: &Tally, fs: &Filesystem, status: Status, had_overflow: bool) -> Vec<String> {
    let sectorsize = u64::from(fs.geometry().sectorsize());
    let mut notes = tally.notes.clone();
    let mut count = |number: u64, (one, several): (&str, &str), text: &str| {
        if number > 0 {
            let unit = if number == 1 { one } else { several };
            notes.push(format!("{number} {unit} {text}"));
        }
    };
    let compared = tally.unsummed_bytes.saturating_sub(tally.uncompared_bytes);
    let units = ("byte of data has", "bytes of data have");
    count(compared, units, "no checksum: their copies were compared with each other, no more");
    let alone = "no checksum and one copy that is there: they were read, and nothing tells whether they are right";
    count(tally.uncompared_bytes, units, alone);
    let units = ("extent item of a tree block names", "extent items of tree blocks name");
    count(tally.beyond_newest, units, "a generation beyond the super block's: it was not held against the blocks");
    // What an interrupted run did not come to look like sums without extents.
    let orphan_sums = if status == Status::Finished { tally.orphan_sums } else { 0 };
    count(
        orphan_sums,
        (&format!("sector of {sectorsize} bytes has"), &format!("sectors of {sectorsize} bytes have")),
        "a checksum but no extent: left over, no damage to data",
    );
    let units = ("full stripe holds", "full stripes hold");
    count(tally.unjudged_parity, units, "something that is lost: their parity was not judged");
    count(tally.ignored_extents, ("extent item makes", "extent items make"), "no sense and were passed over");
    notes.extend(tally.marks.sentences());
    if had_overflow {
        notes.push("too many tree blocks to remember: first keys were not held against the parents".to_owned());
    }
    notes
}

/// Compressed extents among those without checksums, a few by name.
pub(super) fn of_packed(fs: &Filesystem, mut unsummed: Vec<Logical>) -> Vec<String> {
    const NAMED: usize = 8;
    unsummed.sort_unstable();
    let packed = packed_among(fs, &unsummed);
    let told = packed.iter().take(NAMED).map(|PackedExtent { start, tree, inode }| {
        let tree = tree.map_or_else(String::new, |tree| format!("root {tree} "));
        format!("{tree}inode {inode}: compressed extent at {start} has no checksum: its copies were compared, no more")
    });
    let more = packed.len().saturating_sub(NAMED);
    let rest = (more > 0).then(|| format!("{more} more compressed extents have no checksum"));
    told.chain(rest).collect()
}

/// What is kept in one profile.
#[derive(Default)]
struct Kept {
    block_groups: u64,
    bytes: u64,
    on: BTreeSet<DeviceId>,
}

/// Block groups of one kind that are kept in several ways: what came after a degraded mount has fewer copies.
fn mixed_profiles(fs: &Filesystem) -> Vec<String> {
    let mut kinds: BTreeMap<&str, BTreeMap<Profile, Kept>> = BTreeMap::new();
    for chunk in fs.chunks().iter() {
        let kind = match (chunk.holds_data(), chunk.is_system()) {
            (true, _) => "data",
            (false, true) => "system",
            (false, false) => "metadata",
        };
        let entry = kinds.entry(kind).or_default().entry(chunk.profile()).or_default();
        entry.block_groups += 1;
        entry.bytes = entry.bytes.saturating_add(chunk.len_bytes());
        entry.on.extend(chunk.stripes().iter().map(|stripe| stripe.devid));
    }
    let several = kinds.into_iter().filter(|(_, profiles)| profiles.len() > 1);
    several
        .map(|(kind, profiles)| {
            let list: Vec<String> = profiles
                .iter()
                .map(|(profile, Kept { block_groups, bytes, on })| {
                    let on: Vec<String> = on.iter().map(ToString::to_string).collect();
                    let groups = if *block_groups == 1 { "block group" } else { "block groups" };
                    format!("{profile} ({block_groups} {groups}, {bytes} bytes, on devid {})", on.join(" and "))
                })
                .collect();
            format!("{kind} exists in profiles {}: not all of it has the same redundancy", list.join(" and "))
        })
        .collect()
}

/// Chunks that reach past the end of a device.
fn beyond_end(fs: &Filesystem) -> Vec<String> {
    let mut notes = BTreeSet::new();
    for chunk in fs.chunks().iter() {
        for stripe in chunk.stripes() {
            let Some(device) = fs.device(stripe.devid) else { continue };
            let end = stripe.offset + chunk.stripe_bytes();
            if end.raw() > device.len() {
                let (start, last) = (chunk.start(), chunk.end());
                notes.insert(format!(
                    "chunk [{start}, {last}): its device extent on devid {} ends at {end}, the device at {}",
                    stripe.devid,
                    device.len()
                ));
            }
        }
    }
    notes.into_iter().collect()
}

/// A balance or a device replace that has not finished.
fn paused_work(fs: &Filesystem) -> Vec<String> {
    let mut notes = Vec::new();
    let balance = Key::new(object::BALANCE.raw(), key_type::TEMPORARY_ITEM, 0);
    if item(fs, fs.roots().root, &balance).is_some_and(|bytes| BalanceItem::parse(&bytes).is_ok()) {
        notes.push("a balance has not finished: it is paused, or goes on with the next mount".to_owned());
    }
    let replace = Key::new(0, key_type::DEV_REPLACE, 0);
    let replace = fs.roots().dev.and_then(|dev| item(fs, dev, &replace));
    if let Some(replace) =
        replace.and_then(|bytes| DevReplaceItem::parse(&bytes).ok()).filter(DevReplaceItem::is_under_way)
    {
        notes.push(format!("a replacement of devid {} has not finished", replace.src_devid));
    }
    notes
}

fn item(fs: &Filesystem, tree: TreeRoot, key: &Key) -> Option<Vec<u8>> {
    let mut cursor = Cursor::new(fs, tree);
    cursor.seek(key);
    cursor.item().filter(|(found, _)| found == key).map(|(_, bytes)| bytes.to_vec())
}
