#!/bin/sh
# build.sh FOLDER: compiles the stub libraries and the workload into FOLDER, with $CC or cc.
set -eu
here=$(dirname "$0")
out=$1
cc=${CC:-cc}
mkdir -p "$out"
flags="-O1 -Wall -Wextra -Werror -pthread"
$cc $flags -shared -fPIC -Wl,-Bsymbolic -Wl,-soname,libcuda.so.1 -o "$out/libcuda.so.1" "$here/cuda.c"
$cc $flags -shared -fPIC -Wl,-soname,libnvidia-ml.so.1 -o "$out/libnvidia-ml.so.1" "$here/nvml.c" -ldl
$cc $flags -o "$out/workload" "$here/../../proof/workload.c" -ldl
$cc $flags -DLINKED -o "$out/workload-linked" "$here/../../proof/workload.c" -ldl "$out/libcuda.so.1"
