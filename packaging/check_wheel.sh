#!/bin/sh
# Checks a Linux wheel: packaging/check_wheel.sh WHEEL TAG MAX_BYTES. auditwheel must agree with
# the tag, and no binary may need a newer glibc, an executable stack or text relocations, or
# lack RELRO or the stack protector.
set -eu
wheel=$1 tag=$2 max_bytes=$3
here=$(dirname "$0")/..
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

fail() {
    echo "error: '${wheel##*/}' $*" >&2
    exit 1
}

case $wheel in
*-py3-none-"$tag".whl) ;;
*) fail "does not have the tag '$tag'" ;;
esac
"$here/build/release-tools/bin/auditwheel" show "$wheel" 2>/dev/null | tr '\n' ' ' |
    grep -q "following platform tag: \"$tag\"" || fail "needs more than '$tag' promises"
bytes=$(stat -c %s "$wheel")
[ "$bytes" -le "$max_bytes" ] || fail "has $bytes bytes, at most $max_bytes are meant"

newest=$(echo "$tag" | sed 's/manylinux_\([0-9]*\)_\([0-9]*\)_.*/\1.\2/')
python3 -m zipfile -e "$wheel" "$folder"
find "$folder" -type f \( -name '*.so' -o -path '*/bin/anyflash*' ! -name '*.py' \) >"$folder/list"
while read -r file; do
    name=${file##*/}
    needed=$(readelf -VW "$file" | grep -o 'GLIBC_[0-9.]*' | sed 's/GLIBC_//' | sort -Vu | tail -n 1)
    [ "$(printf '%s\n' "$needed" "$newest" | sort -V | tail -n 1)" = "$newest" ] ||
        fail "has '$name', which needs glibc $needed"
    readelf -lW "$file" | grep -q GNU_RELRO || fail "has '$name' without RELRO"
    # The program may have zig's handler inside, whose name is stripped.
    [ "$name" = anyflash ] || readelf -sW "$file" | grep -q __stack_chk_fail ||
        fail "has '$name' without stack protector"
    ! readelf -lW "$file" | grep GNU_STACK | grep -q E || fail "has '$name' with an executable stack"
    ! readelf -dW "$file" | grep -q TEXTREL || fail "has '$name' with text relocations"
    echo "$name: glibc $needed at most"
done <"$folder/list"
[ "$(wc -l <"$folder/list")" -eq 4 ] || fail "does not have the four binaries"
echo "${wheel##*/}: $bytes bytes"
