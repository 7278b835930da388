//! Which stripes of a window are read: all of them, or one copy of each block, or those on one device.
//!
//! Where only a part is read and something in it is bad, the window is queued once more as a whole; what the part said is
//! forgotten. So everything that judges knows whole windows only.

use super::engine::Engine;
use super::selection::Copies;
use super::stream::{Job, Scope, Task, needed};
use super::window::{WINDOW_BYTES, Window};
use crate::units::DeviceId;
use crate::volume::Layout;
use crate::volume::read_policy::{Request, Selection};
use smallvec::SmallVec;
use std::sync::Arc;

/// A stripe to read, and the policy's ticket where it was picked.
pub(super) type Pick = (usize, Option<Selection>);

impl Engine<'_> {
    /// The stripes to read first, and whether that is all of the window. Nothing where nothing of it is asked for.
    pub(super) fn picks(&self, window: &Window) -> (Scope, Vec<Pick>) {
        let whole = || self.present(window, Scope::Whole).map(|stripe| (stripe, None)).collect();
        // What missed transactions is held against all that is there.
        if !self.selection().is_partial_in(&window.chunk) || self.has_stale(&window.chunk) {
            return (Scope::Whole, whole());
        }
        let picked = match self.selection().copies {
            Copies::OnDevice(devid) => Some(self.on_device(window, devid)),
            Copies::One => self.one_of_each(window),
            Copies::All => Some(self.present(window, Scope::Part).map(|stripe| (stripe, None)).collect()),
        };
        // Where all copies of something are missing the judges have to say so.
        picked.map_or_else(|| (Scope::Whole, whole()), |picks| (Scope::Part, picks))
    }

    /// Queues a window of which a part was read, as a whole.
    pub(super) fn queue_whole(&self, job: &Job) {
        let stripes: Vec<usize> = self.present(&job.window, Scope::Whole).collect();
        job.group.enter_again();
        let whole = Job::new(Arc::clone(&job.window), Arc::clone(&job.group), Scope::Whole, stripes.len());
        let whole = Arc::new(whole);
        for stripe in stripes {
            self.queue(Task { job: Arc::clone(&whole), stripe, selection: None });
        }
    }

    /// Stripes on devices that are there and hold something that is needed.
    fn present<'w>(&'w self, window: &'w Window, scope: Scope) -> impl Iterator<Item = usize> + 'w {
        let devid = |stripe: usize| window.chunk.stripes().get(stripe).map(|s| s.devid);
        (0..window.chunk.stripes().len())
            .filter(move |stripe| devid(*stripe).is_some_and(|devid| self.is_present(devid)))
            .filter(move |stripe| !needed(window, *stripe, scope).is_empty())
    }

    fn on_device(&self, window: &Window, devid: DeviceId) -> Vec<Pick> {
        let stripes = window.chunk.stripes();
        let is_there = |stripe: &usize| stripes.get(*stripe).is_some_and(|s| s.devid == devid);
        self.present(window, Scope::Part).filter(is_there).map(|stripe| (stripe, None)).collect()
    }

    /// One stripe of each set of mirrors that holds something; `None` where all of a set are missing.
    fn one_of_each(&self, window: &Window) -> Option<Vec<Pick>> {
        let stripes = window.chunk.stripes();
        let row = window.chunk.profile().row();
        let set_len = match row.layout {
            Layout::Mirrored => stripes.len(),
            Layout::Striped => usize::from(row.sub_stripes.max(1)),
            Layout::Parity => 1,
        };
        let mut picks = Vec::new();
        for first in (0..stripes.len()).step_by(set_len.max(1)) {
            if needed(window, first, Scope::Part).is_empty() {
                continue;
            }
            let present: SmallVec<[(usize, DeviceId); 4]> = (first..first + set_len)
                .filter_map(|stripe| Some((stripe, stripes.get(stripe)?.devid)))
                .filter(|(_, devid)| self.is_present(*devid))
                .collect();
            let candidates: SmallVec<[DeviceId; 4]> = present.iter().map(|(_, devid)| *devid).collect();
            let logical = Window::logical_range(&window.chunk, window.from_bytes / WINDOW_BYTES).start;
            let request = Request { logical, len_bytes: WINDOW_BYTES, stream: first as u64 };
            let selection = self.select(&candidates, &request)?;
            picks.push((present.get(selection.index)?.0, Some(selection)));
        }
        Some(picks)
    }
}
