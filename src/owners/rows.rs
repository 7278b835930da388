//! Which files have data in a row of RAID5/6: those that a bad parity leaves without it.

use super::files::{FileTable, resolve};
use super::table::Owners;
use crate::filesystem::Filesystem;
use crate::units::Logical;
use crate::volume::STRIPE_LEN_BYTES;
use std::collections::{BTreeMap, BTreeSet};

/// Rows looked at in one batch; of more, no files are named. A row of 16 columns has 256 sectors.
const MAX_ROWS: usize = 1024;

/// The files that have data in each of the rows, which are given by the start of their data.
pub(super) fn of_rows(fs: &Filesystem, rows: &BTreeSet<Logical>, max_owners: usize) -> BTreeMap<Logical, Owners> {
    let sectors: BTreeMap<Logical, Vec<Logical>> =
        rows.iter().take(MAX_ROWS).map(|row| (*row, sectors_of(fs, *row))).collect();
    let files = resolve(fs, &sectors.values().flatten().copied().collect(), max_owners);
    let owners = |(row, sectors): (Logical, Vec<Logical>)| (row, merged(&files, &sectors, max_owners));
    sectors.into_iter().map(owners).collect()
}

fn sectors_of(fs: &Filesystem, row: Logical) -> Vec<Logical> {
    let Some(stripe) = fs.chunks().lookup(row).ok().and_then(|chunk| chunk.full_stripe(row)) else { return Vec::new() };
    let bytes = stripe.data.len() as u64 * STRIPE_LEN_BYTES;
    let offsets = (0..bytes).step_by(fs.geometry().sectorsize() as usize);
    offsets.map(|offset| stripe.logical + offset).collect()
}

/// Each file once, where it begins.
fn merged(files: &FileTable, sectors: &[Logical], max_owners: usize) -> Owners {
    let (mut row, mut seen) = (Owners::default(), BTreeSet::new());
    for at in sectors {
        let owners = files.owners(*at);
        row.is_partial |= owners.is_partial;
        row.is_cut |= owners.is_cut;
        for file in owners.files {
            if !seen.insert((file.subvolume.id, file.inode, file.path.clone())) {
                continue;
            }
            if row.files.len() < max_owners { row.files.push(file) } else { row.omitted += 1 }
        }
    }
    row
}
