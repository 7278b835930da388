//! LVM2: from physical volumes to the logical volumes in them, linear and striped.
//!
//! Decides which copy of the metadata counts (of those that verify, the one with the highest sequence number) and where
//! the extents of a volume are. Everything else that LVM can do is refused by its name. Never writes. LVM2's
//! `lib/format_text/{text_label,format-text,import_vsn1}.c`.

mod label;
mod text;

pub(super) use self::label::{Physical, probe};

use self::text::{Section, Value};
use super::node::{Linear, Node, Stretch, Striped};
use std::collections::BTreeMap;
use std::sync::Arc;
use thiserror::Error;

/// Extents of a sector.
const SECTOR_BYTES: u64 = 512;
/// Segments of a volume.
const MAX_SEGMENTS: u64 = 65536;

/// Why a volume group or volume cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LvmError {
    /// No copy of the metadata verifies.
    #[error("no copy of the volume group's metadata is intact")]
    NoMetadata,
    /// A number is missing or makes no sense.
    #[error("volume group {vg}: {what} makes no sense")]
    Field {
        /// The volume group.
        vg: String,
        /// What.
        what: &'static str,
    },
    /// It needs a physical volume that was not given.
    #[error("logical volume {vg}/{lv} needs the physical volume {id}, which was not given")]
    MissingPhysical {
        /// The volume group.
        vg: String,
        /// The volume.
        lv: String,
        /// The id of the physical volume.
        id: String,
    },
    /// Something that is not read.
    #[error("logical volume {vg}/{lv} is of type {kind}")]
    Kind {
        /// The volume group.
        vg: String,
        /// The volume.
        lv: String,
        /// thin, cache, raid1, snapshot and so on.
        kind: String,
    },
    /// Two physical volumes with one id.
    #[error("two physical volumes have the id {id}")]
    Twins {
        /// Of both.
        id: String,
    },
}

/// A logical volume that can be read.
pub(super) struct Logical {
    pub(super) vg: String,
    pub(super) lv: String,
    pub(super) node: Arc<dyn Node>,
    /// The physical volumes that it lies on, by number.
    pub(super) physical: Vec<usize>,
}

/// The volumes in these physical volumes, and what could not be used, by the number of a physical volume.
pub(super) fn activate(volumes: &[(Physical, Arc<dyn Node>)]) -> (Vec<Logical>, Vec<(usize, LvmError)>) {
    let (mut found, mut failures) = (Vec::new(), Vec::new());
    let mut by_id: BTreeMap<&str, usize> = BTreeMap::new();
    for (nth, (physical, _)) in volumes.iter().enumerate() {
        if by_id.insert(&physical.id, nth).is_some() {
            failures.push((nth, LvmError::Twins { id: physical.id.clone() }));
        }
    }
    if !failures.is_empty() {
        return (found, failures);
    }
    // Every physical volume may have a copy; of each group the newest counts.
    let mut groups: BTreeMap<String, (u64, usize, Section)> = BTreeMap::new();
    for (nth, (physical, node)) in volumes.iter().enumerate() {
        for text in label::metadata(physical, &**node) {
            let Some((name, group)) = text::parse(&text).and_then(group_of) else { continue };
            let sequence = group.number("seqno").unwrap_or_default();
            if groups.get(&name).is_none_or(|(newest, ..)| *newest < sequence) {
                groups.insert(name, (sequence, nth, group));
            }
        }
    }
    for (nth, (physical, _)) in volumes.iter().enumerate() {
        let is_known = groups.values().any(|(.., group)| ids(group).any(|(_, id)| id == physical.id));
        if !is_known {
            failures.push((nth, LvmError::NoMetadata));
        }
    }
    for (vg, (_, nth, group)) in &groups {
        let group = Group { vg, section: group, volumes, by_id: &by_id };
        let Some(all) = group.section.section("logical_volumes") else { continue };
        for (lv, section) in all.sections() {
            // Parts of other volumes (thin data, cache, mirror legs) are not volumes of their own.
            if !section.has_flag("status", "VISIBLE") {
                continue;
            }
            match group.volume(lv, section) {
                Ok(volume) => found.push(volume),
                Err(why) => failures.push((*nth, why)),
            }
        }
    }
    (found, failures)
}

/// The one section of the top that describes a group.
fn group_of(top: Section) -> Option<(String, Section)> {
    top.into_sections().find(|(_, section)| section.section("physical_volumes").is_some())
}

/// The names that a group gives its physical volumes, and their ids without hyphens.
fn ids(group: &Section) -> impl Iterator<Item = (&str, String)> {
    let all = group.section("physical_volumes").into_iter().flat_map(Section::sections);
    all.filter_map(|(name, section)| Some((name, section.text("id")?.replace('-', ""))))
}

struct Group<'a> {
    vg: &'a str,
    section: &'a Section,
    volumes: &'a [(Physical, Arc<dyn Node>)],
    by_id: &'a BTreeMap<&'a str, usize>,
}

