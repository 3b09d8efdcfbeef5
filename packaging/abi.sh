#!/bin/sh
# Compares a libanyflash.so that has debug information with the ABI that the last release
# promised, packaging/abi/libanyflash.abi: fails if a function is gone, or if a function or a
# struct of anyflash.h changed so that a program compiled before would not work.
#
#   packaging/abi.sh LIBRARY [RECORD]
#   packaging/abi.sh --record LIBRARY [RECORD]      at a release: writes the record
#
# A library with a new soname may break programs; record its ABI before the check.
set -eu
folder=$(cd "$(dirname "$0")" && pwd)
action=compare
if [ "${1:-}" = --record ]; then
    action=record
    shift
fi
library=${1:?"names no library: packaging/abi.sh LIBRARY"}
record=${2:-$folder/abi/libanyflash.abi}

dumped=$(mktemp)
report=$(mktemp)
trap 'rm -f "$dumped" "$report"' EXIT
abidw --headers-dir "$folder/../include" --drop-private-types --no-corpus-path \
    --no-comp-dir-path --no-show-locs --exported-interfaces-only --out-file "$dumped" "$library"
# Sources by their path in the repository.
sed -i "s| path='[^']*/\(engine/\)| path='\1|" "$dumped"

compare() {
    abidiff --leaf-changes-only --no-added-syms "$@" "$record" "$dumped" >"$report" 2>&1
}

# allowed.ini would also let a struct pass whose members changed, so those are looked for first.
is_compatible() {
    compare && return 0
    ! grep -Eq 'data member (change|deletion)' "$report" &&
        compare --suppressions "$folder/abi/allowed.ini"
}

soname() { sed -n "1s/.* soname='\([^']*\)'.*/\1/p" "$1"; }
if [ $action = record ]; then
    cp "$dumped" "$record"
    echo "recorded $(soname "$record") in $record"
elif [ "$(soname "$dumped")" != "$(soname "$record")" ]; then
    echo "error: the library is $(soname "$dumped"), the recorded ABI is that of" \
        "$(soname "$record")" >&2
    echo "hint: packaging/abi.sh --record $library" >&2
    exit 1
elif ! is_compatible; then
    if grep -q 'incompatible format version' "$report"; then
        echo "note: not compared: this libabigail writes another format than the record has"
        exit 0
    fi
    cat "$report" >&2
    echo "error: programs that were compiled for $(soname "$record") would not work with" \
        "$library" >&2
    echo "hint: undo the change, or raise ANYFLASH_SOVERSION in cmake/Library.cmake" >&2
    exit 1
fi
