#!/bin/sh
# Builds the Debian packages anyflash, libanyflash0 and libanyflash-dev from the last commit
# with packaging/debian, and checks them with lintian.
#
#   packaging/deb.sh [FOLDER]       build/deb
#
# MAINTAINER="Name <address>" is who answers for the packages.
set -eu
cd "$(dirname "$0")/.."
mkdir -p build "${1:-build/deb}"
out=$(cd "${1:-build/deb}" && pwd)

version=$(python3 -B packaging/version.py)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH DEB_BUILD_OPTIONS="noautodbgsym nocheck parallel=$(nproc)"
umask 022

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
source=$work/anyflash-$version
mkdir "$source"
git archive HEAD | tar -x -C "$source"
mv "$source/packaging/debian" "$source/debian"
[ -z "${MAINTAINER:-}" ] || sed -i "s/^Maintainer: .*/Maintainer: $MAINTAINER/" "$source/debian/control"
cat >"$source/debian/changelog" <<END
anyflash ($version) unstable; urgency=medium

  * Release $version: CHANGELOG.md.

 -- $(sed -n 's/^Maintainer: //p' "$source/debian/control")  $(LC_ALL=C date -u -R -d "@$SOURCE_DATE_EPOCH")
END
(cd "$source" && dpkg-buildpackage --build=binary --no-sign) >build/deb.log 2>&1 ||
    { tail -n 40 build/deb.log >&2; exit 1; }
rm -f "$out"/*.deb
cp "$work"/*.deb "$out"
lintian --fail-on error,warning "$work"/*.changes
ls "$out"/*.deb
