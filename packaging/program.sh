#!/bin/sh
# dist/anyflash-VERSION-linux-ARCH.tar.gz: the static program with manual page, completions and
# licences: packaging/program.sh ARCH. It runs on every Linux, also with musl or an old glibc; the
# library that it puts into wheels is for glibc 2.28.
set -eu
cd "$(dirname "$0")/.."
arch=$1
folder=build/release-$arch-static

cmake -G Ninja -B $folder --toolchain cmake/zig.cmake -DANYFLASH_TARGET="$arch-linux-musl" \
    -DANYFLASH_TESTS=OFF -DCMAKE_BUILD_TYPE=Release -DCMAKE_EXE_LINKER_FLAGS=-s \
    -DANYFLASH_CUDA_LIBRARY="$(packaging/cuda_library.sh "$arch-linux-gnu.2.28")" \
    -DCMAKE_C_FLAGS_RELEASE="-O2 -DNDEBUG -ffile-prefix-map=$PWD=." >$folder.log
cmake --build $folder --target anyflash manual >$folder.log || { cat $folder.log >&2; exit 1; }
version=$(python3 -B packaging/version.py)
name=anyflash-$version-linux-$arch
stage=$folder/stage
rm -rf $stage
cmake --install $folder --component program --prefix $stage/"$name" >/dev/null
mkdir -p $stage/"$name"/share/doc/anyflash
cp LICENSE licenses/* $stage/"$name"/share/doc/anyflash/
packaging/readme.sh >$stage/"$name"/share/doc/anyflash/README.md
rm $stage/"$name"/share/doc/anyflash/mingw-w64.txt # of the library for Windows
packaging/sbom.py program $stage/"$name"/bin/anyflash \
    $stage/"$name"/share/doc/anyflash/anyflash.cdx.json

packaging/size.sh static $stage/"$name"/bin/anyflash
mkdir -p dist
tar --create --sort=name --owner=0 --group=0 --numeric-owner --mode=u+w,go=rX \
    --mtime="@${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}" -C $stage "$name" |
    gzip -9n >dist/"$name".tar.gz
echo "dist/$name.tar.gz"
