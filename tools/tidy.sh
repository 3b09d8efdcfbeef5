#!/bin/sh
# Runs clang-tidy with the checks of .clang-tidy over every C file of the product, with the
# compile commands of the first build that exists. Releases of clang-tidy disagree, so
# only version 14 counts; without it this fails.
set -eu
cd "$(dirname "$0")/.."

tidy=""
for name in clang-tidy-14 clang-tidy; do
    case $("$name" --version 2>/dev/null) in
    *" version 14."*) tidy=$name; break ;;
    esac
done
if [ -z "$tidy" ]; then
    echo "error: clang-tidy 14 is not installed" >&2
    exit 3
fi

build=""
for preset in ci release sanitize; do
    [ -n "$build" ] || [ ! -f "build/$preset/compile_commands.json" ] || build=build/$preset
done
if [ -z "$build" ]; then
    echo "error: no build has compile commands; hint: make test" >&2
    exit 3
fi

# The NEON files are not for this machine.
git ls-files 'engine/*.c' 'bindings/*.c' 'kit/*.c' 'page/*.c' 'bench/*.c' | grep -v '_neon\.c$' |
    xargs -P "$(nproc)" -n 16 "$tidy" -quiet -p "$build" 2>/dev/null
echo "clang-tidy: ok"
