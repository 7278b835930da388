//! What `mirrortool show` prints: the file system, its members, its block groups, and what the loss of devices costs.

use super::document::{Encoding, FilesystemEntry, Tool, WriteError, encode};
use super::layers::LowerEntry;
use super::words::Word;
use super::{human, owner};
use crate::owners::{LostNow, SubvolumeLoss};
use crate::scrub::outcome::FilesystemInfo;
use crate::units::{DeviceId, Generation};
use crate::volume::redundancy::{Class, GroupSum, Loss, Round};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::PathBuf;

/// Combinations of lost devices that the text lists per number of losses, the worst first.
const LISTED_COMBINATIONS: usize = 10;
/// Subvolumes that the text lists per combination, those that lose most first.
const LISTED_SUBVOLUMES: usize = 10;

/// What there is.
#[derive(Clone, Debug)]
pub struct Inventory {
    /// The file system.
    pub filesystem: FilesystemInfo,
    /// All members, by devid.
    pub members: Vec<Member>,
    /// Block groups by class and profile.
    pub groups: Vec<GroupSum>,
    /// What the missing devices have taken with them.
    pub lost_now: LostNow,
    /// What losses cost, by number of lost devices.
    pub rounds: Vec<Round>,
    /// Which subvolumes lose data, by the devices lost; empty where nobody looked.
    pub subvolumes: BTreeMap<Vec<DeviceId>, Vec<SubvolumeLoss>>,
    /// What an administrator should know beside it.
    pub notes: Vec<String>,
}

/// One member device.
#[derive(Clone, Debug)]
pub struct Member {
    /// Its number.
    pub devid: DeviceId,
    /// As given by the user; `None` for a missing member.
    pub path: Option<PathBuf>,
    /// Its size as the file system knows it, in bytes.
    pub total_bytes: u64,
    /// Of it allocated to block groups, in bytes.
    pub allocated_bytes: u64,
    /// Of its super block.
    pub generation: Option<Generation>,
    /// Whether it can be relied on.
    pub state: MemberState,
}

/// Whether a member can be relied on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberState {
    /// There, and of the file system's generation.
    Present,
    /// There, but of an older generation.
    Stale,
    /// Not given.
    Missing,
}

impl MemberState {
    fn word(self) -> &'static str {
        match self {
            Self::Present => "present",
            Self::Stale => "stale",
            Self::Missing => "missing",
        }
    }
}

fn class_word(class: Class) -> &'static str {
    match class {
        Class::Data => "data",
        Class::Metadata => "metadata",
        Class::System => "system",
        Class::Mixed => "data+metadata",
    }
}

impl Inventory {
    /// Bytes of data and of metadata, the bases of what is lost.
    fn sizes(&self) -> (u64, u64) {
        let of = |data: bool| {
            let here = self.groups.iter().filter(|g| matches!(g.class, Class::Data | Class::Mixed) == data);
            here.fold(0_u64, |sum, group| sum.saturating_add(group.bytes))
        };
        (of(true), of(false))
    }
}

/// Writes the inventory as text.
pub fn write_inventory_text(inventory: &Inventory, out: &mut dyn Write) -> io::Result<()> {
    let info = &inventory.filesystem;
    let here = inventory.members.iter().filter(|member| member.path.is_some()).count();
    let label = if info.label.is_empty() { "none" } else { &info.label };
    writeln!(out, "Label:            {label}")?;
    writeln!(out, "UUID:             {}", info.fsid)?;
    writeln!(out, "Generation:       {}", info.generation)?;
    writeln!(out, "Checksum:         {}", info.csum_type.word())?;
    writeln!(out, "Sector size:      {} bytes", info.sectorsize)?;
    writeln!(out, "Node size:        {} bytes", info.nodesize)?;
    writeln!(out, "Devices:          {here} of {} here", info.num_devices)?;
    writeln!(out, "\n{:>5}  {:>10}  {:>10}  {:>10}  {:<7}  path", "devid", "size", "allocated", "generation", "state")?;
    inventory.members.iter().try_for_each(|member| member_row(member, out))?;
    writeln!(out, "\n{:<13}  {:<7}  {:>12}  {:>10}  {:>10}", "holds", "profile", "block groups", "size", "on devices")?;
    for group in &inventory.groups {
        let (class, profile, size) = (class_word(group.class), group.profile.word(), human::size(group.bytes));
        let on_devices = human::size(group.device_bytes);
        writeln!(out, "{class:<13}  {profile:<7}  {:>12}  {size:>10}  {on_devices:>10}", group.count)?;
    }
    writeln!(out)?;
    lost_now_lines(inventory, out)?;
    inventory.rounds.iter().try_for_each(|round| round_lines(round, inventory, out))?;
    inventory.notes.iter().try_for_each(|note| writeln!(out, "note: {note}"))
}

