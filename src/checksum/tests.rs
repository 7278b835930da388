//! Digests against published vectors, and runs of sectors against single blocks.

use super::{ChecksumType, Digest};
use proptest::prelude::*;

fn hex(digest: Digest) -> String {
    digest.to_string()
}

#[test]
fn each_algorithm_gives_the_published_value() {
    // CRC-32C: the check value of "123456789" (e3069283), little-endian on disk.
    assert_eq!(hex(ChecksumType::Crc32c.digest(b"123456789")), "0x839206e3");
    // xxHash64 with seed 0: of nothing (ef46db3751d8e999) and of "abc" (44bc2cf5ad770999), little-endian on disk.
    assert_eq!(hex(ChecksumType::Xxhash64.digest(b"")), "0x99e9d85137db46ef");
    assert_eq!(hex(ChecksumType::Xxhash64.digest(b"abc")), "0x990977adf52cbc44");
    // SHA-256 of "abc" (FIPS 180-4).
    assert_eq!(
        hex(ChecksumType::Sha256.digest(b"abc")),
        "0xba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    );
    // BLAKE2b with a digest of 32 bytes, of "abc": not the first half of the 64 byte digest.
    assert_eq!(
        hex(ChecksumType::Blake2b.digest(b"abc")),
        "0xbddd813c634239723171ef3fee98579b94964e3bb1cb3e427262c8c068d52319"
    );
}

#[test]
fn crc32c_of_a_zeroed_sector_is_what_btrfs_stores() {
    assert_eq!(hex(ChecksumType::Crc32c.digest(&[0; 4096])), "0x8941f998");
}

#[test]
fn numbers_on_disk_and_algorithms_are_one_to_one() {
    for (raw, sum) in (0..).zip(ChecksumType::ALL) {
        assert_eq!(ChecksumType::from_raw(raw), Some(sum));
        assert_eq!(sum.raw(), raw);
        assert_eq!(sum.digest(b"x").as_bytes().len(), sum.digest_len());
    }
    assert_eq!(ChecksumType::from_raw(4), None);
    assert_eq!(ChecksumType::from_raw(u16::MAX), None);
}

#[test]
fn a_longer_field_is_compared_by_its_first_bytes_and_a_shorter_one_never_matches() {
    for sum in ChecksumType::ALL {
        let mut field = [0xee; 40];
        let digest = sum.digest(b"block");
        field[..sum.digest_len()].copy_from_slice(digest.as_bytes());
        assert!(sum.matches(b"block", &field), "{sum}");
        assert!(!sum.matches(b"blocK", &field), "{sum}");
        assert!(!sum.matches(b"block", &digest.as_bytes()[1..]), "{sum}");
        assert!(!sum.matches(b"block", &[]), "{sum}");
    }
}

fn bad_sectors(sum: ChecksumType, data: &[u8], sector_bytes: usize, stored: &[u8]) -> Vec<usize> {
    let mut bad = Vec::new();
    sum.verify_sectors(data, sector_bytes, stored, &mut |sector| bad.push(sector));
    bad
}

#[test]
fn exactly_the_changed_sectors_are_bad() {
    for sum in ChecksumType::ALL {
        let mut data: Vec<u8> = (0..19 * 512_u32).map(|i| ((i * i) >> 7) as u8).collect();
        let mut stored = Vec::new();
        sum.digest_sectors(&data, 512, &mut stored);
        assert_eq!(bad_sectors(sum, &data, 512, &stored), Vec::<usize>::new(), "{sum}");
        for sector in [0, 7, 8, 18] {
            data[sector * 512 + 511] ^= 1;
        }
        assert_eq!(bad_sectors(sum, &data, 512, &stored), [0, 7, 8, 18], "{sum}");
    }
}

#[test]
fn a_sector_without_a_whole_checksum_or_without_all_its_bytes_is_bad() {
    for sum in ChecksumType::ALL {
        let data = [7; 3 * 512 + 100];
        let mut stored = Vec::new();
        sum.digest_sectors(&data, 512, &mut stored);
        assert_eq!(bad_sectors(sum, &data, 512, &stored), [3], "{sum}: short sector");
        stored.truncate(2 * sum.digest_len() - 1);
        assert_eq!(bad_sectors(sum, &data, 512, &stored), [1, 2, 3], "{sum}: short checksums");
    }
}

proptest! {
    #[test]
    fn a_run_of_sectors_hashes_like_its_sectors_one_by_one(
        data in prop::collection::vec(any::<u8>(), 0..5000),
        sector_bytes in 1_usize..700,
    ) {
        for sum in ChecksumType::ALL {
            let mut run = Vec::new();
            sum.digest_sectors(&data, sector_bytes, &mut run);
            let single: Vec<u8> =
                data.chunks(sector_bytes).flat_map(|sector| sum.digest(sector).as_bytes().to_vec()).collect();
            prop_assert_eq!(run, single);
        }
    }
}
