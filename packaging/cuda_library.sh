#!/bin/sh
# Compiles libanyflash_cuda, the library in wheels of flash-attn, and prints its path:
# packaging/cuda_library.sh TARGET. TARGET is one of cmake/zig.cmake.
set -eu
cd "$(dirname "$0")/.."
target=$1
folder=build/release-$target-cuda

cmake -G Ninja -B "$folder" --toolchain cmake/zig.cmake -DANYFLASH_TARGET="$target" \
    -DANYFLASH_KIT=OFF -DANYFLASH_TESTS=OFF -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_C_FLAGS_RELEASE="-O2 -DNDEBUG -ffile-prefix-map=$PWD=." \
    -DCMAKE_SHARED_LINKER_FLAGS=-Wl,-s >"$folder.log"
cmake --build "$folder" --target anyflash_cuda >"$folder.log" ||
    { cat "$folder.log" >&2; exit 1; }
case $target in
*windows*) echo "$PWD/$folder/anyflash_cuda.dll" ;;
*) echo "$PWD/$folder/libanyflash_cuda.so" ;;
esac
