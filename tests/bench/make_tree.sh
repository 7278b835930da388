#!/bin/bash
# Makes the images that the figures of readahead-bench were measured on: many small files, then random rewrites with
# a commit every so often, so that the trees are spread over their block groups as in a file system that has been used.
# Needs root, loop devices, btrfs in the kernel, mkfs.btrfs and python3.
#
#   make_tree.sh DIR DEVICES SIZE FILES BYTES_PER_FILE [mkfs.btrfs options...]
#
#   make_tree.sh /tmp/one   1 4G 120000 1500 -m single -d single      some 25,000 blocks of 16 KiB, files inline
#   make_tree.sh /tmp/seven 7 2G 150000 4096 -m raid0 -d raid0 -n 4096
#   make_tree.sh /tmp/two   2 4G 60000  1500 -m raid1 -d raid1
set -euo pipefail
dir=$1 devices=$2 size=$3 files=$4 bytes=$5
shift 5
mkdir -p "$dir/mnt"
rm -f "$dir"/d*.img
for i in $(seq "$devices"); do truncate -s "$size" "$dir/d$i.img"; done
mkfs.btrfs -q -f "$@" "$dir"/d*.img
loops=()
release() {
    umount "$dir/mnt" 2>/dev/null || true
    for loop in "${loops[@]}"; do losetup -d "$loop"; done
}
trap release EXIT
for i in $(seq "$devices"); do loops+=("$(losetup -f --show "$dir/d$i.img")"); done
btrfs device scan "${loops[@]}" >/dev/null
mount -o noatime,commit=300 "${loops[0]}" "$dir/mnt"
python3 - "$dir/mnt" "$files" "$bytes" <<'P'
import os, random, sys
mount, files, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
r = random.Random(4)
data = r.randbytes(1 << 20)
def path(n):
    return f'{mount}/{n % 211:03}/{n:07}'
def write(n):
    at = r.randrange(len(data) - size)
    with open(path(n), 'wb') as f:
        f.write(data[at:at + size])
def commit():
    fd = os.open(mount, os.O_RDONLY)
    os.syncfs(fd) if hasattr(os, 'syncfs') else os.system(f'sync -f {mount}')
    os.close(fd)
for d in range(211):
    os.mkdir(f'{mount}/{d:03}')
order = list(range(files))
r.shuffle(order)
for i, n in enumerate(order):
    write(n)
    if i % 5000 == 4999:
        commit()
for round in range(40):
    for n in r.sample(order, files // 100):
        write(n)
    commit()
P
sync -f "$dir/mnt"
