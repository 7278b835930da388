#!/bin/bash
# Makes a file system as in the list thread on the removal of metadata readahead (linux-btrfs, December 2021), scaled
# down: data single, metadata dup, no-holes, free-space-tree, eight devices, two fio jobs of random reads and writes of
# 512 bytes to 64 KiB, unaligned, with an fsync every 1024.
# Needs root, loop devices, btrfs in the kernel, mkfs.btrfs and fio.
#
#   make_removal.sh DIR MIB_PER_JOB
set -euo pipefail
dir=$1 mib=$2
mkdir -p "$dir/mnt"
rm -f "$dir"/d*.img
for i in $(seq 8); do truncate -s 2G "$dir/d$i.img"; done
mkfs.btrfs -q -f -d single -m dup -O no-holes -R free-space-tree "$dir"/d*.img
loops=()
release() {
    umount "$dir/mnt" 2>/dev/null || true
    for loop in "${loops[@]}"; do losetup -d "$loop"; done
}
trap release EXIT
for i in $(seq 8); do loops+=("$(losetup -f --show "$dir/d$i.img")"); done
btrfs device scan "${loops[@]}" >/dev/null
mount -o noatime "${loops[0]}" "$dir/mnt"
fio --name=job --directory="$dir/mnt" --numjobs=2 --size="${mib}m" --rw=randrw --bsrange=512-64k --bs_unaligned \
    --fsync=1024 --ioengine=psync --randseed=4 --minimal >/dev/null
sync -f "$dir/mnt"
btrfs filesystem usage "$dir/mnt" | sed -n '1,16p'
