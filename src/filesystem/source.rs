//! Reading one tree block: the mirror that the policy picks, then the others, then what parity can rebuild. Members that
//! missed transactions are asked last: a block of theirs that verifies may be of a history of their own.

use super::Filesystem;
use crate::device::search_below;
use crate::tree::block::check_block;
use crate::tree::readahead::Places;
use crate::tree::{BadBlock, BlockSource, CopySource, LostBlock, ParentCheck, TreeBlock, TreeGeometry};
use crate::units::{DeviceId, DevicePhysical, Logical};
use crate::volume::read_policy::{Completion, MirrorSelector, Request, Selection};
use crate::volume::{CopyError, MirrorCopy, Standing};
use smallvec::SmallVec;
use std::sync::Arc;

type MirrorCopies = SmallVec<[MirrorCopy; 4]>;

impl BlockSource for Filesystem {
    fn read_block(&self, at: Logical, check: &ParentCheck) -> Result<Arc<TreeBlock>, LostBlock> {
        let check = &check.believable(self.superblock().generation());
        if let Some(block) = self.cache.find(at) {
            block.keeps(check).map_err(|why| LostBlock::Bad { at, why })?;
            return Ok(block);
        }
        let block = Arc::new(self.read_uncached(at, check)?);
        self.cache.keep(&block);
        Ok(block)
    }
}

impl CopySource for Filesystem {
    fn geometry(&self) -> &TreeGeometry {
        &self.geometry
    }

    fn devices(&self) -> Vec<DeviceId> {
        self.members().map(|member| member.devid()).collect()
    }

    fn copies(&self, at: Logical) -> Places {
        let nodesize = u64::from(self.geometry.nodesize());
        let Ok(chunk) = self.chunks().lookup(at) else { return Places::new() };
        if chunk.contiguous_bytes(at) < nodesize {
            return Places::new();
        }
        let (current, stale) = self.by_standing(chunk.copies(at));
        let copies = if current.is_empty() { stale } else { current };
        copies.iter().map(|copy| copy.place).collect()
    }

    fn read_place(&self, place: DevicePhysical, buf: &mut [u8]) -> bool {
        self.volume.read_place(place, buf).is_ok()
    }

    fn cached(&self, at: Logical) -> Option<Arc<TreeBlock>> {
        self.cache.find(at)
    }

    fn keep(&self, block: &Arc<TreeBlock>) {
        self.cache.keep(block);
    }

    fn selector(&self) -> &MirrorSelector {
        &self.selector
    }

    fn clock_ns(&self) -> u64 {
        Filesystem::clock_ns(self)
    }
}

impl Filesystem {
    fn read_uncached(&self, at: Logical, check: &ParentCheck) -> Result<TreeBlock, LostBlock> {
        let chunk = self.chunks().lookup(at).map_err(|_| LostBlock::Unmapped(at))?;
        let (mut untried, mut last) = self.by_standing(chunk.copies(at));
        let mut failure = Failure::default();
        while let Some((copy, selection)) = self.pick(&mut untried, at).or_else(|| self.pick(&mut last, at)) {
            let mut bytes = vec![0; self.geometry.nodesize() as usize].into_boxed_slice();
            let started = self.clock_ns();
            let read = self.volume.read_copy(at, copy.mirror, &mut bytes);
            self.report(selection, started, bytes.len(), read.is_ok());
            match read {
                Ok(()) => match TreeBlock::verify(bytes, at, &self.geometry, check) {
                    Ok(block) => return Ok(block),
                    Err(why) => failure.bad(why),
                },
                Err(CopyError::Io { errno, .. }) => failure.errno(errno),
                Err(_) => {}
            }
        }
        let len = self.geometry.nodesize() as usize;
        let accept = |bytes: &[u8]| check_block(bytes, at, &self.geometry, check).is_ok();
        self.volume
            .recover(at, len, self.geometry.sectorsize() as usize, accept)
            .map(|found| found.bytes)
            .or_else(|| self.search_below(at, len, &accept))
            .and_then(|bytes| TreeBlock::verify(bytes.into(), at, &self.geometry, check).ok())
            .ok_or_else(|| failure.into_lost(at))
    }

    /// Looks among what layers below the members keep of the block.
    fn search_below(&self, at: Logical, len: usize, accept: &dyn Fn(&[u8]) -> bool) -> Option<Vec<u8>> {
        let chunk = self.chunks().lookup(at).ok().filter(|chunk| chunk.contiguous_bytes(at) >= len as u64)?;
        let copies = chunk.copies(at);
        copies.iter().find_map(|copy| search_below(&**self.device(copy.place.devid)?, copy.place.physical, len, accept))
    }

    /// The copies on current members, and those on members that missed transactions; the others are missing.
    fn by_standing(&self, copies: MirrorCopies) -> (MirrorCopies, MirrorCopies) {
        let has_vote = |copy: &MirrorCopy| self.volume.standing(copy.place.devid).map(Standing::has_vote);
        let mut parts = (MirrorCopies::new(), MirrorCopies::new());
        for copy in copies {
            match has_vote(&copy) {
                Some(true) => parts.0.push(copy),
                Some(false) => parts.1.push(copy),
                None => {}
            }
        }
        parts
    }

    /// Takes the copy to read next out of `untried`.
    fn pick(&self, untried: &mut MirrorCopies, at: Logical) -> Option<(MirrorCopy, Selection)> {
        let candidates: SmallVec<[DeviceId; 4]> = untried.iter().map(|copy| copy.place.devid).collect();
        let request =
            Request { logical: at, len_bytes: u64::from(self.geometry.nodesize()), stream: super::stream_id() };
        let selection = self.selector.select(&candidates, &request, self.clock_ns())?;
        (selection.index < untried.len()).then(|| (untried.remove(selection.index), selection))
    }

    fn report(&self, selection: Selection, started_ns: u64, bytes: usize, ok: bool) {
        let now_ns = self.clock_ns();
        let latency_ns = now_ns - started_ns;
        self.selector.report(selection, &Completion { latency_ns, bytes: bytes as u64, ok, now_ns });
    }
}

/// Why the copies failed: the first reason of each kind.
#[derive(Default)]
struct Failure {
    bad: Option<BadBlock>,
    #[allow(clippy::option_option, reason = "no failed read; one, with an errno or past the end")]
    errno: Option<Option<i32>>,
}

impl Failure {
    fn bad(&mut self, why: BadBlock) {
        self.bad.get_or_insert(why);
    }

    fn errno(&mut self, errno: Option<i32>) {
        self.errno.get_or_insert(errno);
    }

    fn into_lost(self, at: Logical) -> LostBlock {
        match (self.bad, self.errno) {
            (Some(why), _) => LostBlock::Bad { at, why },
            (None, Some(errno)) => LostBlock::Unreadable { at, errno },
            (None, None) => LostBlock::Missing(at),
        }
    }
}
