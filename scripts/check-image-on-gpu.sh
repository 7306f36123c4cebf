#!/bin/sh
# Runs `kai agent reserve --print` in a root that holds the files of the image and the machine's libnvidia-ml.so.1, nothing
# else, and compares the device with that of nvidia-smi. Needs root, a GPU and its driver.
#
#   scripts/check-image-on-gpu.sh target/image/kai.tar
set -eu
archive=${1:?usage: check-image-on-gpu.sh ARCHIVE}
work=$(mktemp -d)
clean_up() {
    umount "$work"/root/proc "$work"/root/dev 2>/dev/null || true
    rm -rf --one-file-system "$work"
}
trap clean_up EXIT

mkdir "$work/layout" "$work/root"
tar -xf "$archive" -C "$work/layout"
# The archive has one layer for each platform; the one of this machine is the one whose program starts.
found=
for layer in "$work"/layout/blobs/sha256/*; do
    tar -tf "$layer" usr/bin/kai >/dev/null 2>&1 || tar -tf "$layer" ./usr/bin/kai >/dev/null 2>&1 || continue
    rm -rf "$work/root" && mkdir "$work/root"
    tar -xf "$layer" -C "$work/root"
    if chroot "$work/root" /usr/bin/kai version; then
        found=yes
        break
    fi
done
[ -n "$found" ] || { echo "$archive has no program for this machine" >&2; exit 1; }

library=$(ldconfig -p | awk '/libnvidia-ml\.so\.1 / { print $NF; exit }')
[ -n "$library" ] || { echo "this machine has no libnvidia-ml.so.1" >&2; exit 1; }
mkdir -p "$work/root/nvidia" "$work/root/dev" "$work/root/proc"
cp -L "$library" "$work/root/nvidia/libnvidia-ml.so.1"
mount --bind /proc "$work/root/proc"
if ! mount --bind /dev "$work/root/dev" 2>/dev/null; then
    cp -a /dev/nvidia* "$work/root/dev/"
fi

printed=$(NVML_LIBRARY_PATHS=/nvidia chroot "$work/root" /usr/bin/kai agent reserve --print)
echo "$printed"
for uuid in $(nvidia-smi --query-gpu=uuid --format=csv,noheader); do
    echo "$printed" | grep -q "$uuid" || { echo "nvidia-smi names $uuid, kai does not" >&2; exit 1; }
done
echo "ok: kai names the devices of nvidia-smi with the files of the image alone"
