#!/bin/sh
# The wheels for Windows and macOS, which contain the engine and no program:
# packaging/engine_wheels.sh FOLDER.
set -eu
cd "$(dirname "$0")/.."
out=$1

# wheel TARGET PLATFORM FILE...: FILE as the build for TARGET names it.
wheel() {
    target=$1 platform=$2
    shift 2
    folder=build/release-$target
    cmake -G Ninja -B "$folder" --toolchain cmake/zig.cmake -DANYFLASH_TARGET="$target" \
        -DANYFLASH_KIT=OFF -DANYFLASH_PYTHON=ON -DANYFLASH_TESTS=OFF -DCMAKE_BUILD_TYPE=Release \
        -DCMAKE_C_FLAGS_RELEASE="-O2 -DNDEBUG -ffile-prefix-map=$PWD=." >"$folder.log"
    cmake --build "$folder" --target anyflash_python >"$folder.log" ||
        { cat "$folder.log" >&2; exit 1; }
    for file in "$@"; do
        set -- "$@" "$folder/$file"
        shift
    done
    packaging/python_wheel.py "$out" "$platform" "$@"
}

wheel x86_64-windows-gnu win_amd64 anyflash.dll anyflash_python.dll
wheel aarch64-macos.11.0 macosx_11_0_arm64 libanyflash.dylib libanyflash_python.dylib
