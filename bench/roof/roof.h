/*
 * roof.h: what this machine can do at all, measured now: multiply-adds that
 * touch nothing but registers, and a plain read of given memory.
 *
 * A share of the roof is a ratio of two measurements of one minute, so that
 * neighbours, clocks and throttling weigh on both.
 */
#ifndef AF_BENCH_ROOF_ROOF_H
#define AF_BENCH_ROOF_ROOF_H

#include "engine/base/base.h"

#define AF_ROOF_THREADS_MAX 256
#define AF_ROOF_READS_MAX 2

/* Which multiply-add: of floats, or of bf16 pairs where the machine has one. */
enum af_roof_kind { AF_ROOF_F32, AF_ROOF_BF16 };

/*
 * The instruction set of the loop: "avx512", "avx512bf16", ...; static storage.
 * Here and below `features` are those of the processor that a loop may use, bits
 * of enum af_cpu_feature.
 */
const char *af_roof_name(enum af_roof_kind kind, uint32_t features);

/*
 * Floating-point operations a second (a multiply-add is two) of `threads`
 * threads together, each computing for `seconds`. 0 when no thread can be
 * started.
 */
double af_roof_flops(enum af_roof_kind kind, uint32_t features, int threads, double seconds);

/*
 * Bytes a second at which `threads` threads together read `count` pieces of
 * memory once, each thread its share of each piece. A plain loop: it leaves
 * prefetching to the processor. 0 when no thread can be started.
 */
double af_roof_read(const struct af_span *pieces, size_t count, int threads);

/* The instruction sets of this machine that loops exist for, as "avx2 avx512". */
void af_roof_features(char *text, size_t size_bytes);

#endif
