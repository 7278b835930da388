//! What lies below btrfs, in documents.

use crate::device::Layer;
use crate::scrub::below::BelowPlace;
use crate::scrub::outcome::LowerInfo;
use serde::Serialize;

/// A file or device that was given, and the layers from it to btrfs.
#[derive(Serialize)]
pub(super) struct LowerEntry {
    path: String,
    state: &'static str,
    layers: Vec<LayerEntry>,
}

impl LowerEntry {
    pub(super) fn new(info: &LowerInfo) -> Self {
        Self {
            path: info.path.display().to_string(),
            state: info.state.word(),
            layers: info.layers.iter().map(LayerEntry::new).collect(),
        }
    }
}

#[derive(Serialize)]
struct LayerEntry {
    kind: &'static str,
    #[serde(flatten)]
    more: LayerMore,
}

#[derive(Serialize)]
#[serde(untagged)]
enum LayerMore {
    Partition {
        partition: u32,
    },
    Md {
        level: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        layout: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        chunk_bytes: Option<u64>,
        raid_disks: u32,
        in_sync: u32,
        missing_roles: Vec<u32>,
        events: u64,
        metadata: &'static str,
        uuid: String,
        role: Option<u32>,
    },
    Lvm {
        vg: String,
        lv: String,
    },
}

impl LayerEntry {
    fn new(layer: &Layer) -> Self {
        let more = match layer {
            Layer::Partition { number, .. } => LayerMore::Partition { partition: *number },
            Layer::Md(array, role) => LayerMore::Md {
                level: array.level.clone(),
                layout: array.layout.clone(),
                chunk_bytes: array.chunk_bytes,
                raid_disks: array.raid_disks,
                in_sync: array.in_sync,
                missing_roles: array.missing_roles.clone(),
                events: array.events,
                metadata: array.metadata,
                uuid: array.uuid.to_string(),
                role: *role,
            },
            Layer::Lvm { vg, lv } => LayerMore::Lvm { vg: vg.clone(), lv: lv.clone() },
        };
        Self { kind: layer.kind(), more }
    }
}

/// A place below btrfs that a finding is about.
#[derive(Serialize)]
pub(super) struct BelowEntry {
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<u32>,
    path: String,
    physical: u64,
    length: u32,
}

impl BelowEntry {
    pub(super) fn new(place: &BelowPlace) -> Self {
        Self {
            kind: place.kind,
            role: place.role,
            path: place.path.display().to_string(),
            physical: place.physical.raw(),
            length: place.length,
        }
    }
}
