//! Small streams of each codec made here, and random ones; what the kernel packs is in the fixtures.

use super::*;
use miniz_oxide::deflate::compress_to_vec_zlib;
use proptest::prelude::*;

const SECTOR: u32 = 4096;

/// A segment of literals alone, which is how LZO says what it cannot shorten.
fn lzo_segment(bytes: &[u8]) -> Vec<u8> {
    assert!((4..=238).contains(&bytes.len()));
    [&[bytes.len() as u8 + 17], bytes, &[0x11, 0, 0]].concat()
}

fn lzo_frame(segments: &[Vec<u8>]) -> Vec<u8> {
    let mut frame = vec![0; 4];
    for segment in segments {
        let left = SECTOR as usize - frame.len() % SECTOR as usize;
        if left < 4 {
            frame.extend(vec![0; left]);
        }
        frame.extend((segment.len() as u32).to_le_bytes());
        frame.extend(segment);
    }
    let total = (frame.len() as u32).to_le_bytes();
    frame[..4].copy_from_slice(&total);
    frame
}

/// A frame of one block that is not packed.
fn zstd_frame(bytes: &[u8]) -> Vec<u8> {
    let len = bytes.len() as u32;
    let block = ((len << 3) | 1).to_le_bytes();
    let header = [0x28, 0xB5, 0x2F, 0xFD, 0xA0];
    [&header[..], &len.to_le_bytes(), &block[..3], bytes].concat()
}

fn text(len: usize) -> Vec<u8> {
    (0..len).map(|n| (n / 7 % 251) as u8).collect()
}

/// As it stands on disk: to the end of its last sector.
fn on_disk(mut packed: Vec<u8>) -> Vec<u8> {
    packed.resize(packed.len().next_multiple_of(SECTOR as usize), 0);
    packed
}

/// A well-formed extent of each codec with what it unpacks to.
fn samples() -> Vec<(Compression, Vec<u8>, Vec<u8>)> {
    let (long, short) = (text(100_000), text(200));
    let segment = lzo_segment(&short);
    vec![
        (Compression::Zlib, on_disk(compress_to_vec_zlib(&long, 3)), long.clone()),
        (Compression::Lzo, on_disk(lzo_frame(&[segment.clone(), segment])), short.repeat(2)),
        (Compression::Zstd, on_disk(zstd_frame(&long)), long),
    ]
}

#[test]
fn each_codec_unpacks_what_was_packed() {
    for (codec, packed, plain) in samples() {
        let need = plain.len().next_multiple_of(SECTOR as usize) as u64;
        let unpacked = unpack_extent(codec, &packed, SECTOR, need).unwrap();
        assert_eq!(unpacked[..plain.len()], plain, "{codec:?}");
        assert!(unpacked[plain.len()..].iter().all(|byte| *byte == 0), "{codec:?}: the rest of the sector is zeros");
        let part = unpack_extent(codec, &packed, SECTOR, 300).unwrap();
        assert_eq!(part, plain[..300], "{codec:?}: no more than what is needed");
    }
}

#[test]
fn what_is_too_short_for_its_references_is_an_error() {
    for (codec, packed, plain) in samples() {
        let need = plain.len().next_multiple_of(SECTOR as usize) as u64 + 1;
        let expected = UnpackError::Short { have_bytes: plain.len(), need_bytes: need as usize };
        assert_eq!(unpack_extent(codec, &packed, SECTOR, need), Err(expected), "{codec:?}");
        assert!(unpack_extent(codec, &packed[..40], SECTOR, 300).is_err(), "{codec:?}: cut off");
        assert!(unpack_extent(codec, &on_disk(vec![7; 4000]), SECTOR, 300).is_err(), "{codec:?}: rubbish");
        let too_long = unpack_extent(codec, &packed, SECTOR, u64::MAX);
        assert_eq!(too_long, Err(UnpackError::TooLong { need_bytes: u64::MAX }));
    }
}

#[test]
fn a_wrong_adler_is_not_looked_at() {
    let plain = text(5000);
    let mut packed = compress_to_vec_zlib(&plain, 3);
    let last = packed.len() - 1;
    packed[last] ^= 1;
    assert_eq!(unpack_extent(Compression::Zlib, &on_disk(packed), SECTOR, 5000).unwrap(), plain);
}

