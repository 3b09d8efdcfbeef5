#!/bin/sh
# The shared library exports exactly the names of tools/exports.txt and needs
# nothing but libc, libm and the loader.
#   tools/check_exports.sh LIBRARY
set -eu
here=$(dirname "$0")
exported=$(nm -D --defined-only "$1" | awk '$2 ~ /[TDBRVW]/ {print $3}' | sort)
if [ "$exported" != "$(cat "$here/exports.txt")" ]; then
    echo "$exported" | diff "$here/exports.txt" - || true
    echo "error: the exports of $1 are not those of tools/exports.txt" >&2
    exit 1
fi
others=$(readelf -d "$1" | sed -n 's/.*NEEDED.*\[\(.*\)\].*/\1/p' |
    grep -vE '^(libc|libm|libpthread|libdl)\.so|^ld-linux|^lib(a|ub)san' || true)
if [ -n "$others" ]; then
    echo "error: $1 needs $others" >&2
    exit 1
fi
echo "$(echo "$exported" | wc -l) names exported"
