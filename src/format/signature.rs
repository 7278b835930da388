//! What else than btrfs a device or file may hold: told by the magic numbers of file systems, encryption, virtual disks
//! and packers.
//!
//! Names things, and nothing more: whether they can be read is for others to say. The numbers are those that each
//! format's own description gives; libblkid knows the same.

use thiserror::Error;

/// Something that is known by its first bytes, or its last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the names are those of the formats")]
pub enum Signature {
    #[error("LUKS (encrypted)")]
    Luks,
    #[error("BitLocker (encrypted)")]
    BitLocker,
    #[error("bcache")]
    Bcache,
    #[error("an md member (Linux software RAID)")]
    Md,
    #[error("a DDF RAID member")]
    Ddf,
    #[error("an Intel RAID (IMSM) member")]
    Imsm,
    #[error("an LVM physical volume")]
    Lvm,
    #[error("VDO")]
    Vdo,
    #[error("a whole disk with a partition table")]
    PartitionTable,
    #[error("a qcow2 disk image")]
    Qcow2,
    #[error("a qcow (version 1) disk image")]
    Qcow1,
    #[error("a QED disk image")]
    Qed,
    #[error("a VMDK disk image")]
    Vmdk,
    #[error("a VDI disk image")]
    Vdi,
    #[error("a VHDX disk image")]
    Vhdx,
    #[error("a VHD disk image")]
    Vhd,
    #[error("zstd-compressed")]
    Zstd,
    #[error("gzip-compressed")]
    Gzip,
    #[error("xz-compressed")]
    Xz,
    #[error("bzip2-compressed")]
    Bzip2,
    #[error("lz4-compressed")]
    Lz4,
    #[error("a tar archive")]
    Tar,
    #[error("a btrfs-image dump")]
    BtrfsImage,
    #[error("a btrfs send stream")]
    SendStream,
    #[error("ext2, ext3 or ext4")]
    Ext,
    #[error("XFS")]
    Xfs,
    #[error("ZFS")]
    Zfs,
    #[error("bcachefs")]
    Bcachefs,
    #[error("F2FS")]
    F2fs,
    #[error("NTFS")]
    Ntfs,
    #[error("exFAT")]
    ExFat,
    #[error("FAT")]
    Fat,
    #[error("swap space")]
    Swap,
    #[error("ISO 9660")]
    Iso9660,
    #[error("squashfs")]
    Squashfs,
    #[error("EROFS")]
    Erofs,
    #[error("ReiserFS")]
    ReiserFs,
    #[error("JFS")]
    Jfs,
}