impl Group<'_> {
    fn bad(&self, what: &'static str) -> LvmError {
        LvmError::Field { vg: self.vg.to_owned(), what }
    }

    fn volume(&self, lv: &str, section: &Section) -> Result<Logical, LvmError> {
        let extent_bytes = self.section.number("extent_size").and_then(|sectors| sectors.checked_mul(SECTOR_BYTES));
        let extent_bytes = extent_bytes.filter(|bytes| *bytes > 0).ok_or_else(|| self.bad("extent_size"))?;
        let count = section.number("segment_count").filter(|count| (1..=MAX_SEGMENTS).contains(count));
        let count = count.ok_or_else(|| self.bad("segment_count"))?;
        let (mut stretches, mut next, mut used) = (Vec::new(), 0, Vec::new());
        for nth in 1..=count {
            let segment = section.section(&format!("segment{nth}")).ok_or_else(|| self.bad("segment"))?;
            let kind = segment.text("type").unwrap_or_default();
            if !matches!(kind, "striped" | "linear") {
                let (vg, lv, kind) = (self.vg.to_owned(), lv.to_owned(), kind.to_owned());
                return Err(LvmError::Kind { vg, lv, kind });
            }
            if segment.number("start_extent") != Some(next) {
                return Err(self.bad("start_extent"));
            }
            let extents = segment.number("extent_count").filter(|count| *count > 0);
            let extents = extents.ok_or_else(|| self.bad("extent_count"))?;
            let node = self.segment(lv, segment, extents, extent_bytes, &mut used)?;
            stretches.push(Stretch { len_bytes: node.len(), node, from: 0 });
            next = next.checked_add(extents).ok_or_else(|| self.bad("extent_count"))?;
        }
        used.sort_unstable();
        used.dedup();
        let node = Linear::new(stretches).ok_or_else(|| self.bad("segment"))?;
        Ok(Logical { vg: self.vg.to_owned(), lv: lv.to_owned(), node: Arc::new(node), physical: used })
    }

    fn segment(
        &self,
        lv: &str,
        segment: &Section,
        extents: u64,
        extent_bytes: u64,
        used: &mut Vec<usize>,
    ) -> Result<Arc<dyn Node>, LvmError> {
        let stripes = segment.list("stripes").unwrap_or_default();
        let columns = stripes.len() as u64 / 2;
        let is_whole = columns > 0 && segment.number("stripe_count").is_none_or(|count| count == columns);
        if !is_whole || !extents.is_multiple_of(columns) {
            return Err(self.bad("stripes"));
        }
        let column_bytes = (extents / columns).checked_mul(extent_bytes).ok_or_else(|| self.bad("extent_count"))?;
        let mut places = Vec::new();
        for stripe in stripes.chunks_exact(2) {
            let [Value::Text(name), Value::Number(extent)] = stripe else { return Err(self.bad("stripes")) };
            let (nth, pe_start) = self.physical(lv, name)?;
            let from = extent.checked_mul(extent_bytes).and_then(|bytes| bytes.checked_add(pe_start));
            let from = from.ok_or_else(|| self.bad("stripes"))?;
            let (_, node) = self.volumes.get(nth).ok_or_else(|| self.bad("stripes"))?;
            used.push(nth);
            places.push((Arc::clone(node), from));
        }
        let made: Option<Arc<dyn Node>> = match places.pop() {
            Some((node, from)) if places.is_empty() => {
                Linear::new(vec![Stretch { len_bytes: column_bytes, node, from }]).map(|n| Arc::new(n) as Arc<dyn Node>)
            }
            last => {
                places.extend(last);
                let strip_bytes = segment.number("stripe_size").and_then(|sectors| sectors.checked_mul(SECTOR_BYTES));
                Striped::new(places, strip_bytes.unwrap_or_default(), column_bytes, None, 0)
                    .map(|n| Arc::new(n) as Arc<dyn Node>)
            }
        };
        made.ok_or_else(|| self.bad("stripes"))
    }

    /// The number of the physical volume that the group calls `name`, and where its extents begin.
    fn physical(&self, lv: &str, name: &str) -> Result<(usize, u64), LvmError> {
        let id = ids(self.section).find(|(other, _)| *other == name).map(|(_, id)| id);
        let id = id.ok_or_else(|| self.bad("stripes"))?;
        let missing = || LvmError::MissingPhysical { vg: self.vg.to_owned(), lv: lv.to_owned(), id: id.clone() };
        let nth = *self.by_id.get(id.as_str()).ok_or_else(missing)?;
        let section = self.section.section("physical_volumes").and_then(|all| all.section(name));
        let start = section.and_then(|s| s.number("pe_start")).and_then(|sectors| sectors.checked_mul(SECTOR_BYTES));
        Ok((nth, start.ok_or_else(|| self.bad("pe_start"))?))
    }
}
