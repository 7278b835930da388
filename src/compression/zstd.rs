//! zstd: one frame whose window is no larger than an extent; what stands behind it is padding.
//!
//! The header is read here before the codec sees it: what it asks for decides how much memory the codec takes.

use super::{MAX_EXTENT_BYTES, UnpackError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use std::io::Read as _;

const CODEC: &str = "zstd";
const MAGIC: [u8; 4] = 0xFD2F_B528_u32.to_le_bytes();

/// What the header of a frame says.
struct Header {
    window_bytes: u64,
    /// Of what it unpacks to, where it says so.
    content_bytes: Option<u64>,
}

/// Fills `out` from its start; the number of bytes that the frame has for it.
pub(super) fn unpack(packed: &[u8], out: &mut [u8]) -> Result<usize, UnpackError> {
    let header = header(packed)?;
    if header.window_bytes > MAX_EXTENT_BYTES as u64 {
        return Err(frame("window size", header.window_bytes));
    }
    let mut done = 0;
    let mut rest = packed;
    let mut decoder = FrameDecoder::new();
    let broken = |done_bytes| UnpackError::Broken { codec: CODEC, done_bytes };
    decoder.init(&mut rest).map_err(|_| broken(0))?;
    while done < out.len() {
        if !decoder.is_finished() {
            decoder.decode_blocks(&mut rest, BlockDecodingStrategy::UptoBlocks(1)).map_err(|_| broken(done))?;
        }
        let room = out.get_mut(done..).unwrap_or_default();
        let read = decoder.read(room).map_err(|_| broken(done))?;
        done += read;
        if read == 0 && decoder.is_finished() {
            break;
        }
    }
    let is_all = decoder.is_finished() && decoder.can_collect() == 0;
    if is_all && header.content_bytes.is_some_and(|said| said != done as u64) {
        return Err(frame("content size", header.content_bytes.unwrap_or_default()));
    }
    if is_all && decoder.get_checksum_from_data().is_some_and(|said| decoder.get_calculated_checksum() != Some(said)) {
        return Err(broken(done));
    }
    Ok(done)
}

/// RFC 8878, section 3.1.1.1.
fn header(packed: &[u8]) -> Result<Header, UnpackError> {
    let cut = || frame("size", packed.len() as u64);
    let rest = packed.strip_prefix(&MAGIC).ok_or_else(|| frame("magic number", magic_of(packed)))?;
    let (&descriptor, rest) = rest.split_first().ok_or_else(cut)?;
    let is_single = descriptor & 0x20 != 0;
    let (window, rest) =
        if is_single { (None, rest) } else { rest.split_first().map(|(w, r)| (Some(*w), r)).ok_or_else(cut)? };
    if descriptor & 0x03 != 0 {
        return Err(frame("dictionary flag", u64::from(descriptor & 0x03)));
    }
    let content_len = match (descriptor >> 6, is_single) {
        (0, false) => 0,
        (0, true) => 1,
        (1, _) => 2,
        (2, _) => 4,
        _ => 8,
    };
    let mut content = [0; 8];
    let said = rest.get(..content_len).ok_or_else(cut)?;
    content.iter_mut().zip(said).for_each(|(to, from)| *to = *from);
    let content = u64::from_le_bytes(content) + if content_len == 2 { 256 } else { 0 };
    let content_bytes = (content_len > 0).then_some(content);
    let window_bytes = window.map_or(content, |byte| {
        let base = 1_u64 << (10 + (byte >> 3));
        base + base / 8 * u64::from(byte & 7)
    });
    Ok(Header { window_bytes, content_bytes })
}

fn magic_of(packed: &[u8]) -> u64 {
    packed.first_chunk::<4>().map_or(0, |bytes| u64::from(u32::from_le_bytes(*bytes)))
}

fn frame(field: &'static str, have: u64) -> UnpackError {
    UnpackError::Frame { codec: CODEC, field, have }
}
