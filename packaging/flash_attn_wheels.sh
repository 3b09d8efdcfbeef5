#!/bin/sh
# The wheels of flash-attn for every torch, for Linux with glibc 2.28 or newer and for Windows,
# from the pack that `make kernels` leaves in dist: packaging/flash_attn_wheels.sh FOLDER.
set -eu
cd "$(dirname "$0")/.."
pack=dist/flash-attn-2.8.3.post2.kernels

[ -f $pack ] || { echo "error: there is no $pack: make kernels" >&2; exit 1; }
packaging/tools.sh
packaging/libraries.sh

# wheel TARGET PLATFORM LIBRARY: LIBRARY as the build for TARGET names it.
wheel() {
    folder=build/release-$1-cuda
    cmake -G Ninja -B "$folder" --toolchain cmake/zig.cmake -DANYFLASH_TARGET="$1" \
        -DANYFLASH_KIT=OFF -DANYFLASH_TESTS=OFF -DCMAKE_BUILD_TYPE=Release \
        -DCMAKE_C_FLAGS_RELEASE="-O2 -DNDEBUG -ffile-prefix-map=$PWD=." \
        -DCMAKE_SHARED_LINKER_FLAGS=-Wl,-s >"$folder.log"
    cmake --build "$folder" --target anyflash_cuda >"$folder.log" ||
        { cat "$folder.log" >&2; exit 1; }
    packaging/flash_attn_wheel.py $pack "$folder/$3" "$2" "$4"
}

wheel x86_64-linux-gnu.2.28 manylinux_2_28_x86_64 libanyflash_cuda.so "$1"
wheel aarch64-linux-gnu.2.28 manylinux_2_28_aarch64 libanyflash_cuda.so "$1"
wheel x86_64-windows-gnu win_amd64 anyflash_cuda.dll "$1"
