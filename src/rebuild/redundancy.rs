//! What has one copy only though the rest of its kind has more: a mount with a device missing writes such block groups, and
//! nothing makes them whole by itself afterwards.

use crate::filesystem::BlockGroup;
use crate::filesystem::Filesystem;
use crate::format::BlockGroupFlags;
use crate::volume::Profile;
use std::collections::BTreeMap;

/// Block groups of one kind that would not survive the loss of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OneCopy {
    /// Data, or metadata (system chunks among it).
    pub kind: BlockGroupFlags,
    /// Bytes in use in them.
    pub bytes: u64,
    /// The profile of the others.
    pub others: Profile,
}

/// By kind; nothing where all of a kind is alike.
pub fn one_copy_only(fs: &Filesystem) -> Vec<OneCopy> {
    let groups = fs.block_groups();
    let kinds = [BlockGroupFlags::DATA, BlockGroupFlags::METADATA, BlockGroupFlags::SYSTEM];
    kinds.into_iter().filter_map(|kind| of_kind(kind, &groups)).collect()
}

fn of_kind(kind: BlockGroupFlags, groups: &[BlockGroup]) -> Option<OneCopy> {
    let of_kind = || groups.iter().filter(|group| group.flags.contains(kind));
    let mut redundant: BTreeMap<u64, (u64, Profile)> = BTreeMap::new();
    let survives = |profile: Profile| profile.row().tolerated_failures > 0;
    for group in of_kind().filter(|group| survives(group.profile)) {
        let entry = redundant.entry((group.flags & BlockGroupFlags::PROFILE_MASK).bits()).or_insert((0, group.profile));
        entry.0 = entry.0.saturating_add(group.length_bytes);
    }
    let (_, others) = redundant.into_values().max_by_key(|(bytes, _)| *bytes)?;
    let single = of_kind().filter(|group| !survives(group.profile));
    let bytes = single.map(|group| group.used_bytes.unwrap_or(group.length_bytes)).fold(0, u64::saturating_add);
    (bytes > 0).then_some(OneCopy { kind, bytes, others })
}
