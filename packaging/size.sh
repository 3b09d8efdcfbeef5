#!/bin/sh
# Fails if a file has more bytes than it may have, without symbols: packaging/size.sh KIND FILE
#
#   static    the program for download, which contains its libraries and has no symbols
#   program   the program as `make build` links it, with the system's libraries
#   library   libanyflash.so of `make build`
set -eu
kind=$1
file=$2
case $kind in
static) max_bytes=8700000 ;;
program) max_bytes=7100000 ;; # by gcc 14; 0.3 MB less by gcc 12; static has 1.63 MB more
library) max_bytes=2500000 ;;
*)
    echo "error: '$kind' is neither static, program nor library" >&2
    exit 2
    ;;
esac

bytes=$(stat -c %s "$file")
if [ "$kind" != static ]; then
    stripped=$(mktemp)
    trap 'rm -f "$stripped"' EXIT
    strip -o "$stripped" "$file"
    bytes=$(stat -c %s "$stripped")
fi
if [ "$bytes" -gt $max_bytes ]; then
    echo "error: '$file' has $bytes bytes, at most $max_bytes are meant ($kind)" >&2
    exit 1
fi
echo "$kind: $bytes bytes of at most $max_bytes"
