/*
 * bench_host.h: machine, system and compiler, which every benchmark result must
 * state.
 */
#ifndef AF_BENCH_BENCH_HOST_H
#define AF_BENCH_BENCH_HOST_H

#include "engine/base/mem.h"

struct af_bench_facts {
    const char *cpu;       /* model name, or "unknown" */
    const char *features;  /* instruction sets that the engine may use: "avx2 avx512" */
    const char *caches;    /* "L2 1024K, L3 32768K"; "" when unknown */
    const char *os;        /* kernel and its release */
    const char *compiler;  /* that compiled this program */
    const char *roof_f32;  /* instruction set of the roofline multiply-adds */
    const char *roof_bf16; /* the same for bf16 */
    int threads;           /* threads of the engine */
    int cores;             /* cores that this process may use */
};

/* Texts are in the arena; unreadable facts are "unknown". Only the arena can fail. */
void af_bench_facts_read(struct af_arena *arena, int threads, struct af_bench_facts *facts_out);

#endif
