//! The geometry against sets that the kernel wrote: the chunk tree's root is found through the system chunks of the super
//! block alone, on every copy, and by parity without the members that hold it.

mod common;

use common::{check_all, fixture};
use mirrortool::device::{IoEngine, identity, open_read};
use mirrortool::format::node::CSUM_FIELD_BYTES;
use mirrortool::units::MirrorNum;
use mirrortool::volume::{Chunk, ChunkMap, DeviceSet, Opened, SetOptions, Volume};
use std::path::Path;

fn open(path: &Path) -> Result<Opened, String> {
    let device = open_read(path, IoEngine::Buffered).map_err(|error| error.to_string())?;
    let identity = identity(path).map_err(|error| error.to_string())?;
    Ok(Opened { path: path.to_owned(), device, identity })
}

fn system_chunks(set: &DeviceSet) -> Result<ChunkMap, String> {
    let superblock = set.superblock();
    let mut map = ChunkMap::new();
    for system in superblock.sys_chunks() {
        let chunk = Chunk::new(system.logical, system.chunk.clone(), superblock.sectorsize(), superblock.incompat());
        chunk.and_then(|chunk| map.insert(chunk)).map_err(|error| error.to_string())?;
    }
    Ok(map)
}

/// Reads the chunk root in every way there is.
fn read_all_ways(set: &DeviceSet, volume: &Volume) -> Result<(), String> {
    let superblock = set.superblock();
    let root = superblock.chunk_root().bytenr;
    let is_good = |block: &[u8]| {
        let (stored, rest) = block.split_at(CSUM_FIELD_BYTES);
        superblock.csum_type().matches(rest, &stored[..superblock.csum_type().digest_len()])
    };
    let nodesize = superblock.nodesize() as usize;
    let chunk = volume.chunks().lookup(root).map_err(|error| error.to_string())?;
    for mirror in (1..=chunk.mirrors()).map(MirrorNum::new) {
        let mut block = vec![0; nodesize];
        volume.read_copy(root, mirror, &mut block).map_err(|error| error.to_string())?;
        if !is_good(&block) {
            return Err(format!("mirror {mirror} of the chunk root does not verify"));
        }
    }
    let Some(row) = chunk.full_stripe(root) else { return Ok(()) };
    let holder = chunk.copies(root)[0].place.devid;
    // RAID5 may lose the member that holds the root, RAID6 any other one besides.
    let others = volume.members().map(|(devid, _)| devid).filter(|devid| row.q.is_some() || *devid == holder);
    for other in others {
        let present = volume.members().filter(|(devid, _)| *devid != holder && *devid != other);
        let present = present.map(|(devid, member)| (devid, member.clone())).collect();
        let degraded = Volume::new(present, volume.chunks().clone());
        let recovered = degraded.recover(root, nodesize, superblock.sectorsize() as usize, is_good);
        recovered.ok_or(format!("the chunk root is not recovered without devid {holder} and devid {other}"))?;
    }
    Ok(())
}

fn check_set(name: &str) -> Result<(), String> {
    let images = fixture::shared(name);
    let opened = images.paths.iter().rev().map(|path| open(path)).collect::<Result<_, _>>()?;
    let set = DeviceSet::assemble(opened, SetOptions::default()).map_err(|error| format!("{name}: {error}"))?;
    let facts = fixture::facts(name);
    if set.superblock().fsid().to_string() != facts.fsid || set.generation().raw() != facts.generation {
        return Err(format!("{name}: assembled as {:?}", set.superblock()));
    }
    let volume = set.volume(system_chunks(&set)?);
    read_all_ways(&set, &volume).map_err(|error| format!("{name}: {error}"))
}

#[test]
fn the_chunk_root_of_every_kernel_written_set_is_read_on_all_copies_and_through_parity() {
    // The stale set is not clean: its second member misses transactions.
    let names: Vec<String> = fixture::names().into_iter().filter(|name| !name.starts_with("stale")).collect();
    check_all(&names, |name| check_set(name));
}
