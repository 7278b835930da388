#!/bin/bash
# How fast is a rebuild? Builds a RAID1 of two image files with the running kernel, loses the second, and makes it again, in
# alternating rounds: with dd (as many bytes as are allocated, from the survivor, synced: less no copy can take), with
# mirrortool rebuild, and with btrfs replace after a degraded mount. All on loop devices with direct I/O.
#
#   rebuild.sh DIR [DATA_MIB [ROUNDS [MB_PER_SECOND]]]
#
# With a rate, each loop device is held to it by the block layer's throttle, reads and writes apart; the kernel's replace
# runs in threads that the throttle does not know, so it is left out. Needs root, loop devices, btrfs-progs, and for a rate
# the blkio controller of cgroup v1. MIRRORTOOL names the program (default: target/release/mirrortool).
set -euo pipefail
dir=$1 mib=${2:-1024} rounds=${3:-5} rate=${4:-}
tool=${MIRRORTOOL:-target/release/mirrortool}
group=/sys/fs/cgroup/blkio/mirrortool-rebuild
mkdir -p "$dir/mnt"
d1=$dir/d1.img d2=$dir/d2.img new=$dir/new.img
loops=()
attach() { local l; l=$(losetup -f --show --direct-io=on "$1"); loops+=("$l"); REPLY=$l; }
cleanup() {
    mountpoint -q "$dir/mnt" && umount "$dir/mnt"
    for l in "${loops[@]}"; do losetup -d "$l" 2>/dev/null || true; done
    if [ -d $group ]; then rmdir $group 2>/dev/null || true; fi
}
trap cleanup EXIT

if [ ! -e "$dir/done" ]; then
    for f in "$d1" "$d2"; do rm -f "$f"; truncate -s $((mib + mib / 8 + 1024))M "$f"; done
    mkfs.btrfs -q -f -d raid1 -m raid1 "$d1" "$d2"
    attach "$d1"; a=$REPLY; attach "$d2"; b=$REPLY
    btrfs device scan "$a" "$b" >/dev/null
    mount -o noatime "$a" "$dir/mnt"
    for n in $(seq $((mib / 16))); do head -c 16M /dev/urandom >"$dir/mnt/f$n"; done
    sync -f "$dir/mnt"; umount "$dir/mnt"
    btrfs device scan --forget "$a" "$b"
    losetup -d "$a" "$b"; loops=()
    touch "$dir/done"
fi
state=$dir/state.json
blank() { rm -f "$new"; truncate -s "$(stat -c %s "$d2")" "$new"; [ -z "${FILLED:-}" ] || fallocate -l "$(stat -c %s "$d2")" "$new"; }
in_group() { if [ -n "$rate" ]; then bash -c 'echo $$ >'"$group/cgroup.procs"'; exec "$@"' - "$@"; else "$@"; fi; }
hold() {
    [ -n "$rate" ] || return 0
    mkdir -p $group
    for l in "$@"; do
        n=$(lsblk -ndo MAJ:MIN "$l" | tr -d ' ')
        for k in read write; do echo "$n $((rate * 1000000))" >$group/blkio.throttle.${k}_bps_device; done
    done
}
seconds() { local s e; sync; echo 1 >/proc/sys/vm/drop_caches; s=$(date +%s.%N); "$@" >/dev/null 2>&1; e=$(date +%s.%N); REPLY=$(echo "$e - $s" | bc); }
bytes=
for round in $(seq "$rounds"); do
    attach "$d1"; survivor=$REPLY
    blank; attach "$new"; target=$REPLY; hold "$survivor" "$target"
    seconds in_group "$tool" rebuild --yes --quiet --no-paths --state "$state" --report "$dir/r.json" --onto "$target" "$survivor"; ours=$REPLY
    bytes=$(python3 -c "import json; r = json.load(open('$dir/r.json'))['rebuilt']; print(r['bytes_from_copies'] + r['bytes_from_parity'])")
    losetup -d "$target"
    blank; attach "$new"; target=$REPLY; hold "$survivor" "$target"
    seconds in_group dd if="$survivor" of="$target" bs=1M count=$((bytes >> 20)) iflag=direct oflag=direct conv=fsync; dd=$REPLY
    losetup -d "$target" "$survivor"; loops=()
    kernel=-
    if [ -z "$rate" ]; then
        cp --sparse=always "$d1" "$dir/copy.img"
        attach "$dir/copy.img"; survivor=$REPLY
        blank; attach "$new"; target=$REPLY
        btrfs device scan "$survivor" >/dev/null
        mount -o degraded,noatime "$survivor" "$dir/mnt"
        seconds btrfs replace start -B -f 2 "$target" "$dir/mnt"; kernel=$REPLY
        umount "$dir/mnt"; btrfs device scan --forget "$survivor" "$target"
        losetup -d "$target" "$survivor"; loops=(); rm -f "$dir/copy.img"
    fi
    echo "$round: $((bytes >> 20)) MiB: dd $dd s, mirrortool rebuild $ours s, btrfs replace $kernel s; of dd $(echo "scale=2; $dd / $ours" | bc)"
done
