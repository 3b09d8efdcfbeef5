/*
 * loop.h: one roofline loop per instruction set. Private to this module.
 */
#ifndef AF_BENCH_ROOF_LOOP_H
#define AF_BENCH_ROOF_LOOP_H

#include "bench/roof/roof.h"
#include "engine/base/base.h"

#if defined(__clang__)
#define AF_ROOF_UNROLL _Pragma("clang loop unroll(full)")
#else
#define AF_ROOF_UNROLL _Pragma("GCC unroll 32")
#endif

struct af_roof_loop {
    const char *name;
    uint32_t needs; /* enum af_cpu_feature */
    enum af_roof_kind kind;
    /* Runs `rounds` rounds of multiply-adds; returns the number of operations. */
    double (*compute)(int64_t rounds);
    /*
     * Reads `bytes` bytes at `data`, a multiple of 8. The result exists only so
     * that the reads are not optimised away.
     */
    uint64_t (*read)(const void *data, size_t bytes);
};

extern const struct af_roof_loop af_roof_f32__scalar;
extern const struct af_roof_loop af_roof_f32__neon;
extern const struct af_roof_loop af_roof_f32__avx2;
extern const struct af_roof_loop af_roof_f32__avx512;
extern const struct af_roof_loop af_roof_bf16__avx512bf16;
extern const struct af_roof_loop af_roof_bf16__amx;

#endif
