#!/bin/sh
# dist/anyflash-VERSION-page.tar.gz: the web page, for any static host.
set -eu
cd "$(dirname "$0")/.."
version=$(python3 -B packaging/version.py)
make --no-print-directory page >build/page.log 2>&1 || { cat build/page.log >&2; exit 1; }
mkdir -p dist
tar --create --sort=name --owner=0 --group=0 --numeric-owner --mode=u+w,go=rX \
    --mtime="@${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}" -C build page |
    gzip -9n >dist/"anyflash-$version-page.tar.gz"
echo "dist/anyflash-$version-page.tar.gz"
