/*
 * memory.h: how much memory a forward takes beyond its tensors.
 */
#ifndef AF_BENCH_MEMORY_H
#define AF_BENCH_MEMORY_H

#include "bench/cases.h"
#include "engine/base/mem.h"

struct af_bench_memory {
    double scratch_bytes; /* of a thread, as anyflash_workspace_bytes() announces it */
    double peak_bytes;    /* of a thread, by which the process grew; below 0: not known */
};

/*
 * Runs `row` once in a new context of `threads` threads. The growth is the
 * process's peak of resident memory during the call less what was resident
 * before it: Linux only, and only where the peak may be reset. Fails as the
 * engine does, or with NO_MEMORY.
 */
enum anyflash_status af_bench_measure_memory(struct af_arena *arena,
                                             const struct af_bench_case *row, int threads,
                                             struct af_bench_memory *memory_out,
                                             struct anyflash_error *err);

#endif
