//! What lies between files and btrfs: partition tables, md arrays, LVM volumes. From any number of files to the devices
//! of a btrfs that are in them.
//!
//! Looks at each thing, takes it apart or puts it together with others, and looks at what comes out, until there is btrfs
//! or nothing that is known. A file that is btrfs itself is passed on as it is. Never writes, never decides which copy is
//! right: see [`crate::device::Below`].

mod error;
mod layered;
mod lvm;
mod md;
mod node;
mod partition;

pub use error::StackError;
pub use lvm::LvmError;

use self::layered::{About, Layered, Shared};
use self::node::{FileNode, Linear, Node, Stretch};
use crate::device::{Identity, Layer, LowerFile, LowerState, MAX_LOWER_FILES, ParityRows, ReadDevice};
use crate::format::{SUPERBLOCK_BYTES, SUPERBLOCK_OFFSETS, Signature, Superblock, recognise};
use crate::volume::Opened;
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use uuid::Uuid;

/// Layers on top of one another.
const MAX_DEPTH: u32 = 8;
/// Things that are looked at.
const MAX_THINGS: usize = 4096;

/// A file or block device, as it was opened.
pub struct Source {
    /// As the user named it.
    pub path: PathBuf,
    /// Its bytes.
    pub device: Arc<dyn ReadDevice>,
    /// What the path leads to.
    pub identity: Identity,
}

/// Which of several, where there are several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// The number of a partition.
    pub partition: Option<u32>,
    /// A volume group and a logical volume.
    pub lv: Option<(String, String)>,
    /// The file system, where it is known.
    pub fsid: Option<Uuid>,
}

/// Finds the btrfs devices in files.
pub fn open(sources: Vec<Source>, choice: &Choice) -> Result<Vec<Opened>, StackError> {
    refuse_same_files(&sources)?;
    if sources.len() > MAX_LOWER_FILES as usize {
        return Err(StackError::TooMany(sources.len()));
    }
    let mut search = Search::new(&sources, choice);
    while search.step() {}
    search.finish(sources)
}

fn refuse_same_files(sources: &[Source]) -> Result<(), StackError> {
    let mut seen: HashMap<Identity, &PathBuf> = HashMap::new();
    for source in sources {
        if let Some(first) = seen.insert(source.identity, &source.path) {
            return Err(StackError::SameFile { first: first.clone(), second: source.path.clone() });
        }
    }
    Ok(())
}

/// Files by number, each with layers from the outermost to the innermost.
type FileLayers = BTreeMap<u32, Vec<Layer>>;

/// Something that has to be looked at, or was.
#[derive(Clone)]
struct Thing {
    node: Arc<dyn Node>,
    about: About,
    /// The files that it is made of, each with the layers from it up to here.
    layers: FileLayers,
    depth: u32,
    /// It is one of several that its table or volume group has.
    is_choice: bool,
    /// The partition or volume that it is.
    name: String,
}

impl Thing {
    fn first_file(&self) -> usize {
        self.layers.keys().next().map_or(0, |file| *file as usize)
    }

    /// The same files with one more layer on top.
    fn layers_with(&self, layer: &Layer) -> FileLayers {
        let with = |layers: &Vec<Layer>| layers.iter().chain([layer]).cloned().collect();
        self.layers.iter().map(|(file, layers)| (*file, with(layers))).collect()
    }
}

/// What was found, and what is left to do.
struct Search<'a> {
    choice: &'a Choice,
    waiting: Vec<Thing>,
    looked_at: usize,
    arrays: BTreeMap<Uuid, Vec<md::Candidate>>,
    /// How deep the deepest member of the arrays lies.
    volumes: Vec<(lvm::Physical, Thing)>,
    found: Vec<(Thing, Superblock)>,
    /// What is neither btrfs nor a layer.
    others: Vec<(Thing, Option<Signature>)>,
    parities: Vec<Arc<dyn ParityRows>>,
    states: Vec<LowerState>,
    uuids: Vec<Uuid>,
    paths: Vec<PathBuf>,
    depth: u32,
    /// Why something could not be put together; of interest where its files are needed.
    failure: Option<StackError>,
}

