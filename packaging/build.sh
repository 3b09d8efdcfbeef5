#!/bin/sh
# Sets up a build with zig: packaging/build.sh TARGET FOLDER [CMAKE_OPTION ...]. TARGET is one of
# cmake/zig.cmake's; on Linux gcc compiles the kernels, because clang's are slower.
set -eu
cd "$(dirname "$0")/.."
target=$1 folder=$2
shift 2

case $target in
"$(uname -m)"-linux-*) set -- -DANYFLASH_KERNEL_CC=gcc "$@" ;;
*-linux-*) set -- -DANYFLASH_KERNEL_CC="${target%%-*}-linux-gnu-gcc" "$@" ;;
esac
cmake -G Ninja -B "$folder" --toolchain cmake/zig.cmake -DANYFLASH_TARGET="$target" \
    -DANYFLASH_TESTS=OFF -DANYFLASH_LIBRARY_SOURCES=ON -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_C_FLAGS_RELEASE="-O2 -DNDEBUG -ffile-prefix-map=$PWD=." "$@" >/dev/null
