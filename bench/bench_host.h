/*
 * bench_host.h: what a figure is worth nothing without: machine, system, compiler.
 */
#ifndef AF_BENCH_BENCH_HOST_H
#define AF_BENCH_BENCH_HOST_H

#include "engine/base/mem.h"

struct af_bench_facts {
    const char *cpu;       /* model name, or "unknown" */
    const char *features;  /* instruction sets that the engine may use, as "avx2 avx512" */
    const char *caches;    /* "L2 1024K, L3 32768K"; "" when unknown */
    const char *os;        /* kernel and its release */
    const char *compiler;  /* that built this program */
    const char *roof_f32;  /* instruction set of the roof's multiply-adds */
    const char *roof_bf16; /* the same for bf16 */
    int threads;           /* that the engine runs on */
    int cores;             /* that this process may use */
};

/* Texts lie in the arena; what cannot be read is "unknown". Sticky failure only. */
void af_bench_facts_read(struct af_arena *arena, int threads, struct af_bench_facts *facts_out);

#endif