impl<'a> Search<'a> {
    fn new(sources: &[Source], choice: &'a Choice) -> Self {
        let thing = |(number, source): (usize, &Source)| {
            let file = number as u32;
            let node = Arc::new(FileNode { file, device: Arc::clone(&source.device) });
            let name = source.path.display().to_string();
            let (about, layers) = (About::default(), [(file, Vec::new())].into());
            Thing { node, about, layers, depth: 0, is_choice: false, name }
        };
        Self {
            choice,
            waiting: sources.iter().enumerate().map(thing).collect(),
            looked_at: 0,
            arrays: BTreeMap::new(),
            volumes: Vec::new(),
            found: Vec::new(),
            others: Vec::new(),
            parities: Vec::new(),
            states: vec![LowerState::InSync; sources.len()],
            uuids: vec![Uuid::nil(); sources.len()],
            paths: sources.iter().map(|source| source.path.clone()).collect(),
            depth: 0,
            failure: None,
        }
    }

    /// Does what can be done next; false where nothing is left.
    fn step(&mut self) -> bool {
        if let Some(thing) = self.waiting.pop() {
            self.looked_at += 1;
            self.depth = self.depth.max(thing.depth);
            if self.looked_at <= MAX_THINGS && thing.depth <= MAX_DEPTH {
                self.look(thing);
            }
            return true;
        }
        if let Some((_, candidates)) = self.arrays.pop_first() {
            if let Err(error) = self.assemble(&candidates) {
                self.failure.get_or_insert(error);
            }
            return true;
        }
        if self.volumes.is_empty() {
            return false;
        }
        let volumes = std::mem::take(&mut self.volumes);
        self.activate(&volumes);
        true
    }

    fn look(&mut self, thing: Thing) {
        let node = &*thing.node;
        let btrfs = btrfs(node);
        let superblock = md::probe(node).filter(|md| !reaches_over(btrfs.as_ref(), md));
        let table = partition::table(node.len(), &|at, len| read(node, at, len));
        // A version 0.90 super block at the end of a disk may be that of its last partition.
        let is_of_disk = |md: &crate::format::md_superblock::MdSuperblock| {
            md.version != crate::format::md_superblock::MdVersion::V090
                || table.is_none()
                || md.data_bytes.saturating_sub(md.member_bytes) <= md.chunk_bytes.max(128 << 10)
        };
        if let Some(superblock) = superblock.filter(is_of_disk) {
            return self.member(thing, superblock);
        }
        if let Some(physical) = lvm::probe(node) {
            let id = Uuid::from_slice(physical.id.as_bytes().get(..16).unwrap_or_default()).unwrap_or_default();
            self.know_by(&thing, id);
            return self.volumes.push((physical, thing));
        }
        match (table, btrfs) {
            (Some(table), btrfs) if btrfs.is_none() || Self::has_btrfs(&thing, &table) => {
                self.partitions(&thing, table);
            }
            (_, Some(superblock)) => {
                self.know_by(&thing, superblock.dev_item().uuid);
                if self.choice.fsid.is_none_or(|fsid| fsid == superblock.fsid()) {
                    self.found.push((thing, superblock));
                }
            }
            (_, None) => {
                let what = recognise(node.len(), |at, len| read(node, at, len));
                self.others.push((thing, what));
            }
        }
    }

    fn has_btrfs(thing: &Thing, table: &partition::Table) -> bool {
        table.partitions.iter().any(|p| stretch(&thing.node, p.start, p.len_bytes).is_some_and(|n| btrfs(&n).is_some()))
    }

    /// The files of a thing are known again by what the lowest layer says of itself.
    fn know_by(&mut self, thing: &Thing, id: Uuid) {
        for file in thing.layers.keys() {
            if let Some(known) = self.uuids.get_mut(*file as usize).filter(|known| known.is_nil()) {
                // Never that of the btrfs device, which stands for the device itself.
                *known = Uuid::from_u128(id.as_u128() ^ 1);
            }
        }
    }

    fn member(&mut self, thing: Thing, superblock: crate::format::md_superblock::MdSuperblock) {
        let path = self.paths.get(thing.first_file()).cloned().unwrap_or_default();
        let Thing { node, about, layers, .. } = thing;
        for file in layers.keys() {
            if let Some(known) = self.uuids.get_mut(*file as usize).filter(|known| known.is_nil()) {
                *known = superblock.device_uuid;
            }
        }
        let candidate = md::Candidate { path, node, layers, about, superblock };
        self.arrays.entry(candidate.superblock.set_uuid).or_default().push(candidate);
    }

    fn assemble(&mut self, candidates: &[md::Candidate]) -> Result<(), StackError> {
        let array = md::assemble(candidates, self.parities.len())?;
        self.parities.extend(array.rows);
        let mut all = FileLayers::new();
        for (candidate, (state, slot)) in candidates.iter().zip(&array.states) {
            for (file, layers) in &candidate.layers {
                let layer = md::layer(&array.layer, *slot);
                all.insert(*file, layers.iter().cloned().chain([layer]).collect());
                if let Some(known) = self.states.get_mut(*file as usize) {
                    *known = *state;
                }
            }
        }
        let (name, depth) = (array.layer.to_string(), self.depth + 1);
        let (node, about) = (array.node, array.about);
        self.waiting.push(Thing { node, about, layers: all, depth, is_choice: false, name });
        Ok(())
    }

