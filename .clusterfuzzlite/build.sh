#!/bin/bash -eu
# Builds every fuzz target for ClusterFuzzLite, which sets CC, CFLAGS, OUT and WORK, and packs
# the seeds of each. The image that runs them has none of our libraries.
cmake -S . -B "$WORK/build" -G Ninja -DCMAKE_BUILD_TYPE=None -DANYFLASH_FUZZ=ON \
    -DANYFLASH_TESTS=ON -DANYFLASH_STATIC=ON
targets=$(cd tests/fuzz && ls fuzz_*.c | sed 's/\.c$//')
# shellcheck disable=SC2086
cmake --build "$WORK/build" --target $targets
python3 tests/fuzz/seeds.py unpack "$WORK/seeds"
for target in $targets; do
    cp "$WORK/build/tests/$target" "$OUT/"
    (cd "$WORK/seeds/$target" && python3 -m zipfile -c "$OUT/${target}_seed_corpus.zip" ./*)
done
