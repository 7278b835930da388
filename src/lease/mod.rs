//! The one way to write to members: held from before the plan until after the last write, and looked at again and again
//! meanwhile.
//!
//! A [`Lease`] opens every member for writing, exclusively ([`HeldDevice`]), and remembers its super blocks as they stand there.
//! It writes nothing. What it holds must be what was read before: the same file or device, the same length, the same super
//! blocks. With the user's [`Consent`], and after one more look, it becomes a [`WriteLease`], whose [`LeasedDevice`]s can
//! write. They look themselves, every few milliseconds of writing, whether the set is still what it was: each path leads to
//! the same place, nobody has mounted it or put a loop device over it, no super block was changed by anybody else. When
//! something was, nothing is written any more, on any member, and [`WriteLease::check`] says what it was.
//!
//! A member is made of one or more files or block devices (an md mirror below it has two): all are held, and what is
//! written goes through a device that [`Wanted::made_of`] makes of them. A device that is no member yet, and will hold one,
//! is held by [`Wanted::new_device`].

mod error;
mod guard;
mod superblocks;
#[cfg(test)]
mod tests;

pub use error::LeaseError;

use crate::device::{Consent, DeviceError, HeldDevice, ReadDevice, WriteDevice};
use crate::units::{DeviceId, Physical};
use crate::volume::Member;
use guard::{Guard, Watched};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use superblocks::Superblocks;

/// Makes the bytes of one member of the files and devices below it, in the order of their paths.
pub type Join = Box<dyn FnOnce(Vec<Arc<dyn WriteDevice>>) -> Arc<dyn WriteDevice> + Send>;

/// A member to be held.
pub struct Wanted {
    devid: DeviceId,
    path: PathBuf,
    parts: Vec<PathBuf>,
    join: Option<Join>,
    /// As it was read; `None` where there was nothing to read.
    member: Option<Arc<Member>>,
}

impl Wanted {
    /// A member that has been looked at, and is one file or block device.
    pub fn member(member: &Arc<Member>) -> Self {
        let path = member.path().to_owned();
        let (devid, parts) = (member.devid(), vec![path.clone()]);
        Self { devid, path, parts, join: None, member: Some(Arc::clone(member)) }
    }

    /// A file or block device that is no member, to be overwritten.
    pub fn new_device(devid: DeviceId, path: &Path) -> Self {
        Self { devid, path: path.to_owned(), parts: vec![path.to_owned()], join: None, member: None }
    }

    /// The same under another number: that which a log has for it.
    #[must_use]
    pub fn as_devid(self, devid: DeviceId) -> Self {
        Self { devid, ..self }
    }

    /// The same, where it is made of other files and devices than its own path.
    #[must_use]
    pub fn made_of(self, parts: Vec<PathBuf>, join: Join) -> Self {
        Self { parts, join: Some(join), ..self }
    }
}

/// Members that nobody else has, and that cannot be written yet.
pub struct Lease {
    guard: Arc<Guard>,
    read_only: BTreeMap<DeviceId, Arc<DeviceError>>,
}

impl Lease {
    /// Opens all of them, or fails for the first one that is in use or not what was looked at. A member that cannot be
    /// written at all is left out, and told by [`Lease::read_only`].
    pub fn take(wanted: impl IntoIterator<Item = Wanted>) -> Result<Self, LeaseError> {
        let (mut members, mut parts) = (Vec::new(), Vec::new());
        let mut read_only = BTreeMap::new();
        for one in wanted {
            let held: Result<Vec<HeldDevice>, DeviceError> =
                one.parts.iter().map(|path| HeldDevice::open(path)).collect();
            match held {
                Ok(held) => {
                    members.push(watched(one, &held)?);
                    parts.extend(held);
                }
                Err(error @ (DeviceError::ReadOnly { .. } | DeviceError::PermissionDenied { .. })) => {
                    read_only.insert(one.devid, Arc::new(error));
                }
                Err(error) => return Err(error.into()),
            }
        }
        let guard = Arc::new(Guard::new(members, parts));
        guard.check()?;
        Ok(Self { guard, read_only })
    }

    /// The members that cannot be written, and why.
    pub fn read_only(&self) -> &BTreeMap<DeviceId, Arc<DeviceError>> {
        &self.read_only
    }

    /// Whether all is as it was.
    pub fn check(&self) -> Result<(), LeaseError> {
        self.guard.check()
    }

    /// Looks once more, and lets the members be written.
    pub fn agreed(self, _consent: Consent) -> Result<WriteLease, LeaseError> {
        self.guard.check()?;
        Ok(WriteLease { guard: self.guard })
    }
}

