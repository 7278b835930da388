//! Each rule that a chunk item can break, and the message it gets.

use super::*;
use crate::volume::testing::{SECTORSIZE, chunk_item, try_chunk};
use proptest::prelude::*;

fn refusal(change: impl FnOnce(&mut ChunkItem)) -> String {
    let mut item = chunk_item(Profile::Raid1, 2, 1 << 30);
    change(&mut item);
    let message = try_chunk(item).unwrap_err().to_string();
    message.strip_prefix("corrupt chunk: logical=5368709120, ").unwrap().to_owned()
}

#[test]
fn what_the_item_check_refuses_is_refused_with_its_address() {
    assert_eq!(
        refusal(|c| c.length = 0),
        "invalid chunk item length, have 0 expect a multiple of the sector size, not 0"
    );
    assert_eq!(refusal(|c| c.stripe_len = 4096), "invalid chunk item stripe_len, have 4096 expect 65536");
}

#[test]
fn addresses_past_the_last_are_refused() {
    let at_the_end = Physical::new(u64::MAX - 4096);
    assert_eq!(refusal(|c| c.stripes[1].offset = at_the_end), "length 1073741824 reaches past the last address");
    let start = Logical::new(!((1 << 20) - 1));
    let one_sector = chunk_item(Profile::Raid5, 24, 4096);
    let error = Chunk::new(start, one_sector, SECTORSIZE, IncompatFlags::empty()).unwrap_err();
    assert_eq!(error.problem, ChunkProblem::Overflow { length: 4096 });
}

#[test]
fn each_profile_takes_the_stripes_it_can_have_and_no_others() {
    let accepted =
        |profile| -> Vec<usize> { (0..=7).filter(|n| try_chunk(chunk_item(profile, *n, 1 << 20)).is_ok()).collect() };
    assert_eq!(accepted(Profile::Single), [1]);
    assert_eq!(accepted(Profile::Dup), [2]);
    assert_eq!(accepted(Profile::Raid0), [1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(accepted(Profile::Raid1), [2]);
    assert_eq!(accepted(Profile::Raid1c3), [3]);
    assert_eq!(accepted(Profile::Raid1c4), [4]);
    assert_eq!(accepted(Profile::Raid10), [2, 4, 6]);
    assert_eq!(accepted(Profile::Raid5), [2, 3, 4, 5, 6, 7]);
    assert_eq!(accepted(Profile::Raid6), [3, 4, 5, 6, 7]);
}

#[test]
fn raid10_without_pairs_is_refused_but_raid5_may_carry_any_sub_stripes() {
    let with_sub_stripes =
        |profile, stripes, sub_stripes| ChunkItem { sub_stripes, ..chunk_item(profile, stripes, 1 << 20) };
    assert!(try_chunk(with_sub_stripes(Profile::Raid10, 4, 1)).is_err());
    assert!(try_chunk(with_sub_stripes(Profile::Raid5, 3, 7)).is_ok());
}

#[test]
fn raid6_with_more_columns_than_q_can_tell_apart_is_refused() {
    assert!(try_chunk(chunk_item(Profile::Raid6, 257, 1 << 20)).is_ok());
    assert!(try_chunk(chunk_item(Profile::Raid6, 258, 1 << 20)).is_err());
}

#[test]
fn two_copies_in_one_place_are_no_two_copies() {
    let mut item = chunk_item(Profile::Dup, 2, 1 << 20);
    item.stripes[0].offset = item.stripes[1].offset + ((1 << 20) - 4096);
    let message = try_chunk(item).unwrap_err().to_string();
    let expect =
        "corrupt chunk: logical=5368709120, stripe at devid=1 physical=1075834880 overlaps another of chunk 5368709120";
    assert_eq!(message, expect);
}

#[test]
fn a_stripe_takes_whole_units_where_striped_and_the_length_where_mirrored() {
    let stripe_bytes =
        |profile, stripes, length| try_chunk(chunk_item(profile, stripes, length)).unwrap().stripe_bytes();
    assert_eq!(stripe_bytes(Profile::Raid1, 2, 4096), 4096);
    assert_eq!(stripe_bytes(Profile::Raid5, 3, 256 << 10), 128 << 10);
    assert_eq!(stripe_bytes(Profile::Raid5, 3, 260 << 10), 192 << 10);
    assert_eq!(stripe_bytes(Profile::Raid10, 6, 3 << 20), 1 << 20);
}

proptest! {
    #[test]
    fn hostile_numbers_neither_panic_nor_overflow(
        start in any::<u64>(), length in any::<u64>(), type_flags in 0..2048_u64, sub_stripes in 0..3_u16,
        offsets in proptest::collection::vec(any::<u64>(), 0..6), at in any::<u64>(), sectorsize in 0..9000_u32,
    ) {
        let mut item = chunk_item(Profile::Single, offsets.len(), length & !4095);
        item.type_flags = BlockGroupFlags::from_bits_retain(type_flags);
        item.sub_stripes = sub_stripes;
        for (stripe, offset) in item.stripes.iter_mut().zip(offsets) {
            stripe.offset = Physical::new(offset);
        }
        item.sector_size = sectorsize & !4095;
        let Ok(chunk) = Chunk::new(Logical::new(start & !4095), item, sectorsize & !4095, IncompatFlags::all()) else { return Ok(()) };
        prop_assert!(chunk.end() - chunk.start() == chunk.len_bytes());
        let _ = chunk.copies(Logical::new(at));
        let _ = chunk.full_stripe(Logical::new(at));
        let _ = chunk.full_stripe_of_row(at);
        let _ = chunk.role_at(1, at);
        let _ = chunk.logical_window(at, at);
    }
}
