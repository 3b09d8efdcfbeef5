#!/bin/sh
# The sources of the kit's libraries for cmake/Libraries.cmake, in build/libraries: Debian's
# packages, pinned in packaging/sources.tsv, and SQLite's one file made from its sources.
set -eu
cd "$(dirname "$0")/.."
folder=build/libraries

tools/debian_sources.sh --pinned $folder $(awk 'NR > 1 {print $1}' packaging/sources.tsv)
[ -f $folder/sqlite3/sqlite3.c ] ||
    make -s -C $folder/sqlite3 -f main.mk TOP=. BCC=cc TCCX="cc -I. -Isrc" OPTS= NAWK=awk EXE= \
        sqlite3.c >$folder/sqlite3.log 2>&1 || { cat $folder/sqlite3.log >&2; exit 1; }
