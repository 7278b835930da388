//! `mirrortool show`: what there is, and what the loss of devices would cost. Reads only the super blocks and a few trees.

use crate::options::{Format, InputOptions, ReadPolicyOption};
use crate::{exit, output, rebuilding};
use mirrortool::filesystem::Filesystem;
use mirrortool::owners::{lost_now, subvolume_losses};
use mirrortool::repair::check_same_history;
use mirrortool::report::{
    Encoding, Inventory, Member, MemberState, subvolume_name, write_inventory_document, write_inventory_text,
};
use mirrortool::scrub::{describe, layer_notes};
use mirrortool::units::DeviceId;
use mirrortool::volume::Standing;
use mirrortool::volume::redundancy::{Redundancy, group_sums};
use std::collections::BTreeMap;

/// Losses of up to so many devices at once are looked at.
const MAX_LOST_DEVICES: usize = 3;

/// Show the file system, its devices and block groups, and which devices may be lost
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    input: InputOptions,

    /// Say which subvolumes would lose how much of their files; reads all their trees
    #[arg(long)]
    subvolumes: bool,

    /// The form of what is printed
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<exit::Code> {
    let filesystem = args.input.open(ReadPolicyOption::default())?;
    let mut inventory = inventory(&filesystem);
    inventory.notes.extend(rebuilding::hint(&filesystem));
    if args.subvolumes {
        look_at_subvolumes(&filesystem, &mut inventory);
    }
    let mut out = Vec::new();
    match args.format {
        Format::Text => write_inventory_text(&inventory, &mut out)?,
        Format::Json => write_inventory_document(&inventory, Encoding::Json, &mut out)?,
        Format::Yaml => write_inventory_document(&inventory, Encoding::Yaml, &mut out)?,
    }
    output::print(&out)?;
    Ok(exit::GOOD)
}

/// Adds which subvolumes are hit by each combination that costs something.
fn look_at_subvolumes(filesystem: &Filesystem, inventory: &mut Inventory) {
    let losses = inventory.rounds.iter().flat_map(|round| &round.losses).filter(|loss| !loss.is_harmless());
    let now = (!inventory.filesystem.missing_devids.is_empty()).then(Vec::new);
    let devids: Vec<_> = now.into_iter().chain(losses.map(|loss| loss.devids.clone())).collect();
    let known = subvolume_losses(filesystem, &devids);
    inventory.subvolumes = devids.into_iter().zip(known.hit).collect();
    inventory.notes.extend(known.not_seen.iter().map(|(subvolume, blocks)| {
        let lost = if *blocks == 1 { "1 tree block is".to_owned() } else { format!("{blocks} tree blocks are") };
        format!("{}: {lost} lost, and what lies below is not counted", subvolume_name(subvolume))
    }));
}

fn inventory(filesystem: &Filesystem) -> Inventory {
    let info = describe(filesystem);
    let present: Vec<DeviceId> = filesystem.members().map(|member| member.devid()).collect();
    let chunks = || filesystem.chunks().iter();
    let used: BTreeMap<_, _> =
        filesystem.block_groups().iter().filter_map(|group| Some((group.start, group.used_bytes?))).collect();
    // With an empty one nothing is lost.
    let filled = || chunks().filter(|chunk| used.get(&chunk.start()) != Some(&0));
    // Where a member is older, it takes reading the trees to know: that is for a scrub.
    let newest = filesystem.superblock().generation();
    let is_even = filesystem.members().all(|member| member.is_seed() || member.generation() == newest);
    let split = if is_even { check_same_history(filesystem).err() } else { None };
    let split = split.map(|split| split.to_string());
    let contradictions = filesystem.knowledge().contradictions().iter().map(|c| format!("at {}: {}", c.at, c.conflict));
    let warnings = split.into_iter().chain(filesystem.set().warnings().iter().map(ToString::to_string));
    Inventory {
        members: members(filesystem),
        groups: group_sums(chunks()),
        lost_now: lost_now(filesystem),
        rounds: Redundancy::new(filled(), &present, &info.missing_devids).rounds(MAX_LOST_DEVICES),
        subvolumes: BTreeMap::new(),
        notes: warnings.chain(contradictions).chain(layer_notes(filesystem)).collect(),
        filesystem: info,
    }
}

fn members(filesystem: &Filesystem) -> Vec<Member> {
    let present = filesystem.members().map(|member| Member {
        devid: member.devid(),
        path: Some(member.path().to_owned()),
        total_bytes: member.superblock().dev_item().total_bytes,
        allocated_bytes: allocated(filesystem, member.devid()),
        generation: Some(member.generation()),
        state: match filesystem.volume().standing(member.devid()) {
            Some(Standing::Stale { .. }) => MemberState::Stale,
            _ => MemberState::Present,
        },
    });
    let missing = filesystem.set().missing().iter().map(|item| Member {
        devid: item.devid,
        path: None,
        total_bytes: item.total_bytes,
        allocated_bytes: allocated(filesystem, item.devid),
        generation: None,
        state: MemberState::Missing,
    });
    let mut members: Vec<_> = present.chain(missing).collect();
    members.sort_by_key(|member| member.devid);
    members
}

/// What the block groups take on a device.
fn allocated(filesystem: &Filesystem, devid: DeviceId) -> u64 {
    filesystem.chunks().chunks_on(devid).fold(0, |sum, (chunk, _)| sum.saturating_add(chunk.stripe_bytes()))
}
