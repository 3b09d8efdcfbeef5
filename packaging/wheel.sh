#!/bin/sh
# dist/anyflash-*.whl for Linux with glibc 2.28 or newer: packaging/wheel.sh ARCH. Engine,
# bindings and program are compiled by zig, the kit's libraries with them. auditwheel gives the
# wheel its tag; check_wheel.sh checks what is inside.
set -eu
cd "$(dirname "$0")/.."
arch=$1
glibc=2.28
tag=manylinux_2_28_$arch
max_bytes=6000000
tools=$PWD/build/release-tools/bin
out=build/release-$arch-wheel

packaging/tools.sh
packaging/libraries.sh
rm -rf $out
mkdir -p $out dist
# The build backend takes the platform from sysconfig, and this from the variable.
PATH=$tools:$PATH _PYTHON_HOST_PLATFORM=linux-$arch CMAKE_GENERATOR=Ninja \
    CMAKE_TOOLCHAIN_FILE=$PWD/cmake/zig.cmake \
    CMAKE_ARGS="-DANYFLASH_TARGET=$arch-linux-gnu.$glibc -DCMAKE_C_FLAGS=-ffile-prefix-map=$PWD=." \
    $tools/pip wheel -q --no-deps --no-build-isolation -w $out \
    --config-settings=build-dir=$out.build .
PATH=$tools:$PATH $tools/auditwheel repair -w $out/tagged $out/anyflash-*.whl \
    >$out/log 2>&1 || { cat $out/log >&2; exit 1; }
wheel=$(echo $out/tagged/anyflash-*.whl)
packaging/check_wheel.sh "$wheel" "$tag" $max_bytes
rm -f dist/anyflash-*-"$tag".whl
cp "$wheel" dist/
