//! What a rebuild will be about, from the chunk map and the block group items: known at once, and before anything is read.

use crate::filesystem::Filesystem;
use crate::units::{DeviceId, Logical};
use crate::volume::{Chunk, Layout, LostMember};
use std::collections::BTreeMap;

/// Sizes in bytes, as far as the block group items tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Forecast {
    /// Allocated on the lost member.
    pub allocated: u64,
    /// Of these, in block groups where no other member has them.
    pub without_source: u64,
}

impl Forecast {
    /// For this member.
    pub fn of(fs: &Filesystem, lost: &LostMember) -> Self {
        let groups = fs.block_groups();
        let used: BTreeMap<Logical, u64> =
            groups.iter().map(|g| (g.start, g.used_bytes.unwrap_or(g.length_bytes).min(g.length_bytes))).collect();
        let is_there = |devid: DeviceId| fs.volume().member(devid).is_some();
        let mut forecast = Self::default();
        for (chunk, nth) in fs.chunks().chunks_on(lost.devid()) {
            let used = used.get(&chunk.start()).copied().unwrap_or(0);
            let row = chunk.profile().row();
            let on_each = match row.layout {
                Layout::Mirrored => used,
                Layout::Striped | Layout::Parity => used / chunk.data_columns(),
            };
            forecast.allocated = forecast.allocated.saturating_add(on_each);
            if !has_source(chunk, nth, &is_there) {
                forecast.without_source = forecast.without_source.saturating_add(on_each);
            }
        }
        forecast
    }
}

/// Whether what stripe `lost` held can be had from the others.
fn has_source(chunk: &Chunk, lost: usize, is_there: &dyn Fn(DeviceId) -> bool) -> bool {
    let row = chunk.profile().row();
    let mut stripes = chunk.stripes().iter().enumerate();
    match row.layout {
        Layout::Mirrored => stripes.any(|(_, stripe)| is_there(stripe.devid)),
        Layout::Striped => {
            let copies = usize::from(row.sub_stripes.max(1));
            stripes.any(|(nth, stripe)| nth / copies == lost / copies && is_there(stripe.devid))
        }
        Layout::Parity => stripes.filter(|(_, s)| !is_there(s.devid)).count() <= usize::from(row.nparity),
    }
}
