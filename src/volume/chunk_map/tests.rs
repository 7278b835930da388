//! What the map accepts, and what it finds.

use super::*;
use crate::format::IncompatFlags;
use crate::volume::testing::{SECTORSIZE, START, chunk_item};
use crate::volume::{Profile, STRIPE_LEN_BYTES};

const GIB: u64 = 1 << 30;

/// A chunk at `START + at` whose stripes start `shift` bytes further on their devices.
fn shifted(profile: Profile, stripes: usize, at: u64, shift: u64) -> Chunk {
    let mut item = chunk_item(profile, stripes, 16 << 20);
    for stripe in &mut item.stripes {
        stripe.offset = stripe.offset + shift;
    }
    Chunk::new(START + at, item, SECTORSIZE, IncompatFlags::empty()).unwrap()
}

fn two_chunks() -> ChunkMap {
    let mut map = ChunkMap::new();
    map.insert(shifted(Profile::Raid1, 2, 0, 0)).unwrap();
    map.insert(shifted(Profile::Raid5, 3, GIB, 32 << 20)).unwrap();
    map
}

#[test]
fn an_address_is_found_in_its_chunk_and_in_no_gap() {
    let map = two_chunks();
    assert_eq!(map.lookup(START).unwrap().profile(), Profile::Raid1);
    assert_eq!(map.lookup(START + ((16 << 20) - 1)).unwrap().profile(), Profile::Raid1);
    assert_eq!(map.lookup(START + GIB).unwrap().profile(), Profile::Raid5);
    let gap = START + (16 << 20);
    assert_eq!(map.lookup(gap).unwrap_err().to_string(), "no chunk maps logical=5385486336");
    assert!(map.lookup(Logical::new(0)).is_err());
}

#[test]
fn a_place_is_known_by_what_it_holds() {
    let map = two_chunks();
    let mut copies = 0;
    for chunk in map.iter() {
        for at in [chunk.start(), chunk.start() + 3 * STRIPE_LEN_BYTES + 4096] {
            for copy in chunk.copies(at) {
                assert_eq!(map.logical_at(copy.place), Some((at, copy.mirror)));
                copies += 1;
            }
        }
    }
    assert_eq!(copies, 6);
    let parity = map.lookup(START + GIB).unwrap().full_stripe(START + GIB).unwrap().p;
    assert_eq!(map.logical_at(parity.place), None);
    assert!(matches!(map.role_at(parity.place), Some((_, Role::P { row: 0 }))));
    let free = DevicePhysical { devid: DeviceId::new(1), physical: Physical::new((1 << 20) + (16 << 20)) };
    assert!(map.role_at(free).is_none());
    assert!(map.role_at(DevicePhysical { devid: DeviceId::new(9), ..free }).is_none());
}

#[test]
fn the_same_chunk_may_come_twice_but_not_another_in_its_place() {
    let mut map = two_chunks();
    map.insert(shifted(Profile::Raid1, 2, 0, 0)).unwrap();
    assert_eq!(map.len(), 2);
    let error = map.insert(shifted(Profile::Single, 1, 8 << 20, 5 * GIB)).unwrap_err();
    let expect = "corrupt chunk: logical=5377097728, [5377097728, 5393874944) overlaps chunk [5368709120, 5385486336)";
    assert_eq!(error.to_string(), expect);
}

#[test]
fn a_byte_of_a_device_belongs_to_one_chunk() {
    let mut map = two_chunks();
    let error = map.insert(shifted(Profile::Single, 1, 2 * GIB, (16 << 20) - 4096)).unwrap_err();
    let expect =
        "corrupt chunk: logical=7516192768, stripe at devid=1 physical=17821696 overlaps another of chunk 5368709120";
    assert_eq!(error.to_string(), expect);
    assert_eq!(map.len(), 2);
    map.insert(shifted(Profile::Single, 1, 2 * GIB, 16 << 20)).unwrap();
}

#[test]
fn the_stripes_of_a_device_come_in_the_order_of_their_places() {
    let mut map = two_chunks();
    map.insert(shifted(Profile::Dup, 2, 2 * GIB, 16 << 20)).unwrap();
    let on = |devid| -> Vec<(Profile, usize)> {
        map.chunks_on(DeviceId::new(devid)).map(|(chunk, stripe)| (chunk.profile(), stripe)).collect()
    };
    assert_eq!(on(1), [(Profile::Raid1, 0), (Profile::Dup, 0), (Profile::Raid5, 0), (Profile::Dup, 1)]);
    assert_eq!(on(3), [(Profile::Raid5, 2)]);
    assert_eq!(on(4), []);
}