fn member_row(member: &Member, out: &mut dyn Write) -> io::Result<()> {
    let generation = member.generation.map_or_else(|| "-".to_owned(), |generation| generation.to_string());
    let path = member.path.as_ref().map_or_else(|| "-".to_owned(), |path| path.display().to_string());
    let (size, allocated) = (human::size(member.total_bytes), human::size(member.allocated_bytes));
    let (devid, state) = (member.devid, member.state.word());
    writeln!(out, "{devid:>5}  {size:>10}  {allocated:>10}  {generation:>10}  {state:<7}  {path}", devid = devid.raw())
}

/// What is lost already comes first: it is no question of what may happen.
fn lost_now_lines(inventory: &Inventory, out: &mut dyn Write) -> io::Result<()> {
    let missing: Vec<_> = inventory.filesystem.missing_devids.iter().map(ToString::to_string).collect();
    let lost = &inventory.lost_now;
    if missing.is_empty() {
        return Ok(());
    }
    let without = format!("Without devid {}, as it is now", missing.join(" + "));
    if lost.data_bytes == 0 && lost.metadata_bytes == 0 && !lost.is_partial {
        return writeln!(out, "{without}: nothing is lost");
    }
    let (data, metadata) = (human::size(lost.data_bytes), human::size(lost.metadata_bytes));
    let groups = human::count(lost.block_groups, "block group");
    let at_least = if lost.is_partial { "at least " } else { "" };
    writeln!(out, "{without}: lost are {at_least}{data} of data and {metadata} of metadata, in {groups}")?;
    subvolume_lines(&[], inventory, out)
}

fn round_lines(round: &Round, inventory: &Inventory, out: &mut dyn Write) -> io::Result<()> {
    let more = if inventory.filesystem.missing_devids.is_empty() { "device" } else { "more device" };
    let lost = human::count(round.count as u64, more);
    let mut harmful: Vec<_> = round.losses.iter().filter(|loss| !loss.is_harmless()).collect();
    if harmful.is_empty() {
        return writeln!(out, "Without any {lost}: all is readable");
    }
    let (bad, all) = (harmful.len(), human::count(round.losses.len() as u64, "combination"));
    writeln!(out, "Without {lost}: {bad} of {all} would lose something")?;
    harmful.sort_by_key(|loss| std::cmp::Reverse(loss.data_bytes.saturating_add(loss.metadata_bytes)));
    for loss in harmful.iter().take(LISTED_COMBINATIONS) {
        loss_line(loss, inventory, out)?;
    }
    match harmful.len().saturating_sub(LISTED_COMBINATIONS) {
        0 => Ok(()),
        unlisted => writeln!(out, "  and {}", human::count(unlisted as u64, "more combination")),
    }
}

fn loss_line(loss: &Loss, inventory: &Inventory, out: &mut dyn Write) -> io::Result<()> {
    let devids: Vec<_> = loss.devids.iter().map(ToString::to_string).collect();
    let (data, metadata) = inventory.sizes();
    let (data, metadata) = (percent(loss.data_bytes, data), percent(loss.metadata_bytes, metadata));
    writeln!(out, "  devid {}: {data:.0} % of data, {metadata:.0} % of metadata unreadable", devids.join(" + "))?;
    subvolume_lines(&loss.devids, inventory, out)
}

fn subvolume_lines(devids: &[DeviceId], inventory: &Inventory, out: &mut dyn Write) -> io::Result<()> {
    let mut hit: Vec<&SubvolumeLoss> = inventory.subvolumes.get(devids).into_iter().flatten().collect();
    hit.sort_by_key(|hit| std::cmp::Reverse(hit.lost_bytes));
    for hit in hit.iter().take(LISTED_SUBVOLUMES) {
        let (lost, all) = (human::size(hit.lost_bytes), human::size(hit.data_bytes));
        writeln!(out, "    {}: {lost} of {all} of file data", owner::subvolume_name(&hit.subvolume))?;
    }
    match hit.len().saturating_sub(LISTED_SUBVOLUMES) {
        0 => Ok(()),
        unlisted => writeln!(out, "    and {}", human::count(unlisted as u64, "more subvolume")),
    }
}

fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 }
}