#[test]
fn an_inline_extent_may_hold_more_than_its_file_is_long() {
    let sector = [text(200), vec![0; 3896]].concat();
    let packed = [
        (Compression::Zlib, compress_to_vec_zlib(&sector, 3)),
        (Compression::Lzo, lzo_frame(&[lzo_segment(&sector[..238])])),
        (Compression::Zstd, zstd_frame(&sector)),
    ];
    for (codec, packed) in packed {
        assert_eq!(unpack_inline(codec, &packed, SECTOR, 150).unwrap(), sector[..150], "{codec:?}");
    }
}

#[test]
fn an_inline_lzo_extent_is_one_segment_and_all_of_its_item() {
    let whole = lzo_frame(&[lzo_segment(&text(200))]);
    assert!(unpack_inline(Compression::Lzo, &whole, SECTOR, 201).is_err(), "too short");
    let longer = [&whole[..], &[0]].concat();
    assert!(unpack_inline(Compression::Lzo, &longer, SECTOR, 200).is_err(), "bytes behind it");
    let two = lzo_frame(&[lzo_segment(&text(200)), lzo_segment(&text(200))]);
    assert!(unpack_inline(Compression::Lzo, &two, SECTOR, 200).is_err(), "two segments");
}

#[test]
fn lengths_of_lzo_do_not_cross_the_end_of_a_sector() {
    // 4 + 16 x (4 + 242) is 3940; the next segment of 4 + 150 ends two bytes before the sector does.
    let mut segments: Vec<Vec<u8>> = vec![lzo_segment(&text(238)); 16];
    segments.push(lzo_segment(&text(146)));
    segments.push(lzo_segment(&text(100)));
    let packed = lzo_frame(&segments);
    assert!(packed.len() > SECTOR as usize);
    let plain = [text(238).repeat(16), text(146), text(100)].concat();
    assert_eq!(unpack_extent(Compression::Lzo, &on_disk(packed), SECTOR, plain.len() as u64).unwrap(), plain);
}

#[test]
fn a_lzo_extent_with_a_sector_to_spare_is_refused() {
    let mut packed = on_disk(lzo_frame(&[lzo_segment(&text(200))]));
    packed.resize(packed.len() + SECTOR as usize, 0);
    assert!(matches!(unpack_extent(Compression::Lzo, &packed, SECTOR, 100), Err(UnpackError::Frame { .. })));
}

#[test]
fn a_window_larger_than_an_extent_is_refused_before_there_is_memory_for_it() {
    let huge_window = [0x28, 0xB5, 0x2F, 0xFD, 0x00, 0xF8, 1, 0, 0];
    let huge_content = [&[0x28, 0xB5, 0x2F, 0xFD, 0xE0][..], &[0xFF; 8], &[1, 0, 0]].concat();
    for frame in [&huge_window[..], &huge_content] {
        let error = unpack_extent(Compression::Zstd, &on_disk(frame.to_vec()), SECTOR, 100).unwrap_err();
        assert!(matches!(error, UnpackError::Frame { field: "window size", .. }), "{error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    #[test]
    fn no_bytes_make_a_codec_panic_or_write_too_much(
        bytes in proptest::collection::vec(any::<u8>(), 0..9000),
        need in 0..140_000_u64,
        codec in 0..3_usize,
    ) {
        let codec = [Compression::Zlib, Compression::Lzo, Compression::Zstd][codec];
        for unpacked in [unpack_extent(codec, &bytes, SECTOR, need), unpack_inline(codec, &bytes, SECTOR, need)] {
            prop_assert!(unpacked.is_err() || unpacked.is_ok_and(|plain| plain.len() as u64 == need));
        }
    }

    #[test]
    fn no_change_to_a_right_extent_makes_a_codec_panic(
        sample in 0..3_usize,
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
    ) {
        let (codec, mut packed, plain) = samples().swap_remove(sample);
        for (at, value) in changes {
            let at = at.index(packed.len().min(300));
            packed[at] = value;
        }
        let _ = unpack_extent(codec, &packed, SECTOR, plain.len() as u64);
        let _ = unpack_inline(codec, &packed, SECTOR, plain.len() as u64);
    }
}

/// More by hand: `MIRRORTOOL_FUZZ_CASES=100000`.
fn cases() -> u32 {
    std::env::var("MIRRORTOOL_FUZZ_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(256)
}
