#!/bin/sh
# Installs what `cargo xtask image` needs to build for aarch64 on x86_64 Debian or Ubuntu, and qemu to run the result.
set -eu
export DEBIAN_FRONTEND=noninteractive
apt-get update -q
apt-get install -qy --no-install-recommends gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static
rustup target add aarch64-unknown-linux-gnu
