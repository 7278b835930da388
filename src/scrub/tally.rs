//! The counters of a scrub: the kernel's fifteen by their names and units (include/uapi/linux/btrfs.h,
//! `btrfs_scrub_progress`), and ours beside them.

/// Counts of one device or of a whole run. The kernel's error counters are in sectors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Pieces of data extents seen (an extent counts once per 64 KiB stripe it touches).
    pub data_extents_scrubbed: u64,
    /// Pieces of tree extents seen.
    pub tree_extents_scrubbed: u64,
    /// Bytes of data read.
    pub data_bytes_scrubbed: u64,
    /// Bytes of tree blocks read.
    pub tree_bytes_scrubbed: u64,
    /// Sectors the device could not read.
    pub read_errors: u64,
    /// Data sectors with a bad checksum.
    pub csum_errors: u64,
    /// Sectors of tree blocks that do not verify.
    pub verify_errors: u64,
    /// Data sectors without a checksum.
    pub no_csum: u64,
    /// Checksums without an extent.
    pub csum_discards: u64,
    /// Bad super block copies.
    pub super_errors: u64,
    /// Allocation failures; always 0 here, kept because the kernel prints it.
    pub malloc_errors: u64,
    /// Bad sectors that no copy and no reconstruction can replace.
    pub uncorrectable_errors: u64,
    /// Bad sectors that turned out good when read again.
    pub unverified_errors: u64,
    /// Bad sectors that were written and read back.
    pub corrected_errors: u64,
    /// The highest physical address reached.
    pub last_physical: u64,

    /// Bad sectors with a source that verifies, not written.
    pub correctable_errors: u64,
    /// Sectors without checksum whose copies are not equal.
    pub nodatasum_mismatch: u64,
    /// 64 KiB parity stripes that do not fit their data.
    pub parity_errors: u64,
    /// Repaired blocks that were read back and verified.
    pub repaired_verified: u64,
    /// Repairs that could not be written or did not read back.
    pub repair_write_failed: u64,
}

impl Counters {
    /// How many of [`Self::NAMES`] are the kernel's.
    pub const KERNEL: usize = 15;

    /// The names of all counters, in the order they are printed; the first fifteen are the kernel's.
    pub const NAMES: [&'static str; 20] = [
        "data_extents_scrubbed",
        "tree_extents_scrubbed",
        "data_bytes_scrubbed",
        "tree_bytes_scrubbed",
        "read_errors",
        "csum_errors",
        "verify_errors",
        "no_csum",
        "csum_discards",
        "super_errors",
        "malloc_errors",
        "uncorrectable_errors",
        "unverified_errors",
        "corrected_errors",
        "last_physical",
        "correctable_errors",
        "nodatasum_mismatch",
        "parity_errors",
        "repaired_verified",
        "repair_write_failed",
    ];

    /// The values in the order of [`Self::NAMES`].
    pub fn values(&self) -> [u64; 20] {
        [
            self.data_extents_scrubbed,
            self.tree_extents_scrubbed,
            self.data_bytes_scrubbed,
            self.tree_bytes_scrubbed,
            self.read_errors,
            self.csum_errors,
            self.verify_errors,
            self.no_csum,
            self.csum_discards,
            self.super_errors,
            self.malloc_errors,
            self.uncorrectable_errors,
            self.unverified_errors,
            self.corrected_errors,
            self.last_physical,
            self.correctable_errors,
            self.nodatasum_mismatch,
            self.parity_errors,
            self.repaired_verified,
            self.repair_write_failed,
        ]
    }

    /// The counters from values in the order of [`Self::NAMES`].
    pub fn from_values(v: [u64; 20]) -> Self {
        Self {
            data_extents_scrubbed: v[0],
            tree_extents_scrubbed: v[1],
            data_bytes_scrubbed: v[2],
            tree_bytes_scrubbed: v[3],
            read_errors: v[4],
            csum_errors: v[5],
            verify_errors: v[6],
            no_csum: v[7],
            csum_discards: v[8],
            super_errors: v[9],
            malloc_errors: v[10],
            uncorrectable_errors: v[11],
            unverified_errors: v[12],
            corrected_errors: v[13],
            last_physical: v[14],
            correctable_errors: v[15],
            nodatasum_mismatch: v[16],
            parity_errors: v[17],
            repaired_verified: v[18],
            repair_write_failed: v[19],
        }
    }

    /// Adds another set of counts; `last_physical` is the greater of the two.
    pub fn add(&mut self, other: &Self) {
        let (mine, theirs) = (self.values(), other.values());
        let mut sum: [u64; 20] = std::array::from_fn(|i| mine[i].saturating_add(theirs[i]));
        sum[14] = mine[14].max(theirs[14]);
        *self = Self::from_values(sum);
    }
}
