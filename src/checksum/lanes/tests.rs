//! Both ways to hash a run against the crates for single messages.

use super::Lanes;
use blake2::Blake2b256;
use proptest::prelude::*;
use sha2::{Digest as _, Sha256};

fn block(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 131 + i / 256 + seed * 17) as u8).collect()
}

fn agree(data: &[u8], sector_bytes: usize) {
    for lanes in [Lanes::Widest, Lanes::Off] {
        let (mut sha256, mut blake2b) = (Vec::new(), Vec::new());
        lanes.each_sha256(data, sector_bytes, &mut |index, digest| sha256.push((index, digest.to_vec())));
        lanes.each_blake2b(data, sector_bytes, &mut |index, digest| blake2b.push((index, digest.to_vec())));
        let single: Vec<_> = data.chunks(sector_bytes).enumerate().collect();
        let expect: Vec<_> = single.iter().map(|(i, s)| (*i, Sha256::digest(s).to_vec())).collect();
        assert_eq!(sha256, expect, "SHA-256, {lanes:?}, {} bytes in sectors of {sector_bytes}", data.len());
        let expect: Vec<_> = single.iter().map(|(i, s)| (*i, Blake2b256::digest(s).to_vec())).collect();
        assert_eq!(blake2b, expect, "BLAKE2b, {lanes:?}, {} bytes in sectors of {sector_bytes}", data.len());
    }
}

#[test]
fn sectors_of_every_size_of_btrfs_hash_as_they_do_alone() {
    for sector_bytes in [4096, 8192, 16384, 65536] {
        for sectors in [0, 1, 7, 8, 9, 15, 16, 17, 33] {
            agree(&block(sectors * sector_bytes, sectors), sector_bytes);
        }
    }
}

#[test]
fn blocks_at_the_edges_of_the_padding_hash_as_they_do_alone() {
    for sector_bytes in [1, 55, 56, 63, 64, 65, 111, 112, 119, 127, 128, 129, 255, 256, 257] {
        agree(&block(sector_bytes * 17 + 3, sector_bytes), sector_bytes);
    }
}

proptest! {
    #[test]
    fn runs_of_random_lengths_hash_as_their_sectors_do_alone(
        data in prop::collection::vec(any::<u8>(), 0..20_000),
        blocks in 1_usize..9,
        odd in 0_usize..3,
    ) {
        agree(&data, blocks * 128 + odd);
    }
}