/// Writes the inventory as JSON or YAML.
pub fn write_inventory_document(
    inventory: &Inventory,
    encoding: Encoding,
    out: &mut dyn Write,
) -> Result<(), WriteError> {
    let document = Document {
        tool: Tool::THIS,
        command: "show",
        filesystem: FilesystemEntry::new(&inventory.filesystem),
        devices: inventory.members.iter().map(MemberEntry::new).collect(),
        members: inventory.filesystem.lower.iter().map(LowerEntry::new).collect(),
        block_groups: inventory.groups.iter().map(GroupEntry::new).collect(),
        lost_now: LostNowEntry::new(inventory),
        losses: inventory
            .rounds
            .iter()
            .flat_map(|round| &round.losses)
            .map(|loss| LossEntry::new(loss, inventory))
            .collect(),
        notes: &inventory.notes,
    };
    encode(&document, encoding, out)
}

#[derive(Serialize)]
struct Document<'a> {
    tool: Tool,
    command: &'static str,
    filesystem: FilesystemEntry<'a>,
    devices: Vec<MemberEntry>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    members: Vec<LowerEntry>,
    block_groups: Vec<GroupEntry>,
    /// Null where no device is missing.
    lost_now: Option<LostNowEntry>,
    losses: Vec<LossEntry>,
    notes: &'a [String],
}

#[derive(Serialize)]
struct MemberEntry {
    devid: u64,
    path: Option<String>,
    total_bytes: u64,
    allocated_bytes: u64,
    generation: Option<u64>,
    state: &'static str,
}

#[derive(Serialize)]
struct GroupEntry {
    holds: &'static str,
    profile: &'static str,
    block_groups: u64,
    bytes: u64,
    device_bytes: u64,
}

#[derive(Serialize)]
struct LostNowEntry {
    missing_devids: Vec<u64>,
    unreadable_data_bytes: u64,
    unreadable_metadata_bytes: u64,
    block_groups: u64,
    incomplete: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    subvolumes: Option<Vec<SubvolumeEntry>>,
}

impl LostNowEntry {
    fn new(inventory: &Inventory) -> Option<Self> {
        let (missing, lost) = (&inventory.filesystem.missing_devids, &inventory.lost_now);
        let subvolumes = inventory.subvolumes.get(&Vec::new());
        (!missing.is_empty()).then(|| Self {
            missing_devids: missing.iter().map(|devid| devid.raw()).collect(),
            unreadable_data_bytes: lost.data_bytes,
            unreadable_metadata_bytes: lost.metadata_bytes,
            block_groups: lost.block_groups,
            incomplete: lost.is_partial,
            subvolumes: subvolumes.map(|hit| hit.iter().map(SubvolumeEntry::new).collect()),
        })
    }
}

#[derive(Serialize)]
struct LossEntry {
    lost_devids: Vec<u64>,
    unreadable_data_bytes: u64,
    unreadable_metadata_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    subvolumes: Option<Vec<SubvolumeEntry>>,
}

#[derive(Serialize)]
struct SubvolumeEntry {
    subvolume: Option<String>,
    subvolume_id: u64,
    data_bytes: u64,
    unreadable_bytes: u64,
}

impl MemberEntry {
    fn new(member: &Member) -> Self {
        Self {
            devid: member.devid.raw(),
            path: member.path.as_ref().map(|path| path.display().to_string()),
            total_bytes: member.total_bytes,
            allocated_bytes: member.allocated_bytes,
            generation: member.generation.map(Generation::raw),
            state: member.state.word(),
        }
    }
}

impl GroupEntry {
    fn new(group: &GroupSum) -> Self {
        Self {
            holds: class_word(group.class),
            profile: group.profile.word(),
            block_groups: group.count,
            bytes: group.bytes,
            device_bytes: group.device_bytes,
        }
    }
}

impl SubvolumeEntry {
    fn new(hit: &SubvolumeLoss) -> Self {
        Self {
            subvolume: hit.subvolume.path.as_deref().map(owner::text),
            subvolume_id: hit.subvolume.id.raw(),
            data_bytes: hit.data_bytes,
            unreadable_bytes: hit.lost_bytes,
        }
    }
}

