//! The members of a job: what its patterns name, or all block devices, and of them those of its file system, with the seeds
//! that it has grown from. Says who belongs; whether they make a file system is decided when they are opened.

use crate::jobs::Job;
use anyhow::Context as _;
use mirrortool::device::{IoEngine, behind, block_nodes, identity, is_held, open_read};
use mirrortool::filesystem::{Filesystem, OpenOptions};
use mirrortool::units::Generation;
use mirrortool::volume::{DeviceSet, Member, Opened, SetOptions};
use std::path::{Path, PathBuf};
use uuid::Uuid;

/// The paths to give to the command.
pub(crate) fn of_job(job: &Job) -> anyhow::Result<Vec<PathBuf>> {
    let candidates = if job.members.is_empty() {
        block_nodes().context("cannot list /sys/class/block")?
    } else {
        named(&job.members)?
    };
    let Some(uuid) = job.uuid else { return Ok(candidates) };
    let probed: Vec<Member> = candidates.iter().filter(|path| !is_held(path)).filter_map(|path| probe(path)).collect();
    let (members, others): (Vec<_>, Vec<_>) = probed.into_iter().partition(|member| member.fsid() == uuid);
    anyhow::ensure!(!members.is_empty(), "no member of the btrfs {uuid} was found");
    let members = each_once(members);
    let seeds = seeds_of(&members, each_once(others.into_iter().filter(Member::is_seed).collect()));
    Ok(members.iter().chain(&seeds).map(|member| member.path().to_owned()).collect())
}

/// What the patterns name. A pattern that names nothing stays as it is, so that the command says what is missing.
fn named(patterns: &[String]) -> anyhow::Result<Vec<PathBuf>> {
    let mut members = Vec::new();
    for pattern in patterns {
        let before = members.len();
        for path in glob::glob(pattern)? {
            members.push(path?);
        }
        if members.len() == before {
            members.push(pattern.into());
        }
    }
    Ok(members)
}

fn opened(path: &Path) -> Option<Opened> {
    let (device, identity) = (open_read(path, IoEngine::Buffered).ok()?, identity(path).ok()?);
    Some(Opened { path: path.to_owned(), device, identity })
}

/// A member of some btrfs, by any of its super block copies.
fn probe(path: &Path) -> Option<Member> {
    Member::probe(opened(path)?).ok()
}

/// Leaves one path to each member. A copy has other bytes behind it, or shows another state: it stays, to be refused.
fn each_once(members: Vec<Member>) -> Vec<Member> {
    type Seen = (Uuid, Uuid, Generation, u64, mirrortool::device::Behind);
    let mut seen: Vec<Seen> = Vec::new();
    let is_new = |member: &Member| {
        let Some(behind) = behind(member.path()) else { return true };
        let this = (member.fsid(), member.uuid(), member.generation(), member.device().len(), behind);
        let is_new = !seen.contains(&this);
        seen.push(this);
        is_new
    };
    members.into_iter().filter(is_new).collect()
}

/// The seeds among `candidates` that the chunk tree lists.
fn seeds_of(members: &[Member], candidates: Vec<Member>) -> Vec<Member> {
    if candidates.is_empty() {
        return candidates;
    }
    let devices = members.iter().filter_map(|member| opened(member.path())).collect();
    let Ok(set) = DeviceSet::assemble(devices, SetOptions { degraded: true }) else { return Vec::new() };
    let Ok(filesystem) = Filesystem::open(set, &OpenOptions::default()) else { return Vec::new() };
    let is_listed = |seed: &Member| {
        let items = filesystem.set().missing().iter();
        items.filter(|item| item.uuid == seed.uuid()).any(|item| item.fsid == seed.superblock().metadata_uuid())
    };
    candidates.into_iter().filter(is_listed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_pattern_that_names_nothing_is_left_for_the_command_to_complain_about() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        for name in ["b.img", "a.img", "c.txt"] {
            fs::write(dir.path().join(name), "").expect("writable");
        }
        let pattern = |name: &str| dir.path().join(name).display().to_string();
        let found = named(&[pattern("*.img"), pattern("none-*")]).expect("good patterns");
        assert_eq!(found, [dir.path().join("a.img"), dir.path().join("b.img"), dir.path().join("none-*")]);
    }
}
