//! Damage recipes, `fixtures/*.yaml`: applied to a copy of their base, and what a scrub must find then.

use super::fixture::{self, Images};
use serde::Deserialize;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// One recipe.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    #[serde(skip)]
    pub name: String,
    pub why: String,
    pub base: String,
    /// The members that the scrub is given.
    pub devices: Vec<u64>,
    pub options: Vec<String>,
    damage: Vec<Damage>,
    pub expect: Expectation,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expectation {
    pub exit: i32,
    pub verdict: String,
    findings: Vec<FindingRun>,
}

/// A finding, or `count` findings that lie one behind the other.
#[derive(Debug, Deserialize)]
struct FindingRun {
    #[serde(flatten)]
    first: Finding,
    #[serde(default = "one")]
    count: u64,
}

fn one() -> u64 {
    1
}

/// The part of a finding that a recipe states.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub struct Finding {
    pub kind: String,
    pub logical: u64,
    pub mirror: u8,
    pub devid: u64,
    pub physical: u64,
    pub length: u64,
    pub problem: String,
    pub repair: String,
}

#[derive(Debug, Deserialize)]
struct Damage {
    devid: u64,
    physical: u64,
    length: usize,
    #[serde(flatten)]
    op: Op,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "op", rename_all = "kebab-case")]
enum Op {
    Xor { value: u8 },
    Zero,
    Random { seed: u64 },
    Write { bytes: String },
    XorFrom { source: Source },
    CopyFrom { source: Source },
    Truncate,
}

#[derive(Debug, Deserialize)]
struct Source {
    devid: u64,
    physical: u64,
}

/// All recipes, by name.
pub fn all() -> Vec<Recipe> {
    let mut paths: Vec<_> = fs::read_dir(fixture::directory())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .collect();
    paths.sort();
    paths
        .iter()
        .map(|path| {
            let text = fs::read_to_string(path).unwrap();
            let recipe: Recipe = serde_yaml::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            Recipe { name: path.file_stem().unwrap().to_string_lossy().into_owned(), ..recipe }
        })
        .collect()
}

/// The recipe of that name.
pub fn named(name: &str) -> Recipe {
    all().into_iter().find(|recipe| recipe.name == name).unwrap_or_else(|| panic!("no recipe {name}"))
}

impl Recipe {
    /// A damaged copy of the base.
    pub fn apply(&self) -> Images {
        self.apply_to(&fixture::shared(&self.base).paths)
    }

    /// A damaged copy of these images, which are given by devid.
    pub fn apply_to(&self, images: &[PathBuf]) -> Images {
        let images = fixture::copy_of(images);
        self.harm(&images);
        images
    }

    /// Damages these images.
    pub fn harm(&self, images: &Images) {
        for damage in &self.damage {
            damage.apply(images);
        }
    }

    /// All that a scrub must find, in order.
    pub fn findings(&self) -> Vec<Finding> {
        let mut findings: Vec<_> = self.expect.findings.iter().flat_map(FindingRun::expand).collect();
        findings.sort();
        findings
    }
}

impl FindingRun {
    fn expand(&self) -> impl Iterator<Item = Finding> {
        (0..self.count).map(|i| Finding {
            logical: self.first.logical + i * self.first.length,
            physical: self.first.physical + i * self.first.length,
            ..self.first.clone()
        })
    }
}

impl Damage {
    fn apply(&self, images: &Images) {
        let file = OpenOptions::new().read(true).write(true).open(images.device(self.devid)).unwrap();
        if matches!(self.op, Op::Truncate) {
            return file.set_len(self.physical).unwrap();
        }
        let mut bytes = read(&file, self.physical, self.length);
        match &self.op {
            Op::Xor { value } => bytes.iter_mut().for_each(|b| *b ^= value),
            Op::Zero => bytes.fill(0),
            Op::Random { seed } => scramble(*seed, &mut bytes),
            Op::Write { bytes: hex } => bytes = from_hex(hex),
            Op::CopyFrom { source } => bytes = source.read(images, self.length),
            Op::XorFrom { source } => {
                let other = source.read(images, self.length);
                bytes.iter_mut().zip(other).for_each(|(b, o)| *b ^= o);
            }
            Op::Truncate => unreachable!("handled above"),
        }
        file.write_all_at(&bytes, self.physical).unwrap();
    }
}

impl Source {
    fn read(&self, images: &Images, length: usize) -> Vec<u8> {
        read(&File::open(images.device(self.devid)).unwrap(), self.physical, length)
    }
}

fn read(file: &File, at: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, at).unwrap();
    bytes
}

/// Fills with the bytes of a xorshift generator.
fn scramble(seed: u64, bytes: &mut [u8]) {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    for b in bytes {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        *b = (state >> 32) as u8;
    }
}

fn from_hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap()).collect()
}