/// Members that may be written.
pub struct WriteLease {
    guard: Arc<Guard>,
}

impl WriteLease {
    /// Over devices that have no file or block device below: simulated ones. Their super blocks are watched all the same.
    pub fn simulated(
        devices: impl IntoIterator<Item = (Arc<Member>, Arc<dyn WriteDevice>)>,
    ) -> Result<Self, LeaseError> {
        let watched = devices.into_iter().map(|(member, device)| {
            let superblocks = Superblocks::of(&*device);
            is_as_seen(&member, &*device, &superblocks)?;
            Ok(Watched { devid: member.devid(), path: member.path().to_owned(), device, superblocks })
        });
        let guard = Guard::new(watched.collect::<Result<_, LeaseError>>()?, Vec::new());
        Ok(Self { guard: Arc::new(guard) })
    }

    /// The same over one device that is no member yet.
    pub fn simulated_new(devid: DeviceId, device: Arc<dyn WriteDevice>) -> Self {
        let superblocks = Superblocks::of(&*device);
        let watched = Watched { devid, path: PathBuf::from("new"), device, superblocks };
        Self { guard: Arc::new(Guard::new(vec![watched], Vec::new())) }
    }

    /// A device to write to.
    pub fn device(&self, devid: DeviceId) -> Option<LeasedDevice> {
        let number = self.guard.number_of(devid)?;
        Some(LeasedDevice { guard: Arc::clone(&self.guard), number })
    }

    /// Whether all is as it was; once it is not, it never is again.
    pub fn check(&self) -> Result<(), LeaseError> {
        self.guard.check()
    }

    /// The same, to be asked before each batch of writes: names, lengths and users each time, super blocks as often as
    /// reading them takes a small part of the time.
    pub fn check_batch(&self) -> Result<(), LeaseError> {
        self.guard.check_batch()
    }

    /// What was found to have changed. A write that fails for that says so here.
    pub fn lost(&self) -> Option<LeaseError> {
        self.guard.lost()
    }
}

/// One member of a [`WriteLease`].
#[derive(Clone)]
pub struct LeasedDevice {
    guard: Arc<Guard>,
    number: usize,
}

impl LeasedDevice {
    /// Its length in bytes.
    pub fn len(&self) -> u64 {
        self.guard.device(self.number).map_or(0, ReadDevice::len)
    }

    /// True for a device of no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// As [`crate::device::ReadDevice::read_at`].
    pub fn read_at(&self, at: Physical, buf: &mut [u8]) -> io::Result<()> {
        self.guard.device(self.number).ok_or(io::ErrorKind::NotFound)?.read_at(at, buf)
    }

    /// As [`WriteDevice::write_at`]; an error too where the set is not what it was.
    pub fn write_at(&self, at: Physical, data: &[u8]) -> io::Result<()> {
        self.guard.write_at(self.number, at, data)
    }

    /// As [`WriteDevice::sync`].
    pub fn sync(&self) -> io::Result<()> {
        self.guard.device(self.number).ok_or(io::ErrorKind::NotFound)?.sync()
    }
}

impl ReadDevice for LeasedDevice {
    fn len(&self) -> u64 {
        Self::len(self)
    }

    fn read_at(&self, at: Physical, buf: &mut [u8]) -> io::Result<()> {
        Self::read_at(self, at, buf)
    }
}

/// What is held for one member, held against what was seen of it.
fn watched(wanted: Wanted, held: &[HeldDevice]) -> Result<Watched, LeaseError> {
    let Wanted { devid, path, join, member, .. } = wanted;
    let parts: Vec<_> = held.iter().map(HeldDevice::unguarded).collect();
    let is_plain = join.is_none();
    let joined = match join {
        Some(join) => Some(join(parts)),
        None => parts.into_iter().next(),
    };
    let device = joined.ok_or_else(|| LeaseError::NoParts { path: path.clone() })?;
    let superblocks = Superblocks::of(&*device);
    if let Some(member) = member {
        if is_plain && held.first().is_some_and(|held| held.identity() != member.identity()) {
            return Err(DeviceError::Replaced { path }.into());
        }
        is_as_seen(&member, &*device, &superblocks)?;
    }
    Ok(Watched { devid, path, device, superblocks })
}

fn is_as_seen(member: &Member, device: &dyn WriteDevice, superblocks: &Superblocks) -> Result<(), LeaseError> {
    let (have_bytes, expect_bytes) = (device.len(), member.device().len());
    if have_bytes != expect_bytes {
        let path = member.path().to_owned();
        return Err(DeviceError::Resized { path, have_bytes, expect_bytes }.into());
    }
    superblocks.compare_with(member)
}
