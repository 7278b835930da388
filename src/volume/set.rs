//! From devices in any order to the members of one file system.
//!
//! Two steps, because the list of members stands in the chunk tree and the chunk tree on the members:
//! [`DeviceSet::assemble`] goes by super blocks alone, [`DeviceSet::reconcile`] by the device items. Never opens and never
//! reads more than super blocks. Kernel: `device_list_add`, `open_seed_devices` and `read_one_dev` in
//! `fs/btrfs/volumes.c`.

mod error;

pub use error::{SetError, SetWarning};

use super::chunk_map::ChunkMap;
use super::member::{Member, Opened};
use super::read::Volume;
use crate::device::{Identity, ReadDevice};
use crate::format::items::DevItem;
use crate::format::{SUPERBLOCK_OFFSETS, Superblock};
use crate::units::{DeviceId, Generation};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use uuid::Uuid;

/// How strict to be about devices that do not fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetOptions {
    /// Go on without missing devices, and pass over those that are no member of any file system.
    pub degraded: bool,
}

/// The members of one file system, and what was noticed on the way.
#[derive(Debug)]
pub struct DeviceSet {
    options: SetOptions,
    /// In the order given.
    members: Vec<Arc<Member>>,
    /// Seeds of other file systems, from which this one may have grown.
    seeds: Vec<Arc<Member>>,
    missing: Vec<DevItem>,
    warnings: Vec<SetWarning>,
    superblock: Superblock,
}

impl DeviceSet {
    /// Reads the super blocks of all devices and finds the file system they belong to, which must be one: whoever gives a
    /// member of another wants it looked at. A stale member is used, a copy of a member never.
    pub fn assemble(opened: Vec<Opened>, options: SetOptions) -> Result<Self, SetError> {
        refuse_same_files(&opened)?;
        let mut warnings = Vec::new();
        let mut probed = Vec::with_capacity(opened.len());
        for device in opened {
            match Member::probe(device) {
                Ok(member) => probed.push(Arc::new(member)),
                Err((path, why)) if options.degraded => warnings.push(SetWarning::NotBtrfs { path, why }),
                Err((path, why)) => return Err(SetError::NotBtrfs { path, why }),
            }
        }
        refuse_unsupported(&probed)?;
        let fsid = chosen_fsid(&probed).ok_or(SetError::Empty)?;
        let (members, others): (Vec<_>, Vec<_>) = probed.into_iter().partition(|member| member.fsid() == fsid);
        let (seeds, foreign): (Vec<_>, Vec<_>) = others.into_iter().partition(|member| member.is_seed());
        refuse_clones(&members)?;
        refuse_clones(&seeds)?;
        foreign.iter().try_for_each(|other| refuse_foreign(other, &members, fsid))?;
        let newest = members.iter().min_by_key(|member| rank(member)).ok_or(SetError::Empty)?;
        let superblock = newest.superblock().clone();
        let mut set = Self { options, members, seeds, missing: Vec::new(), warnings, superblock };
        set.note_stale();
        Ok(set)
    }

    /// The same devices, with their super blocks as they are now.
    pub fn probe_again(&self) -> Result<Self, SetError> {
        self.behind(|member| Arc::clone(member.device()))
    }

    /// The same set with another device for each member: its own one behind a decorator.
    pub fn behind(&self, decorated: impl Fn(&Member) -> Arc<dyn ReadDevice>) -> Result<Self, SetError> {
        let opened = |member: &Arc<Member>| Opened {
            path: member.path().to_owned(),
            device: decorated(member),
            identity: member.identity(),
        };
        Self::assemble(self.members().map(opened).collect(), self.options)
    }