impl LossEntry {
    fn new(loss: &Loss, inventory: &Inventory) -> Self {
        let subvolumes = inventory.subvolumes.get(&loss.devids);
        Self {
            lost_devids: loss.devids.iter().map(|devid| devid.raw()).collect(),
            unreadable_data_bytes: loss.data_bytes,
            unreadable_metadata_bytes: loss.metadata_bytes,
            subvolumes: subvolumes.map(|hit| hit.iter().map(SubvolumeEntry::new).collect()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::ChecksumType;
    use crate::owners::Subvolume;
    use crate::units::ObjectId;
    use crate::volume::Profile;
    use uuid::Uuid;

    fn group(class: Class, profile: Profile, bytes: u64, copies: u64) -> GroupSum {
        GroupSum { class, profile, count: 1, bytes, device_bytes: bytes * copies }
    }

    fn inventory() -> Inventory {
        let member = |devid: u64, generation: Option<u64>, state| Member {
            devid: DeviceId::new(devid),
            path: generation.map(|_| format!("d{devid}.img").into()),
            total_bytes: 300 << 20,
            allocated_bytes: 96 << 20,
            generation: generation.map(Generation::new),
            state,
        };
        let loss = |devids: &[u64], data_bytes, metadata_bytes| Loss {
            devids: devids.iter().copied().map(DeviceId::new).collect(),
            data_bytes,
            metadata_bytes,
        };
        let subvolume = Subvolume { id: ObjectId::new(257), path: Some((*b"home").into()) };
        let hit = SubvolumeLoss { subvolume: subvolume.into(), data_bytes: 8 << 20, lost_bytes: 2 << 20 };
        Inventory {
            filesystem: FilesystemInfo {
                fsid: Uuid::from_u128(7),
                label: String::new(),
                generation: Generation::new(9),
                csum_type: ChecksumType::Crc32c,
                sectorsize: 4096,
                nodesize: 16384,
                num_devices: 3,
                missing_devids: vec![DeviceId::new(3)],
                lower: Vec::new(),
            },
            members: vec![
                member(1, Some(9), MemberState::Present),
                member(2, Some(7), MemberState::Stale),
                member(3, None, MemberState::Missing),
            ],
            groups: vec![
                group(Class::Data, Profile::Raid1, 64 << 20, 2),
                group(Class::Metadata, Profile::Raid1c3, 32 << 20, 3),
            ],
            lost_now: LostNow { data_bytes: 3 << 20, metadata_bytes: 0, block_groups: 1, is_partial: false },
            rounds: vec![
                Round { count: 1, losses: vec![loss(&[1], 0, 0), loss(&[2], 0, 0)] },
                Round { count: 2, losses: vec![loss(&[1, 2], 32 << 20, 32 << 20)] },
            ],
            subvolumes: BTreeMap::from([(vec![DeviceId::new(1), DeviceId::new(2)], vec![hit])]),
            notes: vec!["devid 2 is stale".to_owned()],
        }
    }

    #[test]
    fn members_block_groups_and_losses_are_tables() {
        let expected = "\
Label:            none
UUID:             00000000-0000-0000-0000-000000000007
Generation:       9
Checksum:         crc32c
Sector size:      4096 bytes
Node size:        16384 bytes
Devices:          2 of 3 here

devid        size   allocated  generation  state    path
    1   300.00MiB    96.00MiB           9  present  d1.img
    2   300.00MiB    96.00MiB           7  stale    d2.img
    3   300.00MiB    96.00MiB           -  missing  -

holds          profile  block groups        size  on devices
data           raid1               1    64.00MiB   128.00MiB
metadata       raid1c3             1    32.00MiB    96.00MiB

Without devid 3, as it is now: lost are 3.00MiB of data and 0.00B of metadata, in 1 block group
Without any 1 more device: all is readable
Without 2 more devices: 1 of 1 combination would lose something
  devid 1 + 2: 50 % of data, 100 % of metadata unreadable
    /home: 2.00MiB of 8.00MiB of file data
note: devid 2 is stale
";
        let mut out = Vec::new();
        write_inventory_text(&inventory(), &mut out).expect("a vector takes all");
        assert_eq!(String::from_utf8(out).expect("utf-8"), expected);
    }

    #[test]
    fn json_has_raw_numbers() {
        let mut out = Vec::new();
        write_inventory_document(&inventory(), Encoding::Json, &mut out).expect("a vector takes all");
        let json: serde_json::Value = serde_json::from_slice(&out).expect("json");
        assert_eq!(json["devices"][1]["state"], "stale");
        assert_eq!(json["devices"][2]["path"], serde_json::Value::Null);
        assert_eq!(json["block_groups"][0]["device_bytes"], 128 << 20);
        assert_eq!(json["lost_now"]["unreadable_data_bytes"], 3 << 20);
        assert_eq!(json["lost_now"]["missing_devids"], serde_json::json!([3]));
        assert_eq!(json["losses"][2]["lost_devids"], serde_json::json!([1, 2]));
        assert_eq!(json["losses"][2]["subvolumes"][0]["unreadable_bytes"], 2 << 20);
        assert_eq!(json["losses"][0]["subvolumes"], serde_json::Value::Null);
    }
}
