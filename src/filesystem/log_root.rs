//! Which log tree there is, by the super blocks of all members together.
//!
//! A log commit writes the first super block copy of each member and no other, and leaves the generation as it is
//! (kernel: `btrfs_sync_log` in fs/btrfs/tree-log.c, `write_all_supers`). So of super blocks of one generation the first
//! copies alone can tell, and any of them can: one without a log has missed the write. What a damaged first copy names
//! counts where the block it points to is the root of a log of this transaction, and where it is not, nobody knows.

use super::Filesystem;
use crate::format::types::object;
use crate::format::{SUPERBLOCK_BYTES, Superblock, TreeRoot as SuperRoot};
use crate::tree::{BlockSource, TreeRoot};
use crate::units::Logical;
use crate::volume::Member;
use std::collections::BTreeMap;

/// The log tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogRoot {
    /// There is none: all was committed.
    None,
    /// The tree of logs, which is there.
    At(SuperRoot),
    /// Intact first copies name these, none of which is there.
    Lost(Vec<SuperRoot>),
    /// Damaged first copies name these, none of which is there: nobody knows whether there is a log.
    Unknown(Vec<SuperRoot>),
}

impl LogRoot {
    /// True where no member names a log.
    pub fn is_none(&self) -> bool {
        *self == Self::None
    }

    /// What a first super block copy must name: a log or none. `None` where nobody knows.
    #[allow(clippy::option_option, reason = "unknown; known to be none, or this one")]
    pub fn known(&self) -> Option<Option<SuperRoot>> {
        match self {
            Self::None => Some(None),
            Self::At(root) => Some(Some(*root)),
            Self::Lost(_) | Self::Unknown(_) => None,
        }
    }

    /// The trees of logs to be read.
    pub(super) fn roots(&self) -> Vec<TreeRoot> {
        match self {
            Self::At(root) => vec![tree_root(*root)],
            Self::Lost(named) => named.iter().copied().map(tree_root).collect(),
            Self::None | Self::Unknown(_) => Vec::new(),
        }
    }

    /// Asks the current members of `fs`, whose trees can be read.
    pub(super) fn find(fs: &Filesystem) -> Self {
        let newest = fs.superblock();
        let current = || fs.members().filter(|m| !m.is_seed() && m.generation() == newest.generation());
        let named = distinct(current().filter_map(|member| named_by(member, newest)));
        let claimed = distinct(current().filter_map(|member| claimed_by(member, newest)));
        match last_that_verifies(fs, &named).or_else(|| last_that_verifies(fs, &claimed)) {
            Some(root) => Self::At(root),
            None if !named.is_empty() => Self::Lost(named),
            None if !claimed.is_empty() => Self::Unknown(claimed),
            None => Self::None,
        }
    }
}

/// The log root of an intact first copy of the newest generation.
fn named_by(member: &Member, newest: &Superblock) -> Option<SuperRoot> {
    let first = member.superblock_copies().first()?.state.as_ref().ok()?;
    let is_current = first.fsid() == newest.fsid() && first.generation() == newest.generation();
    first.log_root().filter(|_| is_current)
}

/// The log root in the bytes of a first copy that is damaged.
fn claimed_by(member: &Member, newest: &Superblock) -> Option<SuperRoot> {
    let first = member.superblock_copies().first()?;
    if first.state.is_ok() {
        return None;
    }
    let mut bytes = vec![0; SUPERBLOCK_BYTES];
    member.device().read_at(first.at, &mut bytes).ok()?;
    newest.log_root_of_damaged(&bytes)
}

/// Each once, by address: of two logs of one transaction the later one lies higher, as a rule, and both are whole.
fn distinct(roots: impl Iterator<Item = SuperRoot>) -> Vec<SuperRoot> {
    let by_place: BTreeMap<(Logical, u8), SuperRoot> = roots.map(|root| ((root.bytenr, root.level), root)).collect();
    by_place.into_values().collect()
}

fn last_that_verifies(fs: &Filesystem, roots: &[SuperRoot]) -> Option<SuperRoot> {
    let verifies = |root: &&SuperRoot| {
        let root = tree_root(**root);
        fs.read_block(root.at, &root.check()).is_ok()
    };
    roots.iter().rev().find(verifies).copied()
}

fn tree_root(log: SuperRoot) -> TreeRoot {
    TreeRoot { id: object::TREE_LOG, at: log.bytenr, level: log.level, generation: Some(log.generation) }
}
