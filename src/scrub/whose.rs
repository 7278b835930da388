//! Which files and trees are hit: the owners of what findings are about, found after the run in one batch.

use super::finding::{Finding, FindingKind, Problem};
use super::outcome::ScrubOutcome;
use crate::filesystem::Filesystem;
use crate::owners::{OwnerTable, Owners};
use crate::units::Logical;
use std::collections::BTreeSet;

/// Finds the owners of data, of tree blocks, and of the data beside bad parity in `findings`, listing at most `max_owners`
/// files for each. Reads trees: where they are damaged, owners may be missing.
pub fn owners_of(fs: &Filesystem, findings: &[Finding], max_owners: usize) -> OwnerTable {
    let addresses = |kind: FindingKind| -> BTreeSet<Logical> {
        let is_block = |finding: &&Finding| finding.kind == kind && finding.problem != Problem::Contradiction;
        findings.iter().filter(is_block).map(|finding| finding.logical).collect()
    };
    let (data, blocks, rows) =
        (addresses(FindingKind::Data), addresses(FindingKind::Metadata), addresses(FindingKind::Parity));
    OwnerTable::find(fs, &data, &blocks, &rows, max_owners)
}

impl ScrubOutcome {
    /// The owners of what a finding is about, as far as they were looked for.
    pub fn owners_of(&self, finding: &Finding) -> Owners {
        match finding.kind {
            FindingKind::Data => self.owners.of_data(finding.logical),
            FindingKind::Metadata => self.owners.of_block(finding.logical),
            FindingKind::Parity => self.owners.of_row(finding.logical),
            FindingKind::Superblock => Owners::default(),
        }
    }
}
