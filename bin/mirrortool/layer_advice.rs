//! The way out where something is not btrfs itself: the command that opens what it is, or what else can be done.

use crate::advice;
use mirrortool::format::Signature;
use mirrortool::stack::StackError;

/// How what is recognised and not read can be opened; `DEVICE` and `IMAGE` stand for what was given.
pub(crate) fn to_open(what: Signature) -> &'static str {
    match what {
        Signature::Luks => "open it: cryptsetup open --readonly IMAGE NAME, then give /dev/mapper/NAME",
        Signature::BitLocker => {
            "open it: cryptsetup open --type bitlk --readonly IMAGE NAME, then give /dev/mapper/NAME"
        }
        Signature::Bcache => {
            "bcache: the file system begins 8 KiB or more behind; attach it (echo DEVICE > /sys/fs/bcache/register) and give /dev/bcacheN"
        }
        Signature::Md => "an md super block that cannot be used; see: mdadm --examine IMAGE",
        Signature::Ddf | Signature::Imsm => "assemble it: mdadm --assemble --scan --readonly, then give /dev/md/NAME",
        Signature::Lvm => {
            "an LVM label that cannot be used; see: pvck IMAGE, or activate it (vgchange -ay) and give /dev/VG/LV"
        }
        Signature::Vdo => "start it: vdo start, or lvchange -ay for LVM-VDO, then give the volume",
        Signature::PartitionTable => {
            "no partition of it holds btrfs; give the partition: losetup --partscan --read-only --find --show IMAGE"
        }
        Signature::Qcow2 | Signature::Qcow1 | Signature::Qed => {
            "attach it: qemu-nbd --read-only --connect=/dev/nbd0 IMAGE, and give /dev/nbd0; or: qemu-img convert -O raw IMAGE FILE"
        }
        Signature::Vmdk => {
            "attach it: qemu-nbd --read-only --format=vmdk --connect=/dev/nbd0 IMAGE, and give /dev/nbd0"
        }
        Signature::Vdi => "attach it: qemu-nbd --read-only --format=vdi --connect=/dev/nbd0 IMAGE, and give /dev/nbd0",
        Signature::Vhdx => {
            "attach it: qemu-nbd --read-only --format=vhdx --connect=/dev/nbd0 IMAGE, and give /dev/nbd0"
        }
        Signature::Vhd => "attach it: qemu-nbd --read-only --format=vpc --connect=/dev/nbd0 IMAGE, and give /dev/nbd0",
        Signature::Zstd => "unpack it: zstd -d IMAGE",
        Signature::Gzip => "unpack it: gunzip IMAGE",
        Signature::Xz => "unpack it: unxz IMAGE",
        Signature::Bzip2 => "unpack it: bunzip2 IMAGE",
        Signature::Lz4 => "unpack it: lz4 -d IMAGE",
        Signature::Tar => "unpack it: tar --extract --sparse --file=IMAGE",
        Signature::BtrfsImage => "restore it: btrfs-image -r IMAGE FILE, then give FILE (it has no data)",
        Signature::SendStream => "receive it: btrfs receive -f IMAGE DIRECTORY, on a btrfs",
        Signature::Ext => "it is not for this program; see: e2fsck -n IMAGE",
        Signature::Xfs => "it is not for this program; see: xfs_repair -n IMAGE",
        Signature::Zfs => "it is not for this program; see: zpool import -d IMAGE, zpool scrub",
        Signature::Bcachefs => "it is not for this program; see: bcachefs fsck -n IMAGE",
        _ => "it is not for this program; leave it out",
    }
}

/// For layers that could not be put together.
pub(crate) fn for_stack(error: &StackError) -> Option<&'static str> {
    match error {
        StackError::Several(_) => Some("choose one: --partition N, or --lv VG/LV"),
        StackError::NoSuch { .. } => Some("see what there is: mirrortool show IMAGE..., without --partition and --lv"),
        StackError::NoBtrfs { what: Some(what), .. } => Some(to_open(*what)),
        StackError::NoBtrfs { what: None, .. } => {
            Some("give the members that are still missing; blkid tells what it holds")
        }
        StackError::SameFile { .. } => Some("give each member once"),
        StackError::MdTwins { .. } => Some("one is a copy of the other, or both are one disk; leave one out"),
        StackError::MdTooFew { .. } => Some("give the members that are still missing; see: mdadm --examine IMAGE"),
        StackError::MdRaid0Layout { .. } => {
            Some("say it once with the kernel: mdadm --assemble --update=layout-original or layout-alternate")
        }
        StackError::Lvm { .. } => {
            Some("give the physical volumes that are still missing, or activate it: vgchange -ay")
        }
        StackError::Device(error) => advice::for_device(error),
        _ => None,
    }
}
