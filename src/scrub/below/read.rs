//! Reads all copies of a stretch of a device that is put together from others.

use crate::device::{Below, FailedSector, LowerPlace, Part, ReadDevice, read_tolerant};
use crate::scrub::verify::Unreadable;
use crate::units::Physical;

/// A sector of one copy that is not as in the buffer.
pub(in crate::scrub) struct LowerSector {
    /// In the buffer.
    pub(in crate::scrub) sector: usize,
    pub(in crate::scrub) place: LowerPlace,
    /// What is there, or why it cannot be read.
    pub(in crate::scrub) bytes: Result<Box<[u8]>, Option<i32>>,
}

/// Where what is read goes.
pub(in crate::scrub) struct Into<'a> {
    pub(in crate::scrub) buffer: &'a mut [u8],
    /// The number of its first sector in the stripe's buffer.
    pub(in crate::scrub) first: usize,
    pub(in crate::scrub) sectorsize: usize,
    pub(in crate::scrub) unreadable: &'a mut Unreadable,
    pub(in crate::scrub) lower: &'a mut Vec<LowerSector>,
}

/// Fills the buffer with the first copy that can be read of each sector; notes the sectors of other copies that are not
/// the same.
pub(in crate::scrub) fn read(device: &dyn ReadDevice, below: &dyn Below, at: Physical, into: &mut Into<'_>) {
    let parts = below.parts(at, into.buffer.len() as u64);
    let is_even = |part: &Part| part.offset_bytes.is_multiple_of(into.sectorsize as u64);
    let whole: u64 = parts.iter().map(|part| part.len_bytes).sum();
    if whole != into.buffer.len() as u64 || !parts.iter().all(is_even) {
        // Sectors that lie in two parts: only as the kernel would read them.
        let mut failed = Vec::new();
        read_tolerant(device, at, into.buffer, into.sectorsize, &mut failed);
        return note(into.unreadable, into.first, &failed);
    }
    for part in parts {
        let (from, len) = (part.offset_bytes as usize, part.len_bytes as usize);
        let (sectorsize, first) = (into.sectorsize, into.first + from / into.sectorsize);
        let Some(buffer) = into.buffer.get_mut(from..from + len) else { continue };
        let mut failed = Vec::new();
        match part.copies.first().and_then(|copy| Some((copy, below.files().get(copy.file as usize)?))) {
            None => read_tolerant(device, at + part.offset_bytes, buffer, sectorsize, &mut failed),
            Some((copy, file)) => read_tolerant(&*file.device, copy.at, buffer, sectorsize, &mut failed),
        }
        if part.copies.len() > 1 {
            others(below, &part, buffer, first, sectorsize, &mut failed, into.lower);
        }
        note(into.unreadable, first, &failed);
    }
}

fn note(unreadable: &mut Unreadable, first: usize, failed: &[FailedSector]) {
    unreadable.extend(failed.iter().map(|failed| (first + failed.index, failed.errno)));
}

/// Reads the copies behind the first. What that one could not give is taken from them.
fn others(
    below: &dyn Below,
    part: &Part,
    buffer: &mut [u8],
    first: usize,
    sectorsize: usize,
    failed: &mut Vec<FailedSector>,
    lower: &mut Vec<LowerSector>,
) {
    let Some(own) = part.copies.first() else { return };
    let mut scratch = vec![0; buffer.len()];
    for copy in part.copies.iter().skip(1) {
        let Some(file) = below.files().get(copy.file as usize) else { continue };
        let mut lost = Vec::new();
        read_tolerant(&*file.device, copy.at, &mut scratch, sectorsize, &mut lost);
        if lost.is_empty() && failed.is_empty() && *scratch == *buffer {
            continue;
        }
        for (nth, (other, have)) in scratch.chunks(sectorsize).zip(buffer.chunks_mut(sectorsize)).enumerate() {
            let skip_bytes = (nth * sectorsize) as u64;
            let sector = |place: &LowerPlace, bytes| LowerSector {
                sector: first + nth,
                place: LowerPlace { at: place.at + skip_bytes, ..*place },
                bytes,
            };
            let own_lost = failed.iter().position(|failed| failed.index == nth);
            let other_lost = lost.iter().find(|lost| lost.index == nth);
            match (own_lost, other_lost) {
                (_, Some(lost)) => lower.push(sector(copy, Err(lost.errno))),
                (Some(number), None) => {
                    have.copy_from_slice(other);
                    let own_failed = failed.remove(number);
                    lower.push(sector(own, Err(own_failed.errno)));
                }
                (None, None) if *other != *have => lower.push(sector(copy, Ok(other.into()))),
                (None, None) => {}
            }
        }
    }
}
