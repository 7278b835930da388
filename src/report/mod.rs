//! Results as text, JSON, YAML, a page of HTML, Prometheus metrics and btrfs's own status file. The only module that knows serde: the output formats are mirror structs here, one
//! reviewed place, and not an accident of field names elsewhere. Gets a writer, never opens a file, decides nothing.

mod bench;
mod btrfs_status;
mod device_map;
mod document;
mod extract;
mod human;
mod layers;
mod line;
mod model;
mod owner;
mod page;
mod plot;
mod prometheus;
mod read;
mod readahead;
mod rebuild;
mod rebuild_state;
mod remembered;
mod repair;
mod runs;
mod selected;
mod show;
mod state;
mod text;
mod words;

pub use bench::{
    LayoutBench, Matrix, PolicyBench, write_layout_csv, write_layout_document, write_layout_text, write_matrix_csv,
    write_matrix_document, write_matrix_text, write_policy_csv, write_policy_document, write_policy_text,
};
pub use btrfs_status::{btrfs_status_file_name, write_btrfs_status};
pub use device_map::{Area, Contents, DeviceMap, device_maps};
pub use document::{Encoding, WriteError, write_document, write_finding_line};
pub use extract::{read_manifest, write_extract_document, write_extract_text, write_manifest_lines};
pub use human::{count_of, date, size as human_size};
pub use line::FindingLine;
pub use model::{ModelError, read_model, write_model};
pub use owner::subvolume_name;
pub use page::{PageOptions, write_page};
pub use plot::{PlotError, plot_layout, plot_policies};
pub use prometheus::write_metrics;
pub use read::{ReadError, SavedReport, read_report};
pub use readahead::{
    ReadaheadReport, plot_readahead, write_readahead_csv, write_readahead_document, write_readahead_text,
};
pub use rebuild::RebuildReport;
pub use rebuild_state::{read_rebuild_state, write_rebuild_state};
pub use repair::RepairReport;
pub use show::{Inventory, Member, MemberState, write_inventory_document, write_inventory_text};
pub use state::{StateError, read_state, write_state};
pub use text::{TextOptions, write_text};

use crate::scrub::outcome::ScrubOutcome;

/// A result and the command that made it.
#[derive(Clone, Copy, Debug)]
pub struct Report<'a> {
    /// `scrub`, `repair` or `rebuild`.
    pub command: &'a str,
    /// What the command saw.
    pub outcome: &'a ScrubOutcome,
    /// What a repair planned and did.
    pub repair: Option<RepairReport<'a>>,
    /// What a rebuild did.
    pub rebuilt: Option<RebuildReport<'a>>,
}

#[cfg(test)]
mod tests;
