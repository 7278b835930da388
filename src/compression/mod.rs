//! What compressed extents unpack to: the framing that btrfs puts around zlib, LZO and zstd. The codecs themselves are
//! libraries.
//!
//! Bytes in, bytes out: no I/O, no trees. The output is never longer than asked for, whatever the packed bytes say; no
//! input panics. A stream that ends early is filled up with zeros within its last sector, as the kernel does, and is an
//! error where more than that is missing. Kernel: fs/btrfs/{compression,zlib,lzo,zstd}.c.

mod lzo;
mod zlib;
mod zstd;

use crate::format::items::Compression;
use thiserror::Error;

/// The most that an extent packs or unpacks to, in bytes (`BTRFS_MAX_COMPRESSED`, `BTRFS_MAX_UNCOMPRESSED`).
pub const MAX_EXTENT_BYTES: usize = 128 << 10;

/// Why packed bytes do not give what is needed of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum UnpackError {
    /// More is needed than any extent can hold.
    #[error("{need_bytes} bytes are needed, and an extent unpacks to {MAX_EXTENT_BYTES} at the most")]
    TooLong {
        /// What is needed, in bytes.
        need_bytes: u64,
    },
    /// The codec gives up.
    #[error("the {codec} stream is broken after {done_bytes} unpacked bytes")]
    Broken {
        /// The codec.
        codec: &'static str,
        /// What came out before that, in bytes.
        done_bytes: usize,
    },
    /// A length in the frame of btrfs cannot be right.
    #[error("the {field} of the {codec} frame is {have}, which cannot be")]
    Frame {
        /// The codec.
        codec: &'static str,
        /// What is wrong.
        field: &'static str,
        /// Its value.
        have: u64,
    },
    /// The stream is whole, and too short.
    #[error("it unpacks to {have_bytes} bytes, and {need_bytes} are needed")]
    Short {
        /// What there is, in bytes.
        have_bytes: usize,
        /// What is needed, in bytes.
        need_bytes: usize,
    },
    /// It is not packed at all.
    #[error("it is not compressed")]
    NotPacked,
}

/// Unpacks the first `need_bytes` bytes of a data extent, of which `packed` are all bytes on disk.
pub fn unpack_extent(
    compression: Compression,
    packed: &[u8],
    sectorsize: u32,
    need_bytes: u64,
) -> Result<Vec<u8>, UnpackError> {
    let mut out = zeros(need_bytes)?;
    let have = match compression {
        Compression::None => return Err(UnpackError::NotPacked),
        Compression::Zlib => zlib::unpack(packed, &mut out)?,
        Compression::Lzo => lzo::unpack_extent(packed, sectorsize as usize, &mut out)?,
        Compression::Zstd => zstd::unpack(packed, &mut out)?,
    };
    long_enough(have, sectorsize, out)
}

/// Unpacks what stands in a file extent item itself; `ram_bytes` is what it says of its length. It may hold more: the
/// kernel packs a whole sector.
pub fn unpack_inline(
    compression: Compression,
    packed: &[u8],
    sectorsize: u32,
    ram_bytes: u64,
) -> Result<Vec<u8>, UnpackError> {
    let mut out = zeros(ram_bytes)?;
    let have = match compression {
        Compression::None => return Err(UnpackError::NotPacked),
        Compression::Zlib => zlib::unpack(packed, &mut out)?,
        Compression::Lzo => {
            let have = lzo::unpack_inline(packed, sectorsize as usize, &mut out)?;
            if have < out.len() {
                return Err(UnpackError::Short { have_bytes: have, need_bytes: out.len() });
            }
            have
        }
        Compression::Zstd => zstd::unpack(packed, &mut out)?,
    };
    long_enough(have, sectorsize, out)
}

fn zeros(need_bytes: u64) -> Result<Vec<u8>, UnpackError> {
    let len = usize::try_from(need_bytes).ok().filter(|len| *len <= MAX_EXTENT_BYTES);
    len.map(|len| vec![0; len]).ok_or(UnpackError::TooLong { need_bytes })
}

/// A packer is given the bytes up to the end of the file, and no more of the last sector.
fn long_enough(have_bytes: usize, sectorsize: u32, out: Vec<u8>) -> Result<Vec<u8>, UnpackError> {
    if have_bytes.next_multiple_of((sectorsize as usize).max(1)) < out.len() {
        return Err(UnpackError::Short { have_bytes, need_bytes: out.len() });
    }
    Ok(out)
}

#[cfg(test)]
mod tests;