    /// Settles who is a member by the device items of the chunk tree, which must be all of them.
    pub fn reconcile(&mut self, dev_items: &[DevItem]) -> Result<(), SetError> {
        let seeds = std::mem::take(&mut self.seeds);
        let (used_seeds, foreign): (Vec<_>, Vec<_>) = seeds.into_iter().partition(|seed| is_listed(seed, dev_items));
        let fsid = self.superblock.fsid();
        foreign.iter().try_for_each(|other| refuse_foreign(other, &self.members, fsid))?;
        let (members, unlisted): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.members).into_iter().partition(|member| is_listed(member, dev_items));
        (self.members, self.seeds) = (members, used_seeds);
        for member in &unlisted {
            self.forget_warnings_about(member);
            // `BTRFS_DEV_REPLACE_DEVID`
            if member.devid() == DeviceId::new(0) {
                self.warnings.push(SetWarning::ReplaceTarget { path: member.path().to_owned() });
                continue;
            }
            self.warnings.push(SetWarning::NotListed {
                path: member.path().to_owned(),
                devid: member.devid(),
                uuid: member.uuid(),
                have: member.generation(),
                expect: self.superblock.generation(),
            });
        }
        self.settle_missing(dev_items)?;
        self.note_sizes(dev_items);
        let (have, expect) = (self.superblock.num_devices(), dev_items.len() as u64);
        if have != expect {
            self.warnings.push(SetWarning::DeviceCount { have, expect });
        }
        Ok(())
    }

    /// The members, seeds last, each in the order given. Until [`DeviceSet::reconcile`] there may be some that do not belong.
    pub fn members(&self) -> impl Iterator<Item = &Arc<Member>> {
        self.members.iter().chain(&self.seeds)
    }

    /// The best super block: that of the newest member.
    pub fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// The last transaction of the set.
    pub fn generation(&self) -> Generation {
        self.superblock.generation()
    }

    /// Members that missed transactions. A seed never does.
    pub fn stale(&self) -> impl Iterator<Item = &Arc<Member>> {
        self.members.iter().filter(|member| member.generation() < self.generation())
    }

    /// The uuids that tree blocks may carry: that of the file system, then those of its seeds.
    pub fn metadata_uuids(&self) -> Vec<Uuid> {
        let seeds = self.seeds.iter().map(|seed| seed.superblock().metadata_uuid());
        std::iter::once(self.superblock.metadata_uuid()).chain(seeds).collect()
    }

    /// The device items without a member, known after [`DeviceSet::reconcile`].
    pub fn missing(&self) -> &[DevItem] {
        &self.missing
    }

    /// All that was noticed so far.
    pub fn warnings(&self) -> &[SetWarning] {
        &self.warnings
    }

    /// The members as an address space. Where two have one number, which only happens before [`DeviceSet::reconcile`], the
    /// newer one stands for it.
    pub fn volume(&self, chunks: ChunkMap) -> Volume {
        let mut by_devid: BTreeMap<DeviceId, Arc<Member>> = BTreeMap::new();
        for member in self.members() {
            let newer = by_devid
                .get(&member.devid())
                .is_none_or(|known| known.fsid() == member.fsid() && known.generation() < member.generation());
            if newer {
                by_devid.insert(member.devid(), Arc::clone(member));
            }
        }
        Volume::new(by_devid, chunks)
    }

    fn note_stale(&mut self) {
        let stale = |member: &Arc<Member>| SetWarning::Stale {
            path: member.path().to_owned(),
            devid: member.devid(),
            have: member.generation(),
            expect: self.generation(),
        };
        let warnings: Vec<SetWarning> = self.stale().map(stale).collect();
        self.warnings.extend(warnings);
    }

    /// One who does not belong is not called stale as well.
    fn forget_warnings_about(&mut self, member: &Member) {
        self.warnings.retain(|warning| !matches!(warning, SetWarning::Stale { path, .. } if path == member.path()));
    }

    fn settle_missing(&mut self, dev_items: &[DevItem]) -> Result<(), SetError> {
        let mut missing: Vec<DevItem> =
            dev_items.iter().filter(|item| !self.members().any(|member| is_item_of(item, member))).copied().collect();
        missing.sort_by_key(|item| item.devid);
        if !missing.is_empty() && !self.options.degraded {
            return Err(SetError::Missing { devices: missing.iter().map(|item| (item.devid, item.uuid)).collect() });
        }
        self.warnings.extend(missing.iter().map(|item| SetWarning::Missing { devid: item.devid, uuid: item.uuid }));
        self.missing = missing;
        Ok(())
    }

    fn note_sizes(&mut self, dev_items: &[DevItem]) {
        let mut truncated = Vec::new();
        for member in self.members() {
            let Some(item) = dev_items.iter().find(|item| is_item_of(item, member)) else { continue };
            let (have_bytes, expect_bytes) = (member.device().len(), item.total_bytes);
            if have_bytes < expect_bytes {
                let (path, devid) = (member.path().to_owned(), member.devid());
                truncated.push(SetWarning::Truncated { path, devid, have_bytes, expect_bytes });
            }
        }
        self.warnings.extend(truncated);
    }
}