/// Magic bytes at a place from the start.
const AT_START: &[(Signature, u64, &[u8])] = &[
    (Signature::Luks, 0, b"LUKS\xba\xbe"),
    (Signature::BitLocker, 3, b"-FVE-FS-"),
    (Signature::Bcache, 4096 + 24, b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81"),
    (Signature::Bcachefs, 4096 + 24, b"\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef"),
    (Signature::Vdo, 0, b"dmvdo001"),
    (Signature::Qcow2, 0, b"QFI\xfb\x00\x00\x00\x02"),
    (Signature::Qcow2, 0, b"QFI\xfb\x00\x00\x00\x03"),
    (Signature::Qcow1, 0, b"QFI\xfb\x00\x00\x00\x01"),
    (Signature::Qed, 0, b"QED\x00"),
    (Signature::Vmdk, 0, b"KDMV"),
    (Signature::Vmdk, 0, b"COWD"),
    (Signature::Vmdk, 0, b"# Disk DescriptorFile"),
    (Signature::Vdi, 64, b"\x7f\x10\xda\xbe"),
    (Signature::Vhdx, 0, b"vhdxfile"),
    (Signature::Vhd, 0, b"conectix"),
    (Signature::Zstd, 0, b"\x28\xb5\x2f\xfd"),
    (Signature::Gzip, 0, b"\x1f\x8b\x08"),
    (Signature::Xz, 0, b"\xfd7zXZ\x00"),
    (Signature::Bzip2, 0, b"BZh"),
    (Signature::Lz4, 0, b"\x04\x22\x4d\x18"),
    (Signature::BtrfsImage, 0, b"\x8b\x66\x95\x72\xe2\x25\x5c\xbd"),
    (Signature::SendStream, 0, b"btrfs-stream\x00"),
    (Signature::Ext, 1080, b"\x53\xef"),
    (Signature::Xfs, 0, b"XFSB"),
    (Signature::F2fs, 1024, b"\x10\x20\xf5\xf2"),
    (Signature::Ntfs, 3, b"NTFS    "),
    (Signature::ExFat, 3, b"EXFAT   "),
    (Signature::Fat, 54, b"FAT1"),
    (Signature::Fat, 82, b"FAT32   "),
    (Signature::Swap, 4086, b"SWAPSPACE2"),
    (Signature::Squashfs, 0, b"hsqs"),
    (Signature::Erofs, 1024, b"\xe2\xe1\xf5\xe0"),
    (Signature::ReiserFs, 65536 + 52, b"ReIsEr"),
    (Signature::Jfs, 32768, b"JFS1"),
    (Signature::Iso9660, 32769, b"CD001"),
    (Signature::Tar, 257, b"ustar"),
];

/// The magic of an md super block, as it lies on a little-endian disk and on a big-endian one.
const MD_MAGIC: [[u8; 4]; 2] = [[0xfc, 0x4e, 0x2b, 0xa9], [0xa9, 0x2b, 0x4e, 0xfc]];

/// Bytes from the start that are looked at.
const HEAD_BYTES: u64 = 68 << 10;
/// Bytes from the end that are looked at: the md super block of version 0.90 is up to 128 KiB before it.
const TAIL_BYTES: u64 = 128 << 10;

/// What a device of `len` bytes holds; `read` gives the bytes of a range, or nothing where they cannot be read. Of things
/// that lie below others, the lowest is told: it has to be opened first.
pub fn recognise(len: u64, read: impl Fn(u64, usize) -> Option<Vec<u8>>) -> Option<Signature> {
    let head = read(0, HEAD_BYTES.min(len) as usize)?;
    let tail_len = TAIL_BYTES.min(len);
    let tail = read(len - tail_len, tail_len as usize).unwrap_or_default();
    let has = |at: u64, magic: &[u8]| {
        usize::try_from(at).is_ok_and(|at| head.get(at..).is_some_and(|rest| rest.starts_with(magic)))
    };
    let at_end = |back: u64, magic: &[u8]| {
        tail_len.checked_sub(back).is_some_and(|at| tail.get(at as usize..).is_some_and(|rest| rest.starts_with(magic)))
    };
    let sectors = len / 512;
    let md_places = [
        Some(0),
        Some(4096),
        sectors.checked_sub(16).map(|at| (at & !7) * 512),
        (sectors & !127).checked_sub(128).map(|at| at * 512),
    ];
    let is_md = |at: &u64| read(*at, 4).is_some_and(|magic| MD_MAGIC.iter().any(|known| magic == known[..]));
    if let Some((found, ..)) = AT_START.iter().take(3).find(|(_, at, magic)| has(*at, magic)) {
        return Some(*found);
    }
    if md_places.into_iter().flatten().any(|at| is_md(&at)) {
        return Some(Signature::Md);
    }
    if at_end(512, b"\xde\x11\xde\x11") || at_end(512, b"\x11\xde\x11\xde") {
        return Some(Signature::Ddf);
    }
    if at_end(1024, b"Intel Raid ISM Cfg Sig. ") {
        return Some(Signature::Imsm);
    }
    if (0..4).any(|sector| has(sector * 512, b"LABELONE") && has(sector * 512 + 24, b"LVM2 001")) {
        return Some(Signature::Lvm);
    }
    if let Some((found, ..)) = AT_START.iter().find(|(_, at, magic)| has(*at, magic)) {
        return Some(*found);
    }
    if is_zfs(&head) {
        return Some(Signature::Zfs);
    }
    if at_end(512, b"conectix") {
        return Some(Signature::Vhd);
    }
    let is_partitioned = has(512, b"EFI PART") || has(4096, b"EFI PART") || is_mbr(&head);
    is_partitioned.then_some(Signature::PartitionTable)
}

/// A ring of uber blocks begins at 128 KiB; the pairs of names and values before it tell it as well.
fn is_zfs(head: &[u8]) -> bool {
    head.get(16 << 10..20 << 10).is_some_and(|pairs| {
        let holds = |word: &[u8]| pairs.windows(word.len()).any(|part| part == word);
        holds(b"pool_guid") && holds(b"vdev_tree")
    })
}

/// A boot sector's mark, and at least one entry that makes sense.
fn is_mbr(head: &[u8]) -> bool {
    let marked = head.get(510..512).is_some_and(|mark| mark == [0x55, 0xaa]);
    let entry = |nth: usize| head.get(446 + 16 * nth..462 + 16 * nth);
    let makes_sense =
        |entry: &[u8]| matches!(entry, [status, _, _, _, kind, ..] if *kind != 0 && matches!(status, 0 | 0x80));
    marked && (0..4).filter_map(entry).any(makes_sense)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(bytes: &[u8]) -> Option<Signature> {
        recognise(bytes.len() as u64, |at, len| bytes.get(at as usize..at as usize + len).map(<[u8]>::to_vec))
    }

    #[test]
    fn each_magic_is_told_in_its_place_and_not_beside_it() {
        for (signature, at, magic) in AT_START {
            let mut bytes = vec![0; 1 << 20];
            bytes[*at as usize..*at as usize + magic.len()].copy_from_slice(magic);
            assert_eq!(of(&bytes), Some(*signature), "{signature}");
            bytes[*at as usize + magic.len() - 1] ^= 0xff;
            assert_eq!(of(&bytes), None, "{signature} with a flipped byte");
        }
    }

    #[test]
    fn an_md_super_block_is_told_in_all_four_places() {
        for at in [0, 4096, (1 << 20) - 8192, (1 << 20) - 65536] {
            let mut bytes = vec![0; 1 << 20];
            bytes[at..at + 4].copy_from_slice(&MD_MAGIC[0]);
            assert_eq!(of(&bytes), Some(Signature::Md), "{at}");
        }
    }

    #[test]
    fn files_of_any_length_are_looked_at() {
        for len in 0..600 {
            assert_eq!(of(&vec![0; len]), None);
        }
        assert_eq!(of(b"\x28\xb5\x2f\xfd"), Some(Signature::Zstd));
    }
}
