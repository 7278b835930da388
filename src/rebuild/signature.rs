//! What may already be on a device: the signatures of file systems, containers and partition tables, at their places.
//!
//! Only to refuse: a signature that is not known here says nothing. Places as in the headers that the kernel and util-linux
//! read.

use crate::device::ReadDevice;
use crate::units::Physical;

/// Where a signature stands: from the start, or before the end of the device.
struct Signature {
    at: u64,
    bytes: &'static [u8],
    what: &'static str,
}

const fn signature(at: u64, bytes: &'static [u8], what: &'static str) -> Signature {
    Signature { at, bytes, what }
}

const MD_MAGIC: &[u8] = &[0xfc, 0x4e, 0x2b, 0xa9];

const SIGNATURES: [Signature; 32] = [
    signature(0, b"LUKS\xba\xbe", "a LUKS container"),
    signature(0, b"SKUL\xba\xbe", "a LUKS container"),
    signature(16384, b"SKUL\xba\xbe", "a LUKS container"),
    signature(0, b"XFSB", "an XFS file system"),
    signature(0, b"QFI\xfb", "a qcow2 image"),
    signature(0, b"KDMV", "a VMDK image"),
    signature(0, b"vhdxfile", "a VHDX image"),
    signature(0, b"hsqs", "a squashfs file system"),
    signature(0, MD_MAGIC, "an md member"),
    signature(4096, MD_MAGIC, "an md member"),
    signature(24, b"LVM2 001", "an LVM physical volume"),
    signature(512 + 24, b"LVM2 001", "an LVM physical volume"),
    signature(1024 + 24, b"LVM2 001", "an LVM physical volume"),
    signature(1536 + 24, b"LVM2 001", "an LVM physical volume"),
    signature(3, b"NTFS    ", "an NTFS file system"),
    signature(3, b"EXFAT   ", "an exFAT file system"),
    signature(0x36, b"FAT1", "a FAT file system"),
    signature(0x52, b"FAT32   ", "a FAT file system"),
    signature(512, b"EFI PART", "a GPT partition table"),
    signature(4096, b"EFI PART", "a GPT partition table"),
    signature(1024, &[0xe2, 0xe1, 0xf5, 0xe0], "an EROFS file system"),
    signature(1024, &[0x10, 0x20, 0xf5, 0xf2], "an F2FS file system"),
    signature(1080, &[0x53, 0xef], "an ext2, ext3 or ext4 file system"),
    signature(4086, b"SWAPSPACE2", "swap space"),
    signature(65526, b"SWAPSPACE2", "swap space"),
    signature(4096 + 24, &[0xc6, 0x85, 0x73, 0xf6, 0x4e, 0x1a, 0x45, 0xca], "a bcache or bcachefs device"),
    signature(32768, b"JFS1", "a JFS file system"),
    signature(32769, b"CD001", "an ISO 9660 file system"),
    signature(65536 + 52, b"ReIsEr", "a reiserfs file system"),
    signature(131_072, &[0x0c, 0xb1, 0xba, 0x00], "a ZFS device"),
    signature(131_072, &[0x00, 0x00, 0x00, 0x00, 0x00, 0xba, 0xb1, 0x0c], "a ZFS device"),
    signature(0, b"btrfs-stream\0", "a btrfs send stream"),
];

/// The length of what is looked at from the start: past the last signature.
const HEAD_BYTES: usize = 256 << 10;

/// What is known to be on the device, and where.
pub(super) fn signature_on(device: &dyn ReadDevice) -> Option<(&'static str, Physical)> {
    let mut head = vec![0; (device.len().min(HEAD_BYTES as u64)) as usize];
    // What cannot be read is found out by writing.
    device.read_at(Physical::new(0), &mut head).ok()?;
    let has = |s: &&Signature| head.get(s.at as usize..).is_some_and(|rest| rest.starts_with(s.bytes));
    let from_start = SIGNATURES.iter().find(has).map(|s| (s.what, Physical::new(s.at)));
    let table = || partition_table(&head).then_some(("a partition table", Physical::new(510)));
    from_start.or_else(table).or_else(|| at_end(device))
}

/// An MBR with at least one partition; the two bytes at its end alone are also in boot sectors that are nothing more.
fn partition_table(head: &[u8]) -> bool {
    let kinds = (0..4).filter_map(|nth| head.get(446 + nth * 16 + 4));
    head.get(510..512) == Some(&[0x55, 0xaa]) && kinds.into_iter().any(|kind| *kind != 0)
}

/// md super blocks 1.0 and 0.90, and the second GPT.
fn at_end(device: &dyn ReadDevice) -> Option<(&'static str, Physical)> {
    let len = device.len();
    let md_10 = (len / 512).checked_sub(16).map(|sector| (sector & !7) * 512);
    let md_090 = (len & !0xffff).checked_sub(0x1_0000);
    let gpt = len.checked_sub(512);
    let places = [
        (md_10, MD_MAGIC, "an md member"),
        (md_090, MD_MAGIC, "an md member"),
        (gpt, b"EFI PART", "a GPT partition table"),
    ];
    places.into_iter().find_map(|(at, magic, what)| {
        let at = Physical::new(at?);
        let mut bytes = vec![0; magic.len()];
        device.read_at(at, &mut bytes).ok()?;
        (bytes == magic).then_some((what, at))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::MemoryDevice;

    #[test]
    fn every_signature_is_found_at_its_place() {
        for signature in &SIGNATURES {
            let mut bytes = vec![0; 1 << 20];
            let at = signature.at as usize;
            bytes[at..at + signature.bytes.len()].copy_from_slice(signature.bytes);
            let found = signature_on(&MemoryDevice::new(bytes)).map(|(what, _)| what);
            assert_eq!(found, Some(signature.what), "{at}");
        }
        assert_eq!(signature_on(&MemoryDevice::new(vec![0; 1 << 20])), None);
    }

    #[test]
    fn what_stands_at_the_end_is_found_as_well() {
        let len = (1 << 20) + 4096;
        for at in [len - 8192, (len & !0xffff) - 0x1_0000] {
            let mut bytes = vec![0; len];
            bytes[at..at + 4].copy_from_slice(MD_MAGIC);
            assert_eq!(signature_on(&MemoryDevice::new(bytes)), Some(("an md member", Physical::new(at as u64))));
        }
        let mut bytes = vec![0; len];
        bytes[len - 512..len - 504].copy_from_slice(b"EFI PART");
        assert!(signature_on(&MemoryDevice::new(bytes)).is_some());
    }
}
