//! zlib: one stream with its header; what stands behind it is padding. The Adler-32 at its end is not looked at, as the
//! kernel does not: the checksums of btrfs have been.

use super::UnpackError;
use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::{DecompressorOxide, decompress, inflate_flags};

/// Fills `out` from its start; the number of bytes that the stream has for it.
pub(super) fn unpack(packed: &[u8], out: &mut [u8]) -> Result<usize, UnpackError> {
    let flags = inflate_flags::TINFL_FLAG_PARSE_ZLIB_HEADER
        | inflate_flags::TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF
        | inflate_flags::TINFL_FLAG_IGNORE_ADLER32;
    let mut inflate = Box::<DecompressorOxide>::default();
    let (status, _, done) = decompress(&mut inflate, packed, out, 0, flags);
    match status {
        TINFLStatus::Done => Ok(done),
        // All that is needed may be there before the end of the stream is.
        TINFLStatus::HasMoreOutput | TINFLStatus::FailedCannotMakeProgress | TINFLStatus::NeedsMoreInput
            if done == out.len() =>
        {
            Ok(done)
        }
        _ => Err(UnpackError::Broken { codec: "zlib", done_bytes: done }),
    }
}
