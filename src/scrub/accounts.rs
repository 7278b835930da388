//! Is all of it there? Holds what a scrub has gone through against what block groups, device items and the super block say
//! is used, and the structures that map addresses to places against each other. Reads trees and no data; never writes.
//!
//! Kernel: `check_chunk_block_group_mappings` in fs/btrfs/block-group.c, `btrfs_verify_dev_extents` and the end of
//! `btrfs_read_chunk_tree` in fs/btrfs/volumes.c; progs: the accounting of `btrfs check`.

use super::allocation::{Allocation, Older};
use super::extra::NothingLost;
use crate::filesystem::{BlockGroup, Conflict, Contradiction, Filesystem};
use crate::format::Key;
use crate::format::items::DevExtent;
use crate::format::types::{key_type, object};
use crate::tree::{Cursor, TreeRoot};
use crate::units::{DeviceId, DevicePhysical, Logical, ObjectId};
use crate::volume::Chunk;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// What the extent tree has of one block group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Account {
    /// Where it starts.
    pub(super) start: Logical,
    /// The bytes of all its extents.
    pub(super) listed_bytes: u64,
    /// Extent items that make no sense.
    pub(super) ignored: u64,
}

/// Does the extent tree list all that the block group says is used?
pub(super) fn is_accounted(fs: &Filesystem, chunk: &Chunk) -> bool {
    if fs.knowledge().is_older() {
        return false;
    }
    let sizes = (fs.geometry().nodesize(), fs.geometry().sectorsize());
    let mut allocation =
        Allocation::new(fs, fs.roots().extent, chunk, sizes, Older::default(), VecDeque::new(), &NothingLost);
    while allocation.next_extent().is_some() {}
    let used = fs.block_group(chunk).used_bytes;
    used.is_some() && used == allocation.listed_bytes() && allocation.ignored() == 0
}

/// Is the part of the checksum tree lost that would have the checksum of the sector at `at`?
pub(super) fn is_sum_lost(fs: &Filesystem, at: Logical) -> bool {
    let Some(root) = fs.roots().csum else { return true };
    let mut cursor = Cursor::new(fs, root);
    cursor.seek_floor(&Key::new(object::EXTENT_CSUM.raw(), key_type::EXTENT_CSUM, at.raw()));
    !cursor.take_lost().is_empty()
}

/// Block groups, one by one: their items, and what was found in them. `unlisted` are tree blocks that the extent tree does
/// not have.
pub(super) fn of_groups(
    fs: &Filesystem,
    groups: &[BlockGroup],
    accounts: &[Account],
    unlisted: &[Logical],
) -> Vec<Contradiction> {
    let accounts: BTreeMap<Logical, &Account> = accounts.iter().map(|account| (account.start, account)).collect();
    let nodesize = u64::from(fs.geometry().nodesize());
    let mut found = Vec::new();
    for group in groups {
        let tree = if fs.roots().block_group.is_some() { object::BLOCK_GROUP_TREE } else { object::EXTENT_TREE };
        let mut tell = |conflict| found.push(Contradiction { at: group.start, place: None, tree, conflict });
        if let Some(odd) = &group.odd {
            tell(odd.clone());
        }
        let Some(account) = accounts.get(&group.start) else { continue };
        if account.ignored > 0 {
            tell(Conflict::ExtentItems { count: account.ignored });
            continue;
        }
        let first = unlisted.partition_point(|at| *at < group.start);
        let last = unlisted.partition_point(|at| *at < group.start + group.length_bytes);
        let have = account.listed_bytes.saturating_add((last - first) as u64 * nodesize);
        if let Some(expect) = group.used_bytes.filter(|expect| *expect != have) {
            tell(Conflict::Used { have, expect });
        }
    }
    found.extend(outside(fs));
    found
}

/// Extents and block groups that lie where no chunk is.
fn outside(fs: &Filesystem) -> Vec<Contradiction> {
    let roots = [fs.roots().extent, fs.roots().block_group];
    roots.into_iter().flatten().flat_map(|root| outside_in(fs, root)).collect()
}

fn outside_in(fs: &Filesystem, root: TreeRoot) -> Vec<Contradiction> {
    let mut cursor = Cursor::new(fs, root);
    let mut found = Vec::new();
    let mut from = Logical::new(0);
    let ends = fs.chunks().iter().map(|chunk| (chunk.start(), chunk.end()));
    for (start, end) in ends.chain([(Logical::new(u64::MAX), Logical::new(u64::MAX))]) {
        if from < start {
            cursor.seek(&Key::new(from.raw(), 0, 0));
            let key = cursor.key().filter(|key| key.objectid.raw() < start.raw());
            found.extend(key.map(|key| {
                let is_group = key.item_type == key_type::BLOCK_GROUP_ITEM;
                let conflict = if is_group { Conflict::NoChunk { key } } else { Conflict::ExtentOutside { key } };
                Contradiction { at: Logical::new(key.objectid.raw()), place: None, tree: root.id, conflict }
            }));
        }
        from = end;
    }
    found
}

