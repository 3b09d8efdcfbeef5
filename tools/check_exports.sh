#!/bin/sh
# The libraries export exactly the names of tools/exports.txt, tools/exports_python.txt and
# tools/exports_cuda.txt.
# The engine may need only libc, libm, zstd and the loader; the bindings also need
# the engine.
#   tools/check_exports.sh LIBANYFLASH LIBANYFLASH_PYTHON [LIBANYFLASH_CUDA]
set -eu
here=$(dirname "$0")

check() { # LIBRARY NAMES MAY_NEED
    exported=$(nm -D --defined-only "$1" | awk '$2 ~ /[TDBRVW]/ {print $3}' | sort)
    if [ "$exported" != "$(cat "$here/$2")" ]; then
        echo "$exported" | diff "$here/$2" - || true
        echo "error: the exports of $1 are not those of tools/$2" >&2
        exit 1
    fi
    others=$(readelf -d "$1" | sed -n 's/.*NEEDED.*\[\(.*\)\].*/\1/p' |
        grep -vE "^(libc|libm|libpthread|libdl$3)\.so|^ld-linux|^lib(a|ub)san" || true)
    if [ -n "$others" ]; then
        echo "error: $1 needs $others" >&2
        exit 1
    fi
    echo "$1: $(echo "$exported" | wc -l) names exported"
}

check "$1" exports.txt "|libzstd"
check "$2" exports_python.txt "|libanyflash"
[ -z "${3:-}" ] || check "$3" exports_cuda.txt "|libzstd"
