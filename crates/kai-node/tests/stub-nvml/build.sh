#!/bin/sh
# build.sh FOLDER: compiles the stub into FOLDER.
set -eu
here=$(dirname "$0")
out=$1
cc=${CC:-cc}
mkdir -p "$out"
flags="-shared -fPIC -O1 -Wall -Wextra -Werror"
$cc $flags -Wl,-soname,libnvidia-stub-devices.so.1 -o "$out/libnvidia-stub-devices.so.1" "$here/devices.c"
$cc $flags -Wl,-soname,libnvidia-ml.so.1 -o "$out/libnvidia-ml.so.1" "$here/nvml.c" "$out/libnvidia-stub-devices.so.1"