/// Device extents against the stripes of chunks, and against the device items.
pub(super) fn of_devices(fs: &Filesystem) -> Vec<Contradiction> {
    let mut found = Vec::new();
    if fs.knowledge().knows_all_places() {
        found.extend(device_bytes(fs));
    }
    let Some(root) = fs.roots().dev.filter(|_| !fs.superblock().is_metadump()) else { return found };
    let mut tell = |at, place, conflict| {
        found.push(Contradiction { at, place: Some(place), tree: object::DEV_TREE, conflict });
    };
    let mut seen: BTreeSet<DevicePhysical> = BTreeSet::new();
    let mut cursor = Cursor::new(fs, root);
    cursor.seek(&Key::MIN);
    while let Some((key, bytes)) = cursor.item() {
        if key.item_type == key_type::DEV_EXTENT {
            let place = DevExtent::place(&key);
            let DevicePhysical { devid, physical } = place;
            let extent = DevExtent::parse(bytes).ok();
            let (at, length) = extent.map_or((Logical::default(), 0), |extent| (extent.chunk_offset, extent.length));
            let chunk = fs.chunks().lookup(at).ok().filter(|chunk| chunk.start() == at);
            if chunk.is_some_and(|chunk| has_stripe(chunk, place, length)) {
                seen.insert(place);
            } else {
                tell(at, place, Conflict::NoStripe { devid, physical, length });
            }
            let end = physical.raw().saturating_add(length);
            let total = fs.dev_items().iter().find(|item| item.devid == devid).map(|item| item.total_bytes);
            // A device that is on its way out has no size any more.
            if let Some(total) = total.filter(|total| *total > 0 && end > *total) {
                tell(at, place, Conflict::BeyondDevice { devid, end, total });
            }
        }
        cursor.advance();
    }
    let is_whole = cursor.take_lost().is_empty() && fs.knowledge().knows_all_places();
    for chunk in fs.chunks().iter().filter(|_| is_whole) {
        for stripe in chunk.stripes() {
            let place = DevicePhysical { devid: stripe.devid, physical: stripe.offset };
            if !seen.contains(&place) {
                let conflict = Conflict::NoDevExtent { devid: stripe.devid, physical: stripe.offset };
                tell(chunk.start(), place, conflict);
            }
        }
    }
    found
}

fn has_stripe(chunk: &Chunk, place: DevicePhysical, length: u64) -> bool {
    let is_it = |devid: DeviceId, physical| (devid, physical) == (place.devid, place.physical);
    // Where the last row is not full, kernel and progs round the other way.
    let lengths = [chunk.stripe_bytes(), chunk.len_bytes() / chunk.data_columns()];
    lengths.contains(&length) && chunk.stripes().iter().any(|stripe| is_it(stripe.devid, stripe.offset))
}

/// What the chunks take of each device, against its item.
fn device_bytes(fs: &Filesystem) -> Vec<Contradiction> {
    let odd = fs.dev_items().iter().filter_map(|item| {
        let on = fs.chunks().chunks_on(item.devid);
        let lengths = |chunk: &Chunk| [chunk.stripe_bytes(), chunk.len_bytes() / chunk.data_columns()];
        let (most, least) = on.fold((0_u64, 0_u64), |(most, least), (chunk, _)| {
            let [up, down] = lengths(chunk);
            (most.saturating_add(up), least.saturating_add(down))
        });
        let (devid, expect) = (item.devid, item.bytes_used);
        (expect != most && expect != least).then_some((devid, Conflict::DeviceBytes { devid, have: most, expect }))
    });
    let (at, tree) = (fs.roots().chunk.at, ObjectId::new(object::CHUNK_TREE.raw()));
    let place = |devid| Some(DevicePhysical { devid, physical: crate::format::SUPERBLOCK_OFFSETS[0] });
    odd.map(|(devid, conflict)| Contradiction { at, place: place(devid), tree, conflict }).collect()
}

/// What the super block says of the whole file system and the trees do not, a clause each.
pub(super) fn of_superblock(fs: &Filesystem, groups: &[BlockGroup]) -> Vec<String> {
    let superblock = fs.superblock();
    let mut odd = Vec::new();
    let used: Option<u64> = groups.iter().try_fold(0_u64, |sum, group| Some(sum.saturating_add(group.used_bytes?)));
    if let Some(used) = used.filter(|used| *used != superblock.bytes_used()) {
        odd.push(format!("bytes_used is {}, the block groups have {used}", superblock.bytes_used()));
    }
    // The kernel refuses less than its writable devices have, and takes more.
    let is_writable = |devid| fs.volume().member(devid).is_some_and(|member| !member.is_seed());
    let items = fs.dev_items().iter().filter(|item| is_writable(item.devid));
    let total = items.fold(0_u64, |sum, item| sum.saturating_add(item.total_bytes));
    if superblock.total_bytes() < total {
        odd.push(format!("total_bytes is {}, the device items have {total}", superblock.total_bytes()));
    }
    odd
}
