//! Image sets of `fixtures/`: unpacked once per build directory, handed out read-only or as sparse copies, and
//! fingerprinted to prove that nothing wrote to them.

use rustix::fs::{SeekFrom, seek};
use ruzstd::decoding::StreamingDecoder;
use serde::Deserialize;
use std::collections::hash_map::DefaultHasher;
use std::fs::{self, File};
use std::hash::{Hash, Hasher};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Bytes that are read, compared with zero and written at a time.
const BLOCK_BYTES: usize = 64 * 1024;

/// `fixtures/NAME/facts.yaml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Facts {
    pub purpose: String,
    pub fsid: String,
    pub label: String,
    pub generation: u64,
    pub csum_type: String,
    pub sectorsize: u32,
    pub nodesize: u32,
    pub log_tree: bool,
    pub devices: Vec<DeviceFacts>,
}

/// What the kernel's scrub counted on one member; absent where the kernel could not scrub the images.
#[derive(Debug, Deserialize)]
pub struct DeviceFacts {
    pub devid: u64,
    #[serde(flatten)]
    pub kernel_counters: std::collections::BTreeMap<String, u64>,
}

/// The images of one set, ordered by devid. A copy goes away with its value.
#[derive(Debug)]
pub struct Images {
    pub paths: Vec<PathBuf>,
    directory: Option<TempDir>,
}

impl Images {
    /// The image of a devid.
    pub fn device(&self, devid: u64) -> &Path {
        &self.paths[devid as usize - 1]
    }

    /// Where a copy lives, and where there is room for more.
    pub fn scratch(&self) -> &Path {
        self.directory.as_ref().expect("shared images have no scratch directory").path()
    }

    /// A digest of every byte of every image.
    pub fn fingerprint(&self) -> Vec<u64> {
        fingerprints(&self.paths)
    }
}

/// A digest of every byte of each file.
pub fn fingerprints(paths: &[PathBuf]) -> Vec<u64> {
    paths.iter().map(|path| fingerprint(path).unwrap()).collect()
}

/// `fixtures/`.
pub fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures")
}

/// The names of all fixtures.
pub fn names() -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(directory())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.join("facts.yaml").exists())
        .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// The facts of a fixture.
pub fn facts(name: &str) -> Facts {
    let text = fs::read_to_string(directory().join(name).join("facts.yaml")).unwrap();
    serde_yaml::from_str(&text).unwrap_or_else(|e| panic!("{name}/facts.yaml: {e}"))
}

/// Where unpacked and damaged images are kept: below `target/` where cargo says so, as it does for tests.
fn scratch_base() -> PathBuf {
    option_env!("CARGO_TARGET_TMPDIR").map_or_else(std::env::temp_dir, PathBuf::from)
}

/// The images of a fixture, shared by all tests: only to be read.
pub fn shared(name: &str) -> Images {
    let packed = packed(name);
    let mut hasher = DefaultHasher::new();
    for path in &packed {
        fs::read(path).unwrap().hash(&mut hasher);
    }
    let base = scratch_base().join("fixtures");
    let ready = base.join(format!("{name}-{:016x}", hasher.finish()));
    if !ready.exists() {
        fs::create_dir_all(&base).unwrap();
        let scratch = unpacked_into(name, tempfile::tempdir_in(&base).unwrap());
        // Another test program may have been faster; its result is as good.
        if fs::rename(scratch.scratch(), &ready).is_ok() {
            let _renamed = scratch.directory.map(TempDir::keep);
        }
    }
    Images { paths: targets(&ready, packed.len()), directory: None }
}

/// A fixture unpacked into a directory, which goes away with the images.
pub fn unpacked_into(name: &str, directory: TempDir) -> Images {
    let packed = packed(name);
    let paths = targets(directory.path(), packed.len());
    for (path, target) in packed.iter().zip(&paths) {
        unpack(path, target).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    }
    Images { paths, directory: Some(directory) }
}

/// A copy of a fixture of one's own.
pub fn copy(name: &str) -> Images {
    copy_of(&shared(name).paths)
}

/// A copy of images, which are given by devid.
pub fn copy_of(images: &[PathBuf]) -> Images {
    let directory = tempfile::tempdir_in(scratch_base()).unwrap();
    let paths = targets(directory.path(), images.len());
    for (source, target) in images.iter().zip(&paths) {
        copy_sparse(source, target).unwrap();
    }
    Images { paths, directory: Some(directory) }
}

fn packed(name: &str) -> Vec<PathBuf> {
    let directory = directory().join(name);
    let paths: Vec<_> =
        (1..=99).map(|n| directory.join(format!("d{n}.img.zst"))).take_while(|path| path.exists()).collect();
    assert!(!paths.is_empty(), "no fixture {name}");
    paths
}

fn targets(directory: &Path, count: usize) -> Vec<PathBuf> {
    (1..=count).map(|n| directory.join(format!("d{n}.img"))).collect()
}

fn unpack(packed: &Path, target: &Path) -> io::Result<()> {
    let mut decoder = StreamingDecoder::new(File::open(packed)?).map_err(io::Error::other)?;
    let image = File::create(target)?;
    let mut block = vec![0; BLOCK_BYTES];
    let mut at = 0;
    loop {
        let filled = fill(&mut decoder, &mut block)?;
        if filled == 0 {
            return image.set_len(at);
        }
        write_unless_zero(&image, &block[..filled], at)?;
        at += filled as u64;
    }
}

fn fill(source: &mut impl Read, block: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < block.len() {
        match source.read(&mut block[filled..])? {
            0 => break,
            n => filled += n,
        }
    }
    Ok(filled)
}

fn write_unless_zero(image: &File, bytes: &[u8], at: u64) -> io::Result<()> {
    if bytes.iter().any(|&b| b != 0) { image.write_all_at(bytes, at) } else { Ok(()) }
}

fn copy_sparse(source: &Path, target: &Path) -> io::Result<()> {
    let copy = File::create(target)?;
    copy.set_len(fs::metadata(source)?.len())?;
    for_each_block(source, |at, bytes| write_unless_zero(&copy, bytes, at))
}

/// Zero blocks do not count, be they holes or not; the length does.
fn fingerprint(path: &Path) -> io::Result<u64> {
    let mut hasher = DefaultHasher::new();
    fs::metadata(path)?.len().hash(&mut hasher);
    for_each_block(path, |at, bytes| {
        if bytes.iter().any(|&b| b != 0) {
            (at, bytes).hash(&mut hasher);
        }
        Ok(())
    })?;
    Ok(hasher.finish())
}

/// Visits the blocks of a file that are not in holes.
pub fn for_each_block(path: &Path, mut visit: impl FnMut(u64, &[u8]) -> io::Result<()>) -> io::Result<()> {
    let file = File::open(path)?;
    let len = file.metadata()?.len();
    let mut block = vec![0; BLOCK_BYTES];
    let mut at = 0;
    while at < len {
        let Ok(data) = seek(&file, SeekFrom::Data(at)) else { return Ok(()) };
        let hole = seek(&file, SeekFrom::Hole(data))?;
        at = data - data % BLOCK_BYTES as u64;
        while at < hole {
            let want = BLOCK_BYTES.min((len - at) as usize);
            file.read_exact_at(&mut block[..want], at)?;
            visit(at, &block[..want])?;
            at += want as u64;
        }
    }
    Ok(())
}
