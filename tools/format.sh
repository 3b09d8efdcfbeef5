#!/bin/sh
# Formats every C file with clang-format; --check only says whether one would change.
# Releases of clang-format disagree, so only version 14 counts; without it both fail.
set -eu
cd "$(dirname "$0")/.."

format=""
for name in clang-format-14 clang-format; do
    case $("$name" --version 2>/dev/null) in
    *" version 14."*) format=$name; break ;;
    esac
done
if [ -z "$format" ]; then
    echo "error: formatting needs clang-format 14" >&2
    exit 3
fi

check=""
[ "${1:-}" != --check ] || check="--dry-run --Werror"
# In the tables of bindings/ it takes parameters for products.
# shellcheck disable=SC2086
git ls-files -z '*.c' '*.h' '*.inc' '*.cpp' '*.cu' '*.cuh' ':!bindings/*.inc' | xargs -0 "$format" -i $check
echo "formatting: ok"
