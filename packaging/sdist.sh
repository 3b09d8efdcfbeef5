#!/bin/sh
# Writes the source distribution of the last commit: FOLDER/anyflash-VERSION.tar.gz, from which
# pip builds the wheel. The tools are those of packaging/tools.sh.
#
#   packaging/sdist.sh FOLDER
set -eu
cd "$(dirname "$0")/.."
mkdir -p "${1:?"names no folder: packaging/sdist.sh FOLDER"}"
out=$(cd "$1" && pwd)
packaging/tools.sh
python=$PWD/build/release-tools/bin/python

SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
umask 022
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
git archive HEAD | tar -x -C "$work"
cd "$work"
"$python" -c 'import sys; from scikit_build_core.build import build_sdist; build_sdist(sys.argv[1])' \
    "$out" >/dev/null