/// Whose super block speaks for the set, the smallest first: that of the newest member; of equals one that stands in the
/// first place, which alone is written with a log; of equals that of the lowest devid, whatever the order given.
fn rank(member: &Member) -> (Reverse<Generation>, bool, DeviceId) {
    let superblock = member.superblock();
    (Reverse(superblock.generation()), superblock.bytenr() != SUPERBLOCK_OFFSETS[0], member.devid())
}

fn is_item_of(item: &DevItem, member: &Member) -> bool {
    let same_filesystem = item.fsid == member.superblock().metadata_uuid();
    same_filesystem && item.uuid == member.uuid() && item.devid == member.devid()
}

fn is_listed(member: &Member, dev_items: &[DevItem]) -> bool {
    dev_items.iter().any(|item| is_item_of(item, member))
}

fn refuse_same_files(opened: &[Opened]) -> Result<(), SetError> {
    let mut seen: HashMap<Identity, &PathBuf> = HashMap::new();
    for device in opened {
        if let Some(first) = seen.insert(device.identity, &device.path) {
            return Err(SetError::SameFile { first: first.clone(), second: device.path.clone() });
        }
    }
    Ok(())
}

/// Refuses what any super block copy of any device says that is not understood, whatever its age: work that was cut off
/// may have reached one copy and not the next, and the devices need not agree on the fsid any more. A copy that is left
/// over from another file system has no say.
fn refuse_unsupported(probed: &[Arc<Member>]) -> Result<(), SetError> {
    for member in probed {
        let own = |copy: &&Superblock| copy.fsid() == member.fsid() || copy.dev_item().uuid == member.uuid();
        for copy in member.superblock_copies().iter().filter_map(|copy| copy.state.as_ref().ok()).filter(own) {
            let refused =
                |feature| SetError::Unsupported { path: member.path().to_owned(), at: copy.bytenr(), feature };
            copy.check_supported().map_err(refused)?;
        }
    }
    Ok(())
}

fn refuse_clones(members: &[Arc<Member>]) -> Result<(), SetError> {
    let mut seen: HashMap<(Uuid, Uuid), &Member> = HashMap::new();
    for member in members {
        if let Some(first) = seen.insert((member.fsid(), member.uuid()), member) {
            return Err(SetError::Clone {
                first: first.path().to_owned(),
                second: member.path().to_owned(),
                devid: member.devid(),
                uuid: member.uuid(),
                fsid: member.fsid(),
            });
        }
    }
    Ok(())
}

/// The file system that most devices belong to, of equals the first given. Seeds have no say where there are others:
/// what has grown from them is meant.
fn chosen_fsid(probed: &[Arc<Member>]) -> Option<Uuid> {
    let has_others = probed.iter().any(|member| !member.is_seed());
    let votes = || probed.iter().filter(|member| !(has_others && member.is_seed())).map(|member| member.fsid());
    let count = |fsid: &Uuid| votes().filter(|vote| vote == fsid).count();
    votes().collect::<Vec<_>>().into_iter().rev().max_by_key(count)
}

fn refuse_foreign(other: &Member, members: &[Arc<Member>], fsid: Uuid) -> Result<(), SetError> {
    let first = members.first().map(|member| member.path().to_owned()).unwrap_or_default();
    let (second, second_fsid) = (other.path().to_owned(), other.fsid());
    Err(SetError::TwoFilesystems { first, first_fsid: fsid, second, second_fsid })
}

#[cfg(test)]
mod tests;
