#!/bin/sh
# Runs every libFuzzer target of a build folder for some seconds each, starting
# from the seeds (tests/fuzz/seeds.py); new inputs go to the build folder. Stops at the
# first finding and names its file.
#   tools/fuzz.sh BUILD_FOLDER SECONDS [TARGET ...]
set -eu
build=$1
seconds=$2
shift 2
[ $# -gt 0 ] || set -- $(cd tests/fuzz && ls fuzz_*.c | sed 's/\.c$//')
for target in "$@"; do
    found=$build/corpus/$target
    mkdir -p "$found"
    echo "== $target, $seconds s"
    "$build/tests/$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 \
        -artifact_prefix="$build/corpus/$target-" -print_final_stats=1 -verbosity=0 \
        "$found" "$build/tests/seeds/$target"
done
