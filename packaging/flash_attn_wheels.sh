#!/bin/sh
# The wheels of flash-attn for every torch, for Linux with glibc 2.28 or newer and for Windows,
# from the pack that `make kernels` leaves in dist: packaging/flash_attn_wheels.sh FOLDER.
set -eu
cd "$(dirname "$0")/.."
pack=dist/flash-attn-2.8.3.post2.kernels

[ -f $pack ] || { echo "error: there is no $pack: make kernels" >&2; exit 1; }
packaging/tools.sh
packaging/libraries.sh

# wheel TARGET PLATFORM FOLDER
wheel() {
    library=$(packaging/cuda_library.sh "$1")
    packaging/flash_attn_wheel.py $pack "$library" "$2" "$3"
}

wheel x86_64-linux-gnu.2.28 manylinux_2_28_x86_64 "$1"
wheel aarch64-linux-gnu.2.28 manylinux_2_28_aarch64 "$1"
wheel x86_64-windows-gnu win_amd64 "$1"
