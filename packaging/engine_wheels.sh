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
    packaging/build.sh "$target" "$folder" -DANYFLASH_KIT=OFF -DANYFLASH_PYTHON=ON
    cmake --build "$folder" --target anyflash_python
    for file in "$@"; do
        set -- "$@" "$folder/$file"
        shift
    done
    packaging/python_wheel.py "$out" "$platform" "$@"
}

wheel x86_64-windows-gnu win_amd64 anyflash.dll anyflash_python.dll
wheel aarch64-macos.11.0 macosx_11_0_arm64 libanyflash.dylib libanyflash_python.dylib