    fn partitions(&mut self, thing: &Thing, table: partition::Table) {
        for part in table.partitions {
            if self.choice.partition.is_some_and(|wanted| wanted != part.number) {
                continue;
            }
            let Some(node) = stretch(&thing.node, part.start, part.len_bytes) else { continue };
            let layer = Layer::Partition { is_gpt: table.is_gpt, number: part.number };
            let mut about = thing.about.clone().on_top(&layer.to_string());
            if table.is_backup {
                about
                    .notes
                    .push(format!("{}: the first partition table is damaged, the second one was used", thing.name));
            }
            let name = format!("{} partition {}", thing.name, part.number);
            let (layers, depth) = (thing.layers_with(&layer), thing.depth + 1);
            self.waiting.push(Thing { node: Arc::new(node), about, layers, depth, is_choice: true, name });
        }
    }

    fn activate(&mut self, volumes: &[(lvm::Physical, Thing)]) {
        let physical: Vec<(lvm::Physical, Arc<dyn Node>)> =
            volumes.iter().map(|(physical, thing)| (physical.clone(), Arc::clone(&thing.node))).collect();
        let (logical, failures) = lvm::activate(&physical);
        for (nth, why) in failures {
            let first = volumes.get(nth).map(|(_, thing)| thing.first_file());
            let path = first.and_then(|file| self.paths.get(file)).cloned().unwrap_or_default();
            self.failure.get_or_insert(StackError::Lvm { path, why });
        }
        for volume in logical {
            let wanted = self.choice.lv.as_ref().is_none_or(|(vg, lv)| (vg, lv) == (&volume.vg, &volume.lv));
            if !wanted {
                continue;
            }
            let layer = Layer::Lvm { vg: volume.vg, lv: volume.lv };
            let parts = || volume.physical.iter().filter_map(|nth| volumes.get(*nth)).map(|(_, thing)| thing);
            let mut about = About::together(parts().map(|thing| thing.about.clone()));
            if about.chain.contains(" + ") {
                about.chain = format!("({})", about.chain);
            }
            let about = about.on_top(&layer.to_string());
            let layers = parts().flat_map(|thing| thing.layers_with(&layer)).collect();
            let depth = parts().map(|thing| thing.depth).max().unwrap_or_default() + 1;
            let name = layer.to_string();
            self.waiting.push(Thing { node: volume.node, about, layers, depth, is_choice: true, name });
        }
    }

    fn finish(mut self, sources: Vec<Source>) -> Result<Vec<Opened>, StackError> {
        self.refuse_several()?;
        let mut found = std::mem::take(&mut self.found);
        found.sort_by(|(a, _), (b, _)| a.layers.keys().cmp(b.layers.keys()));
        let is_bare = |thing: &Thing| thing.about.chain.is_empty();
        self.refuse_useless(&found, &sources)?;
        let mut layers: Vec<Vec<Layer>> = vec![Vec::new(); sources.len()];
        let mut used = vec![false; sources.len()];
        for (file, of_file) in found.iter().flat_map(|(thing, _)| &thing.layers) {
            if let (Some(known), Some(used)) = (layers.get_mut(*file as usize), used.get_mut(*file as usize)) {
                known.clone_from(of_file);
                *used = true;
            }
        }
        if let Some(failure) = self.failure.take_if(|_| used.contains(&false)) {
            return Err(failure);
        }
        let file_of = |(number, source): (usize, &Source)| LowerFile {
            path: source.path.clone(),
            identity: source.identity,
            device: Arc::clone(&source.device),
            uuid: self.uuids.get(number).copied().unwrap_or_default(),
            state: self.states.get(number).copied().unwrap_or_default(),
            layers: layers.get(number).cloned().unwrap_or_default(),
        };
        let files = sources.iter().enumerate().map(file_of).collect();
        let shared = Arc::new(Shared { files, parities: std::mem::take(&mut self.parities) });
        let mut opened = Vec::new();
        for (number, (thing, _)) in found.into_iter().enumerate() {
            let file = thing.first_file();
            let Some(first) = sources.get(file) else { continue };
            let path = first.path.clone();
            let one = if is_bare(&thing) {
                Opened { path, device: Arc::clone(&first.device), identity: first.identity }
            } else {
                let device = Layered { node: thing.node, about: thing.about, shared: Arc::clone(&shared) };
                Opened { path, device: Arc::new(device), identity: Identity::Layered(number as u64) }
            };
            opened.push((file, one));
        }
        // What has no btrfs in it is passed on as it is: whoever assembles the set says why it is none.
        for (number, source) in sources.into_iter().enumerate() {
            if !used.get(number).copied().unwrap_or_default() {
                let Source { path, device, identity } = source;
                opened.push((number, Opened { path, device, identity }));
            }
        }
        opened.sort_by_key(|(file, _)| *file);
        Ok(opened.into_iter().map(|(_, opened)| opened).collect())
    }

