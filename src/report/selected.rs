//! What a run was asked to look at: a line of the text, a label of a metric, an object in a document.

use super::human;
use crate::scrub::{Copies, Kinds, Selected};
use serde::Serialize;

const KINDS: [(Kinds, &str); 4] = [
    (Kinds::DATA, "data"),
    (Kinds::METADATA, "metadata"),
    (Kinds::SUPERBLOCKS, "superblock"),
    (Kinds::PARITY, "parity"),
];

/// In a few words; `None` where it was everything.
pub(super) fn phrase(selected: &Selected) -> Option<String> {
    let kinds = (selected.kinds != Kinds::all()).then(|| kinds(selected.kinds).join(" and "));
    let copies = match selected.copies {
        Copies::All => None,
        Copies::One => Some("one copy of each block".to_owned()),
        Copies::OnDevice(devid) => Some(format!("copies on devid {devid}")),
    };
    let since = selected.since.map(|since| format!("blocks of generation {since} or later"));
    let places = selected.is_of_findings.then(|| "surroundings of earlier findings".to_owned());
    let groups = selected.block_groups.map(|count| human::count(count, "block group"));
    let parts: Vec<String> = [kinds, copies, since, places, groups].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

fn kinds(selected: Kinds) -> Vec<&'static str> {
    KINDS.into_iter().filter(|(kind, _)| selected.contains(*kind)).map(|(_, word)| word).collect()
}

#[derive(Serialize)]
pub(super) struct SelectedEntry {
    kinds: Vec<&'static str>,
    copies: &'static str,
    devid: Option<u64>,
    since_generation: Option<u64>,
    earlier_findings_only: bool,
    block_groups: Option<u64>,
}

impl SelectedEntry {
    /// `None` where it was everything.
    pub(super) fn new(selected: &Selected) -> Option<Self> {
        if selected.is_everything() {
            return None;
        }
        let (copies, devid) = match selected.copies {
            Copies::All => ("all", None),
            Copies::One => ("one", None),
            Copies::OnDevice(devid) => ("device", Some(devid.raw())),
        };
        Some(Self {
            kinds: kinds(selected.kinds),
            copies,
            devid,
            since_generation: selected.since.map(crate::units::Generation::raw),
            earlier_findings_only: selected.is_of_findings,
            block_groups: selected.block_groups,
        })
    }
}
