//! LZO: the length of all with itself, then for each sector of output a length and its payload. A length never crosses
//! the end of a sector: where fewer than four bytes are left of it, they are passed over.
//! Kernel: `lzo_decompress_bio` and `lzo_decompress` in fs/btrfs/lzo.c.

use super::{MAX_EXTENT_BYTES, UnpackError};

const CODEC: &str = "lzo";
/// A length in the frame.
const LEN_BYTES: usize = 4;

/// Fills `out` from its start; the number of bytes that the segments have for it.
pub(super) fn unpack_extent(packed: &[u8], sectorsize: usize, out: &mut [u8]) -> Result<usize, UnpackError> {
    let total = length(packed, 0)?;
    let all_sectors = total.next_multiple_of(sectorsize.max(1)) >= packed.len();
    if total > packed.len().min(MAX_EXTENT_BYTES) || !all_sectors {
        return Err(frame("total length", total));
    }
    let (mut at, mut done) = (LEN_BYTES, 0);
    let mut sector = vec![0; sectorsize];
    while at < total && done < out.len() {
        let len = segment_length(packed, at, sectorsize)?;
        at += LEN_BYTES;
        let payload = packed.get(at..at + len).filter(|_| at + len <= total);
        let payload = payload.ok_or_else(|| frame("segment length", len))?;
        done += segment(payload, &mut sector, out, done)?;
        at += len;
        let left = sectorsize - at % sectorsize;
        if left < LEN_BYTES {
            at += left;
        }
    }
    Ok(done)
}

/// As [`unpack_extent`], of the one segment of a file extent item.
pub(super) fn unpack_inline(packed: &[u8], sectorsize: usize, out: &mut [u8]) -> Result<usize, UnpackError> {
    let total = length(packed, 0)?;
    if total != packed.len() {
        return Err(frame("total length", total));
    }
    let len = segment_length(packed, LEN_BYTES, sectorsize)?;
    let payload = packed.get(2 * LEN_BYTES..).filter(|payload| payload.len() == len);
    let payload = payload.ok_or_else(|| frame("segment length", len))?;
    segment(payload, &mut vec![0; sectorsize], out, 0)
}

/// Unpacks one segment behind the first `done` bytes of `out`; what does not fit is left out.
fn segment(payload: &[u8], sector: &mut [u8], out: &mut [u8], done: usize) -> Result<usize, UnpackError> {
    let broken = |_| UnpackError::Broken { codec: CODEC, done_bytes: done };
    let have = lzokay::decompress::decompress(payload, sector).map_err(broken)?;
    let room = out.get_mut(done..).unwrap_or_default();
    let len = have.min(room.len());
    if let (Some(to), Some(from)) = (room.get_mut(..len), sector.get(..len)) {
        to.copy_from_slice(from);
    }
    Ok(len)
}

fn segment_length(packed: &[u8], at: usize, sectorsize: usize) -> Result<usize, UnpackError> {
    let len = length(packed, at)?;
    // What LZO makes of a sector that cannot be packed.
    let most = sectorsize + sectorsize / 16 + 64 + 3;
    if len > most { Err(frame("segment length", len)) } else { Ok(len) }
}

fn length(packed: &[u8], at: usize) -> Result<usize, UnpackError> {
    let bytes = packed.get(at..).and_then(|rest| rest.first_chunk::<LEN_BYTES>());
    bytes.map(|bytes| u32::from_le_bytes(*bytes) as usize).ok_or_else(|| frame("size", packed.len()))
}

fn frame(field: &'static str, have: usize) -> UnpackError {
    UnpackError::Frame { codec: CODEC, field, have: have as u64 }
}