    /// Of the file systems in partitions and volumes there may be one only: which is meant must be said.
    fn refuse_several(&mut self) -> Result<(), StackError> {
        let list = |found: &[(Thing, Superblock)]| {
            let mut names: Vec<String> = found.iter().map(|(thing, superblock)| name(thing, superblock)).collect();
            names.sort();
            names
        };
        if self.choice.partition.is_some() || self.choice.lv.is_some() {
            let bare_or_chosen = self.found.iter().any(|(thing, _)| thing.is_choice);
            if !bare_or_chosen {
                let wanted = match self.choice {
                    Choice { lv: Some((vg, lv)), .. } => format!("in the logical volume {vg}/{lv}"),
                    Choice { partition, .. } => format!("in partition {}", partition.unwrap_or_default()),
                };
                return Err(StackError::NoSuch { wanted, found: list(&self.found) });
            }
        }
        let mut fsids: Vec<Uuid> = self.found.iter().map(|(_, superblock)| superblock.fsid()).collect();
        fsids.sort_unstable();
        fsids.dedup();
        if fsids.len() > 1 && self.found.iter().any(|(thing, _)| thing.is_choice) {
            return Err(StackError::Several(list(&self.found)));
        }
        Ok(())
    }

    /// Layers that lead to no btrfs at all are told of by name.
    fn refuse_useless(&self, found: &[(Thing, Superblock)], sources: &[Source]) -> Result<(), StackError> {
        let is_used = |file: &u32| found.iter().any(|(thing, _)| thing.layers.contains_key(file));
        let useless = self.others.iter().filter(|(thing, _)| !thing.about.chain.is_empty());
        let mut useless = useless.filter(|(thing, _)| !thing.layers.keys().any(is_used));
        match useless.next() {
            None => Ok(()),
            Some((thing, what)) => {
                let first = sources.get(thing.first_file());
                let path = first.map(|source| source.path.clone()).unwrap_or_default();
                Err(StackError::NoBtrfs { path, chain: thing.about.chain.clone(), what: *what })
            }
        }
    }
}

fn name(thing: &Thing, superblock: &Superblock) -> String {
    let label = superblock.label();
    let label = if label.is_empty() { String::new() } else { format!(" \"{label}\"") };
    format!("{} (uuid {}{label})", thing.name, superblock.fsid())
}

fn stretch(node: &Arc<dyn Node>, from: u64, len_bytes: u64) -> Option<Linear> {
    Linear::new(vec![Stretch { len_bytes, node: Arc::clone(node), from }])
}

fn read(node: &dyn Node, at: u64, len: usize) -> Option<Vec<u8>> {
    if at.checked_add(len as u64).is_none_or(|end| end > node.len()) {
        return None;
    }
    let mut bytes = vec![0; len];
    node.read(at, &mut bytes).ok().map(|()| bytes)
}

/// The super block of a btrfs that begins at the start of the node.
fn btrfs(node: &dyn Node) -> Option<Superblock> {
    SUPERBLOCK_OFFSETS.into_iter().find_map(|at| {
        let bytes = read(node, at.raw(), SUPERBLOCK_BYTES)?;
        Superblock::parse(&bytes, at).ok()
    })
}

/// A btrfs that is longer than what md has of the device was made when the device was no member any more.
fn reaches_over(btrfs: Option<&Superblock>, md: &crate::format::md_superblock::MdSuperblock) -> bool {
    let is_mirror = md.level == 1 && md.data_offset_bytes == 0;
    is_mirror && btrfs.is_some_and(|superblock| superblock.dev_item().total_bytes > md.data_bytes)
}

/// The CRC-32 of Ethernet without its inversions, from an initial value.
fn crc32_from(initial: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(initial, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| if sum & 1 == 1 { sum >> 1 ^ 0xedb8_8320 } else { sum >> 1 })
    })
}

#[cfg(test)]
mod tests;
